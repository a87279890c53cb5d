"""A handler's signature is the type of its payload: checked when enqueued, read by the worker with the same decoder."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any, Literal, NotRequired, TypedDict
from uuid import UUID

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.declaring.context import JobContext
from mainspring.core.declaring.signature import PayloadMismatch, Signature
from mainspring.model.errors import InvalidValue

if TYPE_CHECKING:
    pass

pytestmark = pytest.mark.req("REG-6")


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Address:
    city: str
    since: datetime | None = None
    notes: dict[str, Any] = field(default_factory=dict)


class Item(msgspec.Struct):
    sku: str
    count: int = 1


class Row(TypedDict):
    id: int
    note: NotRequired[str]


class Model:
    """Shaped like a pydantic model, which is not needed to use one."""

    def __init__(self, **fields: Any) -> None:
        self.fields = fields

    @classmethod
    def model_validate(cls, value: Any) -> Model:
        if "id" not in value:
            raise ValueError("id\n  Field required")
        return cls(**value)

    def model_dump(self, mode: str) -> dict[str, Any]:
        return self.fields


def remind(ctx: JobContext, shift_id: str, urgent: bool = False, note: str = "") -> None: ...


def everything(
    count: int = 0,
    share: float = 0.0,
    when: datetime | None = None,
    day: date | None = None,
    pause: timedelta | None = None,
    key: UUID | None = None,
    price: Decimal | None = None,
    colour: Colour = Colour.RED,
    mode: Literal["fast", "slow"] = "fast",
    address: Address | None = None,
    item: Item | None = None,
    row: Row | None = None,
    numbers: list[int] | None = None,
    by_id: dict[int, str] | None = None,
    raw: bytes = b"",
    small: Annotated[int, msgspec.Meta(le=10)] = 0,
    model: Model | None = None,
    tags: set[str] | None = None,
    free: Any = None,
    notes: dict[str, Any] | None = None,
    unannotated=None,  # type: ignore[no-untyped-def]
) -> None: ...


reminder = Signature("remind", remind)
anything = Signature("everything", everything)


def refusal(signature: Signature, params: Any) -> str:
    with pytest.raises(InvalidValue) as raised:
        signature.encode(params)
    return str(raised.value)


# ---------------------------------------------------------------- enqueue


def test_a_fitting_payload_is_stored_as_given() -> None:
    assert reminder.encode({"shift_id": "42"}) == '{"shift_id":"42"}'
    assert reminder.validate({"shift_id": "42", "urgent": True}) == {"shift_id": "42", "urgent": True}


@pytest.mark.parametrize(
    ("params", "message"),
    [
        (
            {},
            "params.shift_id is missing. Handler 'remind' takes (shift_id: str, urgent: bool = False, note: str = '')",
        ),
        ({"shift_id": 42}, "params.shift_id: 42 is not valid; allowed: str. Handler 'remind' takes (shift_id: str"),
        ({"shift_id": None}, "params.shift_id: None is not valid; allowed: str"),
        ({"shift_id": "42", "urgent": 1}, "params.urgent: 1 is not valid; allowed: bool"),
        ({"shift_id": "42", "urgent": "yes"}, "params.urgent: 'yes' is not valid; allowed: bool"),
        ({"shift_id": datetime(2026, 1, 1)}, "params.shift_id: datetime.datetime(2026, 1, 1, 0, 0) is not valid"),
        ({"shiftid": "42"}, "params has no parameter 'shiftid'; did you mean 'shift_id'? Handler 'remind' takes"),
        ({"shift_id": "42", "ctx": 1}, "params has no parameter 'ctx'"),
        ({"shift_id": "42", 7: 1}, "params has no parameter 7"),
        ({"shift_id": "a\0b"}, "params.shift_id: 'a\\x00b' is not valid; allowed: text without NUL characters"),
        ([], "params: [] is not valid; allowed: an object (dict) of parameters"),
        ("shift_id", "params: 'shift_id' is not valid; allowed: an object (dict) of parameters"),
        (None, "params: None is not valid"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(params: Any, message: str) -> None:
    assert message in refusal(reminder, params)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("count", "42", "params.count: '42' is not valid; allowed: int"),
        ("count", 3.0, "params.count: 3.0 is not valid; allowed: int"),
        ("count", True, "params.count: True is not valid; allowed: int"),
        ("share", float("nan"), "params.share: nan is not valid; allowed: a finite number"),
        ("when", "soon", "params.when: 'soon' is not valid; allowed: datetime | None"),
        ("key", "x", "params.key: 'x' is not valid; allowed: UUID | None"),
        ("colour", "green", "params.colour: 'green' is not valid; allowed: one of 'red', 'blue'"),
        ("mode", "medium", "params.mode: 'medium' is not valid; allowed: one of 'fast', 'slow'"),
        ("address", {"city": 5}, "params.address.city: 5 is not valid; allowed: str"),
        ("address", {}, "params.address.city is missing"),
        ("address", Address(city=5), "params.address.city: 5 is not valid; allowed: str"),  # type: ignore[arg-type]
        ("numbers", [1, 2, "x"], "params.numbers[2]: 'x' is not valid; allowed: int"),
        ("by_id", {"x": "y"}, "params.by_id: {'x': 'y'} is not valid; allowed: int"),
        ("small", 11, "params.small: 11 is not valid; allowed: int <= 10"),
        ("model", {}, "params.model: {} is not valid; allowed: Model | None"),
        ("free", datetime(2026, 1, 1), "Annotate the handler's parameter as datetime"),
        ("unannotated", UUID(int=1), "Annotate the handler's parameter as UUID"),
        ("notes", {"at": datetime(2026, 1, 1)}, "params.notes.at: datetime.datetime(2026, 1, 1, 0, 0) is not valid"),
    ],
)
def test_types_are_checked_without_coercion(name: str, value: Any, message: str) -> None:
    assert message in refusal(anything, {name: value})


@pytest.mark.parametrize(
    ("name", "value", "stored"),
    [
        ("count", 2**63, 2**63),
        ("share", 1, 1),
        ("when", datetime(2026, 1, 1, tzinfo=UTC), "2026-01-01T00:00:00Z"),
        ("day", date(2026, 1, 1), "2026-01-01"),
        ("pause", timedelta(minutes=1), "PT60S"),
        ("key", UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        ("price", Decimal("1.10"), "1.10"),
        ("colour", Colour.BLUE, "blue"),
        ("mode", "slow", "slow"),
        (
            "address",
            Address("Izmir", datetime(2026, 1, 1)),
            {"city": "Izmir", "since": "2026-01-01T00:00:00", "notes": {}},
        ),
        ("item", Item("a", 2), {"sku": "a", "count": 2}),
        ("row", {"id": 1, "note": "n"}, {"id": 1, "note": "n"}),
        ("numbers", [1, 2], [1, 2]),
        ("by_id", {1: "a"}, {"1": "a"}),
        ("raw", b"\xff", "/w=="),
        ("tags", {"a"}, ["a"]),
        ("notes", {"deep": [1, {"x": None}]}, {"deep": [1, {"x": None}]}),
        ("unannotated", [1, "x", None], [1, "x", None]),
    ],
)
def test_typed_values_arrive_in_the_worker_as_they_were_sent(name: str, value: Any, stored: Any) -> None:
    text = anything.encode({name: value})
    assert msgspec.json.decode(text) == {name: stored}
    assert anything.bind(text) == {name: value}
    assert anything.bind(anything.encode({name: stored})) == {name: value}


def test_models_of_other_libraries_are_validated_by_themselves() -> None:
    text = anything.encode({"model": Model(id=1)})
    assert text == '{"model":{"id":1}}'
    assert anything.bind(text)["model"].fields == {"id": 1}


@given(
    st.dictionaries(
        st.sampled_from(["count", "share", "numbers", "free", "by_id", "nope"]),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
            lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
            max_leaves=5,
        ),
    )
)
def test_what_is_accepted_can_be_bound(params: dict[str, Any]) -> None:
    try:
        text = anything.encode(params)
    except InvalidValue:
        return
    assert set(anything.bind(text)) == set(params)


def test_partial_parameters_may_leave_out_required_ones_but_not_be_wrong() -> None:
    assert reminder.validate({}, partial=True) == {}
    assert reminder.validate({"note": "x"}, partial=True) == {"note": "x"}
    with pytest.raises(PayloadMismatch, match=r"params\.note: 5 is not valid; allowed: str"):
        reminder.validate({"note": 5}, partial=True)


def test_the_size_of_a_payload_is_limited_when_it_is_encoded() -> None:
    with pytest.raises(InvalidValue, match="at most 100 bytes"):
        reminder.encode({"shift_id": "x" * 100}, limit=100)


def test_further_keywords_take_anything_or_what_their_annotation_says() -> None:
    def free(ctx, url: str, **more): ...  # type: ignore[no-untyped-def]
    def numbers(**counts: int) -> None: ...

    signature = Signature("free", free)
    assert signature.bind(signature.encode({"url": "u", "depth": [1]})) == {"url": "u", "depth": [1]}
    assert "params.b: 'x' is not valid; allowed: int" in refusal(Signature("numbers", numbers), {"a": 1, "b": "x"})


# ---------------------------------------------------------------- worker


@pytest.mark.req("EXE-14")
@pytest.mark.parametrize(
    ("stored", "message"),
    [
        ("{}", "params.shift_id is missing"),
        ('{"shift_id":42}', "params.shift_id: 42 is not valid; allowed: str"),
        ('{"shift_id":"42","old":1}', "params has no parameter 'old'"),
        ("[]", "params: [] is not valid; allowed: object"),
        ("{", "params: '{' is not valid; allowed: JSON"),
        ("[" * 5_000, "params: "),
    ],
)
def test_a_stored_payload_that_no_longer_fits_is_a_mismatch(stored: str, message: str) -> None:
    with pytest.raises(PayloadMismatch) as raised:
        reminder.bind(stored)
    assert message in str(raised.value)
    assert str(pickle.loads(pickle.dumps(raised.value))) == str(raised.value)


def test_defaults_stay_with_the_function() -> None:
    assert reminder.bind('{"shift_id":"1"}') == {"shift_id": "1"}
    assert anything.bind("{}") == {}
