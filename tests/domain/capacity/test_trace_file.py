"""Traces as text: what is taken by its columns' names, and what is refused with its line."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.domain.capacity import recorded, trace_file
from controlplane.domain.errors import RefusedError

ROOT = Path(__file__).resolve().parents[3]
TRACES = Path(os.environ.get("HEADWORKS_SHARED", ROOT.parent / "shared")) / "data" / "traces"
OWN = "arrival_s,input_tokens,output_tokens\n0,100,10\n1.5,200,20\n3,300,30\n"


def refused(text: str) -> RefusedError:
    with pytest.raises(RefusedError) as raised:
        trace_file.read(text)
    assert set(raised.value.fields) == {"trace"}
    return raised.value


def test_the_columns_of_ones_own() -> None:
    found = trace_file.read(OWN)
    assert found.input is not None and found.output is not None
    assert (found.requests, found.span_s, found.mean_requests_per_s) == (3, 3.0, 1.0)
    assert (found.input.mean, found.output.mean, found.input.p50) == (200.0, 20.0, 200.0)


@pytest.mark.parametrize(
    "text",
    [
        "arrival_ms,input_tokens,output_tokens\n0,100,10\n1500,200,20\n3000,300,30\n",
        "\ufeffOutput_Tokens, INPUT_TOKENS ,more,arrival_s\r\n10,100,x,0\r\n20,200,,1.5\r\n\r\n30,300,y,3\r\n",
        "arrival,input_tokens,output_tokens\n2026-01-01 00:00:00,100,10\n2026-01-01T00:00:01.5Z,200,20\n"
        "2026-01-01 01:00:03+01:00,300,30\n",
        "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.9799600,100,10\n"
        "2023-11-16 18:17:05.4799600,200,20\n2023-11-16 18:17:06.9799600,300,30\n",
        '{"timestamp": 0, "input_length": 100, "output_length": 10, "hash_ids": [1]}\n'
        '{"timestamp": 1500, "input_length": 200, "output_length": 20}\n\n'
        '{"timestamp": 3000, "input_length": 300, "output_length": 30}\n',
        "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
        "0,GPT-4,100,10,110,API log\n1.5,GPT-4,200,20,220,API log\n3,GPT-4,300,30,330,API log\n",
    ],
    ids=["milliseconds", "any order and case", "dates", "azure", "mooncake", "burstgpt"],
)
def test_other_forms_say_the_same(text: str) -> None:
    assert recorded.as_values(trace_file.read(text)) == recorded.as_values(trace_file.read(OWN))


def test_rates_without_lengths() -> None:
    found = trace_file.read("window_start_s,total_rate_req_per_s\n0,10\n600,30\n1200,20\n")
    assert (found.mean_requests_per_s, found.peak_requests_per_s, found.window_s) == (20.0, 30.0, 600.0)
    assert found.input is None and found.requests == 36_000
    with pytest.raises(RefusedError, match="nothing about lengths"):
        found.demand()


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "The trace is empty."),
        ("[{}]", "Write one object a line."),
        ("arrival_s,output_tokens\n0,1\n1,2\n", 'no column input_tokens; its columns are "arrival_s", "output_tokens"'),
        ("input_tokens,output_tokens\n1,1\n", "no column arrival_s"),
        ("timestamp,input_tokens,output_tokens\n0,1,1\n1,1,1\n", "counted in is not said"),
        ("0,100,10\n1,100,10\n", 'its columns are "0", "100", "10"'),
        ("arrival_s;input_tokens;output_tokens\n0;1;1\n", "no column arrival_s"),
        ("arrival_s,input_tokens,output_tokens\n0,1,1\n1,many,1\n", 'Line 3 of the trace: input_tokens is "many".'),
        ("arrival_s,input_tokens,output_tokens\n0,1,1\n1,-1,1\n", 'input_tokens is "-1"'),
        ("arrival_s,input_tokens,output_tokens\n0,1,1\n1,1,nan\n", 'output_tokens is "nan"'),
        ("arrival_s,input_tokens,output_tokens\n0,1,1\n1,1,1_000\n", 'output_tokens is "1_000"'),
        ("arrival_s,input_tokens,output_tokens\n0,1,1\n1,1\n", "Line 3 of the trace has 2 columns, its header 3."),
        ("arrival_s,input_tokens,output_tokens\n", "fewer than two requests"),
        ("arrival_s,input_tokens,output_tokens\n3,1,1\n3,1,1\n", "fewer than two requests at different times"),
        ("arrival,input_tokens,output_tokens\n5,1,1\n6,1,1\n", 'Line 2 of the trace: arrival is "5".'),
        (
            '{"arrival_s": 0, "input_tokens": 1, "output_tokens": 1}\nnothing\n',
            "Line 2 of the trace is no JSON object.",
        ),
        ('{"arrival_s": 0, "input_tokens": 1, "output_tokens": 1}\n{"arrival_s": 1}\n', "input_tokens is null"),
        ('{"arrival_s": true, "input_tokens": 1, "output_tokens": 1}\n', "arrival_s is true"),
        ("window_start_s,total_rate_req_per_s\n0,10\n", "which can't be"),
        ("window_start_s,total_rate_req_per_s\n5,10\n0,10\n", "which can't be"),
        ("window_start_s,total_rate_req_per_s\n0,0\n5,0\n", "which can't be"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(text: str, sentence: str) -> None:
    assert sentence in refused(text).message


def test_what_is_too_large_or_too_deep_is_refused() -> None:
    assert "larger than 2,048 KiB" in refused(OWN + "4,1,1\n" * 400_000).message
    assert "Line 1 of the trace can't be read as CSV" in refused("a" * 200_000 + ",b\n").message
    assert "Line 1 of the trace is no JSON object." in refused('{"a": ' + "[" * 100_000).message
    assert len(refused("x" * 100_000 + "\n1").message) < 200


@given(st.text(max_size=300))
def test_any_text_is_read_or_refused(text: str) -> None:
    for start in ("", "{", "arrival_s,input_tokens,output_tokens\n", "window_start_s,total_rate_req_per_s\n"):
        try:
            trace_file.read(start + text)
        except RefusedError as error:
            assert list(error.fields) == ["trace"]


def test_what_is_kept_of_a_trace_is_read_back() -> None:
    kept = recorded.as_values(trace_file.read(OWN))
    assert recorded.as_values(recorded.read(json.loads(json.dumps(kept)))) == kept


@pytest.mark.parametrize(
    "changes",
    [
        {"requests": 1}, {"span_s": 0}, {"peak_requests_per_s": None}, {"mean_requests_per_s": 50},
        {"mean_requests_per_s": "3"}, {"input": None}, {"input": []}, {"output": {"mean": 1}}, {"busiest_second": 0.5},
        {"decoding_context_tokens": -1}, {"step_s": True},
    ],
)  # fmt: skip
def test_what_is_kept_is_checked_when_it_comes_back(changes: dict[str, object]) -> None:
    kept = recorded.as_values(trace_file.read(OWN))
    with pytest.raises(RefusedError) as raised:
        recorded.read({**kept, **changes})
    assert list(raised.value.fields) == ["trace"]


@pytest.mark.skipif(not TRACES.is_dir(), reason="the recorded traces are not here")
@pytest.mark.parametrize(
    ("name", "requests", "peak"),
    [
        ("azure_2023_code_first_half.csv", 4409, 12.05),
        ("azure_2023_conv_first_half.csv", 9683, 8.55),
        ("mooncake_conversation_first_half.jsonl", 6015, 4.12),
        ("servegen_mid_rate_10_days.csv", 1_411_896_079, 3445),
    ],
)
def test_published_traces_are_taken_as_they_are(name: str, requests: int, peak: float) -> None:
    found = trace_file.read((TRACES / name).read_text())
    assert round(found.requests) == requests and found.peak_requests_per_s == pytest.approx(peak, rel=0.005)
    assert (found.step_s is not None) == name.startswith("mooncake")
