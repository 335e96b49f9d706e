"""Settings of the unit tier."""

import os

from hypothesis import HealthCheck, settings

# No limit of time for one example: the machine may be busy.
_patient = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
# The same examples in every run.
settings.register_profile("unit", _patient, derandomize=True, max_examples=50)
# Other examples in every run; one that fails is kept, and comes first in the next run.
settings.register_profile("nightly", _patient, max_examples=1_000, print_blob=True)
settings.load_profile(os.environ.get("DTJ_HYPOTHESIS_PROFILE", "unit"))
