"""What the pages tell the reader to type is typed, page by page, and prints what they show."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.state import Layout
from tests.docs.blocks import blocks_of
from tests.docs.on_a_cluster import PREPARED, Shell, shell
from tests.e2e.operator import Installed
from tests.kubectl import Kubectl, eventually

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.xdist_group("docs"),  # several pages use one volume
    pytest.mark.timeout(900),  # a page is many commands, and each has a limit of its own
]

DEMO_BED = "beds/dtj/"
DEMO_NAMESPACE = "namespace: default"
END_OF_ALL_JOBS = "delete customresourcedefinition "
VOLUME = "digits-checkpoints"


@pytest.fixture
def reader(installed: Installed, bed: str, kubectl: Kubectl, tmp_path: Path) -> Iterator[Shell]:
    """A shell as a reader has it: kubectl and helm, and a cluster whose namespace is this test's."""
    own = tmp_path / "kubeconfig"
    shutil.copy(installed.kubeconfig, own)
    Kubectl(installed.kubectl, own, kubectl.namespace)(
        "config", "set-context", "--current", f"--namespace={kubectl.namespace}"
    )
    words = {
        "JOB": "troubled",
        DEMO_BED: f"beds/{bed}/",
        DEMO_NAMESPACE: f"namespace: {kubectl.namespace}",
        END_OF_ALL_JOBS: f"{END_OF_ALL_JOBS}--dry-run=server ",
    }
    yield shell([installed.kubectl, installed.helm], own, words)
    kubectl("delete", "dtj", "--all")
    eventually(lambda: [pod["metadata"]["name"] for pod in kubectl.all("pods")], lambda names: names == [])
    kubectl("delete", "pvc", "--all")
    kubectl("delete", "pv", VOLUME, "--ignore-not-found")
    shutil.rmtree(Layout(bed).directory / "volumes" / "digits", ignore_errors=True)


@pytest.mark.parametrize("page", PREPARED)
def test_the_commands_of_a_page_work_one_after_the_other(reader: Shell, kubectl: Kubectl, page: str) -> None:
    prepare = dict(PREPARED[page])
    for block in blocks_of(page):
        if prepared := prepare.pop(block.heading, None):
            prepared(kubectl)
        reader.execute(block)
