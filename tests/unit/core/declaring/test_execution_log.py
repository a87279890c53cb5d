"""Which lines of an attempt are kept: a burst, then a steady rate, and a count of the rest."""

from __future__ import annotations

import pytest

from mainspring.core.declaring.execution_log import (
    BURST_BYTES,
    BURST_LINES,
    LINES_PER_SECOND,
    MAX_LINE_LENGTH,
    PAUSE,
    ExecutionLog,
)
from mainspring.testing.clock import FakeClock

pytestmark = pytest.mark.req("EXE-11")


def write(log: ExecutionLog, count: int, text: str = "x") -> int:
    """Returns how many were kept."""
    kept = 0
    for _ in range(count):
        if log.admits():
            log.add(20, text, "shop")
            kept += 1
    return kept


def messages(log: ExecutionLog, last: bool = False) -> list[str]:
    return [line.message for line in log.drain(last)]


def test_a_burst_is_kept_and_the_rest_is_counted() -> None:
    clock = FakeClock()
    log = ExecutionLog(clock)
    assert write(log, BURST_LINES + 1_234) == BURST_LINES
    assert log.dropped == 1_234
    assert messages(log) == ["x"] * BURST_LINES
    assert messages(log) == []
    clock.advance(PAUSE)
    write(log, 1, "again")
    words, again = messages(log)
    assert words == (
        "1,234 lines were not kept: at most 1,000 lines and 1,024 KiB at once, then 50 lines and 64 KiB a second"
    )
    assert again == "again"


def test_the_count_comes_without_another_line_and_with_the_ending() -> None:
    clock = FakeClock()
    log = ExecutionLog(clock)
    write(log, BURST_LINES + 1)
    messages(log)
    assert log.pending
    clock.advance(PAUSE)
    [words] = messages(log)
    assert words.startswith("1 line was not kept: ")
    assert not log.pending
    write(log, BURST_LINES + 7)
    dropped = log.dropped - 1
    assert messages(log, last=True)[-1].startswith(f"{dropped:,} lines were not kept")
    assert messages(log, last=True) == []


def test_a_flood_goes_on_at_the_steady_rate() -> None:
    clock = FakeClock()
    log = ExecutionLog(clock)
    write(log, BURST_LINES + 1)
    messages(log)
    kept = 0
    for _ in range(100):
        clock.advance(0.1)
        write(log, 100)
        kept += len(messages(log))
    assert 9 * LINES_PER_SECOND <= kept <= 10 * LINES_PER_SECOND


def test_quiet_logs_get_their_burst_back_but_no_more() -> None:
    clock = FakeClock()
    log = ExecutionLog(clock)
    assert write(log, 900) == 900
    messages(log)
    clock.advance(3_600)
    assert write(log, 5_000) == BURST_LINES


def test_long_lines_are_cut_and_many_of_them_are_bounded_by_their_size() -> None:
    log = ExecutionLog(FakeClock())
    kept = write(log, BURST_LINES, "y" * 100_000)
    assert kept == -(-BURST_BYTES // (MAX_LINE_LENGTH + len("shop")))
    lines = log.drain()
    assert all(len(line.message) <= MAX_LINE_LENGTH and "characters cut" in line.message for line in lines)


def test_lines_that_nobody_collects_are_bounded() -> None:
    """While the store is away, and in a task that outlives its attempt."""
    clock = FakeClock()
    log = ExecutionLog(clock)
    for _ in range(100):
        clock.advance(60)
        write(log, 200)
    assert len(log.drain()) <= BURST_LINES + 1


def test_a_line_without_room_is_not_formatted() -> None:
    """What the neighbours of a handler that floods its log rely on."""
    clock = FakeClock()
    log = ExecutionLog(clock)
    write(log, BURST_LINES)
    before = log.drain()
    assert len(before) == BURST_LINES
    assert write(log, 100_000) == 0
    assert (log.dropped, log.drain()) == (100_000, ())


def test_lines_that_could_not_be_stored_keep_their_order() -> None:
    log = ExecutionLog(FakeClock())
    write(log, 1, "one")
    lines = log.drain()
    write(log, 1, "two")
    log.put_back(lines)
    assert messages(log) == ["one", "two"]
