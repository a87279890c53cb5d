"""Search keys: from parameters and from handlers to labels."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import MutableMapping, Sequence
from typing import NewType

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from mainspring.core.declaring.job_specs import job_spec
from mainspring.core.declaring.signature import Signature
from mainspring.core.rules import transitions
from mainspring.core.rules.new_execution import enqueue_templates, new_execution
from mainspring.core.rules.search_keys import Tags, check_search, keys_before, search_labels
from mainspring.model.errors import InvalidValue
from mainspring.model.execution import Outcome, State, encode_attempts, next_token
from mainspring.model.job import Job, JobSpec
from mainspring.model.labels import search_label

pytestmark = pytest.mark.req("SRC-1")
CHANCE = random.Random(1)


def job(**fields: object) -> Job:
    spec = JobSpec(handler="h", **fields)
    return Job(name="j", id="i", declared=msgspec.json.encode(spec).decode())


def test_values_of_every_kind() -> None:
    params = msgspec.json.encode(
        {"a": 1, "b": 1.5, "c": True, "d": None, "e": {"f": "x"}, "g": ["p", 2, {}, None], "h": "y" * 300}
    ).decode()
    assert search_labels(("a", "b", "c"), params) == ("a=1", "b=1.5", "c=true")
    assert search_labels(("d", "e", "missing", "a.b"), params) == ()
    assert search_labels(("e.f", "g"), params) == ("e.f=x", "g=p", "g=2")
    assert search_labels(("h",), params) == (f"h={'y' * 200}",) == (search_label("h", "y" * 300),)


@given(st.text(max_size=400))
def test_a_stored_value_is_found_by_itself(value: str) -> None:
    params = msgspec.json.encode({"a": value}).decode() if value.isprintable() else '{"a":"x"}'
    found = search_labels(("a",), params)
    assert found == (search_label("a", value if value.isprintable() else "x"),)


def test_what_the_option_takes() -> None:
    assert check_search("search", "order_id") == ("order_id",)
    assert check_search("search", ["a", "b.c", "a"]) == ("a", "b.c")
    for wrong in (["a b"], [""], ["a..b"], ["a" * 101], 5, {"a": 1}, [7], [f"k{n}" for n in range(11)]):
        with pytest.raises(InvalidValue, match="search"):
            check_search("search", wrong)


class Card(msgspec.Struct):
    number: str


def test_paths_are_checked_against_the_signature() -> None:
    def charge(order_id: int, card: Card) -> None: ...

    signature = Signature("charge", charge)
    made = job_spec("charge", signature, {"search": ("order_id", "card.number")})
    assert made.search == ("order_id", "card.number")
    with pytest.raises(InvalidValue, match="Did you mean 'order_id'"):
        job_spec("charge", signature, {"search": "order_ids"})


def test_secrets_are_refused_however_deep() -> None:
    pydantic = pytest.importorskip("pydantic")

    class Login(pydantic.BaseModel):
        user: str
        password: pydantic.SecretStr | None = None

    class Account(pydantic.BaseModel):
        login: Login
        others: tuple[Login, ...] = ()

    namespace = {"Account": Account}
    exec("def log_in(account: Account) -> None: ...", namespace)
    signature = Signature("log_in", namespace["log_in"])
    assert job_spec("log_in", signature, {"search": "account.login.user"}).search
    for path in ("account.login.password", "account.others.password"):
        with pytest.raises(InvalidValue, match="no secrets"):
            job_spec("log_in", signature, {"search": path})


def test_secrets_are_refused_whatever_holds_them() -> None:
    pydantic = pytest.importorskip("pydantic")
    secret = pydantic.SecretStr
    key = NewType("key", secret)
    held = {"a": Sequence[secret], "b": deque[secret], "c": key, "d": MutableMapping[str, key | None]}
    account = pydantic.create_model("Account", **{name: (hint, ...) for name, hint in held.items()})
    namespace = {"Account": account}
    exec("def log_in(account: Account) -> None: ...", namespace)
    signature = Signature("log_in", namespace["log_in"])
    for path in ("account.a", "account.b", "account.c", "account.d.any"):
        with pytest.raises(InvalidValue, match="no secrets"):
            job_spec("log_in", signature, {"search": path})


def test_every_way_in_has_the_labels() -> None:
    chance = CHANCE
    searched = job(search=("order_id",), params={"order_id": 7})
    assert new_execution(searched, trigger="schedule", now=1, chance=chance).labels == ("order_id=7",)
    assert new_execution(searched, trigger="api", now=1, chance=chance, params='{"order_id":"a"}').labels == (
        "order_id=a",
    )
    assert new_execution(job(), trigger="api", now=1, chance=chance, params='{"order_id":"a"}').labels == ()
    template = enqueue_templates(searched).plain
    assert (template.search, template.execution.labels) == (("order_id",), ())


def test_tags_are_bounded_and_sent_once() -> None:
    tags = Tags(frozenset({"order_id=1"}))
    tags.add({"user": "ada", "order_id": 1})
    assert tags.labels == ("user=ada",)
    assert (tags.drain(), tags.drain()) == (("user=ada",), ())
    tags.undrain()
    assert tags.drain() == ("user=ada",)
    for wrong in ({"a b": "x"}, {"a": None}, {"a": ["x"]}, {"a": float("nan")}):
        with pytest.raises(InvalidValue, match="tag"):
            tags.add({"user": "bob", **wrong})
    assert tags.labels == ("user=ada",)
    assert tags.add({f"k{n}": n for n in range(9)}) == ["k8"]
    assert tags.add({"user": "ada", "k9": 1}) == ["k9"]
    assert len(tags.labels) == 9


def test_keys_of_the_job_and_of_earlier_attempts_count_although_a_claim_has_no_labels() -> None:
    execution = new_execution(job(search=("order_id",), params={"order_id": 7}), trigger="api", now=1, chance=CHANCE)
    claimed = replace(execution, labels=(), state=State.RUNNING, owner="w", token=next_token(0, 1), claimed=1)
    outcome = Outcome(end="failed", started=1, ended=2, worker="w", error="e", labels=("try=1",))
    first = transitions.after_attempt(claimed, outcome)
    assert first.attempt is not None
    again = replace(claimed, attempts_json=encode_attempts([first.attempt]))
    assert keys_before(again) == {"order_id=7", "try=1"}
    completed = transitions.after_attempt(again, replace(outcome, end="completed"))
    assert completed.attempt is not None
    assert completed.attempt.tags == ()  # nobody asks for them any more
