"""Other ways to write names of the table: what is left out, older spellings, what a size alone can mean."""

from __future__ import annotations

import re
from collections.abc import Mapping

_ACTIVE = re.compile(r"(?<=\dB)-A\d+(?:\.\d+)?B\b")  # the active size behind the whole one: `Qwen3-235B-A22B`
_DATE = re.compile(r"-2[3-6](?:0[1-9]|1[0-2])$")
_SIZED = re.compile(r"\d[BbEe]")

ALIASES: dict[str, str] = {
    "Llama-3-8B": "Meta-Llama-3-8B",
    "Llama-3-70B": "Meta-Llama-3-70B",
    "Meta-Llama-3.1-8B": "Llama-3.1-8B",
    "Meta-Llama-3.1-70B": "Llama-3.1-70B",
    "Meta-Llama-3.1-405B": "Llama-3.1-405B",
    "Meta-Llama-3.3-70B": "Llama-3.3-70B",
    "Llama-Guard-3-8B": "Llama-3.1-8B",
    "Llama2-7b": "Llama-2-7b",
    "Llama2-13b": "Llama-2-13b",
    "Llama2-70b": "Llama-2-70b",
    "Llama3-8B": "Meta-Llama-3-8B",
    "Llama3-70B": "Meta-Llama-3-70B",
    "Llama-4-Scout": "Llama-4-Scout-17B-16E",
    "Llama-4-Maverick": "Llama-4-Maverick-17B-128E",
    "Mistral-Nemo-12B": "Mistral-Nemo-2407",
    "Mistral-Nemo": "Mistral-Nemo-2407",
    "Mistral-Small-24B": "Mistral-Small-24B-2501",
    "Nemotron-Nano-9B-v2": "NVIDIA-Nemotron-Nano-9B-v2",
    "Nemotron-Nano-12B-v2": "NVIDIA-Nemotron-Nano-12B-v2",
    "Codestral-22B": "Codestral-22B-v0.1",
    "Nemotron-3-Nano-4B": "NVIDIA-Nemotron-3-Nano-4B",
    "Nemotron-3-Nano-30B-A3B": "NVIDIA-Nemotron-3-Nano-30B-A3B",
    "Nemotron-3-Super-120B-A12B": "NVIDIA-Nemotron-3-Super-120B-A12B",
    "Jamba-1.5-Mini": "AI21-Jamba-Mini",
    "Jamba-1.5-Large": "AI21-Jamba-Large",
    "command-r-v01": "c4ai-command-r-v01",
    "command-r-plus": "c4ai-command-r-plus",
    "command-r7b": "c4ai-command-r7b-12-2024",
    "command-a": "c4ai-command-a-03-2025",
    "OLMo-2-7B": "OLMo-2-1124-7B",
    "OLMo-2-13B": "OLMo-2-1124-13B",
    "OLMo-2-32B": "OLMo-2-0325-32B",
    "Phi-2": "phi-2",
    "SmolLM-135M": "SmolLM2-135M",
    "SmolLM-360M": "SmolLM2-360M",
    "SmolLM-1.7B": "SmolLM2-1.7B",
    "command-a-03-2025": "c4ai-command-a-03-2025",
    "command-r-08-2024": "c4ai-command-r-08-2024",
    "command-r7b-12-2024": "c4ai-command-r7b-12-2024",
    "AI21-Jamba-1.5-Mini": "AI21-Jamba-Mini",
    "AI21-Jamba-1.5-Large": "AI21-Jamba-Large",
    "Mixtral-8x7B-v0.1": "Mixtral-8x7B",
    "Mixtral-8x22B-v0.1": "Mixtral-8x22B",
    "Mistral-Small-4-119B-2603": "Mistral-Small-4-119B",
    "vicuna-7b-v1.5": "vicuna-7b",
    "vicuna-13b-v1.5": "vicuna-13b",
    "zephyr-7b-beta": "zephyr-7b",
    "TinyLlama-1.1B-Chat-v1.0": "TinyLlama-1.1B",
    "MiMo-7B-RL": "MiMo-7B",
    "MiMo-VL-7B-RL": "MiMo-VL-7B",
    "Yi-1.5-6B": "Yi-6B",
    "Yi-1.5-9B": "Yi-9B",
    "Yi-1.5-34B": "Yi-34B",
    "InternVL2_5-38B": "InternVL3-38B",
    "InternVL2_5-78B": "InternVL3-78B",
    "InternVL2-8B": "InternVL2_5-8B",
    "DeepSeek-R1-Qwen3-8B": "DeepSeek-R1-0528-Qwen3-8B",
    "stablelm-zephyr-3b": "stablelm-3b-4e1t",
    "stablelm-2-zephyr-1_6b": "stablelm-2-1_6b",
    **{f"DeepSeek-R1-{size}": f"DeepSeek-R1-Distill-Qwen-{size}" for size in ("1.5B", "7B", "14B", "32B")},
    **{f"DeepSeek-R1-Distill-{size}": f"DeepSeek-R1-Distill-Qwen-{size}" for size in ("1.5B", "7B", "14B", "32B")},
    "DeepSeek-R1-70B": "DeepSeek-R1-Distill-Llama-70B",
    "DeepSeek-R1-Distill-70B": "DeepSeek-R1-Distill-Llama-70B",
    "DeepSeek-R1-Distill-8B": "DeepSeek-R1-Distill-Llama-8B",
    "gptoss-20b": "gpt-oss-20b",
    "gptoss-120b": "gpt-oss-120b",
    "Llama-4-Scout-17B": "Llama-4-Scout-17B-16E",
    "Llama-4-Maverick-17B": "Llama-4-Maverick-17B-128E",
    "Llama-3_3-Nemotron-Super-49B": "Llama-3_3-Nemotron-Super-49B-v1",
    "Nemotron-Super-49B": "Llama-3_3-Nemotron-Super-49B-v1",
    "Nemotron-Super-49B-v1_5": "Llama-3_3-Nemotron-Super-49B-v1_5",
    "Llama-3_1-Nemotron-Ultra-253B": "Llama-3_1-Nemotron-Ultra-253B-v1",
    "Nemotron-Ultra-253B": "Llama-3_1-Nemotron-Ultra-253B-v1",
    "Nemotron-3-Nano-30B": "NVIDIA-Nemotron-3-Nano-30B-A3B",
    "Nemotron-3-Nano": "NVIDIA-Nemotron-3-Nano-30B-A3B",
    "NVIDIA-Nemotron-3.5-Lightning-30B-A3B": "NVIDIA-Nemotron-3-Nano-30B-A3B",
    "Nemotron-3.5-Lightning-30B-A3B": "NVIDIA-Nemotron-3-Nano-30B-A3B",
    "Nemotron-Nano-12B-v2-VL": "NVIDIA-Nemotron-Nano-12B-v2-VL",
    "CroissantLLMChat-v0.1": "CroissantLLM",
    "Nemotron-3-Super-120B": "NVIDIA-Nemotron-3-Super-120B-A12B",
    "Nemotron-3-Super": "NVIDIA-Nemotron-3-Super-120B-A12B",
    "Mistral": "Mistral-7B",
    "Mixtral": "Mixtral-8x7B",
    "Mistral-Small-22B": "Mistral-Small-2409",
    "Mistral-Small-3-24B": "Mistral-Small-24B-2501",
    "Mistral-Small-3.1": "Mistral-Small-3.1-24B-2503",
    "Mistral-Small-3.2": "Mistral-Small-3.2-24B-2506",
    "Mistral-Small-4": "Mistral-Small-4-119B",
    "Mistral-Large-2": "Mistral-Large-2407",
    "Mistral-Large-123B": "Mistral-Large-2407",
    "Mistral-Large-3": "Mistral-Large-3-675B",
    "Devstral-Small": "Devstral-Small-2507",
    "Devstral-Small-1.1": "Devstral-Small-2507",
    "Devstral-Small-2": "Devstral-Small-2-24B-2512",
    "Devstral-2": "Devstral-2-123B-2512",
    "Magistral-Small-1.1": "Magistral-Small-2507",
    "Magistral-Small-1.2": "Magistral-Small-2509",
    "Pixtral-Large": "Pixtral-Large-2411",
    "command-r-35b": "c4ai-command-r-v01",
    "command-r-32b": "c4ai-command-r-08-2024",
    "command-r-plus-104b": "c4ai-command-r-plus",
    "command-a-111b": "c4ai-command-a-03-2025",
    "EXAONE-4.0.1-32B": "EXAONE-4.0-32B",
    "AI21-Jamba2-Mini": "AI21-Jamba-Mini",
    "TinyLlama_v1.1": "TinyLlama-1.1B",
    "TinyLlama": "TinyLlama-1.1B",
    "internlm2-1_8b": "internlm2_5-1_8b",
    "distil-large-v3.5": "distil-large-v3",
    "llm-jp-3.1-13b": "llm-jp-3-13b",
    "medgemma-1.5-4b": "medgemma-4b",
    "LFM2.5-8B-A1B": "LFM2-8B-A1B",
    "Phi-3-vision-128k": "Phi-3.5-vision",
    "granite-vision-3.2-2b": "granite-vision-3.3-2b",
    "granite-vision-3.1-2b": "granite-vision-3.3-2b",
    "GLM-4-32B": "GLM-4-32B-0414",
    "reka-flash-3.1": "reka-flash-3",
}


def shortened(configs: Mapping[str, object]) -> dict[str, str]:
    """Names without the active size of a mixture, and without a date where it leaves a size and one model alone:
    `Qwen3-235B`, `Mistral-Small-3.2-24B`. Each with the name that it stands for."""
    known = {**configs, **dict.fromkeys(ALIASES)}
    found: dict[str, str] = {}
    for shorten in (_without_active, _without_date, lambda name: _without_date(_without_active(name))):
        meant: dict[str, list[str]] = {}
        for name in configs:
            short = shorten(name)
            if short != name and _SIZED.search(short) and short not in known:
                meant.setdefault(short, []).append(name)
        alike = {
            short: names[0] for short, names in meant.items() if all(configs[one] == configs[names[0]] for one in names)
        }
        found = {**alike, **found}
        known |= alike
    return found


def _without_active(name: str) -> str:
    return _ACTIVE.sub("", name)


def _without_date(name: str) -> str:
    return _DATE.sub("", name)
