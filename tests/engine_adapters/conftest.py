from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.engine_adapters.running import RunningEngine, start_simulated, start_vllm


@pytest.fixture(scope="package")
def simulated_engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningEngine]:
    engine = start_simulated(tmp_path_factory.mktemp("simulated"))
    yield engine
    engine.close()


@pytest.fixture(scope="package")
def vllm_engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningEngine]:
    engine = start_vllm(tmp_path_factory.mktemp("vllm"))
    yield engine
    engine.close()
