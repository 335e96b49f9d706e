"""What the callbacks for the frameworks have in common.

A framework's own callback class is only there where the framework is: each callback here is a plain class, and its
objects are made of that and of the framework's class when they are needed.
"""

# What frameworks give is of types that only they have.
# ruff: noqa: ANN401

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

from dtj_trainer.process import REPORTER

METRICS_INTERVAL_S = 1.0
"""Reading a metric may wait for the accelerator that computes it, so it is not done more often than it is sent."""


def undisturbed(hook: Callable[..., None]) -> Callable[..., None]:
    """Training goes on whatever happens in ``hook``: one warning in the log."""

    @functools.wraps(hook)
    def guarded(*args: Any, **kwargs: Any) -> None:
        try:
            hook(*args, **kwargs)
        except Exception as error:  # noqa: BLE001 - the next version of a framework may do anything
            REPORTER.complain(error)

    return guarded


class Hooks:
    """Base of all callbacks here. Can be pickled, which frameworks do when they start processes."""

    _own: type[Hooks] | None = None

    @classmethod
    def joined(cls, base: type) -> Any:
        """A new, empty object of this class that is one of the framework's class ``base`` as well."""
        kind = type(cls.__name__, (cls, base), {"__module__": cls.__module__, "__doc__": cls.__doc__, "_own": cls})
        return object.__new__(kind)

    def __reduce__(self) -> tuple[Any, ...]:
        return (self._own or type(self), (), self.__dict__)


class RecentMetrics:
    """Lets through what is to be reported with a step, about once a second."""

    def __init__(self) -> None:
        self._next = 0.0

    def of(self, read: Callable[[], Mapping[str, Any]]) -> dict[str, float] | None:
        """The numbers that ``read`` gives, of those that are one; None when that is not due yet."""
        now = time.monotonic()
        if now < self._next:
            return None
        self._next = now + METRICS_INTERVAL_S
        return numbers(read())


def numbers(metrics: Mapping[str, Any]) -> dict[str, float]:
    """What can be read as a number: frameworks keep text, arrays and values on other machines among their metrics."""
    found = {}
    for name, value in metrics.items():
        try:
            found[str(name)] = float(value)
        except (TypeError, ValueError, RuntimeError):
            continue
    return found


def loaded(*names: str) -> ModuleType | None:
    """The first of these modules that the program has imported."""
    return next((sys.modules[name] for name in names if name in sys.modules), None)
