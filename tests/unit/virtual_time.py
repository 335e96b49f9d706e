"""An event loop in which waiting takes no time: when nothing is left to do, the clock jumps to the next timer.

Sockets work as ever, so that real clients and servers of one loop can be tested with their real timeouts of minutes.
"""

import asyncio
import selectors

_GRACE = 0.02
"""Seconds of real time in which the kernel may still deliver what was sent, before the clock jumps."""


class _JumpingSelector(selectors.DefaultSelector):
    """Instead of waiting for long it adds the time that it would have waited to ``jumped``."""

    def __init__(self, grace: float) -> None:
        super().__init__()
        self._grace = grace
        self.jumped = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None or timeout <= self._grace:
            return super().select(timeout)
        ready = super().select(self._grace)
        if not ready:
            self.jumped += timeout - self._grace
        return ready


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """``grace``: 0 where no sockets are involved."""

    def __init__(self, grace: float = _GRACE) -> None:
        self._jumping = _JumpingSelector(grace)
        super().__init__(self._jumping)

    def time(self) -> float:
        return super().time() + self._jumping.jumped


def without_sockets() -> VirtualTimeLoop:
    return VirtualTimeLoop(grace=0.0)
