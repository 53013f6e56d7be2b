from __future__ import annotations

import pytest

from engine_adapters.base import Command
from engine_adapters.environment import inherited, process_environment


@pytest.mark.parametrize(
    "name",
    ["DATABASE_URL", "REDIS_URL", "HEADWORKS_SECRET_KEY_FILE", "HEADWORKS_SECRET_KEY", "VLLM_API_KEY", "PYTHONPATH",
     "PYTHONSTARTUP", "OMP_NUM_THREADS", "CUDA_VISIBLE_DEVICES", "VIRTUAL_ENV", "AWS_SECRET_ACCESS_KEY"],
)  # fmt: skip
def test_what_an_engine_has_no_business_with_stays_outside(name: str) -> None:
    assert inherited({name: "x"}) == {}


@pytest.mark.parametrize("name", ["PATH", "HOME", "LD_LIBRARY_PATH", "LC_ALL", "NCCL_SOCKET_IFNAME", "https_proxy"])
def test_what_the_machine_sets_up_passes(name: str) -> None:
    assert inherited({name: "x"}) == {name: "x"}


def test_the_command_s_own_variables_win() -> None:
    command = Command(("engine",), {"PATH": "/own", "KEY": "k"})
    assert process_environment({"PATH": "/parent", "HOME": "/h"}, command) == {"PATH": "/own", "HOME": "/h", "KEY": "k"}
