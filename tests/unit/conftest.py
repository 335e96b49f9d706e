"""Settings of the unit tier."""

from hypothesis import settings

# The same examples in every run, and no limit of time for one of them: the machine may be busy.
settings.register_profile("unit", deadline=None, derandomize=True, max_examples=50)
settings.load_profile("unit")
