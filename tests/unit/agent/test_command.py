"""The agent starts a command, changes nothing about it, and ends as it does."""

import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.agent.agent_process import DEADLINE_S, PATH, Agent, has_ended, started, wait_until


@pytest.mark.parametrize(
    ("script", "code"),
    [
        pytest.param("exit 0", 0, id="well"),
        pytest.param("exit 3", 3, id="badly"),
        pytest.param("exit 255", 255, id="with the highest code"),
        pytest.param("kill -KILL $$", 137, id="killed"),
        pytest.param("ulimit -c 0; kill -SEGV $$", 139, id="crashed"),
        pytest.param("kill -TERM $$", 143, id="by a signal that nobody sent to the agent"),
    ],
)
def test_it_ends_as_the_command_does(agent: Agent, script: str, code: int) -> None:
    done = agent.run("sh", "-c", script)
    assert (done.returncode, done.stderr) == (code, b"")


def test_what_cannot_be_started_is_said_as_a_shell_would(agent: Agent, tmp_path: Path) -> None:
    for name, content, mode in (
        ("plain", "echo hello\n", 0o644),
        ("no-interpreter", "#!/nowhere/python\n", 0o755),
        ("no-program", "echo hello\n", 0o755),
    ):
        (tmp_path / name).write_text(content)
        (tmp_path / name).chmod(mode)
    outcomes = {
        name: (done.returncode, done.stderr.decode().replace(f"{tmp_path}/", ""))
        for name in ("missing", "plain/below-a-file", "no-interpreter", "plain", ".", "no-program")
        for done in [agent.run(f"{tmp_path}/{name}")]
    }
    unknown = "is its first line no #!, or is it built for another kind of machine?"
    refused = "permission denied (is it executable, and a file?)"
    assert outcomes == {
        "missing": (127, "dtj-agent: missing: not found\n"),
        "plain/below-a-file": (127, "dtj-agent: plain/below-a-file: not found\n"),
        "no-interpreter": (127, "dtj-agent: no-interpreter: not found\n"),
        "plain": (126, f"dtj-agent: plain: {refused}\n"),
        ".": (126, f"dtj-agent: .: {refused}\n"),
        "no-program": (
            126,
            f"dtj-agent: no-program: cannot be run ({unknown})\n",
        ),
    }


def test_commands_are_found_by_path(agent: Agent, tmp_path: Path) -> None:
    command = tmp_path / "train"
    command.write_text("#!/bin/sh\nexit 5\n")
    command.chmod(0o755)
    assert agent.run("train").returncode == 127
    assert agent.run("train", env={"PATH": f"{tmp_path}:{PATH}"}).returncode == 5


@pytest.mark.parametrize("locale", ["C", "C.UTF-8"])
def test_arguments_arrive_as_they_are(agent: Agent, locale: str) -> None:
    arguments = [b"", b"two words", b"two\nlines", "größer → ∞".encode(), b"no \xff text", b"--", b"$(HOME)", b"-I"]
    show = "import os, sys; sys.stdout.buffer.write(b'\\0'.join(map(os.fsencode, sys.argv[1:])))"
    done = agent.run(sys.executable, "-c", show, *arguments, env={"LC_ALL": locale})
    assert done.stdout.split(b"\0") == arguments


def test_input_and_output_are_the_commands_own(agent: Agent) -> None:
    data = bytes(range(256)) * 5000
    assert agent.run("cat", stdin=data).stdout == data
    assert agent.run("sh", "-c", "cat >&2", stdin=data).stderr == data


def test_the_library_is_the_only_thing_added_to_the_environment(agent: Agent) -> None:
    given = {"PATH": PATH, "ODD": "a=b\nc", "EMPTY": "", "LANG": "de_DE.UTF-8"}
    entries = agent.run("env", "-0", env=given).stdout.decode().rstrip("\0").split("\0")
    assert sorted(entries) == sorted(
        f"{name}={value}" for name, value in {**given, "PYTHONPATH": str(agent.path)}.items()
    )


@pytest.mark.parametrize("given", [{}, {"LC_CTYPE": "C"}, {"LC_CTYPE": "C.UTF-8"}], ids=str)
def test_what_its_own_interpreter_does_to_the_locale_stays_its_own(agent: Agent, given: dict[str, str]) -> None:
    entries = agent.run("env", env=given).stdout.decode().splitlines()
    assert [entry for entry in entries if entry.startswith("LC_")] == [f"LC_CTYPE={v}" for v in given.values()]


@pytest.mark.parametrize(
    ("given", "before"),
    [
        pytest.param({}, [], id="unset"),
        pytest.param({"PYTHONPATH": ""}, [], id="empty"),
        pytest.param({"PYTHONPATH": "/a:/b"}, ["/a", "/b"], id="set"),
    ],
)
def test_the_library_comes_last_in_the_python_path(agent: Agent, given: dict[str, str], before: list[str]) -> None:
    shown = agent.run("sh", "-c", 'echo "$PYTHONPATH"', env=given).stdout.decode().strip()
    assert shown.split(":") == [*before, str(agent.path)]


def test_training_code_can_import_the_library(agent: Agent) -> None:
    code = "import dtj_trainer; print(dtj_trainer.__file__); dtj_trainer.report(step=1)"
    done = agent.run(sys.executable, "-S", "-c", code)
    assert done.stdout.decode().strip() == f"{agent.path}/dtj_trainer/__init__.py"


