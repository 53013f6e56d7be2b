"""kill -9 of each process while requests run: what is untouched, what is told, what comes back."""

from __future__ import annotations

import shutil

import pytest
import redis

from controlplane.embedded.servers import VALKEY_SOCKET
from tests.stack.stack_process import RunningStack
from tests.stack.streams import Load, Stream

pytestmark = pytest.mark.stack

NOT_THE_GATEWAY = ["postgres", "valkey", "controller", "console", "worker", "beat", "node", "collector"]


@pytest.mark.parametrize("name", NOT_THE_GATEWAY)
def test_running_streams_and_new_requests_do_not_notice(running_stack: RunningStack, name: str) -> None:
    stream, load = Stream(running_stack), Load(running_stack)
    assert running_stack.wait(stream.has_begun, 60), stream
    engines, before = running_stack.engines(), running_stack.everything()
    killed = running_stack.kill(name)
    assert running_stack.wait(lambda: running_stack.process(name) not in (None, killed), 60)
    assert running_stack.wait(running_stack.is_well, 60), running_stack.replica()
    assert stream.ended(90), f"the stream hangs after {name} was killed"
    assert stream.is_whole(), stream
    assert set(load.stop()) == {200}
    assert running_stack.engines() == engines
    assert not running_stack.orphans(before), "a part of the killed process lives"


def is_filled(stack: RunningStack) -> bool:
    """Returns whether Valkey has what gateway and node live on."""
    node = (stack.home / "node-name").read_text().strip()
    try:
        with redis.Redis(unix_socket_path=str(stack.layout.sockets / VALKEY_SOCKET)) as client:
            return bool(client.exists("hw:snapshot", f"hw:desired:{node}") == 2)
    except redis.RedisError:
        return False


def test_valkey_without_its_data_is_filled_again(running_stack: RunningStack) -> None:
    load, engines = Load(running_stack), running_stack.engines()
    killed = running_stack.kill("valkey")
    shutil.rmtree(running_stack.home / "valkey")
    assert running_stack.wait(lambda: running_stack.process("valkey") not in (None, killed), 60)
    assert running_stack.wait(lambda: is_filled(running_stack), 60), "nothing is published"
    assert running_stack.wait(running_stack.is_well, 60)
    assert set(load.stop()) == {200}
    assert running_stack.engines() == engines


def test_the_streams_of_a_dead_gateway_end_and_it_is_back(running_stack: RunningStack) -> None:
    """It is the parent of several processes that is killed: what runs in these may come to its end."""
    stream = Stream(running_stack)
    assert running_stack.wait(stream.has_begun, 60), stream
    engines = running_stack.engines()
    running_stack.kill("gateway")
    assert stream.ended(60), "the client was not told"
    assert running_stack.wait(lambda: running_stack.ask(max_tokens=2)[0] == 200, 60)
    assert running_stack.engines() == engines
