"""What is answered to which request, and who may ask."""

from __future__ import annotations

import hmac
import json
from collections.abc import Callable

from dtj_agent import hugging_face, openmetrics, protocol, ranks
from dtj_agent.reports import parsed
from dtj_agent.server import Answer, Request
from dtj_agent.state import News, State

JSON = "application/json"


class Answers:
    """The agent's side of all requests. An empty token lets nobody in."""

    def __init__(self, state: State, agent_token: str, report_token: str) -> None:
        self._state = state
        self._routes: dict[str, tuple[str, str | None, Callable[[Request], Answer]]] = {
            protocol.PROGRESS_PATH: ("GET", agent_token, self._progress),
            protocol.METRICS_PATH: ("GET", agent_token, self._metrics),
            protocol.RANKS_PATH: ("POST", agent_token, self._ranks),
            protocol.HUGGING_FACE_PATH: ("POST", report_token, self._hugging_face),
            protocol.HEALTH_PATH: ("GET", None, self._health),
        }

    def __call__(self, request: Request) -> Answer:
        if request.path not in self._routes:
            return Answer(404)
        method, token, answer = self._routes[request.path]
        if token is not None and not (token and _same(request.token, token)):
            return Answer(401)
        return answer(request) if request.method == method else Answer(405)

    def _progress(self, request: Request) -> Answer:
        del request
        return Answer(200, json.dumps(self._state.progress()).encode(), JSON)

    def _metrics(self, request: Request) -> Answer:
        del request
        return Answer(200, openmetrics.text(self._state.progress()).encode(), openmetrics.CONTENT_TYPE)

    def _health(self, request: Request) -> Answer:
        del request
        return Answer(200, b"ok\n")

    def _ranks(self, request: Request) -> Answer:
        message = parsed(request.body)
        if message is None or not isinstance(message.get("ranks"), list):
            return Answer(400)
        place = self._state.place
        if (message.get("jobUid"), message.get("attempt")) != (place.job_uid, place.attempt):
            return Answer(409)  # an address that was another pod's before
        for entry in message["ranks"]:
            self._state.hear_rank(ranks.heartbeat(entry, self._state.now()))
        return Answer(204)

    def _hugging_face(self, request: Request) -> Answer:
        message = parsed(request.body)
        fields = None if message is None else hugging_face.news(message)
        if fields is None:
            return Answer(400)
        self._state.hear(News(**fields))
        return Answer(200)


def _same(one: str, other: str) -> bool:
    # As bytes: texts that are not ASCII cannot be compared in constant time.
    return hmac.compare_digest(one.encode(errors="replace"), other.encode(errors="replace"))
