"""The jobs as last seen."""

from typing import Any

import pytest

from dtj.controller.jobs import JobStore
from dtj.controller.queue import Key
from tests.builders import JOB_UID, NAMESPACE, a_job

KEY = Key(NAMESPACE, "digits", JOB_UID)


def seen(version: int, uid: str = JOB_UID) -> dict[str, Any]:
    raw = a_job().uid(uid).raw()
    raw["metadata"]["resourceVersion"] = str(version)
    return raw


ORDERS = {"in order": (9, 10), "out of order": (10, 9), "twice": (10, 10)}


@pytest.mark.parametrize("versions", ORDERS.values(), ids=ORDERS.keys())
def test_the_newest_wins_in_whatever_order_they_come(versions: tuple[int, int]) -> None:
    store = JobStore()
    for version in versions:
        assert store.put(seen(version)) == KEY

    raw = store.get(JOB_UID)
    assert raw is not None
    assert raw["metadata"]["resourceVersion"] == "10"
    assert len(list(store.all_keys())) == 1


def test_a_job_made_anew_under_the_same_name_is_another() -> None:
    store = JobStore()
    store.put(seen(10))
    store.put(seen(5, uid="another"))

    assert {key.uid for key in store.all_keys()} == {JOB_UID, "another"}


def test_what_was_dropped_is_gone() -> None:
    store = JobStore()
    store.put(seen(1))
    store.drop(JOB_UID)
    store.drop("unknown")

    assert (store.get(JOB_UID), store.key(JOB_UID), list(store.all_keys())) == (None, None, [])


def test_the_key_of_a_uid() -> None:
    store = JobStore()
    store.put(seen(1))

    assert store.key(JOB_UID) == KEY


def test_keys_may_be_dropped_while_they_are_walked() -> None:
    store = JobStore()
    store.put(seen(1))
    store.put(seen(1, uid="another"))

    for key in store.all_keys():
        store.drop(key.uid)

    assert list(store.all_keys()) == []
