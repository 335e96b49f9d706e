from collections.abc import Iterator

import pytest

from dtj_trainer.process import REPORTER
from dtj_trainer.reporter import Progress


@pytest.fixture
def in_job(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DTJ_JOB_NAME", "digits")


class Reported:
    """What this process reported so far."""

    @property
    def now(self) -> Progress:
        latest = REPORTER.latest
        assert latest is not None, "nothing was reported"
        return latest

    @property
    def steps(self) -> tuple[int | None, int | None]:
        return self.now.step, self.now.total_steps

    @property
    def epochs(self) -> tuple[float | None, float | None]:
        return self.now.epoch, self.now.total_epochs


@pytest.fixture
def reported(monkeypatch: pytest.MonkeyPatch) -> Iterator[Reported]:
    """Of this test, in a job, with no agent to deliver to."""
    with monkeypatch.context() as job:
        job.setenv("DTJ_JOB_NAME", "digits")
        REPORTER.forget()
        yield Reported()
    REPORTER.forget()
