"""What training code may import inside a DistributedTrainingJob: its place in the job, and progress reports.

Nothing in a job depends on this package; code that also runs elsewhere can import it there, where it does nothing.
"""

from dtj_trainer.environment import JobEnvironment, from_environment
from dtj_trainer.process import latest, report
from dtj_trainer.reporter import Progress
from dtj_trainer.tracking import Track, track

__all__ = ["JobEnvironment", "Progress", "Track", "from_environment", "latest", "report", "track"]
