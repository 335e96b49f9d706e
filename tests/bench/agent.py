"""What the agent costs beside the program that it starts: `python3 -m tests.bench.agent`.

The same small programs run bare and through the agent, as the operator starts it, in turns:

- start: until the program runs,
- latency: from the moment a line is written until it can be read, ten lines a second,
- work: processor time of the agent and its memory, while the program prints ten lines with its progress a second and
  the operator's question comes every ten seconds.

Medians, on this machine, now. `--json FILE` keeps the numbers.
"""

import argparse
import http.client
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from dtj.api import environment as env
from dtj.api import names
from dtj.plan.agent_access import agent_token
from dtj.plan.agent_archive import agent_archive
from dtj.plan.launch import SHIM
from tests.cluster.console import say

UID = "11111111-2222-4333-8444-555555555555"
PORT = 29_481
TELLS_THE_TIME = ["date", "+%s%N"]
PRINTS_TIMES = [
    sys.executable,
    "-u",
    "-c",
    "import sys, time\nfor _ in range(int(sys.argv[1])):\n    time.sleep(0.1)\n    print(time.monotonic_ns())",
]
PRINTS_PROGRESS = [
    sys.executable,
    "-u",
    "-c",
    "import sys, time\nfor i in range(int(sys.argv[1])):\n    time.sleep(0.1)\n    print(f'step={i}/100000 loss=0.5')",
]


def main() -> None:
    options = parse_options()
    with TemporaryDirectory() as folder:
        agent = wrapper(Path(folder))
        bare, wrapped = started(agent, options.starts)
        bare_line, wrapped_line = latencies(agent, options.lines)
        core_percent, resident_mb = worked(agent, options.seconds)
    say(f"start                {1e3 * bare:8.1f} ms bare {1e3 * wrapped:8.1f} ms through the agent")
    say(f"latency of a line    {1e6 * bare_line:8.0f} us bare {1e6 * wrapped_line:8.0f} us through the agent")
    say(f"at ten lines a second  {core_percent:6.2f} % of a core, {resident_mb:.1f} MB")
    if options.json is not None:
        numbers = {
            "start_seconds": {"bare": bare, "agent": wrapped},
            "line_seconds": {"bare": bare_line, "agent": wrapped_line},
            "core_percent": core_percent,
            "resident_mb": resident_mb,
        }
        options.json.write_text(json.dumps(numbers, indent=2) + "\n")


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python3 -m tests.bench.agent", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--starts", type=int, default=30, metavar="N", help="starts of each kind (default %(default)s)")
    parser.add_argument("--lines", type=int, default=100, metavar="N", help="lines of each kind (default %(default)s)")
    parser.add_argument("--seconds", type=int, default=60, metavar="N", help="time to work (default %(default)s)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the numbers there as well")
    return parser.parse_args()


def wrapper(folder: Path) -> list[str]:
    """The command that stands before the user's, with the agent in ``folder``."""
    archive = folder / names.AGENT_FILE
    archive.write_bytes(agent_archive().content)
    program = SHIM.replace(names.AGENT_PATH, str(archive))
    return ["/bin/sh", "-c", program, "dtj-agent", agent_archive().digest, sys.executable, "--framework=Custom", "--"]


def environment() -> Mapping[str, str]:
    own = {
        env.JOB_NAME: "bench",
        env.JOB_UID: UID,
        env.ATTEMPT: "0",
        env.NODE_RANK: "0",
        env.NNODES: "1",
        env.PROCESSES_PER_REPLICA: "1",
        env.AGENT_PORT: str(PORT),
        env.AGENT_TOKEN: agent_token(UID, 0),
    }
    return {**os.environ, **own}


def started(agent: Sequence[str], count: int) -> tuple[float, float]:
    """Seconds until a program runs: bare, and through the agent."""

    def once(command: Sequence[str]) -> float:
        began = time.time_ns()
        done = subprocess.run(command, env=environment(), check=True, timeout=60, capture_output=True, text=True)
        return (int(done.stdout) - began) / 1e9

    pairs = [(once(TELLS_THE_TIME), once([*agent, *TELLS_THE_TIME])) for _ in range(count)]
    return statistics.median(bare for bare, _ in pairs), statistics.median(wrapped for _, wrapped in pairs)


def latencies(agent: Sequence[str], count: int) -> tuple[float, float]:
    """Seconds from a line's writing to its reading: bare, and through the agent."""
    return line_latency(PRINTS_TIMES, count), line_latency([*agent, *PRINTS_TIMES], count)


def line_latency(command: Sequence[str], count: int) -> float:
    with subprocess.Popen([*command, str(count)], env=environment(), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        return statistics.median((time.monotonic_ns() - int(line)) / 1e9 for line in process.stdout)


def worked(agent: Sequence[str], seconds: int) -> tuple[float, float]:
    """Share of a core in percent and memory in MB of the agent alone, the program's own not counted."""
    command = [*agent, *PRINTS_PROGRESS, str(2 * seconds * 10)]
    with subprocess.Popen(command, env=environment(), stdout=subprocess.DEVNULL) as process:
        time.sleep(2.0)  # its start is measured on its own
        before, began = cpu_seconds(process.pid), time.monotonic()
        while time.monotonic() - began < seconds:
            ask()
            time.sleep(min(10.0, seconds))
        passed, used = time.monotonic() - began, cpu_seconds(process.pid) - before
        resident = int(Path(f"/proc/{process.pid}/statm").read_text().split()[1]) * resource.getpagesize()
        process.terminate()
    return 100 * used / passed, resident / 1e6


def ask() -> None:
    connection = http.client.HTTPConnection("127.0.0.1", PORT, timeout=2)
    connection.request("GET", "/v1/progress", headers={"Authorization": f"Bearer {agent_token(UID, 0)}"})
    answer = connection.getresponse()
    assert answer.status == http.client.OK, answer.status
    assert "step" in json.loads(answer.read())
    connection.close()


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main()
