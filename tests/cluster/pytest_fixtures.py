"""Beds for tests: `api_server` (a control plane alone) for the api tier, `temporary_bed` for whatever else."""

import contextlib
import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pytest

from tests.cluster import bed, state

OTHER_CLUSTER = "DTJ_TEST_KUBECONFIG"
WORKERS = "PYTEST_XDIST_WORKER_COUNT"


class ApiServer(Protocol):
    """An API server that tests may use, with a kubectl that fits it."""

    @property
    def kubeconfig(self) -> Path: ...

    @property
    def kubectl(self) -> Path: ...


@dataclass(frozen=True)
class OtherCluster:
    """A cluster that somebody gave the tests."""

    kubeconfig: Path
    kubectl: Path


@pytest.fixture(scope="session")
def api_server() -> Iterator[ApiServer]:
    """Give an API server with its controllers: the cluster of DTJ_TEST_KUBECONFIG, else a bed of this process.

    Each worker of pytest-xdist is a process, and so a session, of its own.
    """
    given = os.environ.get(OTHER_CLUSTER)
    if given:
        kubectl = shutil.which("kubectl")
        if kubectl is None:
            pytest.fail(f"{OTHER_CLUSTER} is set, but there is no kubectl on the PATH")
        if int(os.environ.get(WORKERS, "1")) > 1:
            pytest.fail(f"{OTHER_CLUSTER} is set: one cluster, where the workers' operators would meet: use -n 0")
        yield OtherCluster(Path(given), Path(kubectl))
        return
    with temporary_bed("api-tests", nodes=0) as own:
        yield own


@contextlib.contextmanager
def temporary_bed(purpose: str, *, nodes: int) -> Iterator[bed.Bed]:
    """Give a bed that only this process knows, after removing those of processes that were killed."""
    for known in state.all_states():
        owner = re.fullmatch(rf"{purpose}-(\d+)", known.name)
        if owner and not Path("/proc", owner[1]).exists():
            bed.down(known.name)
    with bed.running(f"{purpose}-{os.getpid()}", nodes=nodes) as own:
        yield own
