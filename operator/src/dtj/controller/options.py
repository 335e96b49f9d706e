"""Settings of the operator process, as the command line gives them."""

from dataclasses import dataclass

from dtj.kube.client import DEFAULT_BURST, DEFAULT_RATE


@dataclass(frozen=True)
class Election:
    """Which Lease decides who leads, and as whom this process takes part. ``namespace`` None: that of its pod."""

    lease: str
    namespace: str | None
    identity: str


@dataclass(frozen=True)
class Options:
    """Settings of the operator process.

    ``namespaces`` empty: all; ``election`` None: there is only one process; ``debug_port`` None: no debug pages.
    """

    health_port: int = 8080
    rate: float = DEFAULT_RATE
    burst: int = DEFAULT_BURST
    namespaces: tuple[str, ...] = ()
    watch_nodes: bool = True
    election: Election | None = None
    debug_port: int | None = None
