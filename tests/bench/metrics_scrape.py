"""What a scrape costs the operator: `python3 -m tests.bench.metrics_scrape` (no cluster needed).

Answers `/metrics` of 5,000 finished and 1,000 running jobs again and again, and prints the CPU time of one answer, its
size, and for how long the event loop was kept from its work meanwhile.
"""

import argparse
import asyncio
import statistics
import time
from collections.abc import Awaitable

from dtj.controller import scrape
from dtj.controller.instruments import Instruments
from dtj.controller.jobs import JobStore
from dtj.controller.tally import Tally
from tests.builders import a_job
from tests.cluster.console import say

TIME = "2030-01-02T12:00:00Z"
TICK = 0.001


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--running", type=int, default=1_000)
    parser.add_argument("--finished", type=int, default=5_000)
    parser.add_argument("--metrics", type=int, default=3, help="of each training (default %(default)s)")
    parser.add_argument("--scrapes", type=int, default=20)
    options = parser.parse_args()
    store = JobStore()
    for number in range(options.running + options.finished):
        store.put(_job(number, options.metrics, finished=number >= options.running))
    asyncio.run(_measure(store, options.scrapes))


async def _measure(store: JobStore, scrapes: int) -> None:
    costs, with_scrape, without, size = [], [], [], 0
    for _ in range(scrapes):
        # A new one: nothing is reused.
        page = scrape.MetricsPage(store, Tally(), Instruments(), lambda: None, lambda: True)
        before = time.process_time()
        lag, text = await _lag_during(page.text())
        costs.append(time.process_time() - before)
        size = len(text)
        with_scrape.append(lag)
        without.append((await _lag_during(asyncio.sleep(costs[-1], b"")))[0])
    say(f"one scrape: {_ms(statistics.median(costs))} of CPU time in the median, {_ms(max(costs))} at most")
    say(f"its size: {size / 1e6:.1f} MB")
    say(
        f"longest wait of the event loop during one: {_ms(statistics.median(with_scrape))} in the median, "
        f"{_ms(max(with_scrape))} at most; without one: {_ms(statistics.median(without))}, {_ms(max(without))}"
    )


async def _lag_during(work: Awaitable[bytes]) -> tuple[float, bytes]:
    """The longest time by which the event loop was late meanwhile, and the result."""
    lags = [0.0]
    ticking = asyncio.create_task(_note_lags(lags))
    await asyncio.sleep(0)
    result = await work
    await asyncio.sleep(2 * TICK)
    ticking.cancel()
    return max(lags), result


async def _note_lags(lags: list[float]) -> None:
    while True:
        before = time.monotonic()
        await asyncio.sleep(TICK)
        lags.append(time.monotonic() - before - TICK)


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.0f} ms"


def _job(number: int, metrics: int, *, finished: bool) -> dict[str, object]:
    raw = a_job(f"job-{number}").namespace(f"team-{number % 20}").uid(f"uid-{number}").raw()
    final = [{"type": "Complete", "status": "True"}] if finished else []
    raw["status"] = {
        "phase": "Succeeded" if finished else "Running",
        "startTime": TIME,
        "attempt": 1,
        "restarts": 1,
        "disruptions": 0,
        "conditions": [{"type": "Running", "status": str(not finished)}, *final],
        "roles": [{"name": "worker", "replicas": 8, "pending": 0, "running": 8, "succeeded": 0, "failed": 0}],
        "progress": {
            "step": 5_000 + number,
            "totalSteps": 100_000,
            "percent": 5,
            "epoch": 3,
            "stepsPerSecond": 12.345678,
            "samplesPerSecond": 1234.5,
            "estimatedCompletionTime": TIME,
            "reportTime": TIME,
            "lostSteps": 12,
            "slowestRank": {"rank": 3, "behindSteps": 0, "localSeconds": 0.12, "typicalLocalSeconds": 0.1},
            "metrics": [{"name": f"metric_{index}", "value": 0.123456 * index} for index in range(metrics)],
        },
    }
    return raw


if __name__ == "__main__":
    main()
