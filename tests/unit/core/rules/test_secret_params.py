"""Secret parameters: what is masked, what an edit keeps, what an error repeats."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.declaring.signature import PayloadMismatch
from mainspring.core.rules import job_commands
from mainspring.core.rules.edited_params import difference, with_difference
from mainspring.core.rules.secret_params import (
    CHANGED,
    MOST_PATHS,
    check_secret,
    has_secrets,
    hide,
    is_secret,
    keep,
    mask,
    mask_fields_pair,
    mask_pair,
    refuse_mask,
    union,
)
from mainspring.model.errors import InvalidValue
from mainspring.model.execution import EDITED
from mainspring.model.job import Job, JobSpec, effective_spec, encode_spec
from mainspring.model.policies import RunPolicy
from mainspring.model.values.access import HIDDEN

pytestmark = pytest.mark.req("SEC-4")

MARKER = "hunter2-7c1f"
NAMES = ("a", "b", "c")


def test_values_are_masked_at_any_depth() -> None:
    params = {
        "key": MARKER,
        "card": {"number": 4111, "holder": "Ada"},
        "cards": [{"number": MARKER}, {"number": None}],
        "accounts": {"x": {"password": MARKER, "user": "u"}},
        "whole": {"deep": [MARKER]},
        "flag": True,
    }
    paths = ("key", "card.number", "cards.number", "accounts.*.password", "whole", "flag")
    assert mask(params, paths) == {
        "key": HIDDEN,
        "card": {"number": HIDDEN, "holder": "Ada"},
        "cards": [{"number": HIDDEN}, {"number": None}],
        "accounts": {"x": {"password": HIDDEN, "user": "u"}},
        "whole": HIDDEN,
        "flag": HIDDEN,
    }
    assert mask(params, ()) == params


def test_text_in_the_place_of_an_object_is_masked() -> None:
    """Nobody knows what it is: perhaps the object as JSON."""
    assert mask({"card": MARKER, "other": {"card": None}}, ("card.number", "other.card.number")) == {
        "card": HIDDEN,
        "other": {"card": None},
    }


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=3),
    max_leaves=12,
)
paths = st.lists(st.lists(st.sampled_from((*NAMES, "*")), min_size=1, max_size=3).map(".".join), max_size=3).map(tuple)


def _with_marker(value: Any, steps: tuple[str, ...]) -> Any:
    """The value, with the marker wherever these steps lead."""
    if isinstance(value, list):
        return [_with_marker(each, steps) for each in value]
    if not steps:
        return {"x": [MARKER, {"y": MARKER}], "n": value}
    if not isinstance(value, dict):
        value = {}
    names = list(value) or ["a"] if steps[0] == "*" else [steps[0]]
    return {**value, **{name: _with_marker(value.get(name), steps[1:]) for name in names}}


@given(st.dictionaries(st.sampled_from(NAMES), values), paths)
def test_no_secret_survives(params: dict[str, Any], secret: tuple[str, ...]) -> None:
    for path in secret:
        params = _with_marker(params, tuple(path.split(".")))
    assert MARKER not in repr(mask(params, union(secret)))
    assert MARKER not in repr(mask_pair({}, params, secret)) + repr(mask_pair(params, {}, secret))
    assert MARKER not in repr(difference({}, params, secret)) + repr(difference(params, {}, secret))


@given(st.dictionaries(st.sampled_from(NAMES), values), paths)
def test_what_is_shown_and_sent_back_changes_nothing(params: dict[str, Any], secret: tuple[str, ...]) -> None:
    assert keep(mask(params, secret), params, secret) == params


@given(st.dictionaries(st.sampled_from(NAMES), values), paths, paths)
def test_more_paths_hide_more(params: dict[str, Any], some: tuple[str, ...], more: tuple[str, ...]) -> None:
    both = union(some, more)
    assert mask(mask(params, some), both) == mask(params, both)


def test_an_edit_keeps_masks_and_takes_new_values() -> None:
    stored = {"key": "old", "url": "/", "cards": [{"number": "1"}, {"number": "2"}]}
    secret = ("cards.number", "key")
    assert keep({"key": "new", "url": "/"}, stored, secret)["key"] == "new"
    assert keep({"key": CHANGED}, stored, secret) == {"key": "old"}
    cards = [{"number": HIDDEN}, {"number": "3"}]
    assert keep({"cards": cards}, stored, secret) == {"cards": [{"number": "1"}, {"number": "3"}]}
    for edit, field in (
        ({"cards": cards[:1]}, r"params\.cards\[0\]\.number"),
        ({"key": {"x": HIDDEN}}, None),
        ({"cards": [{"number": HIDDEN}] * 3}, "params.cards"),
    ):
        if field is None:
            assert keep(edit, stored, secret) == edit
            continue
        with pytest.raises(InvalidValue, match=field):
            keep(edit, stored, secret)
    assert keep({"url": HIDDEN}, stored, secret) == {"url": HIDDEN}


def test_a_mask_alone_is_refused() -> None:
    refuse_mask({"key": "x", "url": HIDDEN}, ("key",))
    refuse_mask(None, ("key",))
    with pytest.raises(InvalidValue, match=r"params\.key: .* give the secret itself"):
        refuse_mask({"key": HIDDEN}, ("key",))


def test_a_difference_says_that_a_secret_changed() -> None:
    before, after = {"key": MARKER, "same": MARKER, "n": 1}, {"key": MARKER * 2, "same": MARKER, "n": 2, "new": MARKER}
    secret = ("key", "new", "same")
    expected = {
        "key": {"before": HIDDEN, "after": CHANGED},
        "n": {"before": 1, "after": 2},
        "new": {"after": HIDDEN},
    }
    assert difference(before, after, secret) == expected
    kept = with_difference(msgspec.json.encode(before).decode(), msgspec.json.encode(after).decode(), secret)
    assert kept is not None
    assert msgspec.json.decode(kept) == {EDITED: expected}


def test_fields_of_audit_records() -> None:
    before = {"params": {"key": "a"}, "overrides": {"params": {"key": "a"}}, "queue": "q"}
    after = {"params": {"key": "b"}, "overrides": {"params": {"key": "a"}}, "metadata": {"params": {"key": "shown"}}}
    assert mask_fields_pair(before, after, ("key",)) == (
        {"params": {"key": HIDDEN}, "overrides": {"params": {"key": HIDDEN}}, "queue": "q"},
        {
            "params": {"key": CHANGED},
            "overrides": {"params": {"key": HIDDEN}},
            "metadata": {"params": {"key": "shown"}},
        },
    )


def test_declarations_are_compared_without_secrets() -> None:
    jobs = [
        Job(name="j", id="i", declared=encode_spec(JobSpec(handler="h", params={"key": key}, secret=secret)))
        for key, secret in ((MARKER, ()), (MARKER * 2, ("key",)))
    ]
    before, after = job_commands.declared_difference(jobs[0], jobs[1])
    assert MARKER not in before + after
    assert CHANGED in after


@pytest.mark.parametrize(
    ("field", "hidden"),
    [
        ("params", True),
        ("params.key", True),
        ("params.key.inside[3]", True),
        ("params.card", True),
        ("params.card.number", True),
        ("params.card.holder", False),
        ("params.cards[0].number", True),
        ("params.accounts[...].password", True),
        ("params.accounts['a b'].password", True),
        ("params.accounts[...].user", False),
        ("params.url", False),
        ("queue", False),
    ],
)
def test_errors_do_not_repeat_secrets(field: str, hidden: bool) -> None:
    secret = ("accounts.*.password", "card.number", "cards.number", "key")
    error = hide(InvalidValue(field, MARKER, "text", "Do so"), secret)
    assert (MARKER not in str(error), error.allowed, error.remedy) == (hidden, "text", "Do so")
    mismatch = hide(PayloadMismatch(field, MARKER, f"no {MARKER}", "It takes (key)"), secret)
    assert isinstance(mismatch, PayloadMismatch)
    assert (MARKER not in str(mismatch), HIDDEN in str(mismatch)) == (hidden, hidden)
    assert hide(error, ()) is error


def test_missing_parameters_are_still_named() -> None:
    error = PayloadMismatch("params.key", None, "a value", "It takes (key)", "params.key is missing")
    assert hide(error, ("key",)) is error


def test_what_the_option_takes() -> None:
    assert check_secret("secret", "api_key") == ("api_key",)
    assert check_secret("secret", ["b.c", "a", "b", "x.*.y"]) == ("a", "b", "x.*.y")
    for wrong in (["a b"], [""], ["a..b"], ["a" * 201], 5, {"a": 1}, [7], [f"k{n}" for n in range(MOST_PATHS + 1)]):
        with pytest.raises(InvalidValue, match="secret"):
            check_secret("secret", wrong)


def test_which_paths_are_secret() -> None:
    assert is_secret("a", ("a",))
    assert is_secret("a.b", ("a",))
    assert is_secret("x.any.y", ("x.*.y",))
    assert not is_secret("x.any.z", ("x.*.y",))
    assert not is_secret("a", ("a.b",))
    assert has_secrets("a", ("a.b",))
    assert not has_secrets("b", ("a.b",))


def test_operators_add_to_what_code_declares() -> None:
    """A later release may declare further secrets: an override never takes them away."""
    declared = encode_spec(JobSpec(handler="h", secret=("a", "new")))
    assert effective_spec(declared, '{"secret":["a","b"]}').secret == ("a", "b", "new")
    assert effective_spec(declared, "{}").secret == ("a", "new")


def test_rows_without_secrets_stay_as_they_were() -> None:
    assert "secret" not in encode_spec(JobSpec(handler="h"))
    assert b"secret" not in msgspec.json.encode(RunPolicy())
    assert JobSpec(handler="h", secret=("a",)).run_policy().secret == ("a",)
