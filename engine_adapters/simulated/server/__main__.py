"""`python -m engine_adapters.simulated.server`: one simulated replica by arguments, or many by a file.

The key comes from HEADWORKS_REPLICA_KEY (or from the file), never from an argument.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

import uvloop

from engine_adapters.simulated.argv import option
from engine_adapters.simulated.server.host import ConfigError, ReplicaConfig, read_config, serve
from engine_adapters.simulated.settings import FIELDS
from engine_adapters.vllm.server.guard import KEY_VARIABLE


def parser() -> argparse.ArgumentParser:
    found = argparse.ArgumentParser(prog="python -m engine_adapters.simulated.server", allow_abbrev=False)
    found.add_argument("--config", type=Path, help="file with many replicas, a port each; SIGHUP reads it again")
    found.add_argument("--host", default="127.0.0.1")
    found.add_argument("--port", type=int)
    found.add_argument("--served-model-name", default="simulated-8b")
    found.add_argument("--cards", type=int, default=1)
    for setting in FIELDS:
        if setting.kind == "bool":
            found.add_argument(option(setting.name), action="store_true", help=setting.help)
        else:
            kind = int if setting.kind == "int" else float
            found.add_argument(option(setting.name), type=kind, help=setting.help)
    return found


def main() -> int:
    arguments = parser().parse_args()
    if (arguments.port is None) == (arguments.config is None):
        parser().error("give --port for one replica or --config for many")
    try:
        configs = read_config(arguments.config) if arguments.config else [_config(arguments)]
    except (ConfigError, OSError) as error:
        print(f"ERROR {error}", file=sys.stderr)
        return 1
    return uvloop.run(serve(configs, arguments.config))


def _config(arguments: argparse.Namespace) -> ReplicaConfig:
    values = ((field.name, getattr(arguments, field.name)) for field in FIELDS)
    settings = tuple((name, value) for name, value in values if value is not None and value is not False)
    key = os.environ.get(KEY_VARIABLE, "")
    return ReplicaConfig(arguments.port, arguments.served_model_name, key, arguments.host, arguments.cards, settings)


if __name__ == "__main__":
    sys.exit(main())
