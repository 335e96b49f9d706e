"""Real training in real pods: the shipped example, and both ways to start PyTorch."""

import re
from pathlib import Path

import pytest
import yaml

from tests.cluster.containerd import PAUSE_IMAGE
from tests.e2e.jobs import condition, job, status_when
from tests.kubectl import Kubectl, eventually

pytestmark = pytest.mark.e2e

EXAMPLE = Path(__file__).parents[2] / "examples" / "pytorch-digits.yaml"

ALL_REDUCE = """
import os, torch, torch.distributed as dist
dist.init_process_group("gloo")
total = torch.tensor([float(dist.get_rank() + 1)])
dist.all_reduce(total)
print(f"rank={dist.get_rank()} world={dist.get_world_size()} sum={total.item():.0f}", flush=True)
dist.destroy_process_group()
"""

HOROVOD_SUM = """
import horovod.torch as hvd, torch
hvd.init()
total = hvd.allreduce(torch.tensor([float(hvd.rank() + 1)]), op=hvd.Sum)
print(f"rank={hvd.rank()} world={hvd.size()} sum={total.item():.0f}", flush=True)
"""

JAX_SUM = """
import os, jax, numpy
jax.distributed.initialize(
    num_processes=int(os.environ["JAX_NUM_PROCESSES"]),
    process_id=int(os.environ["JAX_PROCESS_ID"]),
    cluster_detection_method="deactivate",
)
from jax.experimental.multihost_utils import process_allgather
total = process_allgather(numpy.array([jax.process_index() + 1.0])).sum()
print(f"rank={jax.process_index()} world={jax.process_count()} sum={total:.0f}", flush=True)
"""

FIND_PEERS = """
import os, socket, time
peers = [f"{os.environ['DTJ_JOB_NAME']}-worker-{i}.{os.environ['DTJ_JOB_NAME']}-workers" for i in range(2)]
found, deadline = {}, time.monotonic() + 60
while len(found) < 2 and time.monotonic() < deadline:
    for peer in peers:
        try:
            found[peer] = socket.gethostbyname(peer)
        except OSError:
            time.sleep(0.2)
print(f"found={len(set(found.values()))} me={socket.gethostname()}", flush=True)
"""


def test_the_example_trains_on_two_nodes_to_the_end(kubectl: Kubectl) -> None:
    kubectl.apply(yaml.safe_load(EXAMPLE.read_text()))

    kubectl("wait", "--for=condition=Complete", "dtj/digits", "--timeout=50s")

    status = status_when(kubectl, "digits", "Succeeded")
    pods = eventually(
        lambda: kubectl.all("pods", "dtj.dev/job-name=digits"),
        lambda seen: [pod["status"]["phase"] for pod in seen] == ["Succeeded", "Succeeded"],
    )
    accuracy = re.search(r"^test_accuracy=([0-9.]+)", kubectl("logs", "digits-worker-0"), re.MULTILINE)
    assert accuracy is not None
    assert float(accuracy[1]) >= 0.95
    assert len({pod["spec"]["nodeName"] for pod in pods}) == 2
    assert status["startTime"] <= status["runningTime"] <= status["completionTime"]
    assert condition(status, "Complete")["status"] == "True"
    columns, row = kubectl("get", "dtj", "digits").splitlines()
    assert columns.split() == ["NAME", "PHASE", "READY", "PROGRESS", "ETA", "RESTARTS", "REASON", "AGE"]
    assert row.split()[:6] == ["digits", "Succeeded", "0/2", "100%", "0", "Succeeded"]


