"""Typed readers of environment variables. Importable from anywhere; imports nothing of Headworks.

A secret `NAME` may also be given as `NAME_FILE`, the path of a file that holds it (Docker and Kubernetes secrets).
"""

from __future__ import annotations

import os
from pathlib import Path

LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")


class SettingError(Exception):
    """An environment variable is missing or can't be read; the message names it and says what would be right."""


def read_str(name: str, default: str | None = None) -> str:
    """Returns the variable, or `default`; raises SettingError when neither exists."""
    value = os.environ.get(name)
    if value is not None and value != "":
        return value
    if default is None:
        raise SettingError(f"{name} is not set. Set it in the environment of this process.")
    return default


def read_int(name: str, default: int, *, low: int | None = None, high: int | None = None) -> int:
    """Returns the variable as an int between `low` and `high`, both inclusive."""
    raw = os.environ.get(name, "")
    if raw == "":
        return default
    try:
        value = int(raw)
    except ValueError:
        raise SettingError(f"{name}={raw!r} is not a whole number.") from None
    if (low is not None and value < low) or (high is not None and value > high):
        raise SettingError(f"{name}={value} is outside {low} to {high}.")
    return value


def read_bool(name: str, default: bool) -> bool:
    """Returns the variable as a truth value: 1, true, yes, on against 0, false, no, off."""
    raw = os.environ.get(name, "").strip().lower()
    if raw == "":
        return default
    if raw in ("1", "true", "yes", "on"):
        return True
    if raw in ("0", "false", "no", "off"):
        return False
    raise SettingError(f"{name}={raw!r} is neither true nor false; use 1 or 0.")


def read_list(name: str, default: tuple[str, ...] = ()) -> list[str]:
    """Returns a comma-separated variable as a list without empty items."""
    raw = os.environ.get(name)
    if raw is None:
        return list(default)
    return [item.strip() for item in raw.split(",") if item.strip()]


def read_secret(name: str, default: str | None = None) -> str:
    """Returns `NAME`, or the stripped content of the file named by `NAME_FILE`, or `default`."""
    path = os.environ.get(f"{name}_FILE")
    if path:
        if os.environ.get(name):
            raise SettingError(f"{name} and {name}_FILE are both set; keep one.")
        try:
            return Path(path).read_text(encoding="utf-8").strip()
        except OSError as error:
            raise SettingError(f"{name}_FILE={path!r} can't be read: {error.strerror}.") from error
    return read_str(name, default)


def log_level() -> str:
    """Returns `HEADWORKS_LOG_LEVEL`: DEBUG, INFO, WARNING, ERROR or CRITICAL."""
    level = read_str("HEADWORKS_LOG_LEVEL", "INFO")
    if level not in LEVELS:
        raise SettingError(f"HEADWORKS_LOG_LEVEL={level!r} is none of {', '.join(LEVELS)}.")
    return level


def headworks_home() -> Path:
    """Returns the data folder (`HEADWORKS_HOME`, by default `.headworks` in the working directory)."""
    return Path(os.environ.get("HEADWORKS_HOME") or ".headworks").absolute()


def cache_folder() -> Path:
    """Returns the per-user cache: `HEADWORKS_CACHE`, else `headworks` in the user's cache folder."""
    named = os.environ.get("HEADWORKS_CACHE")
    if named:
        return Path(named).absolute()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache").absolute() / "headworks"
