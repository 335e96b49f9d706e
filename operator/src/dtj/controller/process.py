"""The operator process: Kopf owns it, watches the job resource, and hands every event to the runtime.

Only ``on.event`` is used of Kopf: it adds no finalizer, no annotation and no write to a user's objects.
"""

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import kopf
from kopf._core.engines.peering import Identity

from dtj.api import names
from dtj.controller.runtime import Options, Runtime
from dtj.kube.connection import connect

log = logging.getLogger(__name__)

IDENTITY: Final = Identity("dtj-operator")
_BACKOFFS: Final = (0.5, 1, 2, 4, 8, 15)


class _ForEver:
    """Backoffs without an end: an API server that is away for an hour must not end the operator."""

    def __iter__(self) -> Iterator[float]:
        yield from _BACKOFFS
        while True:
            yield _BACKOFFS[-1]


async def run(options: Options, kubeconfig: Path | None = None) -> None:
    """Run until SIGTERM or SIGINT. Raises what made it impossible to go on.

    ``kubeconfig``: the one to use even inside a cluster; ``$KUBECONFIG`` must name it too, because Kopf looks there.
    """
    runtime = Runtime(connect(kubeconfig), options)
    await kopf.operator(
        registry=_registry(runtime, prefer_kubeconfig=kubeconfig is not None),
        settings=_settings(),
        clusterwide=True,
        standalone=True,
        # Without one Kopf asks for the name of the user, and an image may well know none for its number.
        identity=IDENTITY,
        stop_flag=runtime.failed,
    )
    if runtime.failed.done() and not runtime.failed.cancelled():  # Kopf cancels it when it is asked to end
        raise runtime.failed.exception() or RuntimeError("the operator stopped without being asked to")


def _settings() -> kopf.OperatorSettings:
    settings = kopf.OperatorSettings()
    settings.posting.enabled = False
    settings.peering.standalone = True
    settings.scanning.disabled = True
    settings.persistence.progress_storage = kopf.MultiProgressStorage([])
    settings.persistence.diffbase_storage = kopf.MultiDiffBaseStorage([])
    settings.networking.error_backoffs = _ForEver()
    settings.networking.connect_timeout = 5
    settings.networking.request_timeout = 15
    settings.watching.connect_timeout = 5
    settings.watching.server_timeout = 290
    settings.watching.chunk_size = 500
    settings.process.ultimate_exiting_timeout = 20
    return settings


def _registry(runtime: Runtime, *, prefer_kubeconfig: bool) -> kopf.OperatorRegistry:
    registry = kopf.OperatorRegistry()

    @kopf.on.login(registry=registry)
    def login(**kwargs: Any) -> kopf.ConnectionInfo | None:  # noqa: ANN401 - Kopf's protocol
        if prefer_kubeconfig:
            return kopf.login_with_kubeconfig(**kwargs)
        return kopf.login_with_service_account(**kwargs) or kopf.login_with_kubeconfig(**kwargs)

    @kopf.on.startup(registry=registry)
    async def startup(**_: Any) -> None:  # noqa: ANN401
        await runtime.start()

    @kopf.on.cleanup(registry=registry)
    async def cleanup(**_: Any) -> None:  # noqa: ANN401
        await runtime.stop()

    @kopf.on.event(names.GROUP, names.VERSION, names.PLURAL, registry=registry)
    async def job_changed(event: kopf.RawEvent, **_: Any) -> None:  # noqa: ANN401
        runtime.on_job(event["type"], event["object"])

    return registry
