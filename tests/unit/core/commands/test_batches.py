"""Batches: ids in the order of the items, and each execution what a single enqueue would have made."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from typing import Any
from uuid import UUID

import msgspec
import pytest

from mainspring.core.commands.enqueue import Draft, ExecutionMaker, made_of, overlapped
from mainspring.core.rules import new_execution
from mainspring.model.errors import StoreError
from mainspring.model.job import Job, JobSpec, encode_spec
from mainspring.model.limits import Limit
from mainspring.model.store.batches import TemplatedBatch
from mainspring.model.values.ids import RandomIds, random_id

NOW = 1_794_000_000_123_456


def job(**fields: Any) -> Job:
    spec = JobSpec(handler="mail", priority=5, **fields)
    return Job(name="mail", id="j1", declared=encode_spec(spec), created=NOW, updated=NOW)


class Still:
    """A clock that stands."""

    def now(self) -> int:
        return NOW

    def monotonic(self) -> float:
        return 0.0


def encode(_: Job, params: object) -> str:
    if params == "bad":
        raise ValueError(params)
    return msgspec.json.encode(params).decode()


@pytest.mark.parametrize("together", [False, True])
def test_ids_of_a_batch_look_like_any_other_and_differ(together: bool) -> None:
    ids = RandomIds(random.Random(1))
    made = ids.following(NOW, 5_000) if together else [ids.at(NOW + n) for n in range(5_000)]
    assert len(set(made)) == 5_000
    for n, id in enumerate(made):
        assert UUID(id).version == 7
        assert UUID(id).variant == UUID(random_id(NOW, random.Random())).variant
        assert id[:18] == random_id(NOW + n, random.Random())[:18], "the same instant begins alike"


def draft(maker: ExecutionMaker, params: object) -> Draft:
    return Draft(maker, maker.encode(params))


def maker(**fields: Any) -> ExecutionMaker:
    return ExecutionMaker(job(**fields), encode, Still(), random.Random(1))


def test_a_batch_keeps_its_order_even_while_the_clock_stands() -> None:
    mails = maker()
    made = [row for _ in range(2) for row in made_of([draft(mails, {"n": n}) for n in range(500)])]
    assert [row.id for row in made] == sorted(row.id for row in made)
    assert {(row.created, row.due) for row in made} == {(NOW, NOW)}, "none is due later than now"


def test_each_has_its_own_parameters_and_trace_and_all_else_as_if_made_alone() -> None:
    mails = maker()
    alone = new_execution.new_execution(mails.job, trigger="enqueue", now=NOW, chance=random.Random())
    none, one = made_of([draft(mails, None), draft(mails, {"to": "ada"})])
    assert (none.params, one.params) == ("null", '{"to":"ada"}')
    for row in (none, one):
        assert row.trace_id == row.id.replace("-", "")
        own = {name: getattr(alone, name) for name in ("id", "trace_id", "params")}
        assert msgspec.structs.replace(row, **own) == alone


def test_those_of_one_job_are_marked_as_alike_unless_they_differ_in_more_than_parameters() -> None:
    mails = maker()
    drafts = [draft(mails, {"n": n}) for n in range(3)]
    assert isinstance(made_of(drafts), TemplatedBatch)
    assert not isinstance(made_of([*drafts, draft(maker(), None)]), TemplatedBatch), "another job"
    limited = maker(limits=(Limit("{params.n}", concurrency=1),))
    made = made_of([draft(limited, {"n": n}) for n in range(2)])
    assert not isinstance(made, TemplatedBatch)
    assert made[0].limits != made[1].limits


def test_parameters_are_checked_each_time() -> None:
    mails = maker()
    draft(mails, "good")
    with pytest.raises(ValueError, match="bad"):
        draft(mails, "bad")


def test_the_order_matters_only_where_executions_exclude_each_other() -> None:
    assert maker().independent
    assert not maker(overlap="skip").independent


async def test_parts_overlap_and_their_results_are_in_order() -> None:
    under_way: list[int] = []
    most = 0

    async def double(part: Sequence[int]) -> list[int]:
        nonlocal most
        under_way.append(part[0])
        most = max(most, len(under_way))
        for _ in range(5):
            await asyncio.sleep(0)
        under_way.remove(part[0])
        return [2 * number for number in part]

    assert await overlapped(double, range(10), 3) == [2 * number for number in range(10)]
    assert most == 2


async def test_the_first_part_that_fails_ends_the_others() -> None:
    begun: list[int] = []

    async def fail(part: Sequence[int]) -> list[int]:
        begun.append(part[0])
        if part[0] == 0:
            raise StoreError("gone")
        await asyncio.Event().wait()
        return list(part)

    with pytest.raises(StoreError, match="gone"):
        await overlapped(fail, range(10), 2)
    assert len(begun) <= 3
