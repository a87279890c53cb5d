"""Payloads are kept exactly or refused with a place; results are always storable."""

from __future__ import annotations

import dataclasses
import enum
import json
import math
import pickle
from collections import OrderedDict, namedtuple
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mainspring.model.errors import InvalidValue
from mainspring.model.values.payload import (
    HIGHEST,
    LOWEST,
    MAX_DEPTH,
    encode_payload,
    presentable,
    safe_json,
    safe_text,
)

pytestmark = pytest.mark.req("ENQ-6")

storable_text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
any_text = st.text(st.characters())  # NUL and lone surrogates included
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | any_text,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(any_text, inner, max_size=5),
    max_leaves=20,
)


class Hostile:
    """Everything it can be asked raises, and not even an Exception."""

    def __repr__(self) -> str:
        raise SystemExit("no repr")

    __str__ = __repr__


class HostileDict(dict[str, Any]):
    def items(self) -> Any:
        raise RuntimeError("no items")


class Colour(enum.Enum):
    RED = "red"


class Size(enum.IntEnum):
    BIG = 3


class Text(str):
    pass


@dataclasses.dataclass
class Point:
    x: int
    y: Any = None


class Pair(msgspec.Struct):
    left: Any
    right: Any = None


def nested(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels - 1):
        value = [value]
    return value


def same(left: Any, right: Any) -> bool:
    """Equal, also in type and in the sign of zero."""
    if isinstance(left, dict):
        return list(left) == list(right) and all(same(left[key], right[key]) for key in left)
    if isinstance(left, list):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, float) and isinstance(right, float):
        return left == right and math.copysign(1, left) == math.copysign(1, right)
    return type(left) is type(right) and bool(left == right)


@given(json_values)
@example(-0.0)
@example(2**64 - 1)
@example(2**64)
@example(-(2**63))
@example({"a": ["\ud800"]})
@example({"\0": 1})
def test_a_payload_reads_back_exactly_or_is_refused(value: Any) -> None:
    try:
        text = encode_payload("params", value)
    except InvalidValue:
        return
    assert same(value, msgspec.json.decode(text))
    assert same(value, json.loads(text))


@given(
    st.dictionaries(
        storable_text, st.integers(LOWEST, HIGHEST) | storable_text | st.floats(allow_nan=False, allow_infinity=False)
    )
)
def test_ordinary_payloads_are_never_refused(value: dict[str, Any]) -> None:
    assert msgspec.json.decode(encode_payload("params", value)) == value


def test_the_order_of_keys_is_kept() -> None:
    assert encode_payload("params", {"b": 1, "a": 2}) == '{"b":1,"a":2}'


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"items": [0, 1, 2, {"note": math.nan}]}, "params.items[3].note: nan is not valid; allowed: a finite number"),
        ({"a": -math.inf}, "params.a: -inf is not valid; allowed: a finite number"),
        ({"a": "x\0y"}, r"params.a: 'x\x00y' is not valid; allowed: text without NUL characters"),
        ({"a": "\ud800"}, "params.a: '\\ud800' is not valid; allowed: text of whole Unicode characters"),
        ({"a": {1: 2}}, "params.a[1]: 1 is not valid; allowed: text as the key of an object. Use '1'"),
        ({"a b": [2**64]}, "params['a b'][0]: 18446744073709551616 is not valid; allowed: an integer of at most 64"),
        ({"a": 10**5000}, "params.a: <int> is not valid; allowed: an integer of at most 64 bits"),
        ({"a": {1, 2}}, "params.a: {1, 2} is not valid; allowed: null, true, false, numbers, text, lists"),
        ({"a": object}, "params.a: <class 'object'> is not valid"),
        ({"a": Hostile()}, "params.a: <Hostile> is not valid"),
        ({"at": datetime(2026, 1, 1)}, "Annotate the handler's parameter as datetime, and it is converted"),
        ({"at": Decimal(1)}, "Annotate the handler's parameter as Decimal"),
        ({"at": UUID(int=1)}, "Annotate the handler's parameter as UUID"),
        ({"at": Point(1)}, "Annotate the handler's parameter as Point"),
        ({"at": Colour.RED}, "Annotate the handler's parameter as Colour"),
        ({"a": b"x"}, "params.a: b'x' is not valid"),
        ({"a": "x" * 300_000}, "params: more than 262144 bytes is not valid; allowed: a payload of at most 262144"),
        ({"a": "ü" * 200_000}, "params: 400008 bytes is not valid; allowed: a payload of at most 262144 bytes"),
    ],
)
def test_what_is_refused_is_named_with_its_place(value: Any, message: str) -> None:
    with pytest.raises(InvalidValue) as raised:
        encode_payload("params", value)
    assert message in str(raised.value)
    assert str(pickle.loads(pickle.dumps(raised.value))) == str(raised.value)


def test_depth_is_bounded_and_its_path_stays_readable() -> None:
    assert encode_payload("params", nested(MAX_DEPTH))
    with pytest.raises(InvalidValue, match="at most 100 levels") as raised:
        encode_payload("params", nested(MAX_DEPTH + 1))
    assert len(str(raised.value)) < 200


def test_a_value_that_contains_itself_is_refused() -> None:
    value: dict[str, Any] = {}
    value["self"] = value
    with pytest.raises(InvalidValue, match="may not contain itself"):
        encode_payload("params", value)


