"""The program inside examples/custom-sockets.yaml, run as it stands with the variables that its pods would have."""

import os
import socket
import subprocess
import sys
from collections.abc import Sequence

import pytest
import yaml

from dtj.api.job import DistributedTrainingJob
from dtj.plan.frameworks import WIRINGS, common
from dtj.plan.frameworks.place import Place
from dtj.plan.topology import topology_of, trainer_container
from trainer_images.build import ROOT

MANIFEST = yaml.safe_load((ROOT / "examples/custom-sockets.yaml").read_text())
JOB = DistributedTrainingJob.model_validate(MANIFEST)
TRAINER = trainer_container(MANIFEST["spec"]["template"])
TOPOLOGY = topology_of(JOB.spec)


def run(ranks: Sequence[int], **changed: str) -> list[tuple[int, str]]:
    """Exit code and output of the pods with these ranks, all on this machine."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    programs = []
    for slot in (slot for slot, rank in TOPOLOGY.node_ranks.items() if rank in ranks):
        place = Place("custom-sockets", "default", "uid", 0, slot, TOPOLOGY)
        environment = {
            **os.environ,
            **{variable["name"]: variable["value"] for variable in TRAINER["env"]},
            **common.environment(place),
            **WIRINGS[JOB.spec.framework](place),
            "DARTS": "20000",
            "PORT": port,
            "DTJ_RANK_ZERO_HOST": "127.0.0.1",
            **changed,
        }
        command = [sys.executable, *TRAINER["command"][1:]]
        programs.append(
            subprocess.Popen(command, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        )
    outputs = [program.communicate(timeout=60)[0] for program in programs]
    return [(program.returncode, output) for program, output in zip(programs, outputs, strict=True)]


def test_the_coordinator_adds_up_what_the_workers_counted() -> None:
    (_, coordinator), *workers = results = run(range(TOPOLOGY.nnodes))
    assert [code for code, _ in results] == [0] * TOPOLOGY.nnodes
    assert coordinator.splitlines()[-1].startswith("pi=3.1")
    assert [output for _, output in workers] == ["the coordinator says: thanks\n"] * len(workers)


@pytest.mark.parametrize(
    ("ranks", "sentence"),
    [
        pytest.param([0], "nothing came from custom-sockets-worker-0.", id="a worker"),
        pytest.param([1], "cannot reach ('127.0.0.1', ", id="the coordinator"),
    ],
)
def test_who_is_missing_is_named_and_nobody_waits_for_ever(ranks: list[int], sentence: str) -> None:
    ((code, output),) = run(ranks, TIMEOUT_SECONDS="1")
    assert code == 1
    assert output.startswith(sentence)
