"""The client against a real server: bounded in time and in retries, whatever the server does."""

import asyncio
from collections.abc import AsyncIterator
from itertools import pairwise

import pytest
from aiohttp import web

from dtj.kube.client import IN_FLIGHT, MERGE_PATCH, REQUEST_TIMEOUT, WATCH_IDLE_TIMEOUT, Client
from dtj.kube.connection import Connection
from dtj.kube.errors import ApiError, KubeError, NotLeadingError, UnreachableError
from tests.unit.kube.conftest import connection_to, no_credentials
from tests.unit.kube.scripted_server import Answer, ScriptedServer, cut, json, refusal, silence, stream, text

ATTEMPTS = 4


def waits(server: ScriptedServer) -> list[float]:
    """Seconds between one request and the next."""
    times = [seen.at for seen in server.seen]
    return [later - earlier for earlier, later in pairwise(times)]


async def test_a_request_as_it_is_sent(server: ScriptedServer, client: Client) -> None:
    server.will(json({"kind": "Pod"}))

    answer = await client.request("PATCH", "/p", query={"a": "b c"}, body={"x": None}, content_type=MERGE_PATCH)

    assert answer == b'{"kind":"Pod"}'
    (seen,) = server.seen
    assert (seen.method, seen.path, seen.query, seen.body) == ("PATCH", "/p", {"a": "b c"}, {"x": None})
    assert (seen.headers["Content-Type"], seen.headers["Accept"]) == (MERGE_PATCH, "application/json")
    assert "Authorization" not in seen.headers


async def test_credentials_are_asked_for_each_time(server: ScriptedServer) -> None:
    tokens = iter(["Bearer one", "Bearer two"])

    async def authorization() -> str | None:
        return next(tokens)

    server.will(json({}), stream([]))
    async with Client(Connection(server.url, None, authorization)) as client:
        await client.request("GET", "/p")
        assert [line async for line in client.watch("/p", {})] == []

    assert [seen.headers["Authorization"] for seen in server.seen] == ["Bearer one", "Bearer two"]


TROUBLES: dict[str, tuple[Answer, type[KubeError], str]] = {
    "the server is broken": (refusal(500, "InternalError", "etcd"), ApiError, "500 InternalError: etcd"),
    "a proxy is broken": (text(b"<html>Bad Gateway</html>", 502), ApiError, "502 Unknown: <html>Bad Gateway</html>"),
    "too many requests": (refusal(429, "TooManyRequests", "later"), ApiError, "429 TooManyRequests: later"),
    "a proxy speaks for itself": (
        text(b"<html>Please log in</html>"),
        UnreachableError,
        "POST /p: the answer is no JSON object",
    ),
    "the connection is cut": (cut(), UnreachableError, "POST /p: "),
    "an answer is cut": (stream([b"{"], then=cut()), UnreachableError, "POST /p: "),
    "the server is silent": (silence(), UnreachableError, "POST /p: "),
}


@pytest.mark.parametrize("trouble", [trouble for trouble, _, _ in TROUBLES.values()], ids=TROUBLES.keys())
async def test_passing_trouble_is_tried_again(server: ScriptedServer, client: Client, trouble: Answer) -> None:
    server.will(trouble, trouble, trouble, json({"kind": "Pod"}))

    assert await client.request("GET", "/p") == b'{"kind":"Pod"}'


@pytest.mark.parametrize(("trouble", "kind", "message"), TROUBLES.values(), ids=TROUBLES.keys())
async def test_lasting_trouble_is_told(
    server: ScriptedServer, client: Client, trouble: Answer, kind: type[KubeError], message: str
) -> None:
    server.will(*[trouble] * 9)

    with pytest.raises(kind) as caught:
        await client.request("POST", "/p")  # aiohttp itself tries a cut GET once more

    assert str(caught.value).startswith(message)
    assert len(server.seen) == ATTEMPTS


async def test_nobody_listens(server: ScriptedServer) -> None:
    async with ScriptedServer() as closed:
        pass
    async with Client(Connection(closed.url, None, no_credentials)) as client:
        with pytest.raises(UnreachableError, match="GET /p: "):
            await client.request("GET", "/p")


