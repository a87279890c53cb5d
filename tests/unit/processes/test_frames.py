"""Messages between worker and child: whole, in pieces, and broken."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.model.execution import ExecutionRow, Outcome
from mainspring.model.store.messages import LogLine
from mainspring.processes.frames import BrokenChannel, Cancel, Report, Result, Start, encode, from_child, from_worker

START = Start(
    number=1,
    execution=ExecutionRow(id="a", job="j", job_id="b", handler="h", params='{"n": 1}'),
    worker="w",
    started=5,
    began=1.5,
    limit=None,
    offset=-3,
    trace={"traceparent": "00-1-2-01"},
)
RESULT = Result(
    Report(1, "{}", None, (LogLine(1, "INFO", "line", "shop"),)),
    Outcome(end="completed", started=1, ended=2, worker="w", result_json="[]"),
    True,
)


@given(st.integers(1, 50))
def test_messages_arrive_whole_whatever_the_pieces(size: int) -> None:
    for decoder, sent in (
        (from_worker(), [START, Cancel(1, "timeout", "late")]),
        (from_child(), [RESULT, RESULT.report]),
    ):
        data = b"".join(map(encode, sent))
        pieces = [data[at : at + size] for at in range(0, len(data), size)]
        assert [message for piece in pieces for message in decoder.feed(piece)] == sent  # type: ignore[attr-defined]


@given(st.binary(min_size=8, max_size=200))
def test_garbage_breaks_the_channel_or_waits_for_more(garbage: bytes) -> None:
    try:
        assert list(from_child().feed(garbage)) == []
    except BrokenChannel:
        return


def test_a_message_that_claims_to_be_huge_is_refused_before_it_arrives() -> None:
    with pytest.raises(BrokenChannel, match="4294967295 bytes"):
        list(from_child().feed(b"\xff\xff\xff\xff"))
