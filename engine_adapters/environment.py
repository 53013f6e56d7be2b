"""Which variables of the node worker's environment an engine gets to see.

The worker's own environment holds addresses and secrets (broker, secret key files) that an engine must not have, and
stray variables (`VLLM_API_KEY`, `PYTHONPATH`, `OMP_NUM_THREADS`) that would change how it runs behind the back of the
revision. So nothing passes but what is listed here.
"""

from __future__ import annotations

from collections.abc import Mapping

from engine_adapters.base import Command

INHERITED = frozenset(
    {
        # the system
        "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR",
        # libraries of the driver, the toolkit and the allocator, as the machine has them set up
        "LD_LIBRARY_PATH", "LD_PRELOAD", "CUDA_HOME", "CUDA_PATH", "NVIDIA_VISIBLE_DEVICES",
        "NVIDIA_DRIVER_CAPABILITIES", "CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_LOG_DIRECTORY",
        # the way out, for models that the engine fetches itself
        "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy",
        "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE",
        "HF_HOME", "HF_HUB_CACHE", "HF_ENDPOINT", "HF_TOKEN",
    }
)  # fmt: skip
# collective communication is tuned for a machine's network, not for a deployment
INHERITED_PREFIXES = ("LC_", "NCCL_", "GLOO_")


def inherited(parent: Mapping[str, str]) -> dict[str, str]:
    """Returns the part of the parent's environment that an engine gets."""
    return {name: value for name, value in parent.items() if name in INHERITED or name.startswith(INHERITED_PREFIXES)}


def process_environment(parent: Mapping[str, str], command: Command) -> dict[str, str]:
    """Returns the whole environment of an engine process: the listed part of the parent's, then the command's own."""
    return {**inherited(parent), **command.env}
