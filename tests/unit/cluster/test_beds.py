"""What keeps beds apart and their processes known: names, addresses, ports, locks, process identities."""

import ipaddress
import itertools
import os
import re
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.cluster import addresses, build, cli, locking, paths, processes, requirements, state
from tests.cluster.errors import BedError

BLOCK = "10.32.16.0/20"


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DTJ_CACHE_DIR", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("name", ["a", "dtj", "api-tests-4194304", "x" * 30])
def test_names_of_beds(name: str) -> None:
    assert state.check_name(name) == name


@pytest.mark.parametrize("name", ["", "A", "a_b", "-a", "a-", "../a", "x" * 31])
def test_what_cannot_name_a_bed(name: str) -> None:
    with pytest.raises(BedError, match="lower-case letters"):
        state.check_name(name)


def test_no_two_addresses_of_a_bed_meet() -> None:
    bed = state.State("try", state.MAX_NODES, 4, "boot", BLOCK)
    networks = [bed.node_network, *(ipaddress.IPv4Network(n) for n in (bed.services, *map(bed.pods, bed.node_names)))]
    assert not any(one.overlaps(other) for one, other in itertools.combinations(networks, 2))
    assert all(network.subnet_of(ipaddress.IPv4Network(BLOCK)) for network in networks)
    own = [bed.host_address, *map(bed.node_address, bed.node_names)]
    assert len(set(own)) == len(own)
    assert all(ipaddress.IPv4Address(address) in bed.node_network for address in own)


def test_a_bed_without_nodes_stays_on_the_loopback_interface() -> None:
    bed = state.State("try", 0, 4, "boot", ports={"apiserver": 1})
    assert bed.server == "https://127.0.0.1:1"
    with pytest.raises(BedError, match="has no node 'node-1'; it has none"):
        bed.node_number("node-1")


def test_a_bed_is_read_back_as_it_was_kept() -> None:
    bed = state.State("try", 1, 4, "boot", BLOCK, {"etcd": 1}, stopped_nodes=["node-1"])
    bed.layout.directory.mkdir(parents=True)
    bed.keep(processes.Process("etcd", 1, 2))
    bed.keep(processes.Process("etcd", 3, 4))
    assert state.load("try") == bed
    assert state.all_states() == [bed]
    assert [process.pid for process in bed.processes] == [3]
    assert state.load("other") is None


def test_a_free_port_is_one_that_nobody_has(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        used = other.getsockname()[1]
        monkeypatch.setattr(addresses, "PORTS", range(used - 3, used + 1))
        monkeypatch.setattr(addresses, "ATTEMPTS", 4)
        with pytest.raises(BedError, match="no free port"):
            addresses.free_ports(["a"], taken=range(used - 3, used))


def test_a_free_block_overlaps_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    block = ipaddress.IPv4Network(addresses.free_block([]))
    assert block.prefixlen == state.BLOCK_PREFIX
    with pytest.raises(BedError, match="no free /20 block"):
        addresses.free_block(["10.0.0.0/8"])


def test_a_process_is_killed_and_one_that_took_over_its_id_is_not(tmp_path: Path) -> None:
    sleeper = processes.start("sleep", ["sleep", "60"], tmp_path / "log")
    processes.kill([replace(sleeper, started=sleeper.started + 1)])
    assert sleeper.is_alive()
    processes.kill([sleeper])
    assert not sleeper.is_alive()
    os.waitpid(sleeper.pid, 0)


def test_waiting_ends_with_the_log_of_a_process_that_ended(tmp_path: Path) -> None:
    log = tmp_path / "log"
    talker = processes.start("talker", ["sh", "-c", "echo bad luck; exec sleep 0.2"], log)
    with pytest.raises(BedError, match=r"(?s)talker ended while waiting for luck.*bad luck"):
        processes.wait_until(lambda: False, what="luck", timeout=10, watched={talker: log})
    os.waitpid(talker.pid, 0)


def test_a_lock_excludes_others_even_after_its_file_was_deleted(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    with locking.held(lock, purpose="first", timeout=0):
        with pytest.raises(BedError, match="second: another command"), locking.held(lock, purpose="second", timeout=0):
            pass
        lock.unlink()
        with (
            locking.held(lock, purpose="third", timeout=0),
            pytest.raises(BedError, match="fourth"),
            locking.held(lock, purpose="fourth", timeout=0),
        ):
            pass


def test_what_is_missing_is_named_with_its_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(requirements, "SYSTEM_PATH", str(tmp_path))
    monkeypatch.setattr(requirements, "CNI_DIRECTORIES", (tmp_path,))
    assert requirements.missing(nodes=False) == {"openssl": "openssl"}
    lacking = requirements.missing(nodes=True)
    assert lacking["runc"] == "runc"
    assert "containernetworking-plugins" in lacking.values()
    with pytest.raises(BedError, match=r"openssl.* -m tests\.cluster packages"):
        requirements.check(nodes=False)


def arguments(*words: str) -> list[str]:
    return list(words)


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (arguments("up", "--nodes", "99"), r"--nodes 99: use 0 .* to 12"),
        (arguments("up", "--name", "No_Good"), r"--name 'No_Good'"),
        (arguments("up", "--nodes", "0"), r"not built yet: etcd, kube\. Run .* build"),
        (arguments("up", "--gpus-per-node", "-1"), r"--gpus-per-node -1: use 0 or more"),
        (arguments("env"), r"bed dtj does not run: .* up"),
        (arguments("node", "stop", "node-1"), r"bed dtj does not run"),
    ],
)
def test_a_mistake_ends_with_one_clear_line(
    command: list[str], message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["tests.cluster", *command])
    assert cli.main() == 1
    said = capsys.readouterr().err
    assert re.fullmatch(rf"error: {message}.*\n", said), said


def test_down_of_nothing_is_no_mistake(
    own_cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["tests.cluster", "down", "--name", "none"])
    assert cli.main() == 0
    assert capsys.readouterr().out == "there is no bed none\n"
    assert list((own_cache / "beds").iterdir()) == []


def pinned(module: str, name: str) -> str:
    text = (paths.GO_SOURCES / module / "go.mod").read_text()
    found = re.search(rf"^\s*(?:require )?{re.escape(name)} (v\S+)", text, re.MULTILINE)
    assert found is not None
    return found[1]


@pytest.mark.parametrize(
    ("module", "name", "version"),
    [
        (".", "k8s.io/kubernetes", build.KUBERNETES_VERSION),
        (".", "helm.sh/helm/v4", build.HELM_VERSION),
        ("runtime", "github.com/containerd/containerd/v2", build.CONTAINERD_VERSION),
    ],
)
def test_programs_call_themselves_what_their_modules_say(module: str, name: str, version: str) -> None:
    assert pinned(module, name) == version


def test_every_part_has_a_directory_of_its_own_and_all_its_sources() -> None:
    every = (*build.PARTS, build.KWOK)
    assert len({part.directory() for part in every}) == len(every)
    mains = {path for part in every for path in part.inputs() if path.name == "main.go"}
    assert mains == set(paths.GO_SOURCES.glob("**/main.go"))


def test_the_commands_need_nothing_but_the_standard_library() -> None:
    """`python3 -m tests.cluster` has to run before anything is installed."""
    done = subprocess.run(
        [sys.executable, "-S", "-c", "import tests.cluster.cli, sys; print(*sys.modules)"],
        cwd=Path(build.__file__).parents[2],
        check=True,
        text=True,
        capture_output=True,
        timeout=30,
    )
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert loaded - sys.stdlib_module_names - {"__main__", "tests", "sitecustomize", "usercustomize"} == set()
