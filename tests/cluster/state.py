"""What a bed is made of, kept in its bed.json so that any later command can find and remove every piece."""

import dataclasses
import hashlib
import ipaddress
import json
import re
from dataclasses import dataclass, field
from pathlib import Path

from tests.cluster import paths
from tests.cluster.errors import BedError
from tests.cluster.processes import Process

DEFAULT_NAME = "dtj"
NAME_PATTERN = re.compile(r"[a-z0-9]([a-z0-9-]{0,28}[a-z0-9])?")
BLOCK_PREFIX = 20
MAX_NODES = 12
LOOPBACK = "127.0.0.1"
# Without nodes nothing routes a Service's address, so any range serves (this one is reserved for documentation).
UNROUTED_SERVICES = "198.51.100.0/24"


@dataclass(frozen=True)
class Layout:
    """Where the files of bed `name` lie."""

    name: str

    @property
    def directory(self) -> Path:
        return paths.beds_dir() / self.name

    @property
    def lock(self) -> Path:
        return paths.beds_dir() / f"{self.name}.lock"

    @property
    def record(self) -> Path:
        return self.directory / "bed.json"

    @property
    def logs(self) -> Path:
        return self.directory / "logs"

    @property
    def audit_log(self) -> Path:
        """Which requests of service accounts reached the API server: one JSON object on each line."""
        return self.logs / "audit.log"

    @property
    def certificates(self) -> Path:
        return self.directory / "certificates"

    @property
    def kubeconfig(self) -> Path:
        return self.directory / "kubeconfig"

    def kubeconfig_of(self, program: str) -> Path:
        return self.directory / f"{program}.kubeconfig"

    def node(self, node: str) -> Path:
        return self.directory / "nodes" / node

    @property
    def digest(self) -> str:
        """Return six letters that stand for this bed where names are short: links and cgroups."""
        return hashlib.sha256(str(self.directory).encode()).hexdigest()[:6]


@dataclass
class State:
    """Everything about one bed; `block` is its IPv4 network, empty for a control plane alone.

    `for_load`: it will be measured. A scheduler runs even without nodes, and nothing throttles Kubernetes' programs.
    """

    name: str
    nodes: int
    gpus_per_node: int
    boot: str
    block: str = ""
    ports: dict[str, int] = field(default_factory=dict)
    processes: list[Process] = field(default_factory=list)
    stopped_nodes: list[str] = field(default_factory=list)
    is_ready: bool = False
    for_load: bool = False

    @property
    def layout(self) -> Layout:
        return Layout(self.name)

    @property
    def host_address(self) -> str:
        """The address on which the control plane listens."""
        return str(self._subnet(0)[1]) if self.block else LOOPBACK

    @property
    def node_network(self) -> ipaddress.IPv4Network:
        return self._subnet(0)

    @property
    def services(self) -> str:
        return str(self._subnet(1)) if self.block else UNROUTED_SERVICES

    @property
    def kubernetes_service(self) -> str:
        return str(ipaddress.IPv4Network(self.services)[1])

    @property
    def dns_service(self) -> str:
        return str(ipaddress.IPv4Network(self.services)[10])

    @property
    def server(self) -> str:
        return f"https://{self.host_address}:{self.ports['apiserver']}"

    @property
    def node_names(self) -> list[str]:
        return [f"node-{number}" for number in range(1, self.nodes + 1)]

    def node_number(self, node: str) -> int:
        """Return the number in a node's name; raise BedError when the bed has no such node."""
        if node not in self.node_names:
            raise BedError(f"bed {self.name} has no node {node!r}; it has {', '.join(self.node_names) or 'none'}")
        return self.node_names.index(node) + 1

    def node_address(self, node: str) -> str:
        return str(self._subnet(0)[10 + self.node_number(node)])

    def pods(self, node: str) -> str:
        return str(self._subnet(1 + self.node_number(node)))

    def process(self, name: str) -> Process | None:
        return next((p for p in self.processes if p.name == name), None)

    def keep(self, process: Process) -> None:
        """Record a process at once, so that a command killed now leaves nothing unknown behind."""
        self.processes = [p for p in self.processes if p.name != process.name] + [process]
        self.save()

    def save(self) -> None:
        partial = self.layout.record.with_suffix(".partial")
        partial.write_text(json.dumps(dataclasses.asdict(self), indent=2) + "\n")
        partial.replace(self.layout.record)

    def _subnet(self, number: int) -> ipaddress.IPv4Network:
        return list(ipaddress.IPv4Network(self.block).subnets(new_prefix=24))[number]


def check_name(name: str) -> str:
    """Return `name` if it can be a bed's; raise BedError otherwise."""
    if not NAME_PATTERN.fullmatch(name):
        raise BedError(
            f"--name {name!r}: use at most 30 lower-case letters, digits and dashes, such as {DEFAULT_NAME!r}"
        )
    return name


def load(name: str) -> State | None:
    """Return what is recorded about bed `name`, None when it does not exist."""
    try:
        document = json.loads(Layout(name).record.read_text())
    except FileNotFoundError:  # never there, or another command takes the bed down at this moment
        return None
    document["processes"] = [Process(**p) for p in document["processes"]]
    return State(**document)


def all_states() -> list[State]:
    """Return every recorded bed of this cache directory."""
    records = sorted(paths.beds_dir().glob("*/bed.json"))
    return [state for record in records if (state := load(record.parent.name)) is not None]


def boot_id() -> str:
    """Return what names this boot of the machine: process ids of another boot mean nothing."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
