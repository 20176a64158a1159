"""Messages survive the wire; what is none is refused, and nothing else happens."""

from __future__ import annotations

import contextlib
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sglang_lite import wire
from sglang_lite.errors import InvalidRequest
from sglang_lite.params import Hint, SamplingParams

MODEL = wire.ModelInfo("m", "/m", 10, 100, (1, 2), 1, 1000)
TO_RUNTIME = [
    wire.Attach(),
    wire.Submit(1, wire.pack([1, 2]), SamplingParams(stop=("x",), logit_bias={1: 2.0})),
    wire.Submit(1, b"", SamplingParams(), None, "space", 3),
    wire.Submit(2, b"", SamplingParams(), hint=Hint(program=1, group=2, more=True, priority=-3)),
    wire.Abort(1),
    wire.Ack(7),
    wire.Ask(1, "stats"),
    wire.Detach(),
    wire.End(2**40),
]
STOP = wire.Finish(wire.FinishReason.STOP, "x")
FROM_RUNTIME = [
    wire.Hello(1, "boot", MODEL),
    wire.Step(
        1, [1], [2], wire.pack([3, 4]), finishes={1: wire.Finish(wire.FinishReason.STOP, "x")}
    ),
    wire.Step(2, [], [], b"", scores={1: b"\0\0\0\0"}, top={0: wire.TopLogprobs([1], [-0.5])}),
    wire.Failed(3, 1, 400, "why", "prompt"),
    wire.Beat(4, 9),
    wire.Answer(5, 1, {"running": 0, "sound": True}),
]


@pytest.mark.parametrize("message", TO_RUNTIME)
def test_a_message_to_the_runtime_survives(message: Any) -> None:
    assert wire.decode_to_runtime(wire.encode(message)) == message


@pytest.mark.parametrize("message", FROM_RUNTIME)
def test_a_message_from_the_runtime_survives(message: Any) -> None:
    assert wire.decode_from_runtime(wire.encode(message)) == message


def test_fields_may_be_appended() -> None:
    old = msgspec.msgpack.encode(["stop"])  # a Finish of a version with one field
    assert msgspec.msgpack.decode(old, type=wire.Finish).cut == 0


def test_a_message_from_before_there_were_hints_is_understood() -> None:
    old = msgspec.msgpack.encode(["submit", 1, b"", SamplingParams(), None, "", None])
    assert wire.decode_to_runtime(old) == wire.Submit(1, b"", SamplingParams())


@given(st.binary(max_size=200))
def test_garbage_is_refused_and_nothing_else(data: bytes) -> None:
    with contextlib.suppress(InvalidRequest):
        wire.decode_to_runtime(data)


@given(st.sampled_from(TO_RUNTIME), st.data())
def test_a_broken_message_is_refused_or_another_message(message: Any, data: Any) -> None:
    raw = bytearray(wire.encode(message))
    raw[data.draw(st.integers(0, len(raw) - 1))] ^= data.draw(st.integers(1, 255))
    with contextlib.suppress(InvalidRequest):
        wire.decode_to_runtime(bytes(raw))


def test_a_parameter_out_of_range_is_refused_on_the_wire_too() -> None:
    raw = wire.encode(wire.Submit(1, b"", SamplingParams(top_p=0.5)))
    bad = raw.replace(msgspec.msgpack.encode(0.5), msgspec.msgpack.encode(7.5))
    with pytest.raises(InvalidRequest, match=r"`top_p` must be above 0 and at most 1, got 7\.5"):
        wire.decode_to_runtime(bad)


def test_token_bytes_come_in_fours() -> None:
    assert np.array_equal(wire.unpack(wire.pack([1, -1, 2**31 - 1])), [1, -1, 2**31 - 1])
    with pytest.raises(InvalidRequest, match="come in fours, got 3"):
        wire.unpack(b"abc")


def test_a_message_has_a_largest_size() -> None:
    with pytest.raises(InvalidRequest, match="at most"):
        wire.decode_to_runtime(b"\0" * (wire.MAX_MESSAGE_BYTES + 1))
