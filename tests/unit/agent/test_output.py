"""The training's output arrives byte for byte and at once, whoever reads it, and is read for progress."""

import array
import fcntl
import json
import os
import subprocess
import sys
import termios
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.unit.agent.agent_process import DEADLINE_S, PATH, Agent, Running, started, wait_until

PROGRAM = """
import json, os, signal, sys
from dtj_agent import signals
signals.hold()
from dtj_agent.output import Pump

NEWS, OWN_PATTERN, TIMEOUT_S, *COMMANDS = json.loads(sys.argv[1])
news = os.open(NEWS, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

def tell(**fields):
    os.write(news, json.dumps(fields).encode() + b"\\n")

pump = Pump(lambda reading: tell(**{k: v for k, v in reading._asdict().items() if v is not None}), OWN_PATTERN)
pids = []
for command in COMMANDS:
    out, err = pump.pipes()
    files = [(os.POSIX_SPAWN_DUP2, out, 1), (os.POSIX_SPAWN_DUP2, err, 2)]
    pids.append(os.posix_spawnp(command[0], command, dict(os.environ), file_actions=files, setsigmask=[],
                                setsigdef=signals.with_default_action()))
pump.begin()
for pid in pids:
    os.waitpid(pid, 0)
pump.finish(TIMEOUT_S)
tell(lines=[pump.last_lines(copy) for copy in range(len(pids))], last=pump.last_line())
os.write(2, b"finished\\n")
"""


class Pumped:
    """A program that copies the output of ``commands`` as the agent does."""

    def __init__(self, agent: Agent, folder: Path) -> None:
        self._agent = agent
        self._news = folder / "news"
        self.stop = folder / "stop"

    def command(self, *commands: Sequence[str], own_pattern: str | None = None, timeout_s: float = 60) -> list[str]:
        return self._agent.driver(PROGRAM, json.dumps([str(self._news), own_pattern, timeout_s, *commands]))

    @contextmanager
    def started(self, *commands: Sequence[str], own_pattern: str | None = None) -> Iterator[Running]:
        with started(self.command(*commands, own_pattern=own_pattern)) as running:
            yield running

    def news(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self._news.read_text().splitlines()] if self._news.exists() else []

    def readings(self) -> list[dict[str, Any]]:
        return [told for told in self.news() if "source" in told]

    def steps(self) -> list[int]:
        return [told["step"] for told in self.readings() if "step" in told]

    def lines(self) -> list[list[str]]:
        found: list[list[str]] = self.news()[-1]["lines"]
        return found


@pytest.fixture
def pumped(agent: Agent, tmp_path: Path) -> Pumped:
    return Pumped(agent, tmp_path)


def python(code: str) -> list[str]:
    return [sys.executable, "-u", "-c", f"import os, sys, time\n{code}"]


def test_every_byte_arrives(pumped: Pumped) -> None:
    code = "data = memoryview(bytes(range(256)) * 4000)\nwhile data: data = data[os.write(1, data):]"
    with pumped.started(python(code), ["sh", "-c", "printf '%s' no-newline >&2"]) as running:
        assert running.end() == 0
    assert running.out == bytes(range(256)) * 4000
    assert running.err == b"no-newlinefinished\n"


def test_it_arrives_at_once(pumped: Pumped) -> None:
    with pumped.started(["sh", "-c", "printf half; read line; printf ' line'; read line"]) as running:
        running.says("half")
        assert running.process.stdin is not None
        os.write(running.process.stdin.fileno(), b"\n")
        running.says("half line")
        os.write(running.process.stdin.fileno(), b"\n")
        assert running.end() == 0


PIECES = "for i in range(200):\n for part in ('who=', sys.argv[1], ' line=', str(i), '\\n'): os.write(1, part.encode())"


