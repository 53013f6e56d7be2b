"""What a config.json says about the quantization of its files, as `precision.parse` names it."""

from __future__ import annotations

from collections.abc import Mapping

from controlplane.domain.specs import fields as reading
from controlplane.domain.specs import formats, tensor_names
from controlplane.domain.specs.fields import Fields

_SMALL = 64  # groups that are looked at
_LAYERS = 16  # that names have to name one by one before all are meant
_NAMES = 20_000  # that are looked at
_PLAIN_BITS = 16
_LEFT_OUT = (
    "ignore", "exclude_modules", "modules_to_not_convert", "ignored_layers", "llm_int8_skip_modules", "exclude",
)  # fmt: skip


def read(top: Fields) -> str | None:
    """The name of the format (`int4_awq:g64`, `fp8_block`, `mxfp4:experts`), or None for files that are not quantized.

    Raises RefusedError naming `quantization_config` when the method is unknown or its bits can't be told.
    """
    name = next((name for name in ("quantization_config", "compression_config") if top.has(name)), None)
    if name is None:
        return None
    part = top.part(name)
    if part is None or not part.values:
        return None
    method = (part.text("quant_method") or part.text("quant_algo") or part.text("format")).lower().replace("-", "_")
    reader = _METHODS.get(method)
    if reader is None and formats.named(method) is not None:
        reader = _plain
    if reader is None:
        right = "one of " + ", ".join(_METHODS)
        raise part.refuse("quant_method", part.values.get("quant_method"), right)
    return reader(part)


def _bits(part: Fields, default: int) -> int:
    return part.number("bits", "w_bit", "wbits", "weight_bits", "num_bits", least=1, most=32) or default


def _group(part: Fields, usual: int) -> str:
    size = part.number("group_size", "q_group_size", least=-1)
    return f":g{size}" if size and size > 0 and size != usual else ""


def _awq(part: Fields) -> str:
    return _integer(part, "int4_awq")


def _gptq(part: Fields) -> str:
    return _integer(part, "int4_gptq")


def _integer(part: Fields, four: str) -> str:
    names = {2: "int2", 3: "int3", 4: four, 8: "int8_w8a16"}
    bits = _bits(part, 4)
    if bits not in names:
        raise part.refuse("bits", bits, "2, 3, 4 or 8")
    return names[bits] + _group(part, 128) + _left_out(part)


def _bitsandbytes(part: Fields) -> str:
    if part.values.get("load_in_8bit") is True or part.values.get("_load_in_8bit") is True:
        return "bnb_int8" + _left_out(part)
    return "bnb_nf4" + _left_out(part)


def _fp8(part: Fields) -> str:
    return ("fp8_block" if part.numbers("weight_block_size") else "fp8") + _left_out(part)


def _mxfp4(part: Fields) -> str:
    return "mxfp4:experts"  # gpt-oss: experts alone


def _modelopt(part: Fields) -> str:
    inner = part.part("quantization") or part
    algorithm = (inner.text("quant_algo") or part.text("quant_algo") or "FP8").upper()
    if "NVFP4" in algorithm or "W4A8_AWQ" in algorithm or "FP4" in algorithm:
        return "nvfp4" + _left_out(inner, part)
    if "FP8" in algorithm:
        return "fp8" + _left_out(inner, part)
    found = formats.named(algorithm)
    if found is None:
        raise part.refuse("quant_algo", algorithm, "FP8, NVFP4, W4A16_AWQ or INT8")
    return found.name


def _compressed_tensors(part: Fields) -> str:
    """The group with the fewest bits decides: it is that of feed-forwards and experts, which are most of a model.
    `ignore` tells what is left out of it, and so does another group for attention."""
    groups = part.part("config_groups")
    if groups is None:
        found = formats.named(part.text("format"))
        if found is None:
            raise part.missing("config_groups", "an object of groups with weights.num_bits and weights.type")
        return found.name
    read = [found for found in (_group_of(part, groups, key) for key in list(groups.values)[:_SMALL]) if found]
    if not read:
        raise part.refuse("config_groups", groups.values, "an object of groups with weights.num_bits and weights.type")
    bits, name, _ = min(read, key=lambda group: group[0])
    attention_apart = any(other > bits and "attn" in targets for other, _, targets in read)
    return name + (":mlp" if attention_apart and not name.endswith((":mlp", ":experts")) else "")


def _group_of(part: Fields, groups: Fields, key: str) -> tuple[float, str, str] | None:
    """Bits of one group's weights, its name, and the texts of its targets."""
    value = groups.values[key]
    group = Fields(value, where=f"{groups.where}{key}.", code=part.code) if isinstance(value, Mapping) else None
    weights = group.part("weights") if group is not None else None
    if group is None or weights is None:
        return None
    name = _scheme(part, group, weights)
    targets = group.values.get("targets")
    text = " ".join(item for item in targets if isinstance(item, str)) if isinstance(targets, list | tuple) else ""
    return formats.FORMATS[name.split(":")[0]].bits, name, text[:1000]


