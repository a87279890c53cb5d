"""Limits and weights as jobs declare them, and as executions carry them."""

from __future__ import annotations

import random
import re
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring import InvalidValue, Limit
from mainspring.core.declaring.registry import Registry
from mainspring.core.rules.limits import added_limit, check_limits, check_weights, limits_of
from mainspring.core.rules.new_execution import new_execution
from mainspring.model.execution import ExecutionRow
from mainspring.model.job import Job, JobSpec, encode_spec
from mainspring.model.limits import decode_limits, next_token, refilled

pytestmark = pytest.mark.req("FLW-3")


def job(**spec: Any) -> Job:
    return Job(name="crawl", id="j1", declared=encode_spec(JobSpec(handler="crawl", **spec)))


def made(of: Job, **fields: Any) -> ExecutionRow:
    return new_execution(of, trigger="enqueue", now=1, chance=random.Random(1), **fields)


@pytest.mark.parametrize(
    ("value", "per_second"), [("50/s", 50.0), ("120/m", 2.0), ("3600 / h", 1.0), ("43200/d", 0.5), (7, 7.0)]
)
def test_rates_are_read(value: Any, per_second: float) -> None:
    assert Limit("k", rate=value).per_second == per_second


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"key": ""}, "limits.key"),
        ({"key": "k"}, "limits"),
        ({"key": "k", "concurrency": 1, "rate": 1}, "limits"),
        ({"key": "k", "concurrency": 0}, "limits.concurrency"),
        ({"key": "k", "concurrency": 2, "burst": 2}, "limits.burst"),
        ({"key": "k", "rate": "fast"}, "limits.rate"),
        ({"key": "k", "rate": 0}, "limits.rate"),
        ({"key": "k", "rate": 5, "burst": 0}, "limits.burst"),
        ({"key": "k:{user}", "rate": 5, "extra": 1}, "limits"),
        ({"key": "k:{us er}", "rate": 5}, "limits.key"),
        ({"key": "k:{tenant", "rate": 5}, "limits.key"),
        ({"rate": 5}, "limits"),
        ("3", "limits"),
        (["3"], "limits"),
        ([{"key": str(n), "rate": 1} for n in range(5)], "limits"),
        ([{"key": "a", "rate": 1}, {"key": "a", "concurrency": 1}], "limits"),
    ],
)
def test_what_makes_no_sense_is_refused_by_field(wrong: Any, field: str) -> None:
    with pytest.raises(InvalidValue) as refused:
        check_limits(wrong)
    assert refused.value.field == field


@pytest.mark.parametrize("wrong", [{"acme": 0}, {"acme": 1.5}, {"": 1}, ["acme"], {"acme": 1_001}])
def test_weights_that_make_no_sense_are_refused(wrong: Any) -> None:
    with pytest.raises(InvalidValue, match="weights"):
        check_weights(wrong)


def test_a_registration_refuses_them_too() -> None:
    with pytest.raises(InvalidValue, match=r"limits\.rate"):
        Registry().declare("crawl", lambda ctx: None, limits=[{"key": "k", "rate": "often"}])


def test_keys_are_filled_in_for_each_execution() -> None:
    limited = job(limits=check_limits([Limit("{job}:{tenant}:{params.host}", concurrency=2), Limit("all", rate="5/s")]))
    execution = made(limited, tenant="acme", params='{"host": "a\\nb"}')
    assert execution.limits is not None
    assert [limit.key for limit in decode_limits(execution.limits)] == ["crawl:acme:a?b", "all"]
    assert limits_of(limited, tenant=None, queue="q", params="{}") is not None
    assert decode_limits(made(limited).limits or "[]")[0].key == "crawl:-:-"


def test_the_tenant_is_what_takes_turns_unless_another_share_is_named() -> None:
    weighted = job(weights={"acme": 3, "*": 2})
    assert (made(weighted, tenant="acme").share, made(weighted, tenant="acme").weight) == ("acme", 3)
    assert (made(weighted, tenant="other").share, made(weighted, tenant="other").weight) == ("other", 2)
    assert made(weighted, tenant="acme", share="vip").share == "vip"
    assert (made(job(), tenant="acme").weight, made(job()).share) == (1, None)


def test_an_execution_without_tenant_and_limits_carries_nothing() -> None:
    plain = made(job())
    assert (plain.share, plain.limits, plain.weight) == (None, None, 1)


def test_a_limit_is_added_to_those_of_the_job() -> None:
    one = added_limit(None, Limit("fan-out:1", concurrency=2))
    two = added_limit(one, Limit("api", rate="1/s"))
    assert [limit.key for limit in decode_limits(two)] == ["fan-out:1", "api"]


def test_limits_survive_being_stored() -> None:
    limits = (Limit("a", concurrency=3), Limit("b", rate="120/m", burst=4))
    stored = encode_spec(JobSpec(handler="x", limits=limits, weights={"a": 2}))
    assert msgspec.json.decode(stored, type=JobSpec).limits == limits


@given(
    rate=st.floats(0.01, 1000),
    burst=st.integers(1, 50),
    gaps=st.lists(st.integers(0, 2_000_000), min_size=1, max_size=60),
)
def test_a_bucket_never_gives_more_than_its_burst_and_its_rate(rate: float, burst: int, gaps: list[int]) -> None:
    level, at, taken, now = float(burst), 0, 0, 0
    for gap in gaps:
        now += gap
        level, at = refilled(level, at, now, rate, burst), now
        while level >= 1:
            level, taken = level - 1, taken + 1
    assert taken <= burst + now * rate / 1_000_000 + 1e-6


@given(level=st.floats(0, 0.999), rate=st.floats(0.01, 1000))
def test_the_next_token_is_there_when_it_was_said_to_be(level: float, rate: float) -> None:
    at = next_token(level, 0, rate)
    assert refilled(level, 0, at, rate, 5) >= 1 - 1e-9


@pytest.mark.req("FLW-2")
@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("crawl:{host}", "{params.host}"),
        ("crawl:{tenent}", "{tenant}"),
        ("crawl:{params.hots}", "{params.host}"),
        ("crawl:{job.name}", "{job}"),
    ],
)
def test_a_place_that_nothing_fills_is_refused(key: str, meant: str) -> None:
    with pytest.raises(InvalidValue, match=rf"did you mean {re.escape(meant)}\?"):
        check_limits(Limit(key, concurrency=1), {"host", "page"})
    assert check_limits(Limit("crawl:{params.host}", concurrency=1), {"host"})
    assert check_limits(Limit("crawl:{params.other}", concurrency=1)), "the handler is not known here"
