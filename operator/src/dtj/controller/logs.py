"""Log lines: in UTC, and only a fault of this program shows a traceback."""

import logging
import sys
import time


def configure(*, verbose: bool) -> None:
    handler = logging.StreamHandler(sys.stderr)
    formatter = logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s", "%Y-%m-%dT%H:%M:%SZ")
    formatter.converter = time.gmtime
    handler.setFormatter(formatter)
    handler.addFilter(_without_kopfs_tracebacks)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.DEBUG if verbose else logging.INFO)
    logging.getLogger("kopf").setLevel(logging.WARNING)
    # It runs in a thread of its own here, and says at every start that signals are not its matter.
    logging.getLogger("kopf._core.reactor.running").setLevel(logging.ERROR)
    logging.getLogger("asyncio").setLevel(logging.WARNING)


def _without_kopfs_tracebacks(record: logging.LogRecord) -> bool:
    """Kopf shows where in its code a refusal of the API server was met; the message says all of it."""
    if record.name.startswith("kopf."):
        record.exc_info = record.exc_text = None
    return True
