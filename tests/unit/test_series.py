"""Batches: ids in the order of the items, and each execution what a single enqueue would have made."""

from __future__ import annotations

import random
from uuid import UUID

import msgspec
import pytest

from mainspring.core.series import Series
from mainspring.model.execution import Execution
from mainspring.model.ids import RandomIds, random_id
from mainspring.model.job import Job, JobSpec, encode_spec

NOW = 1_794_000_000_123_456
FIRST = Execution(id="first", job="mail", job_id="j1", handler="mail", created=NOW, due=NOW, priority=5, params="{}")
JOB = Job(name="mail", id="j1", declared=encode_spec(JobSpec(handler="mail")), created=NOW, updated=NOW)


class Still:
    """A clock that stands."""

    def now(self) -> int:
        return NOW

    def monotonic(self) -> float:
        return 0.0


def encode(job: Job, params: object) -> str:
    if params == "bad":
        raise ValueError(params)
    return msgspec.json.encode(params).decode()


def test_ids_of_a_batch_look_like_any_other_and_differ() -> None:
    ids = RandomIds(random.Random(1))
    made = [ids.at(NOW + n) for n in range(5_000)]
    assert len(set(made)) == 5_000
    for n, id in enumerate(made):
        assert UUID(id).version == 7
        assert UUID(id).variant == UUID(random_id(NOW, random.Random())).variant
        assert id[:18] == random_id(NOW + n, random.Random())[:18], "the same instant begins alike"


def test_a_batch_keeps_its_order_even_while_the_clock_stands() -> None:
    series = Series(JOB, FIRST, encode, Still(), random.Random(1))
    made = [series.made({"n": n}) for n in range(500)]
    assert [row.id for row in made] == sorted(row.id for row in made)
    assert {(row.created, row.due) for row in made} == {(NOW, NOW)}, "none is due later than now"


def test_each_has_its_own_parameters_and_trace_and_all_else_of_the_first() -> None:
    series = Series(JOB, FIRST, encode, Still(), random.Random(1))
    none, one = series.made(None), series.made({"to": "ada"})
    assert (none.params, one.params) == ("null", '{"to":"ada"}')
    for row in (none, one):
        assert row.trace_id == row.id.replace("-", "")
        own = {name: getattr(FIRST, name) for name in ("id", "trace_id", "params")}
        assert msgspec.structs.replace(row, **own) == FIRST


def test_parameters_are_checked_each_time() -> None:
    series = Series(JOB, FIRST, encode, Still(), random.Random(1))
    series.made("good")
    with pytest.raises(ValueError, match="bad"):
        series.made("bad")
