"""The one reporter of this process, and the delivery of what it is told."""

from __future__ import annotations

import copyreg
import os

from dtj_trainer.delivery import Delivery
from dtj_trainer.reporter import Progress, Reporter


def _start() -> None:
    _DELIVERY.start()


REPORTER = Reporter(_start)
_DELIVERY = Delivery(REPORTER)
report = REPORTER.report


def latest() -> Progress | None:
    """What was reported last; None when nothing was, or outside of a job."""
    return REPORTER.latest


def _reporter() -> Reporter:
    return REPORTER


# ``report`` handed to another process is that process's own.
copyreg.pickle(Reporter, lambda _: (_reporter, ()))


def _forget() -> None:
    REPORTER.forget()
    _DELIVERY.forget()


# A data loader's worker must not send its parent's progress as its own; a forked process that trains reports anew.
os.register_at_fork(after_in_child=_forget)
