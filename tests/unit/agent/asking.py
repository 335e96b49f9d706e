"""Asks an agent as the operator does."""

import http.client
import json
from collections.abc import Callable, Mapping
from typing import Any

from tests.unit.agent.agent_process import wait_until

TOKEN = "a1b2"  # noqa: S105 - of these tests


def ask(job: Mapping[str, str]) -> dict[str, Any] | None:
    """What the operator reads; None while nobody answers."""
    client = http.client.HTTPConnection("127.0.0.1", int(job["DTJ_AGENT_PORT"]), timeout=30)
    try:
        client.request("GET", "/v1/progress", headers={"Authorization": f"Bearer {TOKEN}"})
        response = client.getresponse()
        assert response.status == 200
        return dict(json.load(response))
    except ConnectionRefusedError:
        return None
    finally:
        client.close()


def told(job: Mapping[str, str], condition: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """The first answer that fulfils ``condition``."""
    found: list[dict[str, Any]] = []

    def holds() -> bool:
        answer = ask(job)
        found[:] = [] if answer is None else [answer]
        return answer is not None and condition(answer)

    wait_until(holds)
    return found[0]
