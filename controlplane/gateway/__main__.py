"""`python -m controlplane.gateway`: the data plane, compiled where there is a build of it."""

from __future__ import annotations

import logging
import sys

from controlplane import compiled, env

if __name__ == "__main__":
    try:
        logging.basicConfig(level=env.log_level(), format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    except env.SettingError as error:
        print(error, file=sys.stderr)  # noqa: T201
        sys.exit(2)
    compiled.use()  # before the first of its modules is imported

    from controlplane.gateway.main import main

    sys.exit(main(sys.argv[1:]))
