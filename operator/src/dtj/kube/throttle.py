"""A token bucket: how fast this client may call the API server."""

import asyncio


class Throttle:
    """``rate`` requests per second on the average, ``burst`` at once. Waiters are served in order."""

    def __init__(self, rate: float, burst: int) -> None:
        self._rate = rate
        self._burst = burst
        self._tokens = float(burst)
        self._filled_at: float | None = None

    async def take(self) -> None:
        """Wait until a request may be sent."""
        now = asyncio.get_running_loop().time()
        if self._filled_at is not None:
            self._tokens = min(self._burst, self._tokens + (now - self._filled_at) * self._rate)
        self._filled_at = now
        self._tokens -= 1
        if self._tokens < 0:
            # Going into debt keeps the order: each waiter sleeps just as long as its place in the queue.
            await asyncio.sleep(-self._tokens / self._rate)