def test_the_lines_of_several_copies_stay_whole(pumped: Pumped) -> None:
    with pumped.started([*python(PIECES), "a"], [*python(PIECES), "b"]) as running:
        assert running.end() == 0
    lines = running.out.decode().splitlines()
    assert sorted(lines) == sorted(f"who={who} line={i}" for who in "ab" for i in range(200))


def test_a_line_of_one_of_several_copies_that_does_not_end_is_shown_after_a_while(pumped: Pumped) -> None:
    busy = python("while not os.path.exists(sys.argv[1]): print('busy'); time.sleep(0.01)")
    with pumped.started(
        [*busy, str(pumped.stop)],
        ["sh", "-c", "printf question; until [ -e $0 ]; do sleep 0.05; done", str(pumped.stop)],
    ) as running:
        running.says("question")
        pumped.stop.touch()
        assert running.end() == 0


def test_progress_is_that_of_the_first_copy_and_lines_are_kept_of_each(pumped: Pumped) -> None:
    first = ["sh", "-c", "echo epoch=1/2 step=5/10; echo; printf '\\033[31mred\\033[0m\\r\\n----' >&2"]
    with pumped.started(first, ["sh", "-c", "echo step=9/10"]) as running:
        assert running.end() == 0
    assert pumped.steps() == [5]
    assert [sorted(lines) for lines in pumped.lines()] == [["----", "epoch=1/2 step=5/10", "red"], ["step=9/10"]]
    assert pumped.news()[-1]["last"] in ("red", "epoch=1/2 step=5/10")


def test_a_bar_is_read_when_it_rests(pumped: Pumped) -> None:
    states = "".join(f"\r {done}0%|##  | {done}/10 [00:01<00:01, 9it/s]" for done in (5, 6))
    code = f"sys.stderr.write({states!r}); sys.stdin.read()"
    with pumped.started(python(code)) as running:
        wait_until(lambda: pumped.steps()[-1:] == [6])
        assert running.process.stdin is not None
        running.process.stdin.close()
        running.process.stdin = None
        assert running.end() == 0


def test_one_file_for_both_stays_in_order(pumped: Pumped, tmp_path: Path) -> None:
    command = ["sh", "-c", "for i in 1 2 3 4 5 6 7 8 9; do echo out$i; echo err$i >&2; done"]
    with (tmp_path / "log").open("wb") as log:
        subprocess.run(pumped.command(command), stdout=log, stderr=log, timeout=DEADLINE_S, check=True)
    expected = [line for number in range(1, 10) for line in (f"out{number}", f"err{number}")]
    assert (tmp_path / "log").read_text().split() == [*expected, "finished"]
    assert pumped.lines() == [expected]


def test_a_flood_is_copied_and_its_end_is_known(pumped: Pumped) -> None:
    lines = "'\\n'.join(f'step={i}/200000 ' + 60 * 'x' for i in range(start, start + 1000))"
    code = f"for start in range(0, 200_000, 1000): print({lines})"
    with pumped.started(python(code)) as running:
        assert running.end() == 0
    assert running.out.count(b"\n") == 200_000
    assert pumped.steps()[-1] == 199_999
    assert len(pumped.steps()) < 20_000
    assert len(pumped.lines()[0]) == 100


def test_training_goes_on_when_nobody_reads(pumped: Pumped, tmp_path: Path) -> None:
    done = tmp_path / "done"
    code = f"for i in range(3000): print(f'step={{i}} ' + 100 * 'x')\nopen({str(done)!r}, 'w').close()"
    with pumped.started(python(code)) as running:
        assert running.process.stdout is not None
        os.close(running.process.stdout.fileno())
        os.open(os.devnull, os.O_RDONLY)  # takes its number
        running.complains("finished")
    assert done.exists()
    assert running.err.count(b"the training's stdout is lost: it cannot be written: Broken pipe") == 1
    assert pumped.steps()[-1] == 2999


