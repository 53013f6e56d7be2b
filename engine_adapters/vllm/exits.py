"""Why a vLLM process ended, told from its last log lines: what can be done about it comes with it.

The rules stand in the order in which they are tried, causes before consequences: a replica that ran out of memory
also logs that its engine core is dead. Each sentence keeps the engine's own numbers.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

# (Worker_TP0 pid=12) ERROR 11-29 19:59:53 [core.py:1512]   the message
_PREFIX = re.compile(
    r"^(?:\([^)]*pid=\d+\)\s*)?(?:(?:DEBUG|INFO|WARNING|ERROR|CRITICAL) \S+ \S+ \[[^\]]+\]|(?:ERROR|CRITICAL):)?\s*"
)
_EXCEPTION = re.compile(r"^(?:[a-z_][\w]*\.)*[A-Z]\w*(?:Error|Exception|Exit)(?::.*)?$")
_SERVING = re.compile(r"Application startup complete")
# what the others say of a process of the engine that has vanished
_VANISHED = re.compile(r"engine core exited unexpectedly|died unexpectedly")


@dataclass(frozen=True, slots=True)
class Rule:
    """A pattern for one line, and what it means; named groups of the pattern fill the sentence."""

    code: str
    pattern: re.Pattern[str]
    sentence: str
    hint: str


_KV_TOO_SMALL = r"max seq len \((?P<asked>\d+)\).*?(?P<needed>[\d.]+) GiB.*?memory \((?P<free>[\d.]+) GiB\)"


def _rule(code: str, pattern: str, sentence: str, hint: str) -> Rule:
    return Rule(code, re.compile(pattern), sentence, hint)


RULES: tuple[Rule, ...] = (
    _rule(
        "port_in_use",
        r"Address already in use|address already in use|\[Errno 98\]",
        "Another process has the engine's port.",
        "The next start takes another port by itself. If it comes again, look for engines that somebody else started.",
    ),
    _rule(
        "key_missing",
        r"HEADWORKS_REPLICA_KEY is not set",
        "The engine was started without the key of its replica and refused to open its port.",
        "Start it through Headworks.",
    ),
    _rule(
        "engine_not_installed",
        r"No module named '?vllm(?:\.[\w.]+)?'?\s*\)?$",
        "vLLM is not installed in the node's engine environment.",
        "Check HEADWORKS_ENGINE_PYTHON on the node, and install the engine there.",
    ),
    _rule(
        "engine_packages_do_not_fit",
        r"operator (?P<what>torchvision::\w+) does not exist",
        "A package in the engine's environment does not fit its PyTorch ({what} is missing).",
        "Remove torchvision, torchaudio and torchcodec from the engine's environment, or install those that fit.",
    ),
    _rule(
        "wrong_argument",
        r"error: unrecognized arguments: (?P<what>.+)$",
        "This version of vLLM has no option {what}.",
        "Correct the deployment's further arguments, or run a version of vLLM that has the option.",
    ),
    _rule(
        "wrong_argument",
        r"error: argument (?P<what>[^:]+): (?P<why>.+)$",
        "vLLM refused {what}: {why}.",
        "Correct this setting of the deployment.",
    ),
    _rule(
        "context_longer_than_model",
        r"max_model_len \((?P<asked>\d+)\) is greater than the derived max_model_len \(\D*(?P<most>\d+)",
        "The context length of {asked} tokens is more than the model was made for ({most}).",
        "Set max_model_len to {most} or less.",
    ),
    _rule(
        "context_too_long_for_kv",
        _KV_TOO_SMALL + r".*estimated maximum model length is (?P<most>\d+)",
        "One request of {asked} tokens needs {needed} GiB of KV cache, and {free} GiB are left beside the model.",
        "Set max_model_len to {most} or less, or give the replica more memory or accelerators.",
    ),
    _rule(
        "context_too_long_for_kv",
        _KV_TOO_SMALL,
        "One request of {asked} tokens needs {needed} GiB of KV cache, and {free} GiB are left beside the model.",
        "Lower max_model_len, or give the replica more memory or accelerators.",
    ),
    _rule(
        "context_too_long_for_kv",
        r"max seq len \((?P<asked>\d+)\) is larger than the maximum number of tokens that can be stored in KV cache "
        r"\((?P<most>\d+)\)",
        "One request of {asked} tokens does not fit into the KV cache, which holds {most}.",
        "Set max_model_len to {most} or less, or give the replica more memory or accelerators.",
    ),
    _rule(
        "no_memory_for_kv",
        r"No available memory for the cache blocks",
        "The model leaves no memory for the KV cache.",
        "Raise gpu_memory_utilization, take more or larger accelerators, or a smaller or quantized model.",
    ),
    _rule(
        "memory_taken",
        r"Free memory on device \S* ?\((?P<free>[\d.]+)/(?P<total>[\d.]+) GiB\) on startup is less than desired GPU "
        r"memory utilization \((?P<share>[\d.]+), (?P<wanted>[\d.]+) GiB\)",
        "Only {free} of {total} GiB of the card are free; the engine wants {wanted} GiB.",
        "Find what else uses the card, or lower gpu_memory_utilization (it is {share}).",
    ),
    _rule(
        "memory_taken",
        r"Free memory on device .*is less than desired GPU memory utilization",
        "Less memory of the card is free than the engine wants.",
        "Find what else uses the card, or lower gpu_memory_utilization.",
    ),
    _rule(
        "cpu_out_of_memory",
        r"Available memory on node \S+ \((?P<free>[\d.]+)/(?P<total>[\d.]+) GiB\).*?less than requested memory for kv "
        r"\((?P<wanted>[\d.]+)",
        "Only {free} of {total} GiB of the machine's memory are free; the KV cache wants {wanted} GiB.",
        "Lower kv_cache_memory_bytes, or free memory on the machine.",
    ),
    _rule(
        "cpu_out_of_memory",
        r"Available memory on node \S+ \((?P<free>[\d.]+)/(?P<total>[\d.]+) GiB\).*?less than desired CPU memory",
        "Only {free} of {total} GiB of the machine's memory are free, less than the engine wants.",
        "Set kv_cache_memory_bytes, or free memory on the machine.",
    ),
    _rule(
        "gpu_out_of_memory",
        r"(?:CUDA|HIP) out of memory\. Tried to allocate (?P<wanted>[\d.]+ [KMG]iB)",
        "The card's memory ran out when the engine asked for {wanted} more.",
        "Lower max_num_seqs, max_num_batched_tokens or gpu_memory_utilization, or take more accelerators.",
    ),
    _rule(
        "gpu_out_of_memory",
        r"(?:CUDA|HIP) out of memory|OutOfMemoryError|CUDA error: out of memory",
        "The card's memory ran out.",
        "Lower max_num_seqs, max_num_batched_tokens or gpu_memory_utilization, or take more accelerators.",
    ),
    _rule(
        "cpu_out_of_memory",
        r"DefaultCPUAllocator: (?:can't allocate memory|not enough memory)|^MemoryError|Cannot allocate memory$",
        "The machine's memory ran out.",
        "Lower kv_cache_memory_bytes or max_num_seqs, or run fewer replicas on this machine.",
    ),
    _rule(
        "disk_full",
        r"No space left on device",
        "The node's disk is full.",
        "Free space on the node, in its data folder and its model folder.",
    ),
    _rule(
        "model_access_refused",
        r"[Cc]annot access gated repo|GatedRepoError|401 Client Error",
        "The model hub refuses access to the model.",
        "Accept the model's licence and set HF_TOKEN for the node worker, or use a local copy.",
    ),
    _rule(
        "model_not_found",
        r"Repo id must be in the form .*?'(?P<what>/[^']*)'",
        "There is no model in {what}.",
        "Check the path of the variant on this node.",
    ),
    _rule(
        "model_not_found",
        r"is not a local folder (?:and is not a valid model identifier|or a valid repository name)"
        r"|RepositoryNotFoundError|404 Client Error"
        r"|Invalid repository ID or local directory specified|LocalEntryNotFoundError|OfflineModeIsEnabled"
        r"|outgoing traffic has been disabled|does not appear to have a file named config\.json"
        r"|couldn't connect to 'https://huggingface\.co'",
        "The model was not found, neither on the node nor on the model hub.",
        "Check the variant's path or name, and whether the node reaches the hub.",
    ),
    _rule(
        "model_not_supported",
        r"Model architectures (?P<what>\[[^\]]*\]) (?:are not supported|failed to be inspected)",
        "This version of vLLM can't serve the architecture {what}.",
        "Use a version of vLLM that has it.",
    ),
    _rule(
        "gpu_not_usable",
        r"no kernel image is available|Found no NVIDIA driver|NVIDIA driver on your system is too old"
        r"|no CUDA-capable device|CUDA driver version is insufficient",
        "The engine's build and the card or its driver do not go together.",
        "Compare the engine's CUDA version with the driver's, and the build with the card's generation.",
    ),
    _rule(
        "cards_do_not_reach_each_other",
        r"NCCL error|ncclInternalError|ncclSystemError|ncclUnhandledCudaError",
        "The cards of the replica could not talk to each other.",
        "Look for NCCL in the log; check the links between the cards and the size of /dev/shm.",
    ),
    _rule(
        "wrong_setting",
        r"^Value error, (?P<why>.+?)(?:\. Must be|\. \[type|\[type| \[type|$)",
        "vLLM refused the settings: {why}.",
        "Correct the deployment's settings.",
    ),
    _rule(
        "import_error",
        r"^(?:ModuleNotFoundError|ImportError): (?P<why>.+)$",
        "A package of the engine could not be loaded: {why}.",
        "Install the engine's environment anew.",
    ),
)

# signal -> (code, sentence, hint), for ends that the log says nothing of
_SIGNALS = {
    "SIGILL": (
        "cpu_instruction_missing",
        "The machine's processor lacks an instruction that the engine's build uses.",
        "Use a build for this processor; the CPU builds of vLLM want AVX2 or AVX-512.",
    ),
    "SIGKILL": (
        "killed",
        "The engine was killed.",
        "Most often the kernel does that when memory runs out: look at dmesg, and lower kv_cache_memory_bytes or "
        "max_num_seqs.",
    ),
    "SIGSEGV": (
        "crashed",
        "The engine crashed in native code (SIGSEGV).",
        "Read the end of its log; compare the versions of the engine, its libraries and the driver.",
    ),
    "SIGABRT": (
        "crashed",
        "The engine aborted in native code (SIGABRT).",
        "Read the end of its log; compare the versions of the engine, its libraries and the driver.",
    ),
    "SIGTERM": ("terminated", "Somebody ended the engine (SIGTERM).", "If it was not Headworks, look at who did."),
}


def explain_exit(log_lines: Sequence[str], exit_text: str) -> tuple[str, str, str]:
    """Returns (code, sentence, hint) for an engine that ended; `exit_text` is such as `exit code 1`."""
    lines = [_PREFIX.sub("", line).rstrip() for line in log_lines]
    for rule in RULES:
        for line in lines:
            match = rule.pattern.search(line)
            if match:
                return rule.code, _filled(rule.sentence, match), _filled(rule.hint, match)
    if any("Illegal instruction" in line for line in lines):
        return _SIGNALS["SIGILL"]
    for name, explained in _SIGNALS.items():
        if name in exit_text:
            return explained
    if _was_killed_inside(lines):
        return _SIGNALS["SIGKILL"]
    return _from_exception(lines, exit_text)


def _was_killed_inside(lines: Sequence[str]) -> bool:
    """Returns whether a process inside the engine ended without a word: all errors in the log are of the others."""
    for line in lines:
        if _EXCEPTION.match(line):
            return False
        if _VANISHED.search(line):
            return True
    return False


def _from_exception(lines: Sequence[str], exit_text: str) -> tuple[str, str, str]:
    # the first one is the cause, those after it are the other processes' words for it
    cause = next((line for line in lines if _EXCEPTION.match(line) and not line.startswith("SystemExit")), "")
    serving = any(_SERVING.search(line) for line in lines)
    why = f": {_short(cause)}" if cause else ""
    if serving and cause:
        return (
            "died_on_generation",
            f"The engine died while it was generating{why}.",
            "It answers and then dies, so the cause is in the engine or in a setting: read its log, and try without "
            "pipeline parallelism or compilation.",
        )
    if cause:
        return "failed_to_start", f"The engine failed while it started{why}.", "Read the end of its log."
    return "ended", f"The engine ended by itself ({exit_text}).", "Read the end of its log."


def _filled(text: str, match: re.Match[str]) -> str:
    return text.format(**{name: _short(value or "") for name, value in match.groupdict().items()})


def _short(text: str) -> str:
    text = text.strip().rstrip(".")
    return text if len(text) <= 200 else text[:199] + "…"
