"""The agent of a DistributedTrainingJob: the first process of a trainer container, which starts the user's command.

Standard library only, Python 3.9 or newer: it runs in any training image. It starts before every training, so its
modules import little, and what only some jobs need, they import where it is needed.
"""
