"""Which parameter of a callable is the context, which are fields of the payload, and what cannot be filled at all."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pytest

from mainspring.core.declaring.context import JobContext
from mainspring.core.declaring.parameters import is_async
from mainspring.core.declaring.signature import Signature
from mainspring.core.views.execution import Execution
from mainspring.model.errors import InvalidValue

if TYPE_CHECKING:
    from somewhere import OnlyForTheTypeChecker

pytestmark = pytest.mark.req("REG-6")


@dataclass
class Address:
    city: str
    since: datetime | None = None
    notes: dict[str, Any] = field(default_factory=dict)


def remind(ctx: JobContext, shift_id: str, urgent: bool = False, note: str = "") -> None: ...


def refusal(signature: Signature, params: Any) -> str:
    with pytest.raises(InvalidValue) as raised:
        signature.encode(params)
    return str(raised.value)


def test_the_context_is_known_by_name_or_type() -> None:
    def by_name(ctx): ...  # type: ignore[no-untyped-def]
    def by_long_name(context): ...  # type: ignore[no-untyped-def]
    def by_type(url: str, run: JobContext) -> None: ...
    def by_optional_type(run: JobContext | None = None) -> None: ...
    def none_at_all() -> None: ...
    def second(url: str, ctx: str) -> None: ...

    contexts = [Signature("x", call).parameters.context for call in (by_name, by_long_name, by_type, by_optional_type)]
    assert contexts == ["ctx", "context", "run", "run"]
    assert not Signature("x", none_at_all).wants_context
    assert Signature("x", second).required == ("url", "ctx")


def test_a_context_type_imported_for_the_type_checker_only_is_enough() -> None:
    scope: dict[str, Any] = {}
    exec("from __future__ import annotations\ndef handler(run: JobContext, n: int) -> Missing: ...", scope)
    signature = Signature("x", scope["handler"])
    assert (signature.parameters.context, signature.required) == ("run", ("n",))


def test_an_unresolvable_annotation_names_handler_parameter_and_remedy() -> None:
    def handler(ctx: JobContext, order: OnlyForTheTypeChecker) -> None: ...

    with pytest.raises(InvalidValue) as raised:
        Signature("ship", handler)
    assert "parameter 'order' of handler 'ship': 'OnlyForTheTypeChecker' is not valid" in str(raised.value)
    assert "not under TYPE_CHECKING" in str(raised.value)


def test_what_cannot_be_filled_from_json_is_refused_at_registration() -> None:
    def connection(db: functools.partial[int]) -> None: ...
    def two_texts(at: str | datetime) -> None: ...
    def positional(*urls: str) -> None: ...
    def only_positional(url: str, /) -> None: ...

    for call, message in (
        (connection, "partial cannot be stored: take an id or a dataclass, or use ctx.resources"),
        (two_texts, "more than one str-like type"),
        (positional, "*urls is not valid; allowed: parameters with names"),
        (only_positional, "Remove the / from its signature"),
    ):
        with pytest.raises(InvalidValue) as raised:
            Signature("x", call)
        assert message in str(raised.value)


def test_wrapped_functions_and_partials_show_what_is_inside() -> None:
    def logged(function):  # type: ignore[no-untyped-def]
        @functools.wraps(function)
        def wrapper(*args, **kwargs):  # type: ignore[no-untyped-def]
            return function(*args, **kwargs)

        return wrapper

    assert str(Signature("x", logged(remind))) == "(shift_id: str, urgent: bool = False, note: str = '')"
    assert Signature("x", functools.partial(remind, note="n")).required == ("shift_id",)


@pytest.mark.req("REG-2")
class TestClassHandlers:
    class Untyped:
        def perform(self, data, execution): ...  # type: ignore[no-untyped-def]

    class Typed:
        def perform(self, data: Address) -> None: ...

    class WithRecord:
        async def perform(self, address: Address, run: Execution) -> None: ...

    class Fields:
        def perform(self, shift_id: str, execution: Any = None) -> None: ...

    class TooMany:
        def perform(self, data: dict[str, Any], execution: Any, third: int) -> None: ...

    def test_data_is_the_whole_payload(self) -> None:
        signature = Signature("x", self.Untyped().perform, "perform")
        assert signature.bind('{"a":1}') == {"data": {"a": 1}}
        assert signature.parameters.context == "execution"
        assert signature.encode({"a": [1]}) == '{"a":[1]}'

    def test_data_may_be_typed(self) -> None:
        signature = Signature("x", self.Typed().perform, "perform")
        assert signature.bind(signature.encode({"city": "Izmir"})) == {"data": Address("Izmir")}
        assert signature.bind(signature.encode(Address("Izmir"))) == {"data": Address("Izmir")}
        assert not signature.wants_context
        assert "params.city: 5 is not valid; allowed: str" in refusal(signature, {"city": 5})
        assert "params.city is missing" in refusal(signature, {})
        assert "params has no parameter 'town'" in refusal(signature, {"town": "Izmir"})
        assert "params: 5 is not valid" in refusal(signature, 5)

    def test_the_second_argument_may_be_the_record(self) -> None:
        read = Signature("x", self.WithRecord().perform, "perform").parameters
        assert (read.whole, read.context, read.record) == ("address", "run", True)

    def test_plain_parameters_are_fields(self) -> None:
        read = Signature("x", self.Fields().perform, "perform").parameters
        assert (read.whole, read.context, [item.name for item in read.fields]) == (
            None,
            "execution",
            ["shift_id"],
        )

    def test_a_third_argument_cannot_be_filled(self) -> None:
        with pytest.raises(InvalidValue, match=r"allowed: perform\(data\) or perform\(data, execution\)"):
            Signature("x", self.TooMany().perform, "perform")


@pytest.mark.req("REG-3")
def test_execute_takes_the_context_whatever_its_name() -> None:
    class Job:
        def execute(self, run): ...  # type: ignore[no-untyped-def]

    assert Signature("x", Job().execute, "execute").parameters.context == "run"


def test_coroutine_functions_are_recognised_in_every_wrapping() -> None:
    async def handler() -> None: ...
    def plain() -> None: ...

    class Callable:
        async def __call__(self) -> None: ...
        async def perform(self) -> None: ...

    assert [is_async(call) for call in (handler, functools.partial(handler), Callable(), Callable().perform)] == [
        True
    ] * 4
    assert not is_async(plain)
    assert not is_async(functools.partial(plain))
