"""Failures of the launcher as one sentence with what to do, and readers of what pip and npm say when they fail."""

from __future__ import annotations

import errno
import re


class LauncherError(Exception):
    """Something a person has to put right. The text is one clear sentence (or two) and is all that is printed."""


CPU_TORCH = (
    "pip can't find the CPU build of PyTorch ({wanted}), which the public package index does not carry. "
    "Configure PyTorch's CPU wheel index in pip (for example as extra-index-url or find-links), or pass it once with "
    'HEADWORKS_ENGINE_PIP_ARGS="--extra-index-url <address of that index>"; then run make up again.'
)
DISK_FULL = (
    "The disk became full while {what}. Free about {needed_gb:.0f} GB and run make up again; it starts that step anew."
)
NO_DOWNLOAD = (
    "A download failed while {what} ({reason}). Check the network, the proxy settings and the package index, "
    "then run make up again; it goes on from there."
)

_NETWORK_SIGNS = (
    ("Temporary failure in name resolution", "a host name could not be resolved"),
    ("Name or service not known", "a host name could not be resolved"),
    ("getaddrinfo", "a host name could not be resolved"),
    ("ENOTFOUND", "a host name could not be resolved"),
    ("EAI_AGAIN", "a host name could not be resolved"),
    ("CERTIFICATE_VERIFY_FAILED", "the certificate of the server is not trusted"),
    ("SELF_SIGNED_CERT", "the certificate of the server is not trusted"),
    ("ProxyError", "the proxy does not let the connection through"),
    ("Tunnel connection failed", "the proxy does not let the connection through"),
    ("Connection refused", "the connection was refused"),
    ("ECONNREFUSED", "the connection was refused"),
    ("Read timed out", "the server did not answer in time"),
    ("ReadTimeoutError", "the server did not answer in time"),
    ("ConnectTimeout", "the server did not answer in time"),
    ("ETIMEDOUT", "the server did not answer in time"),
    ("IncompleteRead", "the connection broke off"),
    ("Connection aborted", "the connection broke off"),
    ("Connection broken", "the connection broke off"),
    ("ECONNRESET", "the connection broke off"),
    ("Network is unreachable", "there is no network"),
    ("ENETUNREACH", "there is no network"),
)
_NOT_FOUND = re.compile(r"No matching distribution found for (\S+)")
_HASHES = re.compile(r"HASHES? .*DO NOT MATCH|EINTEGRITY", re.IGNORECASE)


def explain_install_failure(output: str, what: str, needed_gb: float = 6.0) -> str:
    """Returns one sentence for the output of a pip or npm run that failed while `what` ("installing …")."""
    if "No space left on device" in output or "ENOSPC" in output:
        return DISK_FULL.format(what=what, needed_gb=needed_gb)
    for sign, reason in _NETWORK_SIGNS:
        if sign in output:
            return NO_DOWNLOAD.format(what=what, reason=reason)
    missing = _NOT_FOUND.search(output)
    if missing and missing[1].startswith("torch==") and missing[1].endswith("+cpu"):
        return CPU_TORCH.format(wanted=missing[1])
    if missing:
        return (
            f"pip can't find {missing[1]} for this machine's Python while {what}. "
            "Check which package index pip is configured with (pip config list), then run make up again."
        )
    if _HASHES.search(output):
        return f"A download was damaged while {what}: its checksum is wrong. Run make up again."
    if "Permission denied" in output or "EACCES" in output:
        return f"A file could not be written while {what}: permission denied. {last_words(output)}"
    return f"Something failed while {what}: {last_words(output)}"


def last_words(output: str) -> str:
    """Returns the line of `output` that most likely tells the reason, shortened."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line for line in lines if re.match(r"(ERROR|error|npm (ERR!|error))", line)]
    chosen = (errors or lines or ["the program said nothing."])[-1 if not errors else 0]
    return chosen if len(chosen) <= 300 else chosen[:297] + "…"


def in_words(error: Exception) -> str:
    """Returns an expected error as the sentence that is printed."""
    if not isinstance(error, OSError):
        return str(error)
    if error.errno == errno.ENOSPC:
        return f"The disk is full ({error.filename or 'no file named'}). Free some space and run make up again."
    what = f"{error.filename}: " if error.filename else ""
    return f"{what}{error.strerror or error}."
