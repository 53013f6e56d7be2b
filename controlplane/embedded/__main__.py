"""`python -m controlplane.embedded VERB`: what the Makefile's verbs call (through launch.sh).

`up` and `prepare` begin under the system's Python with the standard library alone, since nothing is installed yet; once
`.venv` is there, the launcher replaces itself by that interpreter (`serve`) and goes on.
"""

from __future__ import annotations

import os
import sys
from typing import NoReturn

from controlplane import env
from controlplane.embedded import say
from controlplane.embedded.layout import Layout, here
from controlplane.embedded.prepare import Prepared
from controlplane.embedded.problems import LauncherError, in_words

USAGE = "python -m controlplane.embedded up [--detach] | down | doctor | prepare"


def up(layout: Layout, arguments: list[str]) -> int:  # noqa: RET503 - the last line never returns
    from controlplane.embedded import prepare
    from controlplane.embedded import up as upper
    from controlplane.embedded.settings import read_settings

    read_settings(layout)  # a variable that can't be used is said at once, not after minutes
    if upper.is_running(layout):
        return upper.say_already_running(layout, wait="--detach" in arguments)
    check_ports_early(layout)
    go_on_in_the_new_environment(layout, prepare.prepare(layout), arguments)


def go_on_in_the_new_environment(layout: Layout, made: Prepared, arguments: list[str]) -> NoReturn:
    """Replaces this program by the interpreter of `.venv`; the pid stays."""
    handed_on = {
        "HEADWORKS_PREPARED_ENGINE": str(made.engine_python),
        "HEADWORKS_PREPARED_MODEL": str(made.model),
        **say.start_time_for_the_next(),
    }
    python = str(layout.control_python)
    command = [python, "-m", "controlplane.embedded", "serve", *arguments]
    os.chdir(layout.root)
    os.execve(python, command, {**os.environ, **handed_on})  # noqa: S606


def check_ports_early(layout: Layout) -> None:
    """Says before any work that a port is taken; by processes that a killed launcher left is no hindrance."""
    from controlplane.embedded import preflight, stack
    from controlplane.embedded.settings import read_settings

    if not any(stack.living_processes(layout)):
        chosen = read_settings(layout)
        preflight.check_ports(chosen.bind, chosen.ports)


def serve(layout: Layout, arguments: list[str]) -> int:
    from controlplane.embedded import up as upper

    if "--detach" in arguments:
        return upper.detach(layout, *(argument for argument in arguments if argument != "--detach"))
    prepared = upper.prepared_by(dict(os.environ))
    return upper.run(layout, prepared, detached="--detached" in arguments, demo="--demo" in arguments)


def down(layout: Layout, _arguments: list[str]) -> int:
    from controlplane.embedded.down import down as end_everything

    return end_everything(layout)


def prepare_only(layout: Layout, _arguments: list[str]) -> int:
    from controlplane.embedded import prepare

    prepare.prepare(layout)
    return 0


def doctor(layout: Layout, _arguments: list[str]) -> int:
    from controlplane.embedded.doctor import doctor as examine

    return examine(layout)


VERBS = {"up": up, "serve": serve, "down": down, "doctor": doctor, "prepare": prepare_only}


def main(arguments: list[str]) -> int:
    verb = VERBS.get(arguments[0] if arguments else "")
    if verb is None:
        say.problem(f"usage: {USAGE}")
        return 2
    layout = here()
    try:
        layout.make_home()
        return verb(layout, arguments[1:])
    except (LauncherError, env.SettingError, OSError) as error:
        say.problem(in_words(error))
        return 1
    except KeyboardInterrupt:
        say.problem("interrupted; run make up again, it goes on from there.")
        return 130


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
