"""A bed from its start to its end; the functions that commands and tests call."""

import contextlib
import shutil
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.cluster import (
    addresses,
    build,
    cgroups,
    control_plane,
    dns,
    images,
    locking,
    network,
    node,
    paths,
    processes,
    requirements,
    state,
)
from tests.cluster.console import say, step
from tests.cluster.errors import BedError
from tests.cluster.state import DEFAULT_NAME, Layout, State

LOCK_SECONDS = 180.0
DEFAULT_NODES = 2
DEFAULT_GPUS = 4


@dataclass(frozen=True)
class Bed:
    """A running bed as its users see it."""

    name: str

    @property
    def kubeconfig(self) -> Path:
        return Layout(self.name).kubeconfig

    @property
    def logs(self) -> Path:
        return Layout(self.name).logs

    @property
    def environment(self) -> dict[str, str]:
        """The variables with which kubectl and helm find this bed; PATH is the directories to put in front."""
        tools = [part.directory() for part in (build.KUBE, build.HELM) if part.is_built()]
        return {"KUBECONFIG": str(self.kubeconfig), "PATH": ":".join(map(str, tools))}

    @property
    def kubectl(self) -> Path:
        return build.KUBE.directory() / "kubectl"

    @property
    def helm(self) -> Path:
        return build.HELM.directory() / "helm"


def up(
    name: str = DEFAULT_NAME, *, nodes: int = DEFAULT_NODES, gpus_per_node: int = DEFAULT_GPUS, for_load: bool = False
) -> Bed:
    """Start bed `name` unless it runs already; what a crash or reboot left of it is removed first.

    Raises BedError when this machine cannot run it or it does not become ready; its logs stay then.
    """
    state.check_name(name)
    if not 0 <= nodes <= state.MAX_NODES:
        raise BedError(f"--nodes {nodes}: use 0 (control plane alone) to {state.MAX_NODES}")
    if gpus_per_node < 0:
        raise BedError(f"--gpus-per-node {gpus_per_node}: use 0 or more")
    requirements.check(nodes=nodes > 0)
    build.require(build.PARTS if nodes else build.CONTROL_PLANE_PARTS)
    with _locked(name):
        if is_running(name):
            return _already_running(name, nodes)
        _remove(name)
        began = time.monotonic()
        try:
            _start(_allocate(name, nodes, gpus_per_node, for_load=for_load))
        except BaseException:
            _remove(name, keep_logs=True)
            raise
    say(f"bed {name} is ready after {time.monotonic() - began:.1f} s")
    return Bed(name)


def down(name: str = DEFAULT_NAME) -> bool:
    """Remove every piece of bed `name`; return whether there was one."""
    state.check_name(name)
    with _locked(name):
        existed = Layout(name).directory.exists()
        _remove(name)
        Layout(name).lock.unlink()
    return existed


def is_running(name: str) -> bool:
    """Say whether bed `name` became ready and all of its processes are alive."""
    known = state.load(name)
    if known is None or not known.is_ready or known.boot != state.boot_id():
        return False
    return all(process.is_alive() for process in known.processes if process.name not in known.stopped_nodes)


def find(name: str = DEFAULT_NAME) -> Bed:
    """Return the running bed `name`; raise BedError when it does not run."""
    if not is_running(state.check_name(name)):
        raise BedError(f"bed {name} does not run: `python3 -m tests.cluster up --name {name}` starts it")
    return Bed(name)


@contextlib.contextmanager
def running(
    name: str, *, nodes: int = DEFAULT_NODES, gpus_per_node: int = DEFAULT_GPUS, for_load: bool = False
) -> Iterator[Bed]:
    """Give bed `name` for the block; a bed that did not run before is taken down afterwards."""
    was_running = is_running(name)
    bed = up(name, nodes=nodes, gpus_per_node=gpus_per_node, for_load=for_load)
    try:
        yield bed
    finally:
        if not was_running:
            down(name)


def load(path: Path, names: Sequence[str] = ()) -> None:
    """Load images from an OCI layout directory or an archive for every later bed, and into all beds that run now.

    Raises BedError when `path` holds no such image or this machine cannot keep it.
    """
    requirements.check(nodes=True)
    build.require(build.PARTS)
    nodes = []
    for known in state.all_states():
        if known.nodes and is_running(known.name):
            nodes += [node.store(known, name) for name in known.node_names if name not in known.stopped_nodes]
    images.load(images.source(path, names), nodes)


