"""What a reader sees of a growing text, however it is cut into tokens."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sglang_lite.runtime.detokenize import Detokenizer
from sglang_lite.runtime.scheduling.finish import StopStrings
from sglang_lite.testing import ByteTokenizer
from sglang_lite.wire import Finish, FinishReason

texts = st.text(alphabet="ab\u00e9\u4e16\U0001f600", max_size=30)
stops = st.lists(st.text(alphabet="ab\u00e9\u4e16", min_size=1, max_size=3), max_size=3)


def first_stop(data: bytes, stops: list[str]) -> tuple[int, int] | None:
    """(start, end) of the stop that ends first; of those, the longest. By brute force."""
    found = [
        (end, end - len(stop.encode()))
        for end in range(len(data) + 1)
        for stop in stops
        if data[:end].endswith(stop.encode())
    ]
    return (min(found)[1], min(found)[0]) if found else None


@given(text=texts, stops=stops, sizes=st.lists(st.integers(1, 5), min_size=30, max_size=30))
def test_streamed_text_is_the_whole_text_up_to_the_stop(
    text: str, stops: list[str], sizes: list[int]
) -> None:
    data = text.encode()
    table = ByteTokenizer()
    matcher, shown = StopStrings(stops), Detokenizer(table, stops, skip_special=True, trim=True)
    pieces: list[str] = []
    at = 0
    finish = None
    for size in sizes:
        ids = list(data[at : at + size])
        at += len(ids)
        for index, id in enumerate(ids):  # the runtime looks at each token as it is drawn
            if found := matcher.feed(bytes([id])):
                finish = Finish(FinishReason.STOP, *found)
                ids = ids[: index + 1]
                break
        if finish or at >= len(data):
            break
        pieces.append(shown.feed(ids))
    else:
        ids = []
    finish = finish or Finish(FinishReason.LENGTH)
    pieces.append(shown.feed(ids, finish))

    expected = first_stop(data[:at], stops)
    kept = data[: expected[0]] if expected else data[:at]
    assert "".join(pieces) == kept.decode("utf-8", "replace")
    assert bytes(shown.kept_ids) + shown.tail == kept


def test_special_tokens_are_hidden_and_eos_is_cut() -> None:
    table = ByteTokenizer()
    hidden = Detokenizer(table, (), skip_special=True, trim=True)
    end = Finish(FinishReason.STOP, 257, len(table.token_bytes[257]))
    assert hidden.feed([104, 256, 105, 257], end) == "hi"
    assert hidden.kept_ids == [104, 256, 105]
    shown = Detokenizer(table, (), skip_special=False, trim=True)
    assert shown.feed([104, 256, 105], Finish(FinishReason.LENGTH)) == "h<s>i"


def test_a_cut_through_a_token_leaves_its_kept_bytes() -> None:
    class Words:
        token_bytes = (b"hello\nworld", b"!")
        special_ids = frozenset[int]()

    text = Detokenizer(Words(), ("\n",), skip_special=True, trim=True)
    assert text.feed([1]) == "!"
    assert text.feed([0], Finish(FinishReason.STOP, "\n", 6)) == "hello"
    assert (text.kept_ids, text.tail) == ([1], b"hello")
