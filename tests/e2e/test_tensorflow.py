"""TensorFlow in real pods: the shipped example trains over two workers and outlives the loss of one."""

import re
from pathlib import Path

import pytest
import yaml

from tests.e2e.jobs import status_when
from tests.e2e.storage import shared_volume
from tests.kubectl import Kubectl, eventually

pytestmark = pytest.mark.e2e

EXAMPLE = Path(__file__).parents[2] / "examples" / "tensorflow-digits.yaml"
NAME = "tensorflow-digits"
TO_THE_END = 180.0
EPOCH = re.compile(r"^epoch=(\d+)", re.MULTILINE)


def epochs(kubectl: Kubectl, pod: str) -> list[int]:
    return [int(number) for number in EPOCH.findall(kubectl("logs", pod))]


def test_the_example_trains_on_and_on_after_a_worker_was_lost(kubectl: Kubectl, bed: str) -> None:
    claim, manifest = yaml.safe_load_all(EXAMPLE.read_text())
    with shared_volume(bed, kubectl, claim["metadata"]["name"]):
        kubectl.apply(claim)
        kubectl.apply(manifest)
        status_when(kubectl, NAME, "Running", TO_THE_END)
        nodes = {pod["spec"]["nodeName"] for pod in kubectl.all("pods", f"dtj.dev/job-name={NAME}")}
        eventually(lambda: epochs(kubectl, f"{NAME}-worker-0"), lambda seen: len(seen) >= 3, TO_THE_END)

        kubectl("delete", "pod", f"{NAME}-worker-1", "--wait=false")

        status = status_when(kubectl, NAME, "Succeeded", TO_THE_END)
        assert (status["attempt"], status["restarts"], status["disruptions"]) == (1, 0, 1)
        assert len(nodes) == 2
        accuracy = re.search(r"^test_accuracy=([0-9.]+)", kubectl("logs", f"{NAME}-worker-0-r1"), re.MULTILINE)
        assert accuracy is not None
        assert float(accuracy[1]) >= 0.95
        assert min(epochs(kubectl, f"{NAME}-worker-0-r1")) > 1, "it went on from its checkpoint"