async def test_retries_come_later_each_time_with_jitter(server: ScriptedServer, client: Client) -> None:
    server.will(*[refusal(503, "ServiceUnavailable")] * ATTEMPTS)

    with pytest.raises(ApiError):
        await client.request("GET", "/p")

    for wait, longest in zip(waits(server), (0.2, 0.4, 0.8), strict=True):
        assert longest / 2 - 0.05 <= wait <= longest + 0.5


RETRY_AFTER = {"as the server asks": ("7", 7), "but not for ever": ("3600", 10), "at once": ("0", 0)}


@pytest.mark.parametrize(("header", "seconds"), RETRY_AFTER.values(), ids=RETRY_AFTER.keys())
async def test_retry_after(server: ScriptedServer, client: Client, header: str, seconds: float) -> None:
    server.will(refusal(429, "TooManyRequests", headers={"Retry-After": header}), json({}))

    await client.request("GET", "/p")

    assert waits(server) == pytest.approx([seconds], abs=0.5)


async def test_a_retry_after_that_is_no_number_is_passed_over(server: ScriptedServer, client: Client) -> None:
    server.will(refusal(503, "Unavailable", headers={"Retry-After": "Wed, 21 Oct 2030 07:28:00 GMT"}), json({}))

    await client.request("GET", "/p")

    assert waits(server)[0] < 1


async def test_a_silent_server_is_given_up_in_time(server: ScriptedServer, client: Client) -> None:
    server.will(silence(), json({}))

    await client.request("GET", "/p")

    assert waits(server) == pytest.approx([REQUEST_TIMEOUT], abs=2)


REFUSALS = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    409: "Conflict",
    410: "Gone",
    422: "Invalid",
}


@pytest.mark.parametrize(("code", "reason"), REFUSALS.items())
async def test_a_refusal_is_final(server: ScriptedServer, client: Client, code: int, reason: str) -> None:
    server.will(refusal(code, reason, "because"))

    with pytest.raises(ApiError) as caught:
        await client.request("DELETE", "/p")

    assert (caught.value.code, caught.value.reason, caught.value.message) == (code, reason, "because")
    assert len(server.seen) == 1


STRANGE: dict[str, tuple[bytes, str]] = {
    "no JSON": (b"no such host\xff", "no such host\ufffd"),
    "JSON, but no object": (b"[1]", "[1]"),
    "an object, but no Status": (b"{}", ""),
    "nothing": (b"", ""),
    "very long": (b"x" * 9_000, "x" * 500),
}


@pytest.mark.parametrize(("answer", "message"), STRANGE.values(), ids=STRANGE.keys())
async def test_strange_refusal(server: ScriptedServer, client: Client, answer: bytes, message: str) -> None:
    server.will(text(answer, 404))

    with pytest.raises(ApiError) as caught:
        await client.request("GET", "/p")

    assert (caught.value.code, caught.value.reason, caught.value.message) == (404, "Unknown", message)


async def test_who_may_not_write_still_asks(server: ScriptedServer) -> None:
    server.will(json({}))
    async with Client(connection_to(server), may_write=lambda: False) as client:
        await client.request("GET", "/p")
        for method in ("POST", "PUT", "PATCH", "DELETE"):
            with pytest.raises(NotLeadingError, match=f"{method} /p: not sent"):
                await client.request(method, "/p", body={})

    assert [seen.method for seen in server.seen] == ["GET"]


async def test_a_write_is_not_repeated_by_who_may_not_write_any_more(server: ScriptedServer) -> None:
    may = iter([True, False])
    server.will(refusal(500, "InternalError"))
    async with Client(connection_to(server), may_write=lambda: next(may)) as client:
        with pytest.raises(NotLeadingError):
            await client.request("POST", "/p", body={})

    assert len(server.seen) == 1


async def test_the_rate_is_limited(server: ScriptedServer) -> None:
    server.will(*[json({})] * 4)
    async with Client(Connection(server.url, None, no_credentials), rate=0.5, burst=2) as client:
        await asyncio.gather(*(client.request("GET", "/p") for _ in range(4)))

    assert waits(server) == pytest.approx([0, 2, 2], abs=0.5)