def _scheme(part: Fields, group: Fields, weights: Fields) -> str:
    bits, kind = weights.number("num_bits", least=1, most=16) or 4, weights.text("type", "int")
    activations = group.part("input_activations")
    size = weights.number("group_size", least=-1)
    if kind == "float" and bits == 8:
        return ("fp8_block" if weights.text("strategy") == "block" else "fp8") + _left_out(part)
    if kind == "float" and bits == 4:
        return ("nvfp4" if size in (None, 16) else "mxfp4") + _left_out(part)
    names = {8: "int8" if activations is not None else "int8_w8a16", 4: "int4", 3: "int3", 2: "int2"}
    if bits not in names:
        raise weights.refuse("num_bits", bits, "2, 3, 4 or 8")
    grouped = f":g{size}" if size and size > 0 and size != 128 and bits != 8 else ""
    return names[bits] + grouped + _left_out(part)


def _left_out(*holders: Fields) -> str:
    """`:experts` when attention and shared experts are left out, `:mlp` when attention alone is. Names of towers, norms
    and single layers don't count."""
    names = [name for holder in holders for name in _names_left_out(holder)]
    names = [name for name in names if "norm" not in name and tensor_names.part(name) not in ("tower", "draft")]
    if not _names_all([name.replace("linear_attn", "") for name in names], "attn"):
        return ""
    return ":experts" if _names_all(names, "shared_expert") else ":mlp"


def _names_left_out(part: Fields) -> list[str]:
    """The modules that a method leaves as they are, by name or pattern; each method has its own field for them."""
    found: list[object] = []
    for field in _LEFT_OUT:
        listed = part.values.get(field)
        found.extend(listed[:_NAMES] if isinstance(listed, list | tuple) else ())
    for field in ("dynamic", "extra_config"):  # GPTQ: `-:pattern`; AutoRound: modules with bits of their own
        rules = part.values.get(field)
        for name, rule in list(rules.items())[:_NAMES] if isinstance(rules, Mapping) else ():
            bits = reading.whole_number(rule.get("bits")) if isinstance(rule, Mapping) else None
            if isinstance(name, str) and (name.startswith("-:") or (bits or 0) >= _PLAIN_BITS):
                found.append(name.removeprefix("-:"))
    return [name.replace("\\", "") for name in found if isinstance(name, str)]


def _names_all(names: list[str], word: str) -> bool:
    """Whether a pattern, or as many layers as a small model has, name the part."""
    found = [item for item in names if word in item and "shared_expert_gate" not in item]
    layers = {tensor_names.layer(item + ".") for item in found}
    return None in layers or any("*" in item for item in found) or len(layers) >= _LAYERS


def cache(top: Fields) -> str | None:
    """The precision of the KV cache that the files were calibrated for, or None where they say nothing."""
    part = top.part("quantization_config")
    if part is None:
        return None
    inner = part.part("quantization") or part
    for holder in (inner, part):
        scheme, algorithm = holder.values.get("kv_cache_scheme"), holder.values.get("kv_cache_quant_algo")
        if isinstance(scheme, Mapping) and scheme.get("type") == "float":
            return {8: "fp8", 4: "nvfp4"}.get(reading.whole_number(scheme.get("num_bits")) or 0)
        if isinstance(algorithm, str) and algorithm.lower() in ("fp8", "nvfp4"):
            return algorithm.lower()
    return None


def _plain(part: Fields) -> str:
    found = formats.named(part.text("quant_method") or part.text("quant_algo") or part.text("format"))
    if found is None:
        raise part.refuse("quant_method", part.values.get("quant_method"), "a method whose bits are known")
    return found.name


def _auto_round(part: Fields) -> str:
    return _integer(part, "int4_awq" if "awq" in part.text("packing_format").lower() else "int4_gptq")


def _quark(part: Fields) -> str:
    whole = part.part("global_quant_config")
    weights = whole.part("weight") if whole is not None else None
    dtype = weights.text("dtype") if weights is not None else ""
    found = formats.named("mxfp4" if dtype == "fp4" else dtype)
    if found is None:
        raise part.refuse("global_quant_config.weight.dtype", dtype, "fp8_e4m3, int8, int4 or fp4")
    return found.name + _left_out(part)


def _torchao(part: Fields) -> str:
    kind = part.values.get("quant_type")
    if isinstance(kind, Mapping):
        inner = kind.get("default", kind)
        kind = inner.get("_type") if isinstance(inner, Mapping) else inner
    text = kind[:200] if isinstance(kind, str) else ""
    found = formats.named(text.replace("Weight", " ").replace("_weight", " "))
    if found is None:
        raise part.refuse("quant_type", kind, "a type that names its bits, such as int4_weight_only")
    return found.name + _left_out(part)


def _gguf(part: Fields) -> str:
    kind = part.text("quant_type") or part.text("file_type") or "Q4_K_M"
    found = formats.gguf(kind)
    if found is None:
        raise part.refuse("quant_type", kind, "a GGUF type such as Q4_K_M")
    return found.name


_METHODS = {
    "awq": _awq, "gptq": _gptq, "gptq_marlin": _gptq, "awq_marlin": _awq, "auto_round": _auto_round,
    "autoround": _auto_round,
    "intel/auto_round": _auto_round, "inc": _auto_round, "bitsandbytes": _bitsandbytes, "fp8": _fp8, "fbgemm_fp8": _fp8,
    "mxfp4": _mxfp4, "modelopt": _modelopt, "modelopt_fp4": _modelopt, "nvfp4": _modelopt,
    "compressed_tensors": _compressed_tensors, "quark": _quark, "torchao": _torchao, "gguf": _gguf, "hqq": _gptq,
    "w8a8_int8": _plain, "experts_int8": _plain,
}  # fmt: skip
