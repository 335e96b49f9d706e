"""The operator process: its life from the first connection to SIGTERM."""

import asyncio
import signal
from collections.abc import Sequence
from pathlib import Path

from dtj.controller.job_watch import JobWatch
from dtj.controller.options import Options
from dtj.controller.runtime import Runtime
from dtj.kube.connection import connect


async def run(options: Options, kubeconfig: Path | None = None) -> None:
    """Run until SIGTERM or SIGINT. Raises what made it impossible to go on.

    ``kubeconfig``: the one to use even inside a cluster.
    """
    connection = connect(kubeconfig)
    work = asyncio.ensure_future(_work(Runtime(connection, options), options.namespaces))
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, work.cancel)
    try:
        await work
    except asyncio.CancelledError:
        if not work.cancelled():
            raise


async def _work(runtime: Runtime, namespaces: Sequence[str]) -> None:
    async with runtime:
        watch = JobWatch(runtime.connection, runtime.on_job, runtime.resync_soon, runtime.job_watch_lives, namespaces)
        watch.start()
        try:
            await runtime.failed
        finally:
            await runtime.stop_work()  # first, because Kopf takes its time
            await watch.stop()