IGNORE_AND_BLOCK = """
import os, signal, sys
for number in (signal.SIGINT, signal.SIGHUP, signal.SIGCHLD, signal.SIGPIPE):
    signal.signal(number, signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM, signal.SIGTERM])
os.execv(sys.argv[1], sys.argv[1:])
"""


@pytest.mark.parametrize("under", [[], [sys.executable, "-c", IGNORE_AND_BLOCK]], ids=["plain", "inherited"])
def test_the_command_gets_all_signals_at_their_defaults(agent: Agent, under: list[str]) -> None:
    with agent.started("grep", "-E", "^Sig(Blk|Ign)", "/proc/self/status", under=under) as running:
        assert running.end() == 0
    masks = {name: int(mask, 16) for name, mask in zip(*[iter(running.out.decode().split())] * 2, strict=True)}
    # The two that the C library keeps for itself, it ignores in all that posix_spawn() starts, and sets when it needs.
    assert {name: mask & ~0x1_8000_0000 for name, mask in masks.items()} == {"SigBlk:": 0, "SigIgn:": 0}


def test_the_command_has_a_session_of_its_own(agent: Agent) -> None:
    same = "import os; print(os.getsid(0) == os.getpgrp() == os.getpid())"
    assert agent.run(sys.executable, "-c", same).stdout == b"True\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(["true"], "no -- before the command", id="no end of the options"),
        pytest.param(["--"], "no command after --", id="no command"),
        pytest.param(["--processes=0", "--", "true"], "wrong option '--processes=0'", id="no process"),
        pytest.param(["--processes=two", "--", "true"], "wrong option '--processes=two'", id="no number"),
        pytest.param(["--framework=MXNet", "--", "true"], "wrong option '--framework=MXNet'", id="unknown framework"),
        pytest.param(["--rendezvous=mpi", "--", "true"], "wrong option '--rendezvous=mpi'", id="unknown rendezvous"),
        pytest.param(["--verbose", "--", "true"], "wrong option '--verbose'", id="unknown option"),
        pytest.param(
            ["--processes=2", "--framework=PyTorch", "--", "true"],
            "DTJ_NODE_RANK is '': it must be a whole number of at least 0",
            id="no place in the job",
        ),
    ],
)
def test_wrong_options_are_named(agent: Agent, arguments: list[str], message: str) -> None:
    line = [sys.executable, "-I", "-S", str(agent.path), *arguments]
    done = subprocess.run(line, capture_output=True, timeout=DEADLINE_S, check=False, env={"PATH": PATH})
    assert (done.returncode, done.stderr.decode(), done.stdout) == (2, f"dtj-agent: {message}\n", b"")


@pytest.mark.parametrize("redirection", ["2>&-", "2>/dev/full", "0<&- 1>&- 2>&-"])
def test_messages_that_cannot_be_written_are_lost(agent: Agent, redirection: str) -> None:
    line = [sys.executable, "-I", "-S", str(agent.path), "--", "/missing"]
    done = subprocess.run(
        ["sh", "-c", f'exec "$@" {redirection}', "sh", *line], timeout=DEADLINE_S, check=False, stdin=subprocess.DEVNULL
    )
    assert done.returncode == 127


def test_a_closed_standard_file_is_no_place_for_another(agent: Agent) -> None:
    under = ["sh", "-c", 'exec "$@" 2>&-', "sh"]
    with agent.started("sh", "-c", "echo $$; exec sleep 600", under=under) as running:
        child = running.lines(1)[0]
        assert Path(f"/proc/{running.pid}/fd/2").readlink() == Path(os.devnull)
        assert not Path(f"/proc/{child}/fd/2").exists()


def test_nobody_reading_messages_does_not_hold_the_agent_up(agent: Agent) -> None:
    reader, writer = os.pipe()
    os.write(writer, b"x" * fcntl.fcntl(writer, fcntl.F_GETPIPE_SZ))  # all that it holds
    line = agent.command("/missing")
    assert subprocess.run(line, stderr=writer, timeout=DEADLINE_S, check=False).returncode == 127
    os.close(reader)
    assert subprocess.run(line, stderr=writer, timeout=DEADLINE_S, check=False).returncode == 127
    os.close(writer)


BROKEN_SYSTEM = """
import os
from dtj_agent.main import main

real, broken = os.waitpid, [{failures}]

def waitpid(pid, options):
    if broken[0]:
        broken[0] -= 1
        raise OSError(5, "made to fail")
    return real(pid, options)

os.waitpid = waitpid
raise SystemExit(main())
"""


@pytest.mark.parametrize("failures", [1, 100], ids=["once", "for good"])
def test_a_bug_of_the_agent_ends_the_training_and_is_told(agent: Agent, failures: int) -> None:
    line = agent.driver(BROKEN_SYSTEM.format(failures=failures), "--", "sh", "-c", "echo $$; exec sleep 600")
    with started(line) as running:
        child = int(running.lines(1)[0])
        os.kill(running.pid, signal.SIGWINCH)
        assert running.end() == 70
    assert b"made to fail" in running.err
    assert b"Traceback" in running.err
    wait_until(lambda: has_ended(child))
