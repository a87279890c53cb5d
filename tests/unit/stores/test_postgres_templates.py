"""A batch whose executions differ in little travels as the same rows would if each were looked at."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest

from mainspring.model.execution import ExecutionRow
from mainspring.model.store.batches import ExecutionTemplate, TemplatedBatch, batch_of, merged
from mainspring.model.values.ids import RandomIds
from mainspring.stores.common.ids import SLACK
from mainspring.stores.postgres.executions.insert import all_fresh, literals, single

NOW = 1_794_000_000_123_456
BODIES = slice(2, 5)  # the texts of the bodies, their separator, and how all of them begin
NASTY = 'line\nbreak, "trace_id":"?","params":"?" }\n \x00 \\ ü \u2028 \x7f'


def batch(params: list[str], ids_at: int = NOW, **fields: Any) -> TemplatedBatch:
    blank = ExecutionRow(id="", job="job", job_id="j1", handler="work", created=NOW, due=NOW, **fields)
    ids = RandomIds(random.Random(1)).following(ids_at, len(params))
    made = [
        msgspec.structs.replace(blank, id=id, trace_id=id.replace("-", ""), params=each)
        for id, each in zip(ids, params, strict=True)
    ]
    return batch_of(ExecutionTemplate(blank), made, ids_at + len(params) - 1 - NOW)


def split_bodies(parts: list[Any]) -> list[str]:
    """As the statement splits them."""
    text, separator, opening = parts
    return [opening + rest for rest in text.split(separator)]


def read(bodies: list[str]) -> list[Any]:
    return [{"params": "{}", **msgspec.json.decode(body + "}")} for body in bodies]


@pytest.mark.req("ENQ-1")
@pytest.mark.parametrize(
    "params",
    [["{}"] * 3, ['{"a":1}'] * 3, ["{}", '{"a":1}', msgspec.json.encode({"text": NASTY}).decode()]],
    ids=["none", "the same", "different"],
)
@pytest.mark.parametrize("fields", [{}, {"triggered_by": NASTY, "priority": 5, "queue": "q"}])
def test_rows_that_are_alike_travel_as_if_each_were_looked_at(params: list[str], fields: dict[str, Any]) -> None:
    rows = batch(params, **fields)
    templated, one_by_one = list(literals(rows)), list(literals(list(rows)))
    expected = read(split_bodies(one_by_one[BODIES]))
    assert read(split_bodies(templated[BODIES])) == expected
    templated[BODIES] = one_by_one[BODIES] = []
    assert templated == one_by_one
    for row, body in zip(rows, expected, strict=True):
        alone, looked_at = list(single(batch_of(rows.template, [row]))), list(single([row]))
        assert read([alone.pop(2)]) == read([looked_at.pop(2)]) == [body]
        assert alone == looked_at


def test_rows_that_are_alike_are_bare_if_one_is_and_their_ids_tell_their_time() -> None:
    params = ["{}"] * 5
    assert all_fresh(batch(params))
    assert not all_fresh(batch(params, tenant="acme")), "what one has, all have"
    assert not all_fresh(batch(params, trigger="manual")), "not found in the part of the body that each row has"
    ahead = SLACK * 1000
    for ids_at, fresh in ((NOW + ahead - 4, True), (NOW + ahead - 3, False), (NOW + 2 * ahead, False)):
        assert all_fresh(batch(params, ids_at)) is fresh, "ids too far from their creation"


def test_batches_put_together_are_alike_if_they_were_made_from_the_same_blank() -> None:
    one, stranger = batch(["{}"] * 2), batch(["{}"])
    another = batch_of(one.template, batch(["{}"], NOW + 50), 50)
    both = merged([one, another])
    assert both == [*one, *another]
    assert isinstance(both, TemplatedBatch)
    assert (both.template, both.ahead) == (one.template, 50)
    assert not isinstance(merged([one, stranger]), TemplatedBatch)
    assert not isinstance(merged([one, list(another)]), TemplatedBatch)
