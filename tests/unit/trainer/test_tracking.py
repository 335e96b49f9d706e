"""Steps are counted where training asks for its next batch; training gets the batches as they are."""

from collections.abc import Callable, Iterable, Iterator

import pytest

from dtj_trainer import track
from dtj_trainer.process import REPORTER
from tests.unit.trainer.conftest import Reported

BATCHES = ["a", "b", "c"]


class Stream:
    """A loader that does not know how long it is, as those of PyTorch's IterableDataset."""

    def __len__(self) -> int:
        raise NotImplementedError("no length")

    def __iter__(self) -> Iterator[str]:
        return iter(BATCHES)


class Failing:
    def __iter__(self) -> Iterator[str]:
        yield "a"
        raise OSError("the disk is gone")


def test_a_step_counts_when_the_next_batch_is_asked_for(reported: Reported) -> None:
    seen = [(batch, reported.steps) for batch in track(BATCHES)]
    assert seen == [("a", (0, 3)), ("b", (1, 3)), ("c", (2, 3))]
    assert reported.steps == (3, 3)


def test_one_object_for_all_epochs(reported: Reported) -> None:
    batches = track(BATCHES, epochs=2)
    first = list(batches)
    assert (reported.steps, reported.epochs) == ((3, 6), (1, 2))
    assert [*first, *batches] == BATCHES * 2
    assert (reported.steps, reported.epochs) == ((6, 6), (2, 2))


def test_a_new_object_in_each_epoch(reported: Reported) -> None:
    for epoch in range(2, 4):  # after a restart
        assert list(track(BATCHES, epoch=epoch, epochs=4)) == BATCHES
    assert (reported.steps, reported.epochs) == ((12, 12), (4, 4))


@pytest.mark.parametrize(
    "loader", [pytest.param(Stream, id="no length"), pytest.param(Stream().__iter__, id="iterator")]
)
def test_a_loader_without_length(loader: Callable[[], Iterable[str]], reported: Reported) -> None:
    for epoch in range(2):
        assert [batch for batch in track(loader(), epoch=epoch, epochs=2)] == BATCHES  # noqa: C416 - list() asks for the length
    assert (reported.steps, reported.epochs) == ((6, None), (2, 2))


def test_total_steps_by_hand_are_believed(reported: Reported) -> None:
    for number, _ in enumerate(track(BATCHES, epochs=10, total_steps=2), start=1):
        if number == 2:
            break
    assert reported.steps == (1, 2)


def test_errors_pass_through(reported: Reported) -> None:
    with pytest.raises(OSError, match="the disk is gone"):
        list(track(Failing()))
    assert reported.steps == (1, None)


def test_the_trainings_own_error_is_not_a_step(reported: Reported) -> None:
    def train() -> None:
        for batch in track(BATCHES):
            if batch == "b":
                raise RuntimeError("loss is NaN")

    with pytest.raises(RuntimeError, match="loss is NaN"):
        train()
    assert reported.steps == (1, 3)


def test_the_wait_for_a_batch_is_local_time_unless_training_measures(reported: Reported) -> None:
    for number, _ in enumerate(track(BATCHES)):
        if number == 1:
            measured = reported.now.local_seconds
            assert measured is not None
            assert 0 <= measured < 1
            REPORTER.report(local_seconds=30)
    assert reported.now.local_seconds == 30


def test_the_length_is_the_loaders(reported: Reported) -> None:
    assert len(track(BATCHES)) == 3
    with pytest.raises(NotImplementedError):
        len(track(Stream()))
