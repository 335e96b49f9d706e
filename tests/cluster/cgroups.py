"""A control group of each node's own, in every hierarchy of this machine, so that kubelets never see one another's."""

import contextlib
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.cluster.errors import BedError
from tests.cluster.state import Layout

NEEDED_CONTROLLERS = ("cpu", "cpuset", "io", "memory", "pids")
INHERITED_FILES = ("cpuset.cpus", "cpuset.mems")
REMOVE_SECONDS = 20.0
POLL_SECONDS = 0.1


def group(layout: Layout, node: str) -> str:
    """Return the path of a node's group as kubelet knows it."""
    return f"/{_top(layout)}/{node}"


def create(layout: Layout, node: str) -> None:
    """Make the node's group in every hierarchy.

    What a killed node left is deleted first: kubelet would look for the owner of each group, seconds for every one.
    """
    _remove([hierarchy / _top(layout) / node for hierarchy in _hierarchies()])
    for hierarchy in _hierarchies():
        above = hierarchy
        for part in (_top(layout), node):
            _delegate(above)
            current = above / part
            current.mkdir(exist_ok=True)
            for name in INHERITED_FILES:  # version 1: nothing runs in a group whose sets are empty
                _inherit(above / name, current / name)
            above = current


def remove(layout: Layout) -> None:
    """Delete the bed's groups; raise BedError when something still runs in one after a while."""
    _remove([hierarchy / _top(layout) for hierarchy in _hierarchies()])


def _remove(tops: Sequence[Path]) -> None:
    deadline = time.monotonic() + REMOVE_SECONDS
    while remaining := [top for top in tops if not _is_removed(top)]:
        if time.monotonic() > deadline:
            raise BedError(f"control groups are still in use: {', '.join(map(str, remaining))}")
        time.sleep(POLL_SECONDS)


def _top(layout: Layout) -> str:
    return f"dtj-{layout.digest}"


def _hierarchies() -> Iterator[Path]:
    mounts = Path("/proc/self/mounts").read_text().splitlines()
    seen = set()
    for fields in (line.split() for line in mounts):
        if fields[2] in ("cgroup", "cgroup2") and fields[1] not in seen:
            seen.add(fields[1])
            yield Path(fields[1])


def _delegate(directory: Path) -> None:
    """Version 2: let groups below `directory` have the controllers that pods need."""
    available = directory / "cgroup.controllers"
    if available.exists():
        controllers = [name for name in available.read_text().split() if name in NEEDED_CONTROLLERS]
        for name in controllers:
            (directory / "cgroup.subtree_control").write_text(f"+{name}")


def _inherit(origin: Path, target: Path) -> None:
    if target.exists() and origin.exists() and not target.read_text().strip() and origin.read_text().strip():
        target.write_text(origin.read_text())


def _is_removed(top: Path) -> bool:
    """Delete as much of a group's tree as is empty; return whether nothing is left."""
    if not top.exists():
        return True
    for directory in sorted((d for d in top.rglob("*") if d.is_dir()), key=lambda d: -len(d.parts)):
        with contextlib.suppress(OSError):  # busy still, or gone by itself
            directory.rmdir()
    with contextlib.suppress(OSError):
        top.rmdir()
    return not top.exists()