def test_a_small_value_that_would_be_endless_text_is_refused_at_once() -> None:
    value: list[Any] = []
    for _ in range(90):
        value = [value] * 10
    with pytest.raises(InvalidValue, match="262144 bytes"):
        encode_payload("params", value)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ((1, 2), "[1,2]"),
        (namedtuple("At", "x y")(1, 2), "[1,2]"),
        (OrderedDict(a=1), '{"a":1}'),
        ({Text("k"): Text("v")}, '{"k":"v"}'),
        ([Size.BIG, enum.StrEnum("S", {"A": "a"})("a")], '[3,"a"]'),
        (type("Share", (float,), {})(0.5), "0.5"),
        (type("Count", (int,), {})(5), "5"),
    ],
)
def test_subclasses_of_json_types_are_their_plain_value(value: Any, text: str) -> None:
    assert encode_payload("params", value) == text


def test_the_limit_counts_bytes() -> None:
    assert encode_payload("params", "x" * 8, limit=10) == '"xxxxxxxx"'
    with pytest.raises(InvalidValue, match="11 bytes is not valid"):
        encode_payload("params", "x" * 9, limit=10)


# ---------------------------------------------------------------- what goes out


cyclic: list[Any] = []
cyclic.append({"again": cyclic})
odd_values = st.sampled_from(
    [
        Hostile(),
        {"x": Hostile(), "y": 1},
        HostileDict(a=1),
        cyclic,
        object(),
        Point(1, Point(2, Hostile())),
        Pair(Colour.RED, {1, 2}),
        [datetime(2026, 1, 1, tzinfo=UTC), date(2026, 1, 1), timedelta(1), Decimal("NaN"), UUID(int=1), b"\xff"],
        {1: 2, None: 3, (4, 5): 6},
        10**5000,
        nested(2_000),
        ValueError("x"),
        Point,
        iter([]),
        "\x01" * 5_000,
        [Text("a\0"), Size.BIG, math.nan],
        memoryview(b"x"),
    ]
)
limits = st.sampled_from([0, 1, 4, 40, 100, 1_000, 100_000])


@pytest.mark.req("EXE-8")
@given(st.one_of(json_values, odd_values, st.lists(odd_values, max_size=3)), limits)
def test_safe_json_never_raises_and_everybody_can_read_it(value: Any, limit: int) -> None:
    text = safe_json(value, limit)
    assert len(text.encode()) <= max(limit, 4)
    assert "\0" not in text
    assert "\\u0000" not in text
    assert msgspec.json.decode(text) == json.loads(text, parse_constant=pytest.fail)


@given(json_values)
def test_safe_json_changes_nothing_that_is_a_payload(value: Any) -> None:
    try:
        text = encode_payload("value", value)
    except InvalidValue:
        return
    assert safe_json(value, 262_144) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"a": math.nan, "b": -math.inf}, '{"a":"nan","b":"-inf"}'),
        ({1: {2, 3}}, '{"1":[2,3]}'),
        pytest.param(10**5000, '"<int of 16610 bits>"', id="an integer too long to write"),
        (2**64, '"18446744073709551616"'),
        (cyclic, '[{"again":"... contains itself"}]'),
        (Hostile(), '"<Hostile>"'),
        (HostileDict(a=1), '"<HostileDict without a JSON form>"'),
        (Point(1, Colour.RED), '{"x":1,"y":"red"}'),
        (Pair(UUID(int=1)), '{"left":"00000000-0000-0000-0000-000000000001","right":null}'),
        (datetime(2026, 1, 1, tzinfo=UTC), '"2026-01-01T00:00:00Z"'),
        ("a\0b\ud800c", '"a\ufffdb\ufffdc"'),
        ({"k\0": 1}, '{"k\ufffd":1}'),
        (type("Model", (), {"model_dump": lambda self, mode: {"mode": mode}})(), '{"mode":"json"}'),
    ],
)
def test_what_has_no_json_form_becomes_readable(value: Any, text: str) -> None:
    assert safe_json(value, 10_000) == text


def test_what_is_too_large_says_so_and_shows_its_beginning() -> None:
    text = safe_json({"rows": ["x" * 100] * 100}, 500)
    told = json.loads(text)
    assert told["truncated"] is True
    assert told["bytes"] > 10_000
    assert told["head"].startswith('{"rows":["xxx')
    assert 450 < len(text) <= 500


def test_the_work_on_an_endless_result_is_bounded() -> None:
    value: list[Any] = [0]
    for _ in range(90):
        value = [value] * 10
    assert json.loads(safe_json(value, 1_000))["truncated"] is True


@given(any_text, st.integers(0, 200))
def test_safe_text_fits_and_can_be_stored(text: str, limit: int) -> None:
    safe = safe_text(text, limit)
    assert len(safe) <= limit
    assert "\0" not in safe
    safe.encode()  # no lone surrogates


def test_safe_text_keeps_the_beginning_and_the_end() -> None:
    text = safe_text("first" + "x" * 10_000 + "last", 100)
    assert text.startswith("firstx")
    assert text.endswith("xlast")
    assert len(text) <= 100
    kept = len(text) - len("...[9999 characters cut]...")
    assert f"...[{10_009 - kept} characters cut]..." in text


@pytest.mark.parametrize(("value", "text"), [(5, "5"), (None, "None"), (Hostile(), "<Hostile>"), (Text("x"), "x")])
def test_safe_text_takes_anything(value: Any, text: str) -> None:
    assert safe_text(value, 100) == text


def test_presentable_values_can_always_be_shown() -> None:
    for value in (Hostile(), 10**5000, "x" * 100_000, [1], None, 1.5):
        assert repr(presentable(value))
