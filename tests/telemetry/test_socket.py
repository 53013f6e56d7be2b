from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator

import pytest
from django.db import connections

from controlplane.accounts.models import ApiToken, User
from controlplane.domain.samples import SAMPLE_FIELDS
from controlplane.lib import keys, valkey
from controlplane.telemetry import consumers, frames, hub, socket_auth
from controlplane.telemetry.services import notify
from tests.telemetry import live
from tests.telemetry.live import REPLICA, browser, connected, in_database, program, refused

pytestmark = [pytest.mark.services, pytest.mark.django_db(transaction=True)]

CHAT = "deployment:chat"
HOSTILE = (
    '{"type":"subscribe","x":' + "[" * 20_000 + "]" * 20_000 + "}",
    '{"type":"subscribe","subjects":["' + "x" * 60_000 + '"]}',
    json.dumps({"type": "subscribe", "subjects": [f"node:n{number}" for number in range(5000)]}),
    '{"type":"subscribe","subjects":["node:\\ud800"]}',
    '{"type":"subscribe","subjects":["node:n1"],"history_s":NaN}',
)


@pytest.fixture
async def url(valkey_server: str) -> AsyncIterator[str]:
    await in_database(live.make_objects)
    yield valkey_server
    await hub.current().close()
    await in_database(connections.close_all)


async def headers_of(role: str) -> list[tuple[bytes, bytes]]:
    return browser(await in_database(live.make_session, await in_database(live.make_user, role)))


async def test_a_viewer_sees_a_sample_with_every_field(url: str) -> None:
    await live.write(url, CHAT, running=2, kv_usage=0.25)
    async with connected(await headers_of("viewer")) as socket:
        await socket.subscribe(CHAT)
        assert (await socket.frame("subscribed"))["subjects"] == [CHAT]
        frame = await socket.frame("sample", subject=CHAT)
        assert list(frame["values"]) == list(SAMPLE_FIELDS)
        assert live.values_of(frame) == {"running": 2, "kv_usage": 0.25}


async def test_a_silent_subject_is_all_none_every_second(url: str) -> None:
    async with connected(await headers_of("viewer")) as socket:
        await socket.subscribe("node:n1")
        first, second = await socket.frame("sample"), await socket.frame("sample")
        assert live.values_of(first) == {}
        assert second["t"] > first["t"]


async def test_history_comes_before_the_samples(url: str) -> None:
    now = time.time()
    for age in (20, 19, 0):
        await live.write(url, CHAT, now - age, running=age)
    async with connected(await headers_of("viewer")) as socket:
        await socket.subscribe(CHAT, history_s=900)
        history = await socket.frame("history", subject=CHAT)
        seen = {sample["t"]: sample["running"] for sample in history["samples"]}
        assert seen[int(now - 20)] == 20
        assert seen[int(now - 8)] is None
        await live.write(url, CHAT, max(seen) + 1, running=7)
        sample = await socket.frame("sample", subject=CHAT)
        assert (sample["t"], sample["values"]["running"]) == (max(seen) + 1, 7)


async def test_nobody_is_let_in_without_a_session_or_token(url: str) -> None:
    assert await refused(browser("headworks_session=nonsense"))
    assert await refused([(b"host", b"localhost:8000"), (b"origin", b"http://localhost:8000")])
    assert await refused([(b"host", b"localhost:8000")])
    assert await refused(program("hwt-wrong"))
    assert await refused(await headers_of("viewer"), "/ws/other/")


async def test_a_foreign_origin_is_refused(url: str) -> None:
    cookie = await in_database(live.make_session, await in_database(live.make_user, "administrator"))
    assert await refused(browser(cookie, "http://localhost:3000"))


async def test_a_cookie_without_an_origin_is_not_enough(url: str) -> None:
    headers = await headers_of("viewer")
    assert await refused([header for header in headers if header[0] != b"origin"])


async def test_a_program_comes_in_with_its_token_and_its_tokens_role(url: str) -> None:
    user = await in_database(live.make_user, "administrator")
    async with connected(program(await in_database(live.make_token, user, "viewer"))) as socket:
        await socket.subscribe(CHAT, f"log:{REPLICA}")
        assert (await socket.frame("error"))["code"] == "forbidden"
        assert (await socket.frame("subscribed"))["subjects"] == [CHAT]


