"""What somebody finds who has just typed `make up`."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import openai
import pytest

from controlplane.embedded import proc
from tests.stack.stack_process import RunningStack

pytestmark = pytest.mark.stack


def test_the_openai_sdk_gets_paris_plain_and_streamed(running_stack: RunningStack) -> None:
    first = running_stack.first_run
    messages: Any = [{"role": "user", "content": "What is the capital of France?"}]
    with openai.OpenAI(base_url=f"{first['gateway_url']}/v1", api_key=first["gateway_key"], max_retries=0) as client:
        plain = client.chat.completions.create(model=first["model"], messages=messages, temperature=0, max_tokens=30)
        assert "Paris" in (plain.choices[0].message.content or "")
        parts = client.chat.completions.create(
            model=first["model"], messages=messages, temperature=0, max_tokens=30, stream=True
        )
        assert "Paris" in "".join(part.choices[0].delta.content or "" for part in parts if part.choices)
        with pytest.raises(openai.NotFoundError):
            client.chat.completions.create(model="nothing", messages=messages)
    stranger = openai.OpenAI(base_url=f"{first['gateway_url']}/v1", api_key="wrong", max_retries=0)
    with stranger, pytest.raises(openai.AuthenticationError):
        stranger.chat.completions.create(model=first["model"], messages=messages)


def test_log_probabilities_do_not_end_an_engine_below_a_path_with_a_space(running_stack: RunningStack) -> None:
    first = running_stack.first_run
    assert " " in str(running_stack.home)
    messages: Any = [{"role": "user", "content": "What is the capital of France?"}]
    with openai.OpenAI(base_url=f"{first['gateway_url']}/v1", api_key=first["gateway_key"], max_retries=0) as client:
        for _ in range(2):
            answer = client.chat.completions.create(
                model=first["model"], messages=messages, max_tokens=4, logprobs=True, top_logprobs=2
            )
            told = answer.choices[0].logprobs
            assert told is not None and told.content is not None and len(told.content[0].top_logprobs) == 2


def test_the_first_run_file_is_private_and_complete(running_stack: RunningStack) -> None:
    path = running_stack.home / "first-run.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE((running_stack.home / "secret-key").stat().st_mode) == 0o600
    assert set(running_stack.first_run) == {
        "console_url", "username", "password", "api_token", "gateway_url", "gateway_key", "model",
    }  # fmt: skip
    assert all(running_stack.first_run.values())


def test_servers_listen_on_no_network_address(running_stack: RunningStack) -> None:
    for name in ("postgres", "valkey"):
        process = running_stack.process(name)
        assert process is not None
        rows = [row.split() for table in ("tcp", "tcp6") for row in Path(f"/proc/net/{table}").read_text().splitlines()]
        listening = {f"socket:[{row[9]}]" for row in rows if row[3] == "0A"}
        assert not listening & {str(entry.readlink()) for entry in Path(f"/proc/{process.pid}/fd").iterdir()}


def test_secrets_stand_in_no_command_line(running_stack: RunningStack) -> None:
    lines = [proc.command_line(pid) for pid in proc.all_pids()]
    for name in ("password", "api_token", "gateway_key"):
        assert not any(running_stack.first_run[name] in line for line in lines)
