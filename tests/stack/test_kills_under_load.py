"""kill -9 of each process while streams run: what is untouched, what is told, what comes back."""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest

from controlplane.embedded import proc
from tests.stack.stack_process import RunningStack
from tests.stack.streams import Load, Stream

pytestmark = pytest.mark.stack

NOT_THE_GATEWAY = ["postgres", "valkey", "controller", "console", "worker", "beat", "node", "collector"]


def the_replica(stack: RunningStack) -> dict[str, Any]:
    status, page = stack.rest("/replicas")
    assert status == 200, page
    (replica,) = [one for one in page["results"] if one["state"] not in ("stopped",)]
    found: dict[str, Any] = replica
    return found


@pytest.mark.parametrize("name", NOT_THE_GATEWAY)
def test_a_running_stream_and_new_requests_do_not_notice(running_stack: RunningStack, name: str) -> None:
    stream, load = Stream(running_stack), Load(running_stack)
    assert running_stack.wait(stream.has_begun, 30), stream
    engines = running_stack.engines()
    killed = running_stack.kill(name)
    assert stream.ended(90), f"the stream hangs after {name} was killed"
    assert stream.done and not stream.error, stream
    assert running_stack.wait(lambda: running_stack.process(name) not in (None, killed), 60)
    assert set(load.stop()) == {200}
    assert running_stack.engines() == engines
    assert running_stack.wait(lambda: the_replica(running_stack)["state"] == "ready", 60)


def test_a_dead_gateway_ends_its_streams_and_is_back(running_stack: RunningStack) -> None:
    stream = Stream(running_stack)
    assert running_stack.wait(stream.has_begun, 30), stream
    running_stack.kill("gateway")
    assert stream.ended(20), "the client was not told"
    assert not stream.done
    assert running_stack.wait(lambda: running_stack.ask(max_tokens=2)[0] == 200, 60)


def test_a_killed_engine_is_told_restarted_and_explained(running_stack: RunningStack) -> None:
    replica = the_replica(running_stack)
    stream = Stream(running_stack)
    assert running_stack.wait(stream.has_begun, 30), stream
    (engine,) = running_stack.engines()
    os.kill(engine.process.pid, signal.SIGKILL)
    assert stream.ended(30), "the stream hangs after its engine died"
    assert "error" in stream.error and not stream.done, stream

    def restarted() -> bool:
        now = the_replica(running_stack)
        return now["state"] == "ready" and now["pid"] not in (None, replica["pid"])

    assert running_stack.wait(restarted, 120), the_replica(running_stack)
    assert proc.group_members(engine.group) == [], "a part of the killed engine lives"
    status, found = running_stack.rest(f"/replicas/{replica['id']}/transitions")
    assert status == 200
    steps = found["results"] if isinstance(found, dict) else found
    (failed,) = [step for step in steps if step["to_state"] == "failed"][-1:]
    assert failed["message"] and failed["log_tail"], failed
    assert "Paris" in running_stack.ask()[1]


def test_the_openai_sdk_gets_paris_plain_and_streamed(running_stack: RunningStack) -> None:
    import openai

    first = running_stack.first_run
    client = openai.OpenAI(base_url=f"{first['gateway_url']}/v1", api_key=first["gateway_key"], max_retries=0)
    messages: Any = [{"role": "user", "content": "What is the capital of France?"}]
    plain = client.chat.completions.create(model=first["model"], messages=messages, temperature=0, max_tokens=30)
    assert "Paris" in (plain.choices[0].message.content or "")
    parts = client.chat.completions.create(
        model=first["model"], messages=messages, temperature=0, max_tokens=30, stream=True
    )
    assert "Paris" in "".join(part.choices[0].delta.content or "" for part in parts if part.choices)
    with pytest.raises(openai.NotFoundError):
        client.chat.completions.create(model="nothing", messages=messages)
    client.close()
    stranger = openai.OpenAI(base_url=f"{first['gateway_url']}/v1", api_key="wrong", max_retries=0)
    with pytest.raises(openai.AuthenticationError):
        stranger.chat.completions.create(model=first["model"], messages=messages)
    stranger.close()
