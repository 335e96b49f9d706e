"""Two replicas of the operator on one cluster, each with a way of its own to the API server."""

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.api.client import Client
from tests.api.operator.auditing_proxy import AuditingProxy, audited
from tests.api.operator.polling import eventually
from tests.api.operator.process import Operator
from tests.api.operator.scene import Scene

LEASE_NAMESPACE = "default"


class Replica(NamedTuple):
    """One of the operator's processes, and the way that all of its requests take."""

    name: str
    operator: Operator
    proxy: AuditingProxy

    def writes(self, scene: Scene) -> int:
        return self.proxy.audit.writes(scene.namespace).total()


class Pair:
    """Both replicas. Who leads is asked of the API server."""

    def __init__(self, client: Client, lease: str, replicas: list[Replica]) -> None:
        self._client = client
        self._path = f"/apis/coordination.k8s.io/v1/namespaces/{LEASE_NAMESPACE}/leases/{lease}"
        self.replicas = replicas

    def holder(self) -> str:
        answer = self._client.request("GET", self._path)
        return str(answer.body["spec"].get("holderIdentity", "")) if answer.code == 200 else ""

    def leader_and_standby(self) -> tuple[Replica, Replica]:
        """Start who does not run, wait until both are ready and one of them leads."""
        for replica in self.replicas:
            if not replica.operator.is_alive:
                replica.operator.start()
        for replica in self.replicas:
            replica.operator.wait_until_ready()
        names = [replica.name for replica in self.replicas]
        leader = eventually("one leads", self.holder, lambda holder: holder in names)
        return self.replicas[names.index(leader)], self.replicas[1 - names.index(leader)]

    def wait_until_leads(self, replica: Replica, within: float) -> float:
        """Return how many seconds that took."""
        began = time.monotonic()
        eventually(f"{replica.name} leads", self.holder, lambda holder: holder == replica.name, within=within)
        return time.monotonic() - began


@contextmanager
def a_pair(client: Client, kubeconfig: Path, lease: str, directory: Path) -> Iterator[Pair]:
    """Both, to be started; they end with the block."""
    with ExitStack() as stack:
        names = ("replica-a", "replica-b")
        yield Pair(client, lease, [_replica(name, lease, directory, stack, kubeconfig) for name in names])


def _replica(name: str, lease: str, directory: Path, stack: ExitStack, kubeconfig: Path) -> Replica:
    proxy = stack.enter_context(audited(kubeconfig))
    own = proxy.write_kubeconfig(directory / f"{name}.kubeconfig")
    election = ("--leader-elect", f"--lease-name={lease}", f"--lease-namespace={LEASE_NAMESPACE}")
    operator = Operator(own, directory / name, *election, f"--lease-identity={name}")
    return Replica(name, stack.enter_context(operator), proxy)
