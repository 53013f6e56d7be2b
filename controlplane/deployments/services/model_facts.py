"""What is known of a deployment's model: from its files where this machine can read them, from the catalog, or by name.

Guarantees
    Files are read only below an absolute path, only `config.json` and the headers of safetensors, with limits on their
    size; what was read is remembered until a file changes.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from controlplane.catalog.models import Model, Variant
from controlplane.domain.errors import RefusedError
from controlplane.domain.specs import architecture, config_json, known_models, safetensors_index
from controlplane.domain.specs.model import ModelFacts

LARGEST_CONFIG_BYTES = 2 * 1024 * 1024
LARGEST_HEADER_BYTES = 32 * 1024 * 1024
MOST_FILES = 256
_PLAIN = frozenset({"bf16", "bfloat16", "fp16", "float16", "fp32", "float32", "auto", ""})


@dataclass(frozen=True, slots=True)
class Known:
    """Facts, and whether they come from the files themselves, which then also say how they are quantized."""

    facts: ModelFacts
    from_files: bool


def of_variant(variant: Variant | None, path: str) -> Known | str:
    """Returns what is known of the model at a path, or why nothing is, in one clause."""
    found = _on_disk(path)
    if isinstance(found, ModelFacts):
        return Known(found, from_files=True)
    why = found or "its files are not readable here"
    described = _described(variant.model) if variant else None
    if described is not None:
        return Known(_of_folder(described, path), from_files=False)
    names = [path.rstrip("/").rsplit("/", maxsplit=1)[-1], path]
    names += [variant.model.name, variant.model.display_name, variant.model.source] if variant else []
    for name in names:
        known = known_models.find(name) if name else None
        if known is not None:
            return Known(_of_folder(known, path), from_files=False)
    return f"nothing is known of this model: {why}, the catalog has no architecture of it, and its name is not known"


def _of_folder(facts: ModelFacts, path: str) -> ModelFacts:
    """A folder of the node may hold another config.json than was published: one with rotary scaling for longer
    requests, for instance."""
    return replace(facts, length_is_certain=False) if path.startswith("/") else facts


def quantization_of(known: Known, variant: Variant | None) -> str | None:
    """Returns the quantization that the catalog says of a variant, None where files or facts say it themselves."""
    if known.from_files or known.facts.quantization or variant is None:
        return None
    precision = variant.precision.strip().lower()
    return None if precision in _PLAIN else precision


def dtype_of(known: Known, variant: Variant | None) -> str | None:
    """Returns the compute type that the catalog says of a variant."""
    if known.from_files or variant is None:
        return None
    precision = variant.precision.strip().lower()
    return precision if precision in _PLAIN - {"", "auto"} else None


def _described(model: Model) -> ModelFacts | None:
    """Facts from the catalog's `architecture`: a config.json, or a short description with its parameters."""
    fields = model.architecture
    if not isinstance(fields, Mapping) or not fields:
        return None
    try:
        if "model_type" in fields or "architectures" in fields or "text_config" in fields:
            return config_json.read(fields, name=model.name)
        given = {"total_params": model.parameters, **fields} if model.parameters else fields
        return architecture.read(given, name=model.name)
    except RefusedError:
        return None


def _on_disk(path: str) -> ModelFacts | str:
    """Facts of a folder, or why there are none; the empty text when there is nothing to read."""
    if not path.startswith("/"):
        return ""
    folder = Path(path)
    try:
        config = folder / "config.json"
        changed = max(config.stat().st_mtime_ns, folder.stat().st_mtime_ns)
    except (OSError, ValueError):
        return ""
    return _read(path, changed)


@lru_cache(maxsize=256)
def _read(path: str, changed: int) -> ModelFacts | str:
    folder = Path(path)
    try:
        text = _limited(folder / "config.json", LARGEST_CONFIG_BYTES)
        config = json.loads(text)
        if not isinstance(config, Mapping):
            return "its config.json is not an object"
        facts = config_json.read(config, name=folder.name)
    except (OSError, ValueError, RecursionError):
        return "its config.json can't be read"
    except RefusedError as error:
        return f"its config.json says too little ({error.message})"
    try:
        headers = _headers(folder)
        return safetensors_index.with_files(facts, safetensors_index.read(headers)) if headers else facts
    except RefusedError as error:
        left_out = f"Its weight files were left out, weights were counted: {error.message}"
        return replace(facts, assumptions=(*facts.assumptions, left_out))
    except (OSError, ValueError, RecursionError):
        return facts  # weights by counting then


def _headers(folder: Path) -> list[object]:
    files = sorted(folder.glob("*.safetensors"))
    return [_header(file) for file in files[:MOST_FILES]] if len(files) <= MOST_FILES else []


def _header(file: Path) -> object:
    with file.open("rb") as stream:
        (size,) = struct.unpack("<Q", stream.read(8).ljust(8, b"\0"))
        if not 0 < size <= LARGEST_HEADER_BYTES:
            raise ValueError(f"{file.name} has no header of a sensible size")
        return json.loads(stream.read(size))


def _limited(file: Path, most: int) -> bytes:
    with file.open("rb") as stream:
        data = stream.read(most + 1)
    if len(data) > most:
        raise ValueError(f"{file.name} is larger than {most} bytes")
    return data