@pytest.mark.parametrize(
    ("framework", "command", "processes"),
    [
        pytest.param("PyTorch", ["python", "-c", ALL_REDUCE], 1, id="PyTorch, python"),
        pytest.param("PyTorch", ["python", "-c", ALL_REDUCE], 2, id="PyTorch, python twice in each pod"),
        pytest.param("PyTorch", ["torchrun", "--no-python", "python", "-c", ALL_REDUCE], 2, id="PyTorch, torchrun"),
        pytest.param("Horovod", ["python", "-c", HOROVOD_SUM], 2, id="Horovod, twice in each pod"),
        pytest.param("JAX", ["python", "-c", JAX_SUM], 2, id="JAX, twice in each pod"),
    ],
)
def test_every_process_takes_part(kubectl: Kubectl, framework: str, command: list[str], processes: int) -> None:
    one_thread, image = [{"name": "OMP_NUM_THREADS", "value": "1"}], f"dtj/{framework.lower()}:dev"
    manifest = job("sum", command, framework=framework, env=one_thread, image=image)
    manifest["spec"]["processesPerReplica"] = processes
    world = 2 * processes
    kubectl.apply(manifest)

    status_when(kubectl, "sum", "Succeeded", 90)

    printed = kubectl("logs", "sum-worker-0") + kubectl("logs", "sum-worker-1")
    told = {tuple(map(int, line)) for line in re.findall(r"rank=(\d+) world=(\d+) sum=(\d+)", printed)}
    assert told == {(rank, world, world * (world + 1) // 2) for rank in range(world)}


@pytest.mark.usefixtures("bed")
def test_gpus_set_the_processes_and_a_master_is_rank_zero(kubectl: Kubectl) -> None:
    one_thread, asks = [{"name": "OMP_NUM_THREADS", "value": "1"}], {"limits": {"nvidia.com/gpu": "2"}}
    manifest = job("led", ["python", "-c", ALL_REDUCE], replicas=1, framework="PyTorch", env=one_thread, resources=asks)
    manifest["spec"]["roles"] = [{"name": "master", "template": manifest["spec"]["template"]}]
    kubectl.apply(manifest)

    status_when(kubectl, "led", "Succeeded")

    ranks = {
        pod: sorted(re.findall(r"^rank=(\d) world=4 sum=10$", kubectl("logs", pod), re.MULTILINE))
        for pod in ("led-master-0", "led-worker-0")
    }
    assert ranks == {"led-master-0": ["0", "1"], "led-worker-0": ["2", "3"]}


def test_custom_programs_find_their_peers_by_name(kubectl: Kubectl) -> None:
    kubectl.apply(job("peers", ["python", "-c", FIND_PEERS]))

    status_when(kubectl, "peers", "Succeeded")

    assert kubectl("logs", "peers-worker-1").strip() == "found=2 me=peers-worker-1"


@pytest.mark.usefixtures("bed")
def test_gpus_are_placed_by_the_scheduler(kubectl: Kubectl) -> None:
    asks = {"limits": {"nvidia.com/gpu": "4"}}
    manifest = job("gpus", ["sh", "-c", "echo processes=$DTJ_PROCESSES_PER_REPLICA"], resources=asks)
    kubectl.apply(manifest)

    status_when(kubectl, "gpus", "Succeeded")

    pods = kubectl.all("pods", "dtj.dev/job-name=gpus")
    assert {pod["spec"]["nodeName"] for pod in pods} == {"node-1", "node-2"}, "four devices each: one pod fills a node"
    assert kubectl("logs", "gpus-worker-0").strip() == "processes=4"


@pytest.mark.usefixtures("bed")
def test_an_image_without_a_shell_runs_the_bare_command(kubectl: Kubectl) -> None:
    manifest = job("bare", ["/pause"], image=PAUSE_IMAGE)
    manifest["spec"]["template"]["spec"]["securityContext"]["runAsUser"] = 65532
    kubectl.apply(manifest)

    status = status_when(kubectl, "bare", "Running")

    assert (status["attempt"], status["restarts"], status["lastFailure"]["reason"]) == (1, 0, "ContainerCannotRun")
    assert condition(status, "WithoutAgent")["reason"] == "NoShell"


@pytest.mark.usefixtures("bed")
def test_a_job_that_needs_the_agent_fails_without_a_shell(kubectl: Kubectl) -> None:
    manifest = job("several", ["/pause"], framework="Horovod", image=PAUSE_IMAGE)
    manifest["spec"]["template"]["spec"]["securityContext"]["runAsUser"] = 65532
    kubectl.apply(manifest)

    status = status_when(kubectl, "several", "Failed")

    assert (status["reason"], status["attempt"]) == ("NoShell", 0)
