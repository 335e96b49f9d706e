"""The keyed work queue."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dtj.controller.queue import FIRST_BACKOFF, LONGEST_BACKOFF, Key, Standing, WorkQueue
from tests.unit.virtual_time import without_sockets


def key(name: str, namespace: str = "a") -> Key:
    return Key(namespace, name, f"uid-of-{namespace}-{name}")


A, B, C = key("a"), key("b"), key("c")


def now() -> float:
    return asyncio.get_running_loop().time()


async def taken(queue: WorkQueue, count: int) -> list[Key]:
    """The next keys, each looked at and done."""
    keys = []
    for _ in range(count):
        keys.append(await queue.get())
        queue.done(keys[-1])
    return keys


async def is_idle(queue: WorkQueue, seconds: float = 0.0) -> bool:
    """Whether nothing comes for so long."""
    try:
        async with asyncio.timeout(seconds):
            await queue.get()
    except TimeoutError:
        return True
    return False


async def test_in_the_order_of_adding() -> None:
    queue = WorkQueue()
    for each in (A, B, C):
        queue.add(each)

    assert await taken(queue, 3) == [A, B, C]


async def test_a_burst_is_one_run() -> None:
    queue = WorkQueue()
    for _ in range(100):
        queue.add(A)
        queue.add(A, urgent=True)

    assert await taken(queue, 1) == [A]
    assert await is_idle(queue)


async def test_getting_waits_for_adding() -> None:
    queue = WorkQueue()
    getting = asyncio.create_task(queue.get())
    await asyncio.sleep(5)
    assert not getting.done()
    queue.add(A)

    assert await getting == A


async def test_a_change_during_the_work_is_another_run_after_it() -> None:
    queue = WorkQueue()
    queue.add(A)
    await queue.get()
    queue.add(A)
    queue.add(A)
    assert await is_idle(queue)
    queue.done(A)

    assert await taken(queue, 1) == [A]
    assert await is_idle(queue)


async def test_urgent_keys_go_first() -> None:
    queue = WorkQueue()
    queue.add(A)
    queue.add(B, urgent=True)
    queue.add(C, urgent=True)

    assert await taken(queue, 3) == [B, C, A]


async def test_a_waiting_key_can_become_urgent() -> None:
    queue = WorkQueue()
    for each in (A, B, C):
        queue.add(each)
    queue.add(C, urgent=True)

    assert await taken(queue, 3) == [C, A, B]
    assert await is_idle(queue)


async def test_an_urgent_key_stays_urgent() -> None:
    queue = WorkQueue()
    queue.add(A)
    queue.add(B, urgent=True)
    queue.add(B)

    assert await taken(queue, 2) == [B, A]


async def test_an_urgent_change_during_the_work_is_urgent_after_it() -> None:
    queue = WorkQueue()
    queue.add(A)
    await queue.get()
    queue.add(A, urgent=True)
    queue.add(B)
    queue.done(A)

    assert await taken(queue, 2) == [A, B]


async def test_namespaces_take_turns() -> None:
    queue = WorkQueue()
    many = [key(f"j{number}", "busy") for number in range(3)]
    one = [key("j", "calm"), key("j", "quiet")]
    for each in (*many, *one):
        queue.add(each)

    assert await taken(queue, 5) == [many[0], one[0], one[1], many[1], many[2]]


async def test_backoff_grows_and_is_bounded() -> None:
    queue = WorkQueue()
    queue.add(A)
    backoffs = []
    for _ in range(30):
        assert await queue.get() == A
        backoffs.append(queue.failed(A))

    doubled = [FIRST_BACKOFF * 2**number for number in range(30)]
    assert backoffs == [min(LONGEST_BACKOFF, each) for each in doubled]


async def test_a_failed_key_comes_back_after_its_backoff() -> None:
    queue = WorkQueue()
    queue.add(A)
    begin = now()
    queue.failed(await queue.get(), at_least=10)

    assert await queue.get() == A
    assert now() - begin == pytest.approx(10, abs=0.1)


async def test_the_backoff_begins_anew_after_a_run_that_went_well() -> None:
    queue = WorkQueue()
    queue.add(A)
    for _ in range(5):
        queue.failed(await queue.get())
    queue.done(await queue.get())
    queue.add(A)

    assert queue.failed(await queue.get()) == FIRST_BACKOFF


async def test_a_failed_key_delays_no_other() -> None:
    queue = WorkQueue()
    queue.add(A)
    queue.failed(await queue.get(), at_least=60)
    queue.add(B)
    begin = now()

    assert await taken(queue, 1) == [B]
    assert now() - begin < 1


NEWS: dict[str, tuple[dict[str, bool], float]] = {
    "any change waits": ({}, 60),
    "a cure does not": ({"despite_backoff": True}, 0),
    "urgent news do not": ({"urgent": True}, 0),
}


@pytest.mark.parametrize(("how", "seconds"), NEWS.values(), ids=NEWS.keys())
async def test_a_change_of_a_backed_off_key(how: dict[str, bool], seconds: float) -> None:
    queue = WorkQueue()
    queue.add(A)
    begin = now()
    queue.failed(await queue.get(), at_least=60)
    queue.add(A, **how)

    assert await queue.get() == A
    assert now() - begin == pytest.approx(seconds, abs=0.1)


@pytest.mark.parametrize(("how", "seconds"), NEWS.values(), ids=NEWS.keys())
async def test_a_change_during_a_look_that_fails(how: dict[str, bool], seconds: float) -> None:
    queue = WorkQueue()
    queue.add(A)
    begin = now()
    key = await queue.get()
    queue.add(A, **how)
    queue.failed(key, at_least=60)

    assert await queue.get() == A
    assert now() - begin == pytest.approx(seconds, abs=0.1)


async def test_the_backoff_stays_grown_over_a_cure_that_was_none() -> None:
    queue = WorkQueue()
    queue.add(A)
    queue.failed(await queue.get())
    queue.add(A, despite_backoff=True)
    assert queue.failed(await queue.get()) == FIRST_BACKOFF * 2


async def test_the_run_that_came_early_takes_the_place_of_the_later_one() -> None:
    queue = WorkQueue()
    queue.add(A)
    queue.failed(await queue.get(), at_least=60)
    queue.add(A)
    await taken(queue, 1)

    assert await is_idle(queue, 3600)


async def test_what_changed_during_work_that_failed_waits_with_it() -> None:
    queue = WorkQueue()
    queue.add(A)
    await queue.get()
    queue.add(A)
    queue.failed(A, at_least=10)

    assert await is_idle(queue, 9)
    assert await queue.get() == A


async def test_later() -> None:
    queue = WorkQueue()
    begin = now()
    queue.add_after(A, 30)

    assert await queue.get() == A
    assert now() - begin == pytest.approx(30, abs=0.1)


@pytest.mark.parametrize("seconds", [(30, 10), (10, 30)], ids=["the second is earlier", "the first is earlier"])
async def test_the_earliest_of_several_times_counts(seconds: tuple[float, float]) -> None:
    queue = WorkQueue()
    begin = now()
    for each in seconds:
        queue.add_after(A, each)

    assert await taken(queue, 1) == [A]
    assert now() - begin == pytest.approx(10, abs=0.1)
    assert await is_idle(queue, 3600)


async def test_a_time_that_comes_during_the_work_is_another_run() -> None:
    queue = WorkQueue()
    queue.add(A)
    await queue.get()
    queue.add_after(A, 1)
    await asyncio.sleep(2)
    queue.done(A)

    assert await taken(queue, 1) == [A]


async def test_what_may_wait_a_little_is_gathered_for_one_run() -> None:
    queue = WorkQueue()
    begin = now()
    for _ in range(3):
        queue.add_soon(A, 1)
        await asyncio.sleep(0.3)

    assert await taken(queue, 1) == [A]
    assert now() - begin == pytest.approx(1, abs=0.1)
    assert await is_idle(queue, 3600)


async def test_what_may_wait_changes_nothing_where_a_run_is_due_already() -> None:
    queue = WorkQueue()
    queue.add(A)
    queue.add_soon(A, 1)

    assert await taken(queue, 1) == [A]
    assert await is_idle(queue, 3600)


@pytest.mark.parametrize(("goes_well", "seconds"), [(True, 1), (False, 40)], ids=["it went well", "it failed again"])
async def test_what_may_wait_and_comes_during_the_work_after_a_failure(goes_well: bool, seconds: float) -> None:
    queue = WorkQueue()
    queue.add(A)
    queue.failed(await queue.get(), at_least=10)
    await queue.get()
    begin = now()
    queue.add_soon(A, 1)
    if goes_well:
        queue.done(A)
    else:
        queue.failed(A, at_least=40)

    assert await queue.get() == A
    assert now() - begin == pytest.approx(seconds, abs=0.1)


async def test_what_may_wait_and_is_due_during_work_that_fails_waits_with_it() -> None:
    queue = WorkQueue()
    queue.add(A)
    await queue.get()
    queue.add_soon(A, 1)
    await asyncio.sleep(2)
    begin = now()
    queue.failed(A, at_least=40)

    assert await queue.get() == A
    assert now() - begin == pytest.approx(40, abs=0.1)


@pytest.mark.parametrize("first", ["the cure", "what may wait"])
async def test_a_time_that_comes_during_work_that_fails_is_kept(first: str) -> None:
    queue = WorkQueue()
    queue.add(A)
    await queue.get()
    begin = now()
    if first == "the cure":
        queue.add_after(A, 1)
        queue.add_soon(A, 0.5)
    else:
        queue.add_soon(A, 0.5)
        queue.add_after(A, 1)
    queue.failed(A, at_least=40)

    assert await queue.get() == A
    assert now() - begin < 2


async def test_an_end_may_wait_a_little_and_no_backoff() -> None:
    queue = WorkQueue()
    queue.add(A)
    queue.failed(await queue.get(), at_least=40)
    begin = now()
    queue.add_soon(A, 1, despite_backoff=True)

    assert await queue.get() == A
    assert now() - begin == pytest.approx(1, abs=0.1)


async def test_what_may_wait_waits_with_a_key_that_is_backed_off() -> None:
    queue = WorkQueue()
    queue.add(A)
    queue.failed(await queue.get(), at_least=40)
    begin = now()
    queue.add_soon(A, 1)

    assert await queue.get() == A
    assert now() - begin == pytest.approx(40, abs=0.1)


async def test_nothing_is_kept_of_a_key_without_work() -> None:
    queue = WorkQueue()
    for each in (A, B):
        queue.add(each)
    await taken(queue, 1)
    queue.failed(await queue.get())
    await taken(queue, 1)

    assert not queue._entries


Step = tuple[str, tuple[object, ...]]
KEYS = [key(name, namespace) for namespace in "ab" for name in "xy"]
_keys = st.sampled_from(KEYS)
_seconds = st.sampled_from([0.01, 1.0, 100.0])
steps: st.SearchStrategy[Step] = st.one_of(
    st.tuples(st.sampled_from(["add", "add_urgent"]), st.tuples(_keys)),
    st.tuples(st.sampled_from(["add_after", "add_soon"]), st.tuples(_keys, _seconds)),
    st.tuples(st.sampled_from(["take", "pause"]), st.tuples(_seconds)),
    st.tuples(st.sampled_from(["fail", "finish"]), st.just(())),
)


class Play:
    """A queue used as its workers use it. ``owed``: keys that nobody has taken since they were last added."""

    def __init__(self) -> None:
        self.queue = WorkQueue()
        self.in_work: list[Key] = []
        self.owed: set[Key] = set()

    async def add(self, each: Key) -> None:
        self.queue.add(each)
        self.owed.add(each)

    async def add_urgent(self, each: Key) -> None:
        self.queue.add(each, urgent=True)
        self.owed.add(each)

    async def add_after(self, each: Key, seconds: float) -> None:
        self.queue.add_after(each, seconds)
        self.owed.add(each)

    async def add_soon(self, each: Key, seconds: float) -> None:
        self.queue.add_soon(each, seconds)
        self.owed.add(each)

    async def pause(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def fail(self) -> None:
        if self.in_work:
            self.queue.failed(self.in_work.pop(0))

    async def finish(self) -> None:
        if self.in_work:
            self.queue.done(self.in_work.pop(0))

    async def take(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                taken = await self.queue.get()
        except TimeoutError:
            return
        assert taken not in self.in_work
        self.in_work.append(taken)
        self.owed.discard(taken)

    async def follow(self, script: list[Step]) -> None:
        for action, arguments in script:
            await getattr(self, action)(*arguments)
        for _ in range(4 * len(KEYS)):
            while self.in_work:
                await self.finish()
            await self.take(3600)


@given(st.lists(steps, max_size=30))
def test_a_key_is_in_work_once_and_no_change_is_lost(script: list[Step]) -> None:
    async def run() -> None:
        play = Play()
        await play.follow(script)
        assert not play.owed
        assert not play.queue._entries

    with asyncio.Runner(loop_factory=without_sockets) as runner:
        runner.run(run())


def due_in(queue: WorkQueue, each: Key) -> int | None:
    """Whole seconds until a key is looked at without an event."""
    seconds = queue.standing(each).due_in
    return None if seconds is None else round(seconds)


async def test_where_a_key_stands() -> None:
    queue = WorkQueue()
    assert queue.standing(A) == Standing()
    queue.add(A)
    queue.add_after(B, 30)
    assert queue.standing(A) == Standing(waiting=True)
    assert due_in(queue, B) == 30

    await queue.get()
    assert queue.standing(A) == Standing(in_work=True)
    queue.failed(A, at_least=10)
    await asyncio.sleep(4)
    assert (queue.standing(A).failures, due_in(queue, A)) == (1, 6)
    assert (queue.standing(B).failures, due_in(queue, B)) == (0, 26)


async def test_looking_at_the_queue_changes_nothing() -> None:
    queue = WorkQueue()
    queue.add(B)
    queue.standing(A)
    assert (queue.depths, queue.ages) == ((0, 1), ())
    assert await taken(queue, 1) == [B]
    assert await is_idle(queue)


async def test_urgent_keys_are_counted_apart() -> None:
    queue = WorkQueue()
    for each in (A, B, C):
        queue.add(each)
    assert queue.depths == (0, 3)
    queue.add(B, urgent=True)
    assert queue.depths == (1, 2)
    assert await queue.get() == B
    await asyncio.sleep(3)
    assert queue.depths == (0, 2)
    assert list(queue.ages) == pytest.approx([3], abs=0.1)
