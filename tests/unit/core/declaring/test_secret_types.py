"""Parameters whose declared type is a secret: found at any depth, stored, and handed to the handler as secrets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, NewType, TypedDict

import msgspec
import pydantic
import pytest
from pydantic import SecretBytes, SecretStr

from mainspring import InvalidValue, Limit, Secret
from mainspring.core.declaring.job_specs import edited_fields, job_spec
from mainspring.core.declaring.registry import Registry
from mainspring.core.declaring.signature import Signature, json_schema
from mainspring.model.values.access import HIDDEN

pytestmark = pytest.mark.req("SEC-4")

MARKER = "hunter2-7c1f"
Key = NewType("Key", Secret)


class Card(msgspec.Struct, rename="camel"):
    holder_name: str
    card_number: Secret


class Row(msgspec.Struct, array_like=True):
    user: str
    password: Secret


class Pair(NamedTuple):
    user: str
    password: Secret


@dataclass
class Account:
    user: str
    password: Secret | None = None


class Node(msgspec.Struct):
    name: str
    password: Secret
    children: list[Node] = []


class Options(TypedDict):
    token: Secret
    url: str


class Login(pydantic.BaseModel):
    user: str
    password: SecretStr
    pins: list[SecretStr] = []
    raw: SecretBytes | None = None


class Dotted(pydantic.BaseModel):
    secret: SecretStr = pydantic.Field(alias="a.b")


def plain(key: Secret, other: str = "") -> None: ...
def optional(key: Secret | None = None, keys: list[Secret] = [], new: Key | None = None) -> None: ...  # noqa: B006
def nested(card: Card, cards: list[Card], by_name: dict[str, Card]) -> None: ...
def records(account: Account, options: Options, row: Row, pair: Pair) -> None: ...
def recursive(tree: Node) -> None: ...
def models(login: Login, logins: dict[str, Login], dotted: Dotted) -> None: ...
def extras(url: str, **others: Secret) -> None: ...
def nothing(url: str, data: dict[str, Any], when: Account | None = None, **more: Any) -> None: ...


class Perform:
    def perform(self, data: Card, execution: Any) -> None: ...


@pytest.mark.parametrize(
    ("call", "paths"),
    [
        (plain, ("key",)),
        (optional, ("key", "keys", "new")),
        (nested, ("by_name.*.cardNumber", "card.cardNumber", "cards.cardNumber")),
        (records, ("account.password", "options.token", "pair", "row")),
        (recursive, ("tree.children", "tree.password")),
        (
            models,
            (
                "dotted",
                *(f"login.{name}" for name in ("password", "pins", "raw")),
                *(f"logins.*.{name}" for name in ("password", "pins", "raw")),
            ),
        ),
        (extras, ("*",)),
        (nothing, ("when.password",)),
    ],
)
def test_where_secrets_are(call: Callable[..., Any], paths: tuple[str, ...]) -> None:
    assert Signature("h", call).secret == paths


def test_a_payload_that_is_received_whole() -> None:
    signature = Signature("h", Perform().perform, "perform")
    assert signature.secret == ("cardNumber",)


def test_very_many_secrets_hide_their_parameters() -> None:
    fields = [(f"f{n}", Secret) for n in range(101)]
    many = msgspec.defstruct("Many", fields)

    def call(many: Any, few: Any) -> None: ...

    call.__annotations__ = {"many": many, "few": int}
    assert Signature("h", call).secret == ("many",)


def _bound(call: Callable[..., Any], params: dict[str, Any]) -> dict[str, Any]:
    signature = Signature("h", call)
    return signature.bind(signature.encode(params))


def test_a_secret_arrives_as_a_secret() -> None:
    for given in (Secret(MARKER), MARKER):
        assert _bound(plain, {"key": given}) == {"key": Secret(MARKER)}
    assert Signature("h", plain).encode({"key": Secret(MARKER)}) == f'{{"key":"{MARKER}"}}'
    found = _bound(optional, {"keys": [Secret("a"), "b"], "new": Secret("c"), "key": None})
    assert found == {"keys": [Secret("a"), Secret("b")], "new": Secret("c"), "key": None}
    card = Card("Ada", Secret(MARKER))
    found = _bound(nested, {"card": card, "cards": [card], "by_name": {"x": card}})
    assert found == {"card": card, "cards": [card], "by_name": {"x": card}}
    account, row, pair = Account("u", Secret(MARKER)), Row("u", Secret(MARKER)), Pair("u", Secret(MARKER))
    found = _bound(records, {"account": account, "options": {"token": MARKER, "url": "/"}, "row": row, "pair": pair})
    assert (found["account"], found["options"]["token"]) == (account, Secret(MARKER))
    assert (found["row"], found["pair"]) == (row, pair)


def test_secrets_of_pydantic_arrive_too() -> None:
    login = Login(user="u", password=MARKER, pins=["1", "2"], raw=b"raw")
    found = _bound(models, {"login": login, "logins": {"x": login}, "dotted": {"a.b": "x"}})
    assert found["login"] == found["logins"]["x"] == login

    def alone(key: SecretStr, raw: SecretBytes) -> None: ...

    alone.__annotations__ = {"key": SecretStr, "raw": SecretBytes}
    for key, raw in ((MARKER, MARKER), (SecretStr(MARKER), SecretBytes(MARKER.encode()))):
        found = _bound(alone, {"key": key, "raw": raw})
        assert found == {"key": SecretStr(MARKER), "raw": SecretBytes(MARKER.encode())}


@pytest.mark.parametrize(
    ("call", "params"),
    [
        (plain, {"key": [MARKER]}),
        (plain, {"key": f"{MARKER}\0"}),
        (nested, {"card": MARKER, "cards": [], "by_name": {}}),
        (nested, {"card": {"holderName": "a", "cardNumber": [MARKER]}, "cards": [], "by_name": {}}),
        (models, {"login": {"user": 1, "password": MARKER}, "logins": {}, "dotted": {"a.b": ""}}),
        (models, {"login": {"user": "u", "password": [MARKER]}, "logins": {}, "dotted": {"a.b": ""}}),
    ],
)
def test_a_refused_value_is_not_repeated(call: Callable[..., Any], params: dict[str, Any]) -> None:
    with pytest.raises(InvalidValue) as refused:
        job_spec("h", Signature("h", call), {"params": params})
    assert MARKER not in str(refused.value) + repr(refused.value.args)
    assert HIDDEN in str(refused.value)


def test_types_and_option_make_one_list() -> None:
    signature = Signature("h", plain)
    assert job_spec("h", signature, {}).secret == ("key",)
    assert job_spec("h", signature, {"secret": "other"}).secret == ("key", "other")
    assert job_spec("h", None, {"secret": ["x.y"]}).secret == ("x.y",)


def test_secrets_are_no_keys() -> None:
    for signature, options in (
        (Signature("h", plain), {"search": "key"}),
        (Signature("h", plain), {"search": "other", "secret": "other"}),
        (None, {"search": "card.number", "secret": "card"}),
        (Signature("h", plain), {"limits": Limit("{params.key}", rate="1/s")}),
        (None, {"limits": Limit("{params.card}", rate="1/s"), "secret": "card.number"}),
    ):
        with pytest.raises(InvalidValue, match="parameters that are no secrets"):
            job_spec("h", signature, options)


def test_edits_only_add() -> None:
    spec = job_spec("h", None, {"secret": "a", "params": {"a": MARKER, "b": 1}})
    assert edited_fields(spec, None, {"secret": []}) == {"secret": ["a"]}
    assert edited_fields(spec, None, {"secret": ["b"]}) == {"secret": ["a", "b"]}
    assert edited_fields(spec, None, {"params": {"a": HIDDEN, "b": 2}}) == {"params": {"a": MARKER, "b": 2}}
    with pytest.raises(InvalidValue, match="mask"):
        job_spec("h", None, {"secret": "a", "params": {"a": HIDDEN}})


def test_misspelt_secrets_are_refused() -> None:
    registry = Registry()
    with pytest.raises(InvalidValue, match="Did you mean 'other'"):
        registry.declare("h", plain, secret="othr")


def test_further_jobs_of_a_handler_have_its_secrets() -> None:
    registry = Registry()
    registry.declare("h", plain, secret="other")
    registry.schedule("second", "h", params={"key": "x"})
    registry.declare("any", lambda **data: None, secret="a")
    registry.schedule("third", "any", secret="b")
    specs = dict(registry.declared_jobs())
    assert (specs["second"].secret, specs["third"].secret) == (("key", "other"), ("a", "b"))


def test_the_schema_says_that_it_is_a_password() -> None:
    schema, _ = json_schema(Signature("h", plain), "#/")
    assert schema["properties"]["key"] == {"type": "string", "format": "password"}


def test_a_default_is_not_shown() -> None:
    def call(key: Any = Secret(MARKER)) -> None: ...  # noqa: B008

    call.__annotations__ = {"key": Secret}
    assert MARKER not in str(Signature("h", call))
