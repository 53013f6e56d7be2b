"""What a client gets: plain and streamed answers, models, errors in OpenAI's shape."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from controlplane.domain.routing import RoutedKey
from controlplane.gateway.asks import CHAT, read_ask
from controlplane.lib.ids import secret_hash
from tests.gateway.conftest import KEY, StartGateway, make_deployment, make_snapshot
from tests.gateway.engine import DONE, Engine, Peer, Request, event, plain_body, usage_event


async def test_a_plain_answer_comes_through_unchanged(start_gateway: StartGateway) -> None:
    async with Engine() as engine:
        gateway = await start_gateway(make_snapshot(make_deployment(engine.url)))
        answer = await gateway.chat()
    assert (answer.status, answer.body) == (200, plain_body())
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["x-headworks-replica"] == "r0"
    assert answer.headers["x-headworks-queue-ms"] == "0"


async def test_a_stream_comes_through_without_the_usage_that_only_the_gateway_asked_for(
    start_gateway: StartGateway,
) -> None:
    async with Engine() as engine:
        gateway = await start_gateway(make_snapshot(make_deployment(engine.url)))
        answer = await gateway.chat(stream=True)
    assert answer.body == b"".join([event("tok0"), event("tok1"), event("tok2"), DONE])
    assert engine.requests[0].json["stream_options"] == {"include_usage": True}


async def test_the_usage_stays_when_the_client_asked_for_it(start_gateway: StartGateway) -> None:
    async with Engine() as engine:
        gateway = await start_gateway(make_snapshot(make_deployment(engine.url)))
        answer = await gateway.chat(stream=True, stream_options={"include_usage": True})
    assert answer.body.endswith(usage_event() + DONE)


async def test_other_stream_options_of_the_client_are_kept(start_gateway: StartGateway) -> None:
    async with Engine() as engine:
        gateway = await start_gateway(make_snapshot(make_deployment(engine.url)))
        await gateway.chat(stream=True, stream_options={"continuous_usage_stats": True, "include_usage": False})
    assert engine.requests[0].json["stream_options"] == {"continuous_usage_stats": True, "include_usage": True}


async def test_the_replica_gets_its_own_model_name_and_key_and_no_header_of_the_client(
    start_gateway: StartGateway,
) -> None:
    async with Engine() as engine:
        gateway = await start_gateway(make_snapshot(make_deployment(engine.url)))
        await gateway.ask({"model": "chat", "n": 1}, headers={"cookie": "a=b", "x-request-id": "mine-1", "te": "x"})
    request = engine.requests[0]
    assert request.line == "POST /v1/chat/completions HTTP/1.1"
    assert request.json == {"model": "engine-model", "n": 1, "cache_salt": "tenant-tenant-1"}
    assert request.headers == {
        "host": f"127.0.0.1:{engine.port}",
        "user-agent": "headworks-gateway",
        "content-type": "application/json",
        "accept-encoding": "identity",
        "authorization": "Bearer replica-key",
        "x-request-id": "mine-1",
        "content-length": str(len(request.body)),
    }


@pytest.mark.parametrize("path", ["/v1/completions", "/v1/embeddings"])
async def test_completions_and_embeddings_pass_through(start_gateway: StartGateway, path: str) -> None:
    async with Engine() as engine:
        gateway = await start_gateway(make_snapshot(make_deployment(engine.url)))
        answer = await gateway.ask({"model": "chat", "input": "x"}, path=path)
    assert answer.status == 200
    assert engine.requests[0].line == f"POST {path} HTTP/1.1"


async def test_the_path_of_an_external_endpoint_is_honoured(start_gateway: StartGateway) -> None:
    async with Engine() as engine:
        gateway = await start_gateway(make_snapshot(make_deployment(f"{engine.url}/api/paas/v4/")))
        await gateway.chat()
    assert engine.requests[0].line == "POST /api/paas/v4/chat/completions HTTP/1.1"


async def test_an_error_of_the_engine_is_passed_on(start_gateway: StartGateway) -> None:
    async def refuse(_: Request, peer: Peer) -> None:
        body = b'{"error":{"message":"max_tokens is too large"}}'
        await peer.send(
            b"HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\ncontent-length: 47\r\n\r\n" + body
        )

    async with Engine(refuse) as engine:
        gateway = await start_gateway(make_snapshot(make_deployment(engine.url)))
        answer = await gateway.chat(stream=True)
    assert answer.status == 400
    assert answer.json["error"]["message"] == "max_tokens is too large"


async def test_a_replica_that_refuses_our_key_is_not_the_clients_fault(start_gateway: StartGateway) -> None:
    async def refuse(_: Request, peer: Peer) -> None:
        await peer.send(b"HTTP/1.1 401 Unauthorized\r\ncontent-length: 2\r\n\r\nno")

    async with Engine(refuse) as engine:
        gateway = await start_gateway(make_snapshot(make_deployment(engine.url)))
        answer = await gateway.chat()
    assert (answer.status, answer.code) == (502, "upstream_failed")


async def test_the_models_are_those_that_the_key_may_use(start_gateway: StartGateway) -> None:
    keys = {secret_hash(KEY): RoutedKey("k", "t", "acme", deployments=("chat",))}
    snapshot = make_snapshot(make_deployment(), make_deployment(name="secret"), keys=keys)
    gateway = await start_gateway(snapshot)
    listed = await gateway.get("/v1/models")
    assert [one["id"] for one in listed.json["data"]] == ["chat"]
    assert (await gateway.get("/v1/models/chat")).json["id"] == "chat"
    assert (await gateway.get("/v1/models/secret")).code == "model_not_found"
    assert (await gateway.ask({"model": "secret"})).code == "model_not_found"


async def test_wrong_keys_are_refused_with_401(start_gateway: StartGateway) -> None:
    keys = {secret_hash(KEY): RoutedKey("k", "t", "acme", expires_at=time.time() - 1)}
    gateway = await start_gateway(make_snapshot(make_deployment(), keys=keys))
    for authorization in (f"Bearer {KEY}", "Bearer other", "Basic abc", "Bearer", "Bearer \xe9"):
        answer = await gateway.ask({"model": "chat"}, headers={"authorization": authorization})
        assert (answer.status, answer.code) == (401, "invalid_api_key")
        assert answer.json["error"]["type"] == "invalid_request_error"
        assert (await gateway.get("/v1/models", {"authorization": authorization})).status == 401


@pytest.mark.parametrize(
    ("body", "named"),
    [
        (b"", "not valid JSON"),
        (b"{", "not valid JSON"),
        (b"[]", "must be a JSON object"),
        (b"{}", "`model` is missing"),
        (b'{"model": 3}', "`model` must be a string"),
        (b'{"model": "chat", "stream": "yes"}', "`stream` must be true or false"),
        (b'{"model": "chat", "stream": true, "stream_options": 1}', "`stream_options` must be an object"),
        (b'{"model": "chat", "a": ' + b"[" * 100_000 + b"}", "not valid JSON"),
        (b'{"model": "\xff"}', ""),
    ],
)
async def test_a_bad_body_is_refused_with_the_problem_named(
    start_gateway: StartGateway, body: bytes, named: str
) -> None:
    gateway = await start_gateway(make_snapshot(make_deployment()))
    answer = await gateway.ask(body)
    assert (answer.status, answer.code) == (400, "invalid_request")
    assert named in answer.json["error"]["message"]


async def test_a_body_beyond_the_limit_is_refused_whether_its_length_is_given_or_not(
    start_gateway: StartGateway,
) -> None:
    gateway = await start_gateway(make_snapshot(make_deployment()), body_limit_bytes=100)
    assert (await gateway.ask({"model": "chat", "pad": "x" * 200})).code == "request_too_large"
    chunked = b"%x\r\n%b\r\n0\r\n\r\n" % (300, b"x" * 300)
    reader, writer = await gateway.open()
    lines = f"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {KEY}\r\n"
    writer.write(lines.encode() + b"transfer-encoding: chunked\r\n\r\n" + chunked)
    assert (await reader.readline()).startswith(b"HTTP/1.1 413")
    writer.close()


async def test_a_deployment_without_ready_replicas_answers_503_with_retry_after(start_gateway: StartGateway) -> None:
    gateway = await start_gateway(make_snapshot(make_deployment()))
    answer = await gateway.chat()
    assert (answer.status, answer.code, answer.headers["retry-after"]) == (503, "no_replica", "5")


async def test_where_a_replica_is_expected_clients_are_told_when(start_gateway: StartGateway) -> None:
    for in_s, low, high in ((80.0, 70, 80), (-3.0, 5, 5)):
        expected = replace(make_deployment(), ready_expected_at=time.time() + in_s)
        answer = await (await start_gateway(make_snapshot(expected))).chat()
        assert (answer.status, answer.code) == (503, "no_replica")
        wait_s = int(answer.headers["retry-after"])
        assert low <= wait_s <= high, "what is late is expected at no time"
        assert (f"in about {wait_s} s" in answer.json["error"]["message"]) == (in_s > 0)


async def test_unknown_paths_and_methods_are_refused(start_gateway: StartGateway) -> None:
    gateway = await start_gateway(make_snapshot(make_deployment()))
    assert (await gateway.get("/v1/chat/completions")).status == 405
    assert (await gateway.get("/v1/chat/completions")).headers["allow"] == "POST"
    assert (await gateway.ask({}, path="/v1/models")).status == 405
    assert (await gateway.ask({}, path="/v1/nothing")).status == 404
    assert (await gateway.get("/invocations")).status == 404


async def test_a_sane_request_id_is_kept_and_another_replaced(start_gateway: StartGateway) -> None:
    gateway = await start_gateway(make_snapshot(make_deployment()))
    kept = await gateway.ask({"model": "chat"}, headers={"x-request-id": "trace-1.a"})
    assert kept.headers["x-headworks-request-id"] == kept.headers["x-request-id"] == "trace-1.a"
    replaced = await gateway.ask({"model": "chat"}, headers={"x-request-id": "a b" + "x" * 200})
    assert replaced.headers["x-headworks-request-id"] != "a b" + "x" * 200


async def test_a_name_given_twice_means_the_same_to_the_replica(start_gateway: StartGateway) -> None:
    async with Engine() as engine:
        gateway = await start_gateway(make_snapshot(make_deployment(engine.url)))
        answer = await gateway.ask(b'{"model": "other", "stream": true, "model": "chat", "stream": false}')
    assert answer.status == 200
    assert engine.requests[0].body.count(b"model") == 2  # the field and its value
    assert engine.requests[0].json == {"model": "engine-model", "stream": False, "cache_salt": "tenant-tenant-1"}


async def test_an_external_endpoint_gets_no_other_spelling_of_the_model(start_gateway: StartGateway) -> None:
    async with Engine() as engine:
        external = replace(make_deployment(engine.url), engine="external")
        gateway = await start_gateway(make_snapshot(external))
        await gateway.ask({"model": "chat", "Model": "other", "MODEL": "other", "Top_P": 1})
    assert engine.requests[0].json == {"model": "engine-model", "Top_P": 1}


async def test_health_answers_always_and_readiness_with_a_snapshot(start_gateway: StartGateway) -> None:
    gateway = await start_gateway()
    assert (await gateway.get("/healthz")).status == 200
    unready = await gateway.get("/readyz")
    assert (unready.status, unready.code) == (503, "no_snapshot")
    assert (await gateway.chat()).code == "no_snapshot"


async def test_what_vllm_is_asked_for_its_health_is_answered_too(start_gateway: StartGateway) -> None:
    """GuideLLM begins with that."""
    assert (await (await start_gateway()).get("/health")).status == 503
    assert (await (await start_gateway(make_snapshot())).get("/health")).status == 200


async def test_what_steers_the_engine_is_never_a_clients_and_the_salt_is_the_tenants(
    start_gateway: StartGateway,
) -> None:
    async with Engine() as engine:
        gateway = await start_gateway(make_snapshot(make_deployment(engine.url)))
        got = await gateway.chat(priority=-5, cache_salt="tenant-2", vllm_xargs={"a": 1}, top_k=3)
        plain = await gateway.chat()
    asked = engine.requests[0].json
    assert got.status == 200 and got.headers["x-headworks-ignored"] == "cache_salt,priority,vllm_xargs"
    assert (asked["cache_salt"], asked["top_k"]) == ("tenant-tenant-1", 3)
    assert "priority" not in asked and "vllm_xargs" not in asked
    assert "x-headworks-ignored" not in plain.headers


async def test_what_is_prepared_again_names_only_what_was_the_clients(start_gateway: StartGateway) -> None:
    """As after a deployment has moved to this process while the request waited in it."""
    gateway = await start_gateway(make_snapshot(make_deployment("http://127.0.0.1:1")))
    gate = gateway.process.gates.by_name["chat"]
    ask = read_ask(b'{"model": "chat", "messages": [], "cache_salt": "theirs", "seed": 1}', CHAT)
    assert gate.prepare(ask, CHAT, "tenant-1") == ["cache_salt"]
    ask.body_for("m", priority=b"1")
    assert list(gate.prepare(ask, CHAT, "tenant-1")) == []
    assert bytes(ask.fields["cache_salt"]) == b'"tenant-tenant-1"'


async def test_what_steers_from_within_is_taken_out_too(start_gateway: StartGateway) -> None:
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    kwargs = {"enable_thinking": False, "chat_template": "{{ mine }}"}
    messages = [{"role": "user", "content": [{"type": "text", "text": "uuid?"}, {**picture, "uuid": "theirs"}]}]
    async with Engine() as engine:
        gateway = await start_gateway(make_snapshot(make_deployment(engine.url)))
        got = await gateway.chat(messages=messages, chat_template_kwargs=kwargs)
        plain = await gateway.chat(chat_template_kwargs={"enable_thinking": True})
        odd = await gateway.chat(chat_template_kwargs=["chat_template"])
    asked = [request.json for request in engine.requests]
    assert asked[0]["messages"] == [{"role": "user", "content": [messages[0]["content"][0], picture]}]
    assert asked[0]["chat_template_kwargs"] == {"enable_thinking": False}
    told = "messages.content.uuid,chat_template_kwargs.chat_template"
    assert (got.status, got.headers["x-headworks-ignored"]) == (200, told)
    assert asked[1]["chat_template_kwargs"] == {"enable_thinking": True}
    assert asked[2]["chat_template_kwargs"] == ["chat_template"], "the engine says what is wrong with it"
    assert not {"x-headworks-ignored"} & (plain.headers.keys() | odd.headers.keys())


async def test_a_cache_key_written_in_escapes_is_one(start_gateway: StartGateway) -> None:
    part = b'{"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}, "\\u0075uid": "theirs"}'
    async with Engine() as engine:
        gateway = await start_gateway(make_snapshot(make_deployment(engine.url)))
        got = await gateway.ask(b'{"model": "chat", "messages": [{"role": "user", "content": [' + part + b"]}]}")
    assert got.headers["x-headworks-ignored"] == "messages.content.uuid"
    assert b"uuid" not in engine.requests[0].body and b"u0075" not in engine.requests[0].body


async def test_tensors_are_refused(start_gateway: StartGateway) -> None:
    async with Engine() as engine:
        gateway = await start_gateway(make_snapshot(make_deployment(engine.url)))
        part = {"type": "image_embeds", "image_embeds": "AAAA"}
        got = await gateway.chat(messages=[{"role": "user", "content": [part]}])
        assert (got.status, got.code) == (400, "invalid_request")
        assert got.json["error"]["param"] == "messages[0].content[0].type"
    assert not engine.requests


async def test_embeddings_get_the_tenants_salt(start_gateway: StartGateway) -> None:
    async with Engine() as engine:
        gateway = await start_gateway(make_snapshot(make_deployment(engine.url)))
        await gateway.ask({"model": "chat", "input": "a", "cache_salt": "theirs"}, path="/v1/embeddings")
    assert engine.requests[0].json["cache_salt"] == "tenant-tenant-1"


async def test_an_endpoint_of_somebody_else_gets_nothing_of_ours_and_nothing_that_steers(
    start_gateway: StartGateway,
) -> None:
    async with Engine() as engine:
        deployment = replace(make_deployment(engine.url), engine="external")
        gateway = await start_gateway(make_snapshot(deployment))
        got = await gateway.chat(
            priority=1, cache_salt="x", models=["dear"], service_tier="priority", metadata={"a": "b"}, top_k=3
        )
    assert got.headers["x-headworks-ignored"] == "cache_salt,models,priority,service_tier"
    assert engine.requests[0].json == {"model": "engine-model", "messages": [], "metadata": {"a": "b"}, "top_k": 3}


async def test_an_endpoint_that_is_vllm_gets_the_tenants_salt_and_the_tiers_priority(
    start_gateway: StartGateway,
) -> None:
    async with Engine() as engine:
        deployment = make_deployment(engine.url)
        replicas = tuple(replace(one, takes_salt=True, takes_priority=True) for one in deployment.replicas)
        deployment = replace(deployment, engine="external", replicas=replicas)
        gateway = await start_gateway(make_snapshot(deployment))
        got = await gateway.chat(priority=-5, cache_salt="theirs")
    assert got.headers["x-headworks-ignored"] == "cache_salt,priority"
    asked = engine.requests[0].json
    assert (asked["cache_salt"], asked["priority"]) == ("tenant-tenant-1", 1)


async def test_another_kind_of_engine_gets_no_salt(start_gateway: StartGateway) -> None:
    async with Engine() as engine:
        deployment = replace(make_deployment(engine.url), engine="simulated")
        gateway = await start_gateway(make_snapshot(deployment))
        await gateway.chat(priority=1)
    assert engine.requests[0].json["priority"] == 1 and "cache_salt" not in engine.requests[0].json
