"""What cannot wait is looked at at once; the rest is gathered."""

import pytest

from dtj.controller.pod_news import AT_ONCE, CALM, DELETION_DELAY, GATHERING, GATHERING_PER_POD, Soon, how_soon
from dtj.lifecycle.children import Pod
from tests.builders import a_pod

PODS = 4
PENDING = a_pod()
RUNNING = a_pod().running()
DELETED = RUNNING.being_deleted()
SUCCEEDED = a_pod().succeeded()
FAILED = a_pod().failed(1)

PER_POD = PODS * GATHERING_PER_POD
GATHERED = Soon(GATHERING + PER_POD)
ONCE_GONE = Soon(DELETION_DELAY, despite_backoff=True)

SITUATIONS = {
    "it is created": (None, PENDING.build(), 0, GATHERED),
    "it is placed": (PENDING.build(), PENDING.build(), 0, GATHERED),
    "it runs, others do not yet": (PENDING.build(), RUNNING.build(), 3, GATHERED),
    "it runs, and so do all": (PENDING.build(), RUNNING.build(), PODS, Soon(CALM)),
    "it fails": (RUNNING.build(), FAILED.build(), 3, AT_ONCE),
    "it was never seen before it failed": (None, FAILED.build(), 3, AT_ONCE),
    "it fails while it is deleted": (DELETED.build(), DELETED.failed(1).build(), 3, AT_ONCE),
    "it succeeds before others": (RUNNING.build(), SUCCEEDED.build(), 3, Soon(CALM + PER_POD, despite_backoff=True)),
    "it succeeds as the last one": (RUNNING.build(), SUCCEEDED.build(), 0, AT_ONCE),
    "something about its failure changes": (FAILED.build(), FAILED.build(), 3, GATHERED),
    "something about its success changes": (SUCCEEDED.build(), SUCCEEDED.build(), 0, GATHERED),
    "it is being deleted": (RUNNING.build(), DELETED.build(), 3, ONCE_GONE),
    "it is being deleted after its end": (SUCCEEDED.build(), SUCCEEDED.being_deleted().build(), 0, GATHERED),
    "it is gone": (DELETED.build(), None, 3, ONCE_GONE),
}


@pytest.mark.parametrize(("before", "after", "running", "expected"), SITUATIONS.values(), ids=SITUATIONS.keys())
def test_how_soon(before: Pod | None, after: Pod | None, running: int, expected: Soon) -> None:
    assert how_soon(before, after, PODS, running) == expected