async def test_an_operator_follows_a_log(url: str) -> None:
    client = valkey.connect(url)
    client.xadd(keys.engine_log(REPLICA), {"n": 1, "line": "loading"})
    async with connected(await headers_of("operator")) as socket:
        await socket.subscribe(f"log:{REPLICA}")
        first = await socket.frame("log", subject=f"log:{REPLICA}")
        client.xadd(keys.engine_log(REPLICA), {"n": 2, "line": "ready ✓"})
        second = await socket.frame("log")
    client.close()
    assert first["lines"] == [{"n": 1, "line": "loading"}]
    assert second["lines"] == [{"n": 2, "line": "ready ✓"}]


async def test_unknown_and_malformed_subjects_are_said_and_the_rest_is_taken(url: str) -> None:
    async with connected(await headers_of("viewer")) as socket:
        await socket.subscribe("rubbish", "node:nowhere", CHAT)
        bad = await socket.frame("error", code="bad_subject")
        gone = await socket.frame("error", code="not_found")
        assert (bad["subjects"], gone["subjects"]) == (["rubbish"], ["node:nowhere"])
        assert (await socket.frame("subscribed"))["subjects"] == [CHAT]


async def test_a_frame_that_is_no_request_is_answered_and_the_socket_goes_on(url: str) -> None:
    async with connected(await headers_of("viewer")) as socket:
        for text in ("{", '{"type":"dance"}', '{"type":"subscribe","subjects":"x"}', "[]", "1", "", *HOSTILE):
            await socket.send_text(text)
            assert (await socket.frame("error"))["code"] == "bad_request"
        await socket.subscribe(CHAT)
        await socket.frame("subscribed")


async def test_bytes_are_answered_like_any_other_rubbish(url: str) -> None:
    async with connected(await headers_of("viewer")) as socket:
        await socket.put(type="websocket.receive", bytes=b"\x00")
        assert (await socket.frame("error"))["code"] == "bad_request"


async def test_a_socket_has_room_for_so_many_subjects(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "MOST_SUBJECTS", 1)
    async with connected(await headers_of("viewer")) as socket:
        await socket.subscribe(CHAT, "node:n1")
        assert (await socket.frame("error", code="too_many"))["subjects"] == ["node:n1"]
        await socket.send_json(type="unsubscribe", subjects=[CHAT])
        await socket.subscribe("node:n1")
        assert (await socket.frame("subscribed", subjects=["node:n1"]))["subjects"] == ["node:n1"]


async def test_a_change_is_announced_when_it_is_committed(url: str) -> None:
    async with connected(await headers_of("viewer")) as socket:
        await socket.subscribe(CHAT)
        await socket.frame("sample")
        await in_database(notify.changed, "user", "somebody", "created")  # not for a viewer
        await in_database(notify.changed, "deployment", "chat", "scaled")
        event = await socket.frame("event")
        assert event == {"type": "event", "object_kind": "deployment", "object_id": "chat", "verb": "scaled"}


async def test_an_administrator_hears_of_accounts(url: str) -> None:
    async with connected(await headers_of("administrator")) as socket:
        await socket.subscribe(CHAT)
        await socket.frame("sample")
        await in_database(notify.changed, "user", "somebody", "created")
        assert (await socket.frame("event"))["object_kind"] == "user"


