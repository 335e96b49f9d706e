"""What progress reports cost a training: `python3 -m tests.bench.trainer_report` (needs nothing but Python).

A loop of steps that each sleep a little runs bare, and then with a report after every step, with an agent's socket to
deliver to; each in a process of its own. Told are

- one call of `report()`, in microseconds of processor time, with the step alone and with all numbers (budget: 5);
- at 10 and at 1,000 steps a second, the processor time of the whole process per second of training, and its memory
  (resident, at most), bare and reporting, and how the time of the loop on the clock compares;
- the datagrams sent, which are one a second whatever the rate.

`--json FILE` keeps the numbers. The library is the one in this source tree.
"""

import argparse
import json
import os
import socket
import subprocess
import sys
import threading
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

from tests.cluster.console import say

LIBRARY = Path(__file__).parents[2] / "trainer_images/lib/src"
BUDGET_US = 5.0
RATES = (10, 1000)
CALLS = {
    "step": "report(step=7)",
    "all": "report(step=7, total_steps=900, epoch=1, total_epochs=3, samples=448, local_seconds=0.02, phase='train', "
    "metrics={'loss': 0.5, 'accuracy': 0.9})",
}

ONE_CALL = """
import json, sys, time, timeit
import dtj_trainer
def measured(code):
    known = {"report": dtj_trainer.report}
    repeated = timeit.repeat(code, globals=known, timer=time.process_time, number=20000, repeat=9)
    return sorted(repeated)[4] / 20000 * 1e6
print(json.dumps({name: measured(code) for name, code in json.loads(sys.argv[1]).items()}))
"""

LOOP = """
import json, pathlib, re, sys, time
rate, seconds, reporting = int(sys.argv[1]), float(sys.argv[2]), sys.argv[3] == "reporting"
if reporting:
    import dtj_trainer
began, computed = time.monotonic(), time.process_time()
for step in range(1, int(rate * seconds) + 1):
    time.sleep(1 / rate)
    if reporting:
        dtj_trainer.report(step=step, total_steps=900, epoch=1, metrics={"loss": 1 / step})
wall, computed = time.monotonic() - began, time.process_time() - computed
memory = int(re.search(r"VmHWM:\\s+(\\d+) kB", pathlib.Path("/proc/self/status").read_text())[1]) / 1024
print(json.dumps({"wall_s": wall, "cpu_percent": 100 * computed / wall, "memory_mib": memory}))
"""


@dataclass(frozen=True)
class Loop:
    """``cpu_percent`` of one core, ``memory_mib`` resident at most."""

    wall_s: float
    cpu_percent: float
    memory_mib: float


@dataclass(frozen=True)
class Comparison:
    rate: int
    bare: Loop
    reporting: Loop
    datagrams: int

    @property
    def wall_ratio(self) -> float:
        return self.reporting.wall_s / self.bare.wall_s


def main() -> None:
    options = parse_options()
    calls = json.loads(run(ONE_CALL, json.dumps(CALLS)))
    say("one report: " + ", ".join(f"{name} {microseconds:.2f} µs" for name, microseconds in calls.items()))
    comparisons = [compare(rate, options.seconds) for rate in RATES]
    for comparison in comparisons:
        say(row(comparison))
    if options.json is not None:
        loops = [{**asdict(comparison), "wall_ratio": comparison.wall_ratio} for comparison in comparisons]
        told = {"cores": os.cpu_count(), "report_us": calls, "loops": loops}
        options.json.write_text(json.dumps(told, indent=2) + "\n")
    if max(calls.values()) > BUDGET_US:
        sys.exit(f"error: a report costs more than {BUDGET_US:g} µs")


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python3 -m tests.bench.trainer_report", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument(
        "--seconds", type=float, default=20.0, metavar="S", help="length of each loop (default %(default)g)"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the numbers there as well")
    options = parser.parse_args()
    if options.seconds < 1:
        parser.error("--seconds must be at least 1")
    return options


def compare(rate: int, seconds: float) -> Comparison:
    arguments = LOOP, str(rate), str(seconds)
    bare = Loop(**json.loads(run(*arguments, "bare")))
    with Agent() as agent:
        reporting = Loop(**json.loads(run(*arguments, "reporting", **agent.environment)))
    return Comparison(rate, bare, reporting, agent.datagrams)


class Agent:
    """Counts the datagrams that come to its socket as long as the block lasts."""

    def __init__(self) -> None:
        name = f"dtj-bench-{os.getpid()}"
        self.environment = {"DTJ_AGENT_SOCKET": name, "DTJ_REPORT_TOKEN": "a1b2"}
        self.datagrams = 0
        self._address = f"\0{name}"
        self._thread = threading.Thread(target=self._receive)

    def __enter__(self) -> Self:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(self._address)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as last:
            last.sendto(b"", self._address)
        self._thread.join()
        self._socket.close()

    def _receive(self) -> None:
        while self._socket.recv(1):
            self.datagrams += 1


def run(code: str, *arguments: str, **environment: str) -> str:
    """What a Python program prints, in a job."""
    own = {"PATH": os.environ["PATH"], "PYTHONPATH": str(LIBRARY), "DTJ_JOB_NAME": "bench", **environment}
    done = subprocess.run([sys.executable, "-c", code, *arguments], env=own, stdout=subprocess.PIPE, check=True)
    return done.stdout.decode()


def row(comparison: Comparison) -> str:
    bare, reporting = comparison.bare, comparison.reporting
    return (
        f"{comparison.rate:>5} steps/s: {bare.cpu_percent:.2f} -> {reporting.cpu_percent:.2f} % of a core, "
        f"{bare.memory_mib:.1f} -> {reporting.memory_mib:.1f} MiB, {comparison.wall_ratio:.4f} times the time, "
        f"{comparison.datagrams} datagrams"
    )


if __name__ == "__main__":
    main()
