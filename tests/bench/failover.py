"""How long nobody works when the leading operator goes: `python3 -m tests.bench.failover` (root).

Starts an API server and two replicas of the operator, and measures, for each way in which a leader can go, the seconds
until the other one holds the Lease and until it has created the pods of a job that was submitted meanwhile.

`--repetitions N` chooses how often; `--json FILE` keeps the numbers.
"""

import argparse
import json
import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from subprocess import TimeoutExpired
from tempfile import TemporaryDirectory

from dtj.api import crd
from tests.api.client import Client, connected
from tests.api.operator.conftest import a_scene
from tests.api.operator.replicas import Pair, Replica, a_pair
from tests.api.resource import REPOSITORY
from tests.bench.scale.report import spread
from tests.cluster import bed as beds
from tests.cluster.console import say

LEASE = "dtj-operator"
PATIENCE_SECONDS = 60.0
JOB_PODS = 2


@dataclass(frozen=True)
class Failover:
    """Seconds since the leader went."""

    leads: float
    pods_created: float


def main() -> None:
    options = parse_options()
    with (
        TemporaryDirectory() as folder,
        beds.running(f"bench-{os.getpid()}", nodes=0) as bed,
        connected(bed.kubectl, bed.kubeconfig) as client,
        a_pair(client, bed.kubeconfig, LEASE, Path(folder)) as pair,
    ):
        client.kubectl_output("apply", "-f", str(REPOSITORY / crd.CRD_FILE))
        found = {name: [measured(client, pair, go) for _ in range(options.repetitions)] for name, go in WAYS.items()}
    report(found)
    if options.json is not None:
        content = {name: [asdict(each) for each in failovers] for name, failovers in found.items()}
        options.json.write_text(json.dumps(content, indent=2) + "\n")


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python3 -m tests.bench.failover", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--repetitions", type=int, default=3, metavar="N", help="of each way (default %(default)s)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the numbers there as well")
    return parser.parse_args()


def ended(leader: Replica) -> None:
    leader.operator.terminate()


def killed(leader: Replica) -> None:
    leader.operator.kill()


def paused(leader: Replica) -> None:
    leader.operator.pause()


def cut_off(leader: Replica) -> None:
    leader.proxy.cut_off = True


WAYS: dict[str, Callable[[Replica], None]] = {
    "ended (SIGTERM)": ended,
    "killed (SIGKILL)": killed,
    "paused (SIGSTOP)": paused,
    "cut off": cut_off,
}


def measured(client: Client, pair: Pair, go: Callable[[Replica], None]) -> Failover:
    leader, standby = pair.leader_and_standby()
    with a_scene(client, leader.proxy.audit) as scene:
        began = time.monotonic()
        go(leader)
        scene.submit(replicas=JOB_PODS)
        pair.wait_until_leads(standby, PATIENCE_SECONDS)
        leads = time.monotonic() - began
        scene.pods_are(*(f"digits-worker-{index}" for index in range(JOB_PODS)))
        created = time.monotonic() - began
        recover(leader)
    return Failover(leads, created)


def recover(leader: Replica) -> None:
    """Let one that was paused or cut off notice it, and end."""
    leader.proxy.cut_off = False
    if leader.operator.is_alive:
        leader.operator.resume()
        with suppress(TimeoutExpired):
            leader.operator.wait_until_ended()


def report(found: dict[str, list[Failover]]) -> None:
    say(f"{'seconds until the other one':<28}{'leads':>22}{'has created pods':>24}")
    for name, failovers in found.items():
        leads, created = [each.leads for each in failovers], [each.pods_created for each in failovers]
        say(f"{name:<28}{spread(leads)!s:>22}{spread(created)!s:>24}")


if __name__ == "__main__":
    main()
