"""Errors say what is wrong, survive pickling, and suggest what was meant."""

from __future__ import annotations

import difflib
import pickle
from datetime import timedelta

import pytest
from pymongo.errors import ServerSelectionTimeoutError

from mainspring.model import errors
from mainspring.model.errors import (
    CommandRefused,
    DuplicateRegistration,
    ExecutionNotFound,
    HandlerNotFound,
    InvalidValue,
    JobNotFound,
    MainspringError,
    NonRetryable,
    RetryAfter,
    SchemaMismatch,
    nearest,
)
from mainspring.stores.mongo.connection.errors import translated

SAMPLES = [
    InvalidValue("hour", 25, "0 to 23", "Use 23"),
    NonRetryable("gone"),
    RetryAfter("30s", "rate limited"),
    JobNotFound("crawll", ["crawl"]),
    ExecutionNotFound("0191"),
    HandlerNotFound("x"),
    DuplicateRegistration("crawl", "jobs.py:3", "more.py:9"),
    CommandRefused("pause", "cancelled", ["scheduled", "running"], "job 'x'"),
    SchemaMismatch(3, 5),
]


@pytest.mark.req("REG-11")
def test_invalid_value_names_field_value_allowed_and_remedy():
    error = InvalidValue("hour", 25, "0 to 23", "Use 23")
    assert str(error) == "hour: 25 is not valid; allowed: 0 to 23. Use 23"
    assert (error.field, error.value, error.allowed, error.remedy) == ("hour", 25, "0 to 23", "Use 23")
    assert isinstance(error, ValueError)
    assert isinstance(error, MainspringError)


def test_invalid_value_stays_one_readable_line():
    message = str(InvalidValue("params", "x\n" * 10_000, "text"))
    assert "\n" not in message
    assert len(message) < 200


@pytest.mark.parametrize("error", SAMPLES, ids=lambda error: type(error).__name__)
def test_errors_survive_pickling(error):
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert str(copy) == str(error)
    assert vars(copy) == vars(error)


@pytest.mark.parametrize("delay", [30, 30.0, timedelta(seconds=30), "30s"])
@pytest.mark.req("EXE-3")
def test_retry_after_takes_numbers_timedeltas_and_text(delay):
    assert RetryAfter(delay).delay == 30.0
    assert str(RetryAfter(delay)) == "retry after 30 s"


def test_retry_after_keeps_its_message_and_refuses_nonsense():
    assert str(RetryAfter(5, "rate limited")) == "rate limited"
    assert RetryAfter(0).delay == 0.0
    with pytest.raises(InvalidValue, match="delay: 'soon' is not valid"):
        RetryAfter("soon")


def test_not_found_suggests_the_nearest_name():
    assert str(JobNotFound("crawll", ["crawl", "report"])) == "no job named 'crawll'; did you mean 'crawl'?"
    assert str(HandlerNotFound("zzz", ["crawl"])) == "no handler named 'zzz'"
    assert str(ExecutionNotFound("42")) == "no execution with id '42'"
    assert isinstance(JobNotFound("x"), LookupError)


@pytest.mark.req("SEC-2")
def test_the_nearest_of_many_long_names_is_found_by_few_comparisons(monkeypatch: pytest.MonkeyPatch) -> None:
    known = [f"{'a' * 90}{number:09}" for number in range(1_000)]
    compared = 0
    ratio = difflib.SequenceMatcher.ratio

    def counted(self: difflib.SequenceMatcher[str]) -> float:
        nonlocal compared
        compared += 1
        return ratio(self)

    monkeypatch.setattr(difflib.SequenceMatcher, "ratio", counted)
    assert nearest(f"{'a' * 90}000000777x", known) == known[777]
    assert nearest(f"{'a' * 90}OOO000777", known) == known[777]
    assert compared < 20


@pytest.mark.req("EXE-1")
def test_refused_command_names_both_states():
    error = CommandRefused("pause", "cancelled", ["scheduled", "running"], "job 'x'")
    assert str(error) == "cannot pause job 'x': it is cancelled; pause is possible when scheduled or running"
    assert "never possible" in str(CommandRefused("retry", "pending", []))


@pytest.mark.req("REG-5")
def test_duplicate_registration_names_both_places():
    message = str(DuplicateRegistration("crawl", "jobs.py:3", "more.py:9"))
    assert "'crawl'" in message
    assert "jobs.py:3" in message
    assert "more.py:9" in message


def test_one_of():
    assert errors.one_of(["a"]) == "a"
    assert errors.one_of(["a", "b", "c"]) == "a, b or c"


def test_a_server_that_is_down_is_told_in_one_line() -> None:
    said = (
        "127.0.0.1:1: [Errno 111] refused (configured timeouts: socketTimeoutMS: 5000.0ms, connectTimeoutMS: 5000.0ms),"
        "b:2: [Errno 111] refused (configured timeouts: connectTimeoutMS: 5000.0ms), Timeout: 10.0s, Topology: "
        "<TopologyDescription id: 6af, servers: [<ServerDescription ('127.0.0.1', 1) server_type: Unknown>]>"
    )
    told = str(translated(ServerSelectionTimeoutError(said), "mongodb://host/x"))
    refused = "127.0.0.1:1: [Errno 111] refused,b:2: [Errno 111] refused"
    assert told == f"mongodb://host/x: {refused}; check that the server runs and can be reached"