async def test_a_sender_that_fails_closes_the_socket(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with connected(await headers_of("viewer")) as socket:
        await socket.subscribe(CHAT)
        await socket.frame("sample")

        def broken(*_: object) -> str:
            raise ZeroDivisionError

        monkeypatch.setattr(frames, "event", broken)
        await in_database(notify.changed, "deployment", "chat", "scaled")
        assert await socket.close_code() == consumers.CLOSE_FAILED


async def test_a_revoked_token_ends_the_socket(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumers, "ASK_AGAIN_S", 0.0)
    user = await in_database(live.make_user, "viewer")
    async with connected(program(await in_database(live.make_token, user, "viewer"))) as socket:
        await socket.subscribe(CHAT)
        await socket.frame("sample")
        await in_database(lambda: ApiToken.objects.all().delete())
        assert await socket.close_code() == consumers.CLOSE_LOGIN


async def test_who_has_lost_a_role_sees_no_log_from_then_on(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    user = await in_database(live.make_user, "operator")
    async with connected(browser(await in_database(live.make_session, user))) as socket:
        await socket.subscribe(f"log:{REPLICA}")
        await socket.frame("subscribed")
        await in_database(lambda: User.objects.update(role="viewer"))
        await socket.subscribe(f"log:{REPLICA}")
        assert (await socket.frame("error"))["code"] == "forbidden"
        [listener] = hub.current()._listeners
        assert isinstance(listener, consumers.TelemetryConsumer)
        assert listener._logs == {}


async def test_a_session_is_asked_for_again(url: str) -> None:
    user = await in_database(live.make_user, "operator")
    cookie = await in_database(live.make_session, user)
    identity = socket_auth.Identity("x", 1, session_key=cookie.partition("=")[2])
    again = await socket_auth.ask_again(identity)
    assert again is not None and again.has_role("operator")
    await in_database(lambda: User.objects.update(is_active=False))
    assert await socket_auth.ask_again(identity) is None


async def test_sockets_that_leave_leave_nothing_behind(url: str) -> None:
    async with connected(await headers_of("viewer")) as socket:
        await socket.subscribe(CHAT, "node:n1")
        await socket.frame("sample")
    live_hub = hub.current()
    assert (live_hub.frames, live_hub._watched, live_hub._listeners, live_hub._tasks) == ({}, {}, set(), [])


async def test_a_client_that_does_not_read_has_nothing_piled_up_for_it(url: str) -> None:
    async def known(asked: frames.Split) -> set[str]:
        return {*asked.samples, *asked.logs}

    sent: list[str] = []
    reads = asyncio.Event()
    incoming: asyncio.Queue[dict[str, object]] = asyncio.Queue()

    async def send(message: dict[str, object]) -> None:
        if message["type"] == "websocket.send":
            await reads.wait()
            sent.append(str(message["text"]))

    consumer = consumers.TelemetryConsumer(known=known)
    secret = await in_database(live.make_token, await in_database(live.make_user, "viewer"), "viewer")
    running = asyncio.create_task(consumer({"type": "websocket", "headers": program(secret)}, incoming.get, send))
    incoming.put_nowait({"type": "websocket.connect"})
    incoming.put_nowait({"type": "websocket.receive", "text": '{"type":"subscribe","subjects":["node:n1"]}'})
    while not consumer._live:
        await asyncio.sleep(0.02)
    live_hub = hub.current()
    for second in range(2000):
        live_hub.frames["node:n1"] = (10**12 + second, f"sample {second}")
        consumer.changed({"object_kind": "node", "object_id": f"n{second}", "verb": "changed"})
        consumer.tick()
    assert len(consumer._events) == consumers.MOST_EVENTS
    assert len(consumer._answers) <= 1
    reads.set()
    while "sample 1999" not in sent:
        await asyncio.sleep(0.02)
    assert [text for text in sent if text.startswith("sample")] == ["sample 1999"]
    incoming.put_nowait({"type": "websocket.disconnect", "code": 1000})
    await running


async def test_a_client_that_asks_and_never_reads_is_closed(url: str) -> None:
    async with connected(await headers_of("viewer")) as socket:
        # this client takes whatever is sent, so the sender is stopped to look like one that does not
        [listener] = hub.current()._listeners
        assert isinstance(listener, consumers.TelemetryConsumer) and listener._sender is not None
        listener._sender.cancel()
        for _ in range(consumers.MOST_ANSWERS + 1):
            await socket.send_text("{")
        assert await socket.close_code() == consumers.CLOSE_TOO_MUCH


async def test_a_client_that_asks_without_end_is_closed(url: str) -> None:
    async with connected(await headers_of("viewer")) as socket:
        for _ in range(consumers.MOST_REQUESTS):
            await socket.send_json(type="unsubscribe", subjects=[])
        await socket.send_text("{")
        assert await socket.close_code() == consumers.CLOSE_TOO_MUCH
