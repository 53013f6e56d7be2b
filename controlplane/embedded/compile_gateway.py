"""Translates the modules of `controlplane.compiled` and compiles them: `compile_gateway.py FOLDER PYTHON`.

Runs in an environment of its own that has mypy and setuptools, in the root of the checkout. PYTHON has the packages
that the modules import, so that their types are known.
"""

from __future__ import annotations

import sys
from pathlib import Path

from mypyc.build import mypycify
from setuptools import setup

sys.path.insert(0, str(Path.cwd()))

from controlplane import compiled

SETTINGS = """[mypy]
ignore_missing_imports = True
follow_imports = silent
python_executable = {python}
cache_dir = {folder}/types
"""


def main(folder: Path, python: str) -> None:
    settings = folder / "mypy.ini"
    settings.write_text(SETTINGS.format(folder=folder, python=python), encoding="utf-8")
    files = [str(one) for one in compiled.sources(Path.cwd())]
    modules = mypycify(
        ["--config-file", str(settings), *files],
        opt_level="2",
        debug_level="0",
        group_name=compiled.GROUP,
        target_dir=str(folder / "c"),
    )
    setup(
        name="headworks-compiled",
        ext_modules=modules,
        script_args=["-q", "build_ext", "--build-lib", str(folder / "out"), "--build-temp", str(folder / "temp")],
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
