"""A leader that is not heard of any more, though it is not gone: another one follows, and nothing is done twice."""

from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest

from tests.e2e import host
from tests.e2e.jobs import SLEEP, TRAINER, job, pods, status_of, status_when
from tests.e2e.operator import CONTAINER, Installed
from tests.kubectl import Kubectl, Object, eventually

pytestmark = [pytest.mark.e2e, pytest.mark.alone, pytest.mark.usefixtures("bed")]

Fault = Callable[[Installed, Object], AbstractContextManager[None]]


def paused(installed: Installed, pod: Object) -> AbstractContextManager[None]:
    return host.paused(pod, CONTAINER)


def cut_off(installed: Installed, pod: Object) -> AbstractContextManager[None]:
    return host.cut_off(pod, CONTAINER, installed.api_server_address())


FAULTS: dict[str, Fault] = {"paused": paused, "cut off from the API server": cut_off}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS.keys())
def test_a_leader_that_is_not_heard_of(installed: Installed, kubectl: Kubectl, fault: Fault) -> None:
    kubectl.apply(job("steady", SLEEP))
    status_when(kubectl, "steady", "Running")
    leader = installed.leader()
    restarts = _restarts(leader)

    with fault(installed, leader):
        installed.leader_after(leader)
        host.kill(kubectl.get("pod", "steady-worker-1"), TRAINER)
        running = eventually(lambda: status_of(kubectl, "steady"), _runs_again)
        uids = _uids(kubectl)
        assert len(uids) == 2

    name = leader["metadata"]["name"]
    eventually(lambda: _restarts(installed.own.get("pod", name)), lambda count: count == restarts + 1)
    eventually(lambda: installed.is_ready(name), bool)
    assert (running["restarts"], running["restartsSinceProgress"], running["disruptions"]) == (1, 1, 0)
    assert status_of(kubectl, "steady")["attempt"] == 1
    assert _uids(kubectl) == uids


def _runs_again(status: Object) -> bool:
    return (status.get("attempt"), status.get("phase")) == (1, "Running")


def _restarts(pod: Object) -> int:
    return sum(status["restartCount"] for status in pod["status"]["containerStatuses"])


def _uids(kubectl: Kubectl) -> set[str]:
    """Of the second attempt; those of the first are on their way out."""
    found = pods(kubectl, "steady")
    return {pod["metadata"]["uid"] for pod in found if pod["metadata"]["labels"]["dtj.dev/attempt"] == "1"}
