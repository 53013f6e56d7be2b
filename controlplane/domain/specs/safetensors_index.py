"""Weights as the files hold them, to the byte: from safetensors headers, or from an index where there is no more.

A header maps a tensor's name to `dtype`, `shape` and `data_offsets` (two byte positions); an index has
`metadata.total_size` and `weight_map`, which maps a tensor's name to its file.
Source: the safetensors format description; an index is what `save_pretrained` writes beside sharded files.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from controlplane.domain.errors import RefusedError
from controlplane.domain.specs import belonging, precision, tensor_names
from controlplane.domain.specs import fields as reading
from controlplane.domain.specs.model import ModelFacts
from controlplane.domain.specs.tensor_names import Part
from controlplane.domain.specs.weight_parts import WeightParts

_DTYPE_BITS = {
    "F64": 64, "F32": 32, "F16": 16, "BF16": 16, "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8, "F6_E2M3": 6, "F6_E3M2": 6,
    "F4": 4, "I64": 64, "I32": 32, "I16": 16, "I8": 8, "U64": 64, "U32": 32, "U16": 16, "U8": 8, "BOOL": 8, "C64": 64,
}  # fmt: skip
_FLOATS = ("F64", "F32", "F16", "BF16")
_MOST_TENSORS = 2_000_000
_MOST_BYTES = 10**16
_MOST_AXES = 16


@dataclass(frozen=True, slots=True)
class Tensor:
    """One tensor of a file; `elements` are unpacked weights, `layer` None outside of the layers."""

    name: str
    dtype: str
    elements: int
    size_bytes: int
    part: Part
    layer: int | None


@dataclass(frozen=True, slots=True)
class WeightFiles:
    """All tensors of a model's files. `tensors` is empty where only an index was given: then names alone are known."""

    total_bytes: int
    tensors: tuple[Tensor, ...]
    names: tuple[str, ...]
    dtype_bytes: Mapping[str, int]  # dtype -> bytes

    def bytes_of(self, part: Part) -> int:
        """Bytes of all tensors of one part; 0 where only an index was given."""
        return sum(tensor.size_bytes for tensor in self.tensors if tensor.part == part)


def read(index_or_headers: object) -> WeightFiles:
    """An index, one header, a list of headers, or headers by file name. Raises RefusedError (code safetensors) naming
    the tensor and what is wrong with it."""
    if isinstance(index_or_headers, Mapping) and "weight_map" in index_or_headers:
        return _index(index_or_headers)
    headers = _headers(index_or_headers)
    if not headers:
        raise _refused(
            "safetensors", "safetensors headers or an index are expected", "a header, a list of headers or an index"
        )
    tensors: dict[str, Tensor] = {}
    for header in headers:
        for name, entry in header.items():
            if name != "__metadata__":
                tensors[_name(name)] = _tensor(name, entry)
        if len(tensors) > _MOST_TENSORS:
            raise _refused("safetensors", "there are too many tensors", f"up to {_MOST_TENSORS} tensors")
    if not tensors:
        raise _refused("safetensors", "no tensor is in it", "at least one tensor with dtype, shape and data_offsets")
    found = tuple(tensors.values())
    dtypes: Counter[str] = Counter()
    for tensor in found:
        dtypes[tensor.dtype] += tensor.size_bytes
    return WeightFiles(sum(tensor.size_bytes for tensor in found), found, tuple(tensors), dict(dtypes))


def _index(index: Mapping[object, object]) -> WeightFiles:
    names = index.get("weight_map")
    if not isinstance(names, Mapping) or not names or len(names) > _MOST_TENSORS:
        raise _refused(
            "weight_map", "weight_map is not an object of tensors and their files", "an object: tensor to file"
        )
    if not all(isinstance(name, str) and isinstance(file, str) for name, file in names.items()):
        raise _refused("weight_map", "weight_map holds something else than texts", "an object: tensor to file")
    metadata = index.get("metadata")
    total = metadata.get("total_size") if isinstance(metadata, Mapping) else None
    size = reading.whole_number(total)
    if size is None or not 0 < size <= _MOST_BYTES:
        right = f"a whole number of bytes from 1 to {_MOST_BYTES:.0e}"
        raise _refused("metadata.total_size", f"metadata.total_size is {reading.shown(total)}", right)
    return WeightFiles(size, (), tuple(str(name) for name in names), {})


def _headers(given: object) -> list[Mapping[object, object]]:
    if isinstance(given, list | tuple):
        found = [header for header in given if isinstance(header, Mapping)]
        if len(found) != len(given):
            raise _refused("safetensors", "the list holds something else than headers", "a list of objects")
        return found
    if not isinstance(given, Mapping):
        raise _refused("safetensors", f"{reading.shown(given)} is no header", "a header, a list of headers or an index")
    by_file = [value for name, value in given.items() if isinstance(name, str) and name.endswith(".safetensors")]
    if by_file and len(by_file) == len(given):
        return _headers(by_file)
    return [given] if given else []


def _name(name: object) -> str:
    if not isinstance(name, str) or len(name) > 1000:
        raise _refused("safetensors", "a tensor's name is no text of up to 1000 characters", "names of tensors")
    return name


