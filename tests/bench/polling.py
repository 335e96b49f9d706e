"""What reading the progress of many running jobs costs the operator: `python3 -m tests.bench.polling` (root).

Starts an API server and the operator, creates jobs of one pod each, reports all pods as running at the address of one
fake agent that answers for all of them with a step that goes on, and measures the operator's CPU time and memory

- with an interval so long that nobody is asked: what so many running jobs cost anyway,
- with the usual ten seconds between two questions.

The API server and the fake agent run on the same machine, in processes of their own. `--json FILE` keeps the numbers.
"""

import argparse
import asyncio
import json
import multiprocessing
import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path
from tempfile import TemporaryDirectory

from aiohttp import web

from dtj.api import crd, names, ports
from dtj.plan.agent_access import agent_token
from tests.api.client import Client, Object, connected
from tests.api.fake_kubelet import MERGE_PATCH, running
from tests.api.operator.process import Operator
from tests.api.resource import REPOSITORY, changed, sample
from tests.cluster import bed as beds
from tests.cluster.console import say

NAMESPACE = "default"
NEVER, USUAL = 3600, 10
IN_FLIGHT = 16
AT_REST_SECONDS = 20.0
PATIENCE_SECONDS = 600.0
JOBS = f"/apis/{names.API_VERSION}/namespaces/{NAMESPACE}/{names.PLURAL}"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"


@dataclass(frozen=True)
class Cost:
    """Of the operator: share of one core, memory in MB, and questions that the agent got in a second."""

    core_percent: float
    resident_mb: float
    questions_per_second: float


def main() -> None:
    options = parse_options()
    with (
        TemporaryDirectory() as folder,
        beds.running(f"bench-{os.getpid()}", nodes=0) as bed,
        connected(bed.kubectl, bed.kubeconfig) as client,
        Operator(bed.kubeconfig, Path(folder, "log")) as operator,
    ):
        client.kubectl_output("apply", "-f", str(REPOSITORY / crd.CRD_FILE))
        operator.start()
        operator.wait_until_ready()
        uids = start_jobs(client, options.jobs)
        with fake_agent(uids) as asked:
            at_rest = measured(operator, asked, options.seconds)
            ask_every(client, options.jobs, USUAL)
            polling = measured(operator, asked, options.seconds)
    say(f"{options.jobs} running jobs, {options.seconds:.0f} s each{'core %':>14}{'MB':>8}{'asked/s':>10}")
    for what, cost in (("nobody is asked", at_rest), (f"every {USUAL} s", polling)):
        say(f"{what:<32}{cost.core_percent:>14.1f}{cost.resident_mb:>8.0f}{cost.questions_per_second:>10.1f}")
    if options.json is not None:
        content = {"jobs": options.jobs, "at_rest": asdict(at_rest), "polling": asdict(polling)}
        options.json.write_text(json.dumps(content, indent=2) + "\n")


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python3 -m tests.bench.polling", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--jobs", type=int, default=1000, metavar="N", help="running jobs (default %(default)s)")
    parser.add_argument("--seconds", type=float, default=60.0, help="how long to measure (default %(default)s)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the numbers there as well")
    return parser.parse_args()


def name_of(number: int) -> str:
    return f"job-{number}"


def start_jobs(client: Client, count: int) -> list[str]:
    """Create the jobs and report their pods as running; the jobs' UIDs."""

    def create(number: int) -> str:
        own = {"metadata.name": name_of(number), "spec.replicas": 1, "spec.progress.intervalSeconds": NEVER}
        answer = client.request("POST", JOBS, changed(sample("minimal"), own))
        assert answer.accepted, answer.message
        return str(answer.body["metadata"]["uid"])

    def run(number: int) -> None:
        status: Object = {
            "phase": "Running",
            "podIP": "127.0.0.1",
            "containerStatuses": [
                {"name": "trainer", "image": "i", "imageID": "", "restartCount": 0, "ready": True, "state": running()}
            ],
        }
        path = f"{PODS}/{names.pod_name(name_of(number), names.WORKER_ROLE, 0, 0)}/status"
        until(lambda: client.request("PATCH", path, {"status": status}, MERGE_PATCH).accepted)

    with ThreadPoolExecutor(IN_FLIGHT) as pool:
        uids = list(pool.map(create, range(count)))
        list(pool.map(run, range(count)))
    until(lambda: running_jobs(client) == count)
    return uids


def running_jobs(client: Client) -> int:
    return sum(1 for each in client.request("GET", JOBS).body["items"] if each["status"].get("phase") == "Running")


def ask_every(client: Client, count: int, seconds: int) -> None:
    change = {"spec": {"progress": {"intervalSeconds": seconds}}}
    with ThreadPoolExecutor(IN_FLIGHT) as pool:
        paths = (f"{JOBS}/{name_of(number)}" for number in range(count))
        list(pool.map(lambda path: client.request("PATCH", path, change, MERGE_PATCH), paths))


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        assert time.monotonic() < deadline, "it never came to that"
        time.sleep(0.2)


def measured(operator: Operator, asked: "Synchronized[int]", seconds: float) -> Cost:
    time.sleep(AT_REST_SECONDS)  # what came before has settled
    before, began, questions = cpu_seconds(operator.pid), time.monotonic(), asked.value
    time.sleep(seconds)
    passed = time.monotonic() - began
    return Cost(
        core_percent=100 * (cpu_seconds(operator.pid) - before) / passed,
        resident_mb=resident_mb(operator.pid),
        questions_per_second=(asked.value - questions) / passed,
    )


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_mb(pid: int) -> float:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


@contextmanager
def fake_agent(uids: list[str]) -> Iterator["Synchronized[int]"]:
    """A process that answers for the first attempt of all these jobs; how many questions it got."""
    asked = multiprocessing.Value("i", 0)
    by_token = {agent_token(uid, 0): uid for uid in uids}
    server = multiprocessing.Process(target=serve, args=(by_token, asked), daemon=True)
    server.start()
    try:
        yield asked
    finally:
        server.terminate()
        server.join()


def serve(by_token: dict[str, str], asked: "Synchronized[int]") -> None:
    async def answer(request: web.Request) -> web.Response:
        asked.value += 1
        step = int(time.monotonic() * 10) % 1_000_000
        report = {
            "jobUid": by_token[request.headers["Authorization"].removeprefix("Bearer ")],
            "attempt": 0,
            "source": "report",
            "reportAge": 0.1,
            "stepAge": 0.1,
            "step": step,
            "totalSteps": 1_000_000,
            "firstStep": 1,
            "stepsPerSecond": 10.0,
            "metrics": {"loss": 1 / (1 + step), "accuracy": 0.5},
        }
        return web.json_response(report)

    application = web.Application()
    application.router.add_get("/v1/progress", answer)

    async def run() -> None:
        runner = web.AppRunner(application, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", ports.AGENT, backlog=1024).start()
        await asyncio.Event().wait()

    asyncio.run(run())


if __name__ == "__main__":
    main()
