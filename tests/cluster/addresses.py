"""Free ports and a free IPv4 block for a bed, chosen beside everything else that uses the machine."""

import ipaddress
import json
import random
import socket
import subprocess
from collections.abc import Iterable

from tests.cluster.errors import BedError
from tests.cluster.state import BLOCK_PREFIX

# Below the range from which the kernel takes the ports of outgoing connections.
PORTS = range(20000, 32000)
PRIVATE = ipaddress.IPv4Network("10.0.0.0/8")
ATTEMPTS = 200
IP_TIMEOUT = 10.0


def free_ports(names: Iterable[str], taken: Iterable[int]) -> dict[str, int]:
    """Return a free TCP and UDP port for each name, none of them in `taken`."""
    chosen: dict[str, int] = {}
    used = set(taken)
    candidates = iter(random.sample(PORTS, ATTEMPTS))
    for name in names:
        port = next((p for p in candidates if p not in used and _is_free(p)), None)
        if port is None:
            raise BedError(f"no free port between {PORTS.start} and {PORTS.stop} found in {ATTEMPTS} attempts")
        chosen[name] = port
    return chosen


def free_block(taken: Iterable[str]) -> str:
    """Return an IPv4 block that overlaps no route of this machine and none of the `taken` blocks."""
    occupied = [ipaddress.IPv4Network(block) for block in taken] + _routes()
    blocks = 1 << (BLOCK_PREFIX - PRIVATE.prefixlen)
    for number in random.sample(range(blocks), ATTEMPTS):
        start = int(PRIVATE.network_address) + (number << (32 - BLOCK_PREFIX))
        block = ipaddress.IPv4Network((start, BLOCK_PREFIX))
        if not any(block.overlaps(other) for other in occupied):
            return str(block)
    raise BedError(
        f"no free /{BLOCK_PREFIX} block in {PRIVATE} found in {ATTEMPTS} attempts: too many routes overlap it"
    )


def _is_free(port: int) -> bool:
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
        with socket.socket(socket.AF_INET, kind) as probe:
            try:
                probe.bind(("", port))
            except OSError:
                return False
    return True


def _routes() -> list[ipaddress.IPv4Network]:
    listed = subprocess.run(
        ["ip", "-4", "-json", "route", "show", "table", "all"],
        check=True,
        text=True,
        capture_output=True,
        timeout=IP_TIMEOUT,
    )
    destinations = {route["dst"] for route in json.loads(listed.stdout)} - {"default"}
    return [ipaddress.IPv4Network(destination) for destination in destinations]