def test_a_reader_that_waits_makes_the_training_wait(pumped: Pumped) -> None:
    code = "for i in range(100_000): os.write(1, 99 * b'x' + b'\\n'); os.write(2, b'%d\\n' % i)"
    process = subprocess.Popen(
        pumped.command(python(code)), env={"PATH": PATH}, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        assert process.stderr is not None
        seen: list[int] = []

        def rests() -> bool:
            """stderr is read on and on; stdout is not, and so nothing more comes."""
            os.set_blocking(process.stderr.fileno(), False)  # type: ignore[union-attr]
            data = process.stderr.read() or b""  # type: ignore[union-attr]
            seen.extend(map(int, data.split()))
            time.sleep(0.2)
            return not data and len(seen) > 0

        wait_until(rests)
        in_pipes = 3 * 65536 + 65536
        assert len(seen) <= in_pipes / 100
        assert os.read(process.stdout.fileno(), 5) == b"xxxxx"
    finally:
        process.kill()
        process.communicate()


def test_what_a_child_left_behind_does_not_hold_the_end(pumped: Pumped) -> None:
    command = pumped.command(["sh", "-c", "(sleep 60) & echo bye"], timeout_s=0.2)
    with started(command) as running:
        running.complains("finished")
        assert running.out == b"bye\n"


def test_what_was_printed_before_the_end_arrives_also_late(pumped: Pumped) -> None:
    """The pipe to the reader is full, and so is that of the training, when it ends."""
    code = "os.write(1, 60_000 * b'a'); os.write(1, 60_000 * b'b'); os.write(1, 60_000 * b'c')"
    process = subprocess.Popen(
        pumped.command(python(code), timeout_s=0), env={"PATH": PATH}, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None

    def is_stuck() -> bool:
        count = array.array("i", [0])
        fcntl.ioctl(process.stdout.fileno(), termios.FIONREAD, count)  # type: ignore[union-attr]
        return count[0] > 50_000

    wait_until(is_stuck)
    out, err = process.communicate(timeout=DEADLINE_S)
    assert (len(out), err) == (180_000, b"finished\n")


@pytest.mark.parametrize(
    ("pattern", "line", "expected"),
    [
        pytest.param(
            r"done (?P<step>\d+) of (?P<total_steps>\d+), perplexity (?P<ppl>\S+)(?P<no>x)?",
            "done 1,200 of 5000, done 12 of 5000, perplexity 3.5",
            {"source": "pattern", "step": 12, "total_steps": 5000, "metrics": {"ppl": 3.5}},
            id="steps",
        ),
        pytest.param(
            r"e(?P<epoch>[\d.]+)/(?P<total_epochs>\d+) (?P<samples_per_second>\d+)",
            "e1.5/3 99",
            {"source": "pattern", "epoch": 1.5, "total_epochs": 3, "metrics": {}, "samples_per_second": 99},
            id="epochs",
        ),
    ],
)
def test_the_users_own_pattern(pumped: Pumped, pattern: str, line: str, expected: dict[str, Any]) -> None:
    with pumped.started(["echo", line], own_pattern=pattern) as running:
        assert running.end() == 0
    assert (pumped.readings(), running.err) == ([expected], b"finished\n")


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        pytest.param("(a+)+$", "it took more than 0.1 s of processor time for one line", id="for ever"),
        pytest.param("(", "it is no regular expression of Python", id="broken"),
        pytest.param("a*a*a*(?P<step>x)", "it took more than 0.05 s of processor time in a second", id="slow"),
    ],
)
def test_a_pattern_that_is_too_slow_or_wrong_is_left_out(pumped: Pumped, pattern: str, said: str) -> None:
    code = "for i in range(200): print('a' * 60 + 'b'); time.sleep(0.01)\nprint('step=7/9')"
    with pumped.started(python(code), own_pattern=pattern) as running:
        assert running.end() == 0
    assert running.out.count(b"\n") == 201
    assert running.err.decode().count("dtj-agent: ") == 1
    assert said in running.err.decode()
    assert pumped.steps() == [7]