async def test_so_many_requests_are_under_way_and_the_others_wait_without_a_timeout(server: ScriptedServer) -> None:
    under_way, most = 0, 0

    async def slow(request: web.Request) -> web.StreamResponse:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(10)
        under_way -= 1
        return await json({})(request)

    server.will(*[slow] * 3 * IN_FLIGHT)
    async with Client(Connection(server.url, None, no_credentials)) as client:
        await asyncio.gather(*(client.request("GET", "/p") for _ in range(3 * IN_FLIGHT)))

    assert (most, len(server.seen)) == (IN_FLIGHT, 3 * IN_FLIGHT)


async def lines(watch: AsyncIterator[bytes]) -> list[bytes]:
    return [line async for line in watch]


CHUNKS: dict[str, list[bytes]] = {
    "a line each": [b'{"a":1}\n', b'{"b":2}\n'],
    "both at once": [b'{"a":1}\n{"b":2}\n'],
    "cut in the middle": [b'{"a', b'":1}\n{"b"', b":2}", b"\n"],
    "cut before the line's end": [b'{"a":1}', b'\n{"b":2}\n'],
    "blank lines between": [b'\n{"a":1}\n\n', b'{"b":2}\n\n'],
}


@pytest.mark.parametrize("chunks", CHUNKS.values(), ids=CHUNKS.keys())
async def test_lines_of_a_watch_however_they_are_cut(
    server: ScriptedServer, client: Client, chunks: list[bytes]
) -> None:
    server.will(stream(chunks))

    assert await lines(client.watch("/p", {"labelSelector": "x"})) == [b'{"a":1}', b'{"b":2}']
    assert server.seen[0].query == {"labelSelector": "x", "watch": "1"}


async def test_what_a_broken_watch_began_to_say_is_not_taken_for_an_event(
    server: ScriptedServer, client: Client
) -> None:
    server.will(stream([b'{"a":1}\n{"b":'], then=cut()))
    watch = client.watch("/p", {})

    assert await anext(watch) == b'{"a":1}'
    with pytest.raises(UnreachableError, match="watch of /p"):
        await anext(watch)


async def test_a_silent_watch_is_given_up(server: ScriptedServer, client: Client) -> None:
    server.will(stream([b'{"a":1}\n'], then=silence()))
    begin = asyncio.get_running_loop().time()

    with pytest.raises(UnreachableError, match="watch of /p"):
        await lines(client.watch("/p", {}))

    assert asyncio.get_running_loop().time() - begin == pytest.approx(WATCH_IDLE_TIMEOUT, abs=3)


async def test_a_refused_watch(server: ScriptedServer, client: Client) -> None:
    server.will(refusal(410, "Expired", "too old resource version"))

    with pytest.raises(ApiError, match="410 Expired"):
        await lines(client.watch("/p", {}))


async def test_a_line_without_end_is_given_up(
    server: ScriptedServer, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dtj.kube.client._MAX_LINE", 1_000)
    server.will(stream([b"x" * 600, b"x" * 600, b"x" * 600]))

    with pytest.raises(UnreachableError, match="longer than 1000 bytes"):
        await lines(client.watch("/p", {}))


async def test_every_answer_is_told(server: ScriptedServer) -> None:
    told: list[tuple[str, str]] = []
    watches = (stream([b"{}\n"]), stream([b"{}\n"], then=cut()), cut())
    server.will(json({}), refusal(404, "NotFound"), refusal(503, "Unavailable"), cut(), json({}), *watches)
    async with Client(connection_to(server), on_answer=lambda *answer: told.append(answer)) as client:
        await client.request("GET", "/p")
        with pytest.raises(ApiError):
            await client.request("DELETE", "/p")
        await client.request("PATCH", "/p", body={})
        assert [line async for line in client.watch("/p", {})] == [b"{}"]
        for _ in "a watch that breaks", "one that never begins":
            with pytest.raises(UnreachableError):
                [line async for line in client.watch("/p", {})]

    patches = [("PATCH", "503"), ("PATCH", "<error>"), ("PATCH", "200")]
    watched = [("GET", "200"), ("GET", "200"), ("GET", "<error>"), ("GET", "<error>")]
    assert told == [("GET", "200"), ("DELETE", "404"), *patches, *watched]
