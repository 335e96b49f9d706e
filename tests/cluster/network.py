"""The bed's network on this machine: a bridge, a link for each node, routes to the pods; no packet filter."""

import json
import subprocess
from collections.abc import Sequence

from tests.cluster import addresses
from tests.cluster.errors import BedError
from tests.cluster.state import Layout, State


def bridge_name(layout: Layout) -> str:
    return f"dtj{layout.digest}"


def link_name(layout: Layout, number: int) -> str:
    return f"dtj{layout.digest}n{number}"


def create(state: State) -> None:
    """Make the bridge with the control plane's address on it, and the routes to every node's pods."""
    bridge = bridge_name(state.layout)
    commands = [
        f"link add {bridge} type bridge",
        f"addr add {state.host_address}/{state.node_network.prefixlen} dev {bridge}",
        f"link set {bridge} up",
    ]
    routes = [f"route add {state.pods(n)} via {state.node_address(n)} dev {bridge}" for n in state.node_names]
    _ip(commands + routes)


def connect(state: State, node: str, pid: int) -> None:
    """Give the network namespace of process `pid` an interface eth0 on the bridge."""
    link = link_name(state.layout, state.node_number(node))
    _delete([link])
    _ip(
        [
            f"link add {link} type veth peer name eth0 netns {pid}",
            f"link set {link} master {bridge_name(state.layout)} up",
        ]
    )


def disconnect(state: State, node: str) -> None:
    """Take the node's interface away; `connect` gives it another."""
    _delete([link_name(state.layout, state.node_number(node))])


def remove(layout: Layout) -> None:
    """Delete the bridge, which takes the routes along, and any link that a dead node left."""
    bridge = bridge_name(layout)
    _delete([name for name in _links() if name == bridge or name.startswith(f"{bridge}n")])


def _delete(names: Sequence[str]) -> None:
    for name in set(names) & set(_links()):
        # The kernel deletes a link by itself when its other end's namespace ends, perhaps right now.
        done = _run("-batch", "-", commands=[f"link del {name}"])
        if done.returncode != 0 and name in _links():
            raise BedError(f"cannot delete the link {name}: {done.stderr.strip()}")


def _links() -> list[str]:
    listed = _run("-json", "link", "show")
    return [link["ifname"] for link in json.loads(listed.stdout)]


def _ip(commands: Sequence[str]) -> None:
    done = _run("-batch", "-", commands=commands)
    if done.returncode != 0:
        raise BedError(f"ip failed: {done.stderr.strip()} (of: {'; '.join(commands)})")


def _run(*arguments: str, commands: Sequence[str] = ()) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["ip", *arguments],
        input="".join(f"{command}\n" for command in commands),
        check=False,
        text=True,
        capture_output=True,
        timeout=addresses.IP_TIMEOUT,
    )