def stop_node(name: str, node_name: str) -> None:
    """Kill one node of a running bed as a power cut would; its files stay."""
    with _changing(name) as known:
        known.node_number(node_name)  # refuses a name that is none
        known.stopped_nodes = sorted({*known.stopped_nodes, node_name})
        node.stop(known, node_name)


def start_node(name: str, node_name: str) -> None:
    """Start a stopped node again with the files it had, and wait until it is Ready."""
    with _changing(name) as known:
        if node_name not in known.stopped_nodes:
            return
        before = node.last_report(known, node_name)
        node.start(known, node_name)
        known.stopped_nodes.remove(node_name)
        node.wait_ready(known, node_name, since=before)


def describe(name: str) -> list[str]:
    """Return what `status` says about a bed, a line each."""
    known = state.load(state.check_name(name))
    if known is None:
        return [f"bed {name}: there is none"]
    lines = [f"bed {name}: {'running' if is_running(name) else 'broken or not ready'}, API server {known.server}"]
    for process in known.processes:
        condition = "alive" if process.is_alive() else "gone"
        lines.append(f"  {process.name:<26} process {process.pid:<8} {condition}")
    return [*lines, f"  kubeconfig {known.layout.kubeconfig}", f"  logs       {known.layout.logs}"]


@contextlib.contextmanager
def _changing(name: str) -> Iterator[State]:
    """Give the state of a running bed to a block that changes it, and keep the change."""
    find(name)
    with _locked(name):
        known = state.load(name)
        if known is None:
            raise BedError(f"bed {name} went away")
        try:
            yield known
        finally:
            known.save()


def _locked(name: str) -> contextlib.AbstractContextManager[None]:
    return locking.held(Layout(name).lock, purpose=f"bed {name}", timeout=LOCK_SECONDS)


def _already_running(name: str, nodes: int) -> Bed:
    known = state.load(name)
    if known is not None and known.nodes != nodes:
        raise BedError(f"bed {name} runs with {known.nodes} nodes, not {nodes}: take it down first")
    say(f"bed {name} is already running")
    return Bed(name)


def _allocate(name: str, nodes: int, gpus_per_node: int, *, for_load: bool) -> State:
    """Choose what must not collide with another bed and record it before anyone else chooses."""
    with locking.held(paths.beds_dir() / "allocation.lock", purpose="choosing addresses", timeout=LOCK_SECONDS):
        others = state.all_states()
        ports = addresses.free_ports(control_plane.PORT_NAMES, [p for other in others for p in other.ports.values()])
        block = addresses.free_block(other.block for other in others if other.block) if nodes else ""
        mine = State(name, nodes, gpus_per_node, state.boot_id(), block, ports, for_load=for_load)
        mine.layout.logs.mkdir(parents=True)
        mine.save()
    return mine


def _start(mine: State) -> None:
    if mine.nodes:
        network.create(mine)
    control_plane.start(mine)
    if mine.nodes:
        _start_nodes(mine)
    mine.is_ready = True
    mine.save()


def _start_nodes(mine: State) -> None:
    with step("nodes prepared"):
        for name in mine.node_names:
            node.prepare(mine, name)
    began = time.monotonic()
    for name in mine.node_names:
        node.start(mine, name)
    dns.start(mine)
    for name in mine.node_names:
        node.wait_ready(mine, name)
    say(f"  {'nodes ready':<44} {time.monotonic() - began:6.1f} s")


def _remove(name: str, *, keep_logs: bool = False) -> None:
    layout = Layout(name)
    known = state.load(name)
    if known is not None and known.boot == state.boot_id():
        processes.kill(known.processes)
    if known is not None and known.nodes:
        network.remove(layout)
        cgroups.remove(layout)
    if not layout.directory.exists():
        return
    if keep_logs:
        _keep_only_logs(layout)
    else:
        shutil.rmtree(layout.directory)


def _keep_only_logs(layout: Layout) -> None:
    for logs in layout.directory.glob("nodes/*/logs"):
        logs.rename(layout.logs / logs.parent.name)
    for entry in layout.directory.iterdir():
        if entry.is_dir() and entry != layout.logs:
            shutil.rmtree(entry)
        elif not entry.is_dir():
            entry.unlink()
    say(f"the logs are in {layout.logs}")
