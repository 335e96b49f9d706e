"""Every framework's example in real pods on two nodes, to its end, checked by its result."""

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
import yaml

from tests.e2e.jobs import pods, status_when
from tests.e2e.storage import shared_volume
from tests.kubectl import Kubectl, Object

pytestmark = pytest.mark.e2e

EXAMPLES = Path(__file__).parents[2] / "examples"
TO_THE_END = 240.0

TELLS_NO_PROGRESS = ("custom-sockets",)

Check = Callable[[str], bool]


def number(name: str, at_least: float, at_most: float = 1.0) -> Check:
    """The log has a line ``name=number`` within these bounds."""

    def holds(log: str) -> bool:
        found = re.search(rf"^{name}=([0-9.]+)$", log, re.MULTILINE)
        return found is not None and at_least <= float(found[1]) <= at_most

    return holds


def line(pattern: str) -> Check:
    return lambda log: re.search(rf"^{pattern}", log, re.MULTILINE) is not None


LEARNT = number("test_accuracy", 0.95)
TWO_PROCESSES = line("world_size=2 ")
SAME_AS_ONE_PROCESS = line("same_as_one_process=True ")

TRAININGS: dict[str, dict[str, tuple[Check, ...]]] = {
    "pytorch-torchrun": {"worker-0": (LEARNT, line("world_size=4 "))},
    "pytorch-fsdp": {"worker-0": (LEARNT, TWO_PROCESSES, SAME_AS_ONE_PROCESS)},
    "pytorch-tensor-parallel": {"worker-0": (LEARNT, TWO_PROCESSES, SAME_AS_ONE_PROCESS)},
    "pytorch-pipeline": {"worker-0": (LEARNT, TWO_PROCESSES, SAME_AS_ONE_PROCESS)},
    "pytorch-accelerate": {"worker-0": (LEARNT, TWO_PROCESSES, SAME_AS_ONE_PROCESS)},
    "horovod-digits": {"worker-0": (LEARNT, TWO_PROCESSES)},
    "jax-digits": {"worker-0": (LEARNT, TWO_PROCESSES)},
    "custom-sockets": {
        "coordinator-0": (number("pi", 3.13, 3.15),),
        "worker-1": (line("the coordinator says: thanks"),),
    },
    "tensorflow-chief-evaluator": {"chief-0": (LEARNT,), "evaluator-0": (line("evaluated "),)},
    "tensorflow-parameter-server": {"chief-0": (LEARNT,)},
}


def eta_of(status: Object) -> str:
    return str(status.get("progress", {}).get("eta", ""))


@contextmanager
def applied(name: str, bed: str, kubectl: Kubectl) -> Iterator[Object]:
    """The job of an example, with volumes for the claims that it brings."""
    documents = list(yaml.safe_load_all((EXAMPLES / f"{name}.yaml").read_text()))
    with ExitStack() as volumes:
        documents[-1]["spec"]["progress"] = {"intervalSeconds": 1}  # they are done before the usual ten seconds
        for document in documents:
            if document["kind"] == "PersistentVolumeClaim":
                volumes.enter_context(shared_volume(bed, kubectl, document["metadata"]["name"]))
            kubectl.apply(document)
        yield documents[-1]


@pytest.mark.parametrize("name", TRAININGS)
def test_it_trains_on_two_nodes_to_the_end(kubectl: Kubectl, bed: str, name: str) -> None:
    with applied(name, bed, kubectl):
        etas: set[str] = set()
        status = status_when(kubectl, name, "Succeeded", TO_THE_END, seen=lambda now: etas.add(eta_of(now)))

        if name not in TELLS_NO_PROGRESS:
            assert status["progress"]["completed"] == "100%"
            assert etas - {""}, "there was a time to come while it ran"
        assert (status["attempt"], status["disruptions"]) == (0, 0)
        assert len({pod["spec"]["nodeName"] for pod in pods(kubectl, name)}) == 2
        for pod, checks in TRAININGS[name].items():
            log = kubectl("logs", f"{name}-{pod}")
            assert all(check(log) for check in checks), log
