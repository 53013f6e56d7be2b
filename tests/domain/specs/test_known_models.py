"""The table of well-known models: names, quantization in names, published totals."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.domain.errors import RefusedError
from controlplane.domain.specs import config_json, known_models, precision
from controlplane.domain.specs.known import tunes
from controlplane.domain.specs.model import ModelFacts

# parameters as the model's own page or files state them, in thousands where only a rounded figure is known
PUBLISHED = {
    "meta-llama/Llama-2-7b-hf": 6_738_415_616, "meta-llama/Llama-2-70b-hf": 68_976_648_192,
    "meta-llama/Llama-3.1-8B-Instruct": 8_030_261_248, "meta-llama/Llama-3.1-70B": 70_553_706_496,
    "meta-llama/Llama-3.1-405B": 405_853_388_800, "meta-llama/Llama-3.2-1B": 1_235_814_400,
    "meta-llama/Llama-3.2-3B": 3_212_749_824, "meta-llama/Llama-3.2-11B-Vision-Instruct": 10_670_220_835,
    "meta-llama/Llama-4-Scout-17B-16E-Instruct": 108_641_793_536,
    "meta-llama/Llama-4-Maverick-17B-128E-Instruct": 401_583_781_376,
    "mistralai/Mistral-7B-Instruct-v0.3": 7_248_023_552, "mistralai/Mixtral-8x7B-Instruct-v0.1": 46_702_792_704,
    "mistralai/Mixtral-8x22B-v0.1": 140_620_634_112, "mistralai/Mistral-Nemo-Instruct-2407": 12_247_782_400,
    "mistralai/Mistral-Small-24B-Instruct-2501": 23_572_403_200,
    "mistralai/Mistral-Small-3.1-24B-Instruct-2503": 24_011_361_280, "Qwen/Qwen2.5-0.5B": 494_032_768,
    "Qwen/Qwen2.5-7B-Instruct": 7_615_616_512, "Qwen/Qwen2.5-72B-Instruct": 72_706_203_648,
    "Qwen/Qwen2-VL-7B-Instruct": 8_291_375_616, "Qwen/Qwen2.5-VL-3B-Instruct": 3_754_622_976,
    "Qwen/Qwen2.5-VL-7B-Instruct": 8_292_166_656, "Qwen/Qwen3-0.6B": 596_049_920, "Qwen/Qwen3-8B": 8_190_735_360,
    "Qwen/Qwen3-32B": 32_762_123_264, "Qwen/Qwen3-30B-A3B": 30_532_122_624, "Qwen/Qwen3-235B-A22B": 235_093_634_560,
    "Qwen/Qwen3-Coder-480B-A35B-Instruct": 480_154_875_392, "Qwen/Qwen3-Next-80B-A3B-Instruct": 79_674_391_296,
    "Qwen/Qwen3-VL-4B-Instruct": 4_437_815_808, "Qwen/Qwen3-VL-8B-Instruct": 8_767_123_696,
    "deepseek-ai/DeepSeek-V2-Lite": 15_706_484_224, "deepseek-ai/DeepSeek-V2": 235_741_434_880,
    "deepseek-ai/DeepSeek-V3": 671_026_419_200, "deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B": 1_777_088_000,
    "zai-org/GLM-4.5-Air": 106_852_251_264, "openai/gpt-oss-20b": 20_914_757_184,
    "openai/gpt-oss-120b": 116_829_156_672,
    "google/gemma-2-9b-it": 9_241_705_984, "google/gemma-2-27b": 27_227_128_320, "google/gemma-3-1b-it": 999_885_952,
    "google/gemma-3-4b-it": 4_300_079_472, "google/gemma-3-12b-it": 12_187_325_040,
    "google/gemma-3-27b-it": 27_432_406_640, "microsoft/Phi-3-mini-4k-instruct": 3_821_079_552,
    "microsoft/phi-4": 14_659_507_200, "microsoft/Phi-4-mini-instruct": 3_836_021_760,
    "microsoft/Phi-3.5-MoE-instruct": 41_873_153_344, "ibm-granite/granite-3.3-8b-instruct": 8_170_848_256,
    "nvidia/NVIDIA-Nemotron-Nano-9B-v2": 8_888_227_328, "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16": 31_577_937_344,
    "tiiuae/falcon-7b": 6_921_720_704, "tiiuae/Falcon-H1-7B-Instruct": 7_585_654_784,
    "ai21labs/AI21-Jamba-Mini-1.5": 51_570_323_328, "MiniMaxAI/MiniMax-Text-01": 456_089_655_296,
    "MiniMaxAI/MiniMax-M2": 228_700_000_000, "CohereForAI/c4ai-command-r-v01": 34_980_831_232,
    "allenai/OLMo-2-1124-7B": 7_298_617_344, "HuggingFaceTB/SmolLM2-135M-Instruct": 134_515_008,
    "HuggingFaceTB/SmolLM3-3B": 3_075_098_624, "baidu/ERNIE-4.5-21B-A3B-PT": 21_825_437_888,
    "ByteDance-Seed/Seed-OSS-36B-Instruct": 36_151_104_512, "facebook/opt-125m": 125_239_296,
    "bigscience/bloom": 176_247_271_424, "EleutherAI/gpt-neox-20b": 20_554_567_680,
    "databricks/dbrx-instruct": 131_596_523_520,
    "llava-hf/llava-v1.6-mistral-7b-hf": 7_566_747_648, "bigcode/starcoder2-3b": 3_030_371_328,
    "internlm/internlm2_5-7b-chat": 7_737_708_544, "moonshotai/Moonlight-16B-A3B": 15_960_111_936,
    "nvidia/NVIDIA-Nemotron-3-Nano-4B-BF16": 3_973_556_832, "mistralai/Codestral-22B-v0.1": 22_247_282_688,
    "canopylabs/orpheus-3b-0.1-ft": 3_300_870_144, "Qwen/Qwen1.5-MoE-A2.7B": 14_315_784_192,
}  # fmt: skip


# the same as rounded on their pages, in billions
PUBLISHED_BILLIONS = {
    "nvidia/Llama-3_3-Nemotron-Super-49B-v1_5": 49.867, "nvidia/Llama-3_1-Nemotron-Ultra-253B-v1": 253.4,
    "RekaAI/reka-flash-3": 20.9, "arcee-ai/Trinity-Mini": 26.1, "arcee-ai/Trinity-Nano-Preview": 6.12,
    "upstage/solar-pro-preview-instruct": 22.1, "inclusionAI/Ling-lite-1.5": 16.8, "openbmb/MiniCPM3-4B": 4.07,
    "LGAI-EXAONE/K-EXAONE-236B-A23B": 237, "microsoft/Phi-mini-MoE-instruct": 7.65, "ibm/PowerLM-3b": 3.51,
    "microsoft/Phi-tiny-MoE-instruct": 3.76, "ibm-granite/granite-4.0-h-1b": 1.46, "ibm-granite/granite-4.0-1b": 1.63,
    "arcee-ai/Trinity-Large-Preview": 398.6, "tencent/Hunyuan-0.5B-Instruct": 0.539,
    "mistralai/Mistral-Medium-3.5-128B": 127.7, "skt/A.X-4.0": 71.9,
    "skt/A.X-4.0-Light": 7.26, "alpindale/goliath-120b": 117.75, "JackFram/llama-68m": 0.068,
    "Qwen/Qwen-7B-Chat": 7.72, "Qwen/Qwen-14B": 14.2, "Qwen/Qwen-72B-Chat": 72.3, "Qwen/CodeQwen1.5-7B-Chat": 7.25,
    "microsoft/Phi-3-small-8k-instruct": 7.39, "ibm-granite/granite-3b-code-base": 3.48,
    "ibm-granite/granite-8b-code-instruct": 8.05, "tiiuae/falcon-11B": 11.1, "01-ai/Yi-Coder-9B-Chat": 8.83,
    "01-ai/Yi-Coder-1.5B": 1.48, "baichuan-inc/Baichuan-7B": 7.0, "internlm/internlm-7b": 7.32,
    "OpenGVLab/InternVL2-2B": 2.21, "OpenGVLab/InternVL2-26B": 25.5, "OpenGVLab/InternVL2-Llama3-76B": 76.3,
    "OpenGVLab/InternVL2_5-4B": 3.71, "OpenGVLab/InternVL3-9B": 9.14, "internlm/Intern-S1": 241,
    "internlm/Intern-S1-mini": 8.54, "openbmb/MiniCPM-2B-sft-bf16": 2.72, "openbmb/MiniCPM4-0.5B": 0.434,
    "openbmb/MiniCPM4-8B": 8.19, "inclusionAI/Ling-mini-2.0": 16.26, "inclusionAI/Ling-flash-2.0": 103,
    "inclusionAI/Ling-1T": 1000, "tencent/Hunyuan-1.8B-Instruct": 1.79, "LGAI-EXAONE/EXAONE-3.0-7.8B-Instruct": 7.82,
    "EleutherAI/pythia-160m": 0.162, "bigscience/bloom-1b7": 1.72, "bigscience/bloomz-3b": 3.0,
    "bigcode/starcoderbase-1b": 1.14, "openlm-research/open_llama_3b": 3.43, "utter-project/EuroLLM-9B-Instruct": 9.15,
    "utter-project/EuroLLM-1.7B": 1.66, "BSC-LT/salamandra-7b-instruct": 7.77, "BSC-LT/salamandra-2b": 2.25,
    "openGPT-X/Teuken-7B-instruct-research-v0.4": 7.45, "speakleash/Bielik-11B-v2.3-Instruct": 11.17,
    "cyberagent/calm3-22b-chat": 22.5, "llm-jp/llm-jp-3-13b-instruct": 13.7,
    "yandex/YandexGPT-5-Lite-8B-instruct": 8.04, "humain-ai/ALLaM-7B-Instruct-preview": 7.0,
    "h2oai/h2o-danube3-4b-chat": 3.96, "nvidia/Llama-3.1-Minitron-4B-Width-Base": 4.51,
    "nvidia/Llama-3.1-Minitron-4B-Depth-Base": 4.54, "xai-org/grok-1": 316, "FacebookAI/roberta-base": 0.124,
    "FacebookAI/xlm-roberta-base": 0.278, "intfloat/multilingual-e5-small": 0.118, "Zyphra/Zamba2-1.2B": 1.215,
    "Zyphra/Zamba2-2.7B-instruct": 2.66, "nvidia/Nemotron-H-47B-Base-8K": 46.8, "nvidia/Nemotron-H-56B-Base-8K": 56.3,
    "LiquidAI/LFM2-8B-A1B": 8.34, "tiiuae/falcon-mamba-7b-instruct": 7.27, "mistralai/Mamba-Codestral-7B-v0.1": 7.285,
    "ByteDance-Seed/Seed-Coder-8B-Instruct": 8.25, "OrionStarAI/Orion-14B-Chat": 14.5, "LumiOpen/Poro-34B": 34.2,
    "cerebras/Cerebras-GPT-13B": 12.85, "rinna/japanese-gpt-neox-3.6b": 3.6,
}  # fmt: skip


def found(name: str) -> ModelFacts:
    facts = known_models.find(name)
    assert facts is not None, name
    return facts


@pytest.mark.parametrize(("name", "published"), PUBLISHED.items())
def test_parameters_agree_with_the_published_total(name: str, published: int) -> None:
    assert found(name).parameters == pytest.approx(published, rel=0.001)


@pytest.mark.parametrize(("name", "billions"), PUBLISHED_BILLIONS.items())
def test_parameters_agree_with_the_rounded_total(name: str, billions: float) -> None:
    assert found(name).parameters / 1e9 == pytest.approx(billions, rel=0.005)


@pytest.mark.parametrize(
    ("name", "published"),
    [
        ("openai/whisper-tiny", 37_760_640), ("openai/whisper-base", 72_593_920), ("openai/whisper-small", 241_734_912),
        ("openai/whisper-medium", 763_857_920), ("openai/whisper-large-v3", 1_543_490_560),
        ("openai/whisper-large-v3-turbo", 808_878_080),
    ],
)  # fmt: skip
def test_whisper_is_counted_exactly(name: str, published: int) -> None:
    facts = found(name)
    assert facts.parameters == published
    assert not facts.assumptions


def test_whispers_own_config_says_the_same() -> None:
    config = {
        "model_type": "whisper", "is_encoder_decoder": True, "d_model": 1280, "encoder_layers": 32, "decoder_layers": 4,
        "encoder_attention_heads": 20, "decoder_attention_heads": 20, "encoder_ffn_dim": 5120, "decoder_ffn_dim": 5120,
        "num_mel_bins": 128, "vocab_size": 51866, "max_source_positions": 1500, "max_target_positions": 448,
        "torch_dtype": "float16",
    }  # fmt: skip
    read, table = config_json.read(config, name="x"), found("openai/whisper-large-v3-turbo")
    assert replace(read, name=table.name, source=table.source) == table
    for field, value in (("d_model", None), ("decoder_ffn_dim", 5000), ("decoder_attention_heads", 7)):
        with pytest.raises(RefusedError) as refused:
            config_json.read({**config, field: value})
        assert field in refused.value.fields


@pytest.mark.parametrize(
    "name", ["facebook/xlm-roberta-xl", "BAAI/bge-reranker-v2-minicpm-layerwise", "LLM360/K2-V2-Instruct"]
)
def test_a_size_that_is_not_in_the_table_is_not_taken_for_another(name: str) -> None:
    assert known_models.find(name) is None


@pytest.mark.parametrize("name", sorted(tunes.TUNES))
def test_a_tune_that_is_named_otherwise_is_its_base_and_says_so(name: str) -> None:
    facts, base = found(f"someone/{name}"), found(tunes.TUNES[name])
    assert (facts.parameters, facts.layers) == (base.parameters, base.layers)
    assert any(tunes.TUNES[name].lower() in told.lower() for told in facts.assumptions)


@pytest.mark.parametrize(
    ("name", "base"),
    [
        ("allenai/Llama-3.1-Tulu-3-70B", "Llama-3.1-70B"), ("scb10x/llama3.1-typhoon2-8b-instruct", "Llama-3.1-8B"),
        ("tokyotech-llm/Llama-3.3-Swallow-70B-Instruct-v0.4", "Llama-3.3-70B"),
        ("elyza/Llama-3-ELYZA-JP-8B", "Meta-Llama-3-8B"), ("nvidia/Llama-3_1-Nemotron-51B-Instruct", None),
        ("acme/Llama-3.2-Vision-Foo-90B", None),
        ("acme/llama-3-8x8b-moe", None),
    ],
)  # fmt: skip
def test_a_llama_of_others_is_the_size_that_its_name_says(name: str, base: str | None) -> None:
    facts = known_models.find(name)
    if base is None:
        assert facts is None
        return
    assert facts is not None and facts.parameters == found(base).parameters
    assert not facts.length_is_certain and any(base in told for told in facts.assumptions)


@pytest.mark.parametrize(
    ("name", "billions"),
    [
        ("deepseek-ai/DeepSeek-V3", 37), ("Qwen/Qwen3-30B-A3B", 3.3), ("Qwen/Qwen3-235B-A22B", 22),
        ("mistralai/Mixtral-8x7B", 12.9),
        ("moonshotai/Kimi-K2-Instruct", 32), ("zai-org/GLM-4.5", 32), ("Qwen/Qwen3-Coder-480B-A35B", 35),
        ("nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-BF16", 12.7), ("MiniMaxAI/MiniMax-Text-01", 45.9),
    ],
)  # fmt: skip
def test_active_parameters_are_about_the_published_ones(name: str, billions: float) -> None:
    assert found(name).active_parameters / 1e9 == pytest.approx(billions, rel=0.06)


@pytest.mark.parametrize(
    ("name", "quantization"),
    [
        ("Qwen/Qwen2.5-72B-Instruct-AWQ", "int4_awq"), ("Qwen/Qwen2.5-7B-Instruct-GPTQ-Int4", "int4_gptq"),
        ("Qwen/Qwen2.5-7B-Instruct-GPTQ-Int8", "int8_w8a16"), ("Qwen/Qwen3-8B-FP8", "fp8_block"),
        ("RedHatAI/Llama-3.3-70B-Instruct-FP8-dynamic", "fp8"), ("RedHatAI/Llama-3.3-70B-Instruct-quantized.w4a16",
        "int4"),
        ("neuralmagic/Meta-Llama-3.1-8B-Instruct-quantized.w8a8", "int8"), ("nvidia/Llama-3.3-70B-Instruct-FP4",
        "nvfp4"),
        ("unsloth/Meta-Llama-3.1-8B-Instruct-bnb-4bit", "bnb_nf4"), ("nvidia/DeepSeek-R1-0528-NVFP4", "nvfp4:mlp"),
        ("bartowski/Llama-3.2-3B-Instruct-GGUF", "gguf:Q4_K_M"), ("Qwen3.6-27B AutoRound int4", "int4_gptq"),
        ("Qwen2.5-0.5B 4-bit (unsloth bnb)", "bnb_nf4"), ("openai/gpt-oss-20b", "mxfp4:experts"),
        ("deepseek-ai/DeepSeek-R1", "fp8_block"), ("moonshotai/Kimi-K2-Thinking", "int4:g32:experts"),
        ("Qwen3.6-35B-A3B NVFP4", "nvfp4"), ("Qwen3-8B-Q5_K_M.gguf", "gguf:Q5_K_M"), ("unsloth/gpt-oss-20b-BF16", None),
        ("Qwen/Qwen3-8B", None), ("moonshotai/Kimi-K2-Instruct", "fp8_block"),
    ],
)  # fmt: skip
def test_a_suffix_says_the_quantization(name: str, quantization: str | None) -> None:
    assert found(name).quantization == quantization


@pytest.mark.parametrize(
    "name",
    [
        "qwen/qwen3-8b",
        "Qwen3-8B",
        "QWEN3_8B",
        "qwen-3-8b",
        "qwen3:8b",
        "Qwen 3 8B",
        "someone/Qwen3-8B-Base",
        "  Qwen/Qwen3-8B  ",
        "/models/Qwen3-8B",
    ],
)
def test_owner_and_case_don_t_matter(name: str) -> None:
    assert found(name).parameters == 8_190_735_360
    assert not found(name).assumptions


def test_a_fine_tune_is_its_base_and_says_so() -> None:
    facts = found("someone/MyBot-Llama-3.1-8B-Instruct-DPO")
    assert facts.parameters == 8_030_261_248
    assert any("Llama-3.1-8B" in sentence for sentence in facts.assumptions)


@pytest.mark.parametrize("name", ["", "   ", "gpt", "(unnamed)", "x" * 5000, "instruct", "8b", "fp8", "-", "Qwen3"])
def test_a_name_that_is_not_known_is_none(name: str) -> None:
    assert known_models.find(name) is None


def test_what_is_no_text_is_not_known() -> None:
    values: list[object] = [[], {}, 7, None, float("nan")]
    for value in values:
        assert known_models.find(value) is None  # type: ignore[arg-type]


@given(st.text(max_size=400))
def test_any_name_is_answered(name: str) -> None:
    facts = known_models.find(name)
    assert facts is None or facts.parameters > 0


@pytest.mark.parametrize("name", known_models.names())
def test_every_line_of_the_table_can_be_read(name: str) -> None:
    facts = found(name)
    assert sum(layers.count for layers in facts.layers) >= facts.num_hidden_layers
    parts = facts.embedding_parameters + facts.tower_parameters + (facts.experts.routed_params if facts.experts else 0)
    assert parts + facts.attention_parameters + facts.unquantized_parameters <= facts.parameters
    assert facts.active_parameters <= facts.parameters
    assert not [sentence for sentence in facts.assumptions if "model_type" in sentence]


@pytest.mark.parametrize(
    ("name", "limit"),
    [
        ("Qwen/Qwen2.5-VL-7B-Instruct", 128000), ("Qwen/Qwen2.5-VL-72B-Instruct-AWQ", 128000),
        ("Qwen/Qwen2-VL-7B-Instruct", 32768), ("Qwen/QwQ-32B", 40960), ("Qwen/QwQ-32B-Preview", 32768),
        ("microsoft/phi-4", 16384), ("microsoft/Phi-4-reasoning", 32768), ("moonshotai/Kimi-K2-Instruct", 131072),
        ("moonshotai/Kimi-K2-Thinking", 262144), ("Qwen/Qwen3-8B", 40960), ("Qwen/Qwen2.5-7B-Instruct", 32768),
        ("Qwen/Qwen2.5-Math-7B", 4096),
    ],
)  # fmt: skip
def test_the_limit_is_that_of_the_models_own_config(name: str, limit: int) -> None:
    assert found(name).max_position_embeddings == limit


@pytest.mark.parametrize(("written", "meant"), [("llama-3_1-8b", "Llama-3.1-8B"), ("internvl2.5-8b", "InternVL2_5-8B")])
def test_a_sign_below_stands_for_a_dot_or_a_dash(written: str, meant: str) -> None:
    assert found(written).parameters == found(meant).parameters


def test_metas_fp8_files_keep_attention_as_it_is_and_those_of_others_do_not() -> None:
    found = [known_models.find(f"{owner}/Llama-3.1-405B-Instruct-FP8") for owner in ("meta-llama", "nvidia")]
    metas, others = (one for one in found if one is not None)
    sizes = [precision.parse(None, None, None, one).weight_bytes(one) for one in (metas, others)]
    assert sizes[0] - sizes[1] == metas.attention_parameters


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        # counted from the published classes, on no device
        ("stabilityai/stablelm-2-12b-chat", 12_143_185_920),
        ("stabilityai/stablelm-zephyr-3b", 2_795_443_200),
        ("stabilityai/stablelm-2-zephyr-1_6b", 1_644_515_328),
        ("Zyphra/Zamba2-7B-Instruct", 7_356_749_648),
    ],
)
def test_stablelm_and_zamba_are_known_by_their_names(name: str, parameters: int) -> None:
    facts = known_models.find(name)
    assert facts is not None
    assert facts.parameters == parameters