def _tensor(name: object, entry: object) -> Tensor:
    """One entry of a header: its size by offsets must be what dtype and shape make."""
    text = _name(name)
    if not isinstance(entry, Mapping):
        raise _refused(
            text[:100], f"the entry of {text[:100]} is {reading.shown(entry)}", "dtype, shape and data_offsets"
        )
    dtype, shape, offsets = entry.get("dtype"), entry.get("shape"), entry.get("data_offsets")
    if not isinstance(dtype, str) or dtype not in _DTYPE_BITS:
        raise _refused(f"{text[:100]}.dtype", f"dtype is {reading.shown(dtype)}", "one of " + ", ".join(_DTYPE_BITS))
    elements = math.prod(_numbers(text, "shape", shape, most_items=_MOST_AXES))
    positions = _numbers(text, "data_offsets", offsets, most_items=2)
    size = -(-elements * _DTYPE_BITS[dtype] // 8)
    if len(positions) != 2 or positions[1] - positions[0] != size:
        right = f"two positions {size} bytes apart, as {dtype} and the shape make"
        raise _refused(f"{text[:100]}.data_offsets", f"data_offsets are {positions}", right)
    return Tensor(text, dtype, elements, size, tensor_names.part(text), tensor_names.layer(text))


def _numbers(name: str, field: str, value: object, *, most_items: int) -> list[int]:
    right = f"a list of up to {most_items} whole numbers from 0"
    if not isinstance(value, list | tuple) or len(value) > most_items:
        raise _refused(f"{name[:100]}.{field}", f"{field} is {reading.shown(value)}", right)
    found = [reading.whole_number(item) for item in value]
    numbers = [number for number in found if number is not None and 0 <= number <= _MOST_BYTES]
    if len(numbers) != len(found):
        raise _refused(f"{name[:100]}.{field}", f"{field} holds {reading.shown(value)}", right)
    return numbers


def _refused(field: str, sentence: str, right: str) -> RefusedError:
    return RefusedError("safetensors", sentence[0].upper() + sentence[1:] + ".", hint=right, fields={field: right})


def with_files(facts: ModelFacts, files: WeightFiles) -> ModelFacts:
    """The facts with weights as the files hold them: `weight_bytes` over all files, `weight_parts` of what an engine
    loads (files in FP32 are loaded in 16 bits, a second copy of a tied embedding is left out).

    Raises RefusedError where the files are of another model.
    """
    told = belonging.check(facts, files.names, files.total_bytes)
    facts = replace(facts, assumptions=(*facts.assumptions, told)) if told else facts
    if not files.tensors:
        return _with_total(facts, files)
    loaded = [tensor for tensor in files.tensors if tensor.part != "unused" and not _second_copy(facts, tensor)]
    size: Counter[str] = Counter()
    count: Counter[str] = Counter()
    for tensor in loaded:
        part = _part(facts, tensor)
        size[part] += _loaded_bytes(facts, tensor)
        count[part] += tensor.elements
    parts = WeightParts(
        routed_experts_bytes=size["routed_experts"],
        embedding_bytes=size["embedding"] + size["head"],
        tower_bytes=size["tower"],
        rest_bytes=size["rest"] + size["replicated"],
        replicated_bytes=size["replicated"],
        draft_bytes=size["draft"],
    )
    facts = replace(facts, weight_bytes=files.total_bytes, weight_parts=parts, source=f"{facts.source}, safetensors")
    return facts if facts.quantization is not None else _counted(facts, count)


def _counted(facts: ModelFacts, count: Counter[str]) -> ModelFacts:
    """Parameters as the files hold them, where every element is one."""
    total = sum(count.values()) - count["draft"]
    return replace(
        facts,
        parameters=total,
        active_parameters=max(facts.active_parameters + total - facts.parameters, 0),
        tower_parameters=count["tower"],
        draft_parameters=count["draft"],
        embedding_parameters=count["embedding"] + count["head"],
    )


def _with_total(facts: ModelFacts, files: WeightFiles) -> ModelFacts:
    """An index says the total alone: the parts are those of the architecture, the rest takes the difference."""
    estimate = precision.parse(None, None, None, facts).part_bytes(replace(facts, weight_parts=None))
    has_draft = any(
        tensor_names.part(name) == "draft" or (tensor_names.layer(name) or 0) >= facts.num_hidden_layers
        for name in files.names
        if tensor_names.part(name) != "tower"
    )
    draft = estimate.draft_bytes if has_draft else 0
    rest = files.total_bytes - draft - (estimate.total_bytes - estimate.rest_bytes)
    sentence = "The index tells the total of the files alone; their parts were worked out from the architecture."
    if rest <= 0:
        sentence = "The index's total is less than the architecture makes; parts were worked out in proportion."
        share = files.total_bytes / max(estimate.total_bytes + draft, 1)
        parts = WeightParts(*(round(value * share) for value in _values(estimate)))
    else:
        parts = replace(
            estimate, rest_bytes=rest, draft_bytes=draft, replicated_bytes=min(estimate.replicated_bytes, rest)
        )
    return replace(
        facts,
        weight_bytes=files.total_bytes,
        weight_parts=parts,
        source=f"{facts.source}, safetensors index",
        assumptions=(*facts.assumptions, sentence),
    )


def _values(parts: WeightParts) -> Iterable[int]:
    return (
        parts.routed_experts_bytes, parts.embedding_bytes, parts.tower_bytes, parts.rest_bytes, parts.replicated_bytes,
        parts.draft_bytes,
    )  # fmt: skip


def _part(facts: ModelFacts, tensor: Tensor) -> Part:
    """Layers after the model's last one are draft layers (DeepSeek, GLM)."""
    beyond = tensor.layer is not None and facts.num_hidden_layers and tensor.layer >= facts.num_hidden_layers
    return "draft" if beyond and tensor.part != "tower" else tensor.part


def _second_copy(facts: ModelFacts, tensor: Tensor) -> bool:
    return tensor.part == "head" and facts.tie_word_embeddings


def _loaded_bytes(facts: ModelFacts, tensor: Tensor) -> int:
    """Of an unquantized model: 16 bits a number, whatever the files hold; of a quantized one: as it lies there."""
    if facts.quantization is None and tensor.dtype in _FLOATS:
        return 2 * tensor.elements
    return tensor.size_bytes
