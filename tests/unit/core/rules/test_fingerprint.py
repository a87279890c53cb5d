"""Which failures are the same error."""

from __future__ import annotations

import asyncio
import sysconfig

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.engine.descriptions import describe_error, fingerprint_of
from mainspring.core.rules import transitions
from mainspring.core.rules.fingerprint import LONGEST_MESSAGE, Frame, fingerprint, normalised, own_frame
from mainspring.model.error_groups import FailureNote, Fingerprint
from mainspring.model.execution import ExecutionRow, Outcome, State, encode_attempts, encode_policy, next_token
from mainspring.model.policies import RunPolicy

pytestmark = pytest.mark.req("SRC-2")

SAME = [
    ("order 4711 not found", "order 12 not found"),
    ("user 'ada' is gone", "user 'grace hopper' is gone"),
    ('no row for "a" in `t1`', 'no row for "bb" in `t2`'),
    ("<Pool object at 0x7f01aa>", "<Pool object at 0x7fffe0>"),
    ("id 0b9c1a7e-58a7-4c7e-9d58-0f4a1b2c3d4e taken", "id 11111111-58a7-4c7e-9d58-0f4a1b2c3d4e taken"),
    ("10.0.0.7:5432 refused", "192.168.1.250:6379 refused"),
    ("connect to fe80::1ff:fe23:4567:890a failed", "connect to 2001:db8::1 failed"),
    ("no such file: /srv/a/b.txt", "no such file: /home/x/y/z.csv"),
    ("GET https://api.example/v1/users/7 gave 500", "GET https://api.example/v2?q=1 gave 502"),
    ("mail to ada@example.org bounced", "mail to bob.b@mail.example.com bounced"),
    ("late since 2026-01-02T10:00:00Z", "late since 2025-12-31 23:59:59.123 +02:00"),
    ("commit deadbeef01 missing", "commit 0a1b2c3d4e5f missing"),
    ("order 9999999 not found", "order 10000000 not found"),
    ("no customer cus_3MmlLrLkdIwHu7ix0snN0B15", "no customer cus_NffrFeUfNV2Hib7kQ9x8"),
    ("no event 01ARZ3NDEKTSV4RRFFQ69G5FAV", "no event 01BX5ZZKBKACTAV9WEVGEMMVRZ"),
    ("no file tmp_a1b2c3d4e5", "no file tmp_00ff11ee22"),
    ("Kunde „Ada“ fehlt", "Kunde „Grace“ fehlt"),
    ("client «Ada» absent, voir “a”", "client «Grace» absent, voir “b”"),
    ("balance is -3.5", "balance is 1e-07"),
    ("ids [1, 2, 3] and ['a', 'b'] are missing", "ids [4] and ['c'] are missing"),
]


def test_messages_that_differ_in_details_are_one() -> None:
    for one, other in SAME:
        assert normalised(one) == normalised(other) != one, (one, other, normalised(one), normalised(other))
    assert normalised("can't open the user's file") == "can't open the user's file"
    assert normalised("disk full") != normalised("disk slow")
    assert normalised("x-5 of process_order_v2, facade decade") == "x-<n> of process_order_v<n>, facade decade"


def test_placeholders_begin_inside_words_too() -> None:
    assert normalised("failed: see http://h/1 and ada.b@x.org (soon).") == "failed: see <url> and <email> (soon)."
    assert normalised("id abcdefab-1234-abcd-abcd-abcdefabcdef at c:\\a, fe80::1") == "id <id> at <path> <ip>"
    assert normalised("deadbeef01 order_7 x: y. z") == "<id> order_<n> x: y. z"


@given(st.text(max_size=5_000) | st.from_regex(r"[-0-9a-f:./@'\" ]{0,3000}", fullmatch=True))
def test_any_message_is_normalised_to_bounded_text(message: str) -> None:
    text = normalised(message)
    assert len(text) <= LONGEST_MESSAGE
    msgspec.json.encode(text)
    assert "\x00" not in text


def test_the_deepest_frame_of_the_application_counts() -> None:
    stdlib, library = sysconfig.get_path("stdlib"), "/venv/lib/python3.12/site-packages"
    handler = Frame("/srv/a/shop/jobs.py", "shop.jobs", "run")
    own = Frame("/srv/a/shop/billing.py", "shop.billing", "charge")
    foreign = [Frame(f"{library}/httpx/client.py", "httpx", "send"), Frame(f"{stdlib}/json/decoder.py", "json", "d")]
    assert own_frame([handler, own, *foreign]) == "shop.billing:charge"
    installed = [Frame(f"{library}/shop/jobs.py", "shop.jobs", "run"), *foreign]
    assert own_frame(installed) == "shop.jobs:run"
    assert own_frame(foreign[1:]) == "json:d"
    assert own_frame([Frame("/srv/script.py", "__main__", "main")]) == "script:main"
    assert own_frame([]) == ""


def test_of_an_exception_as_it_is_raised() -> None:
    def charge(order: int) -> None:
        try:
            msgspec.json.decode(b"{")
        except msgspec.DecodeError as error:
            raise LookupError(f"order {order}") from error

    def found(order: int) -> Fingerprint:
        try:
            charge(order)
        except LookupError as error:
            return fingerprint_of(error, describe_error(error))
        raise AssertionError

    first = found(1)
    assert first == found(2)
    assert (first.type, first.message) == ("LookupError", "order <n>")
    assert first.frame.endswith("charge")
    assert first.frame.startswith(__name__)
    assert len(first.group) == 12
    assert first.group != fingerprint("ValueError", "order 1").group


def test_of_an_exception_group_its_first_exception_counts() -> None:
    def charge() -> None:
        raise LookupError("order 7")

    async def both() -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(asyncio.to_thread(charge))

    with pytest.raises(ExceptionGroup) as caught:
        asyncio.run(both())
    for error in (caught.value, ExceptionGroup("more", [caught.value, ValueError()])):
        found = fingerprint_of(error, describe_error(error))
        assert (found.type, found.message, found.frame.endswith("charge")) == ("LookupError", "order <n>", True)
    with pytest.raises(ExceptionGroup) as unraised:
        raise ExceptionGroup("no place of its own", [ValueError("x")])
    assert fingerprint_of(unraised.value, "").frame.endswith("its_first_exception_counts")


def test_an_exception_that_lies_about_itself_has_a_fingerprint() -> None:
    class Odd(type):
        def __getattribute__(cls, name: str) -> object:
            raise RuntimeError(name)

    class Strange(Exception, metaclass=Odd):
        def __str__(self) -> str:
            raise RuntimeError("no")

    error = Strange()
    assert fingerprint_of(error, describe_error(error)).type.endswith("Strange")


def running(**fields: object) -> ExecutionRow:
    policy = encode_policy(RunPolicy(max_attempts=2))
    base = ExecutionRow(id="e", job="j", job_id="i", handler="h", policy=policy, tenant="acme")
    token = next_token(0, 1)
    return msgspec.structs.replace(base, state=State.RUNNING, owner="w", token=token, claimed=5, **fields)


def test_changes_of_failed_attempts_carry_label_and_note() -> None:
    found = fingerprint("KeyError", "'x'")
    outcome = Outcome(end="failed", started=10, ended=20, worker="w", error="KeyError: 'x'", reason="error")
    outcome = msgspec.structs.replace(outcome, fingerprint=found, release="r1", labels=("order_id=1",))
    retried = transitions.after_attempt(running(), outcome)
    note = msgspec.json.decode(retried.failure or "", type=FailureNote)
    assert retried.to is State.PENDING
    assert retried.labels == ("order_id=1", f"!{found.group}")
    assert retried.attempt is not None
    assert retried.attempt.error_group == found.group == note.group
    assert (note.job, note.tenant, note.release, note.execution, note.at, note.final) == (
        "j",
        "acme",
        "r1",
        "e",
        20,
        False,
    )
    final = transitions.after_attempt(running(failures=1), outcome)
    assert final.to is State.FAILED
    assert msgspec.json.decode(final.failure or "", type=FailureNote).final


def test_failures_without_an_exception_are_grouped_by_reason_and_handler() -> None:
    lost = transitions.after_attempt(running(), transitions.lost(running(), 30))
    timeout = transitions.after_attempt(running(), Outcome(end="timeout", started=1, ended=2, worker="w", error="slow"))
    notes = [msgspec.json.decode(each.failure or "", type=FailureNote) for each in (lost, timeout)]
    assert [each.type for each in notes] == ["worker_lost", "timeout"]
    again = transitions.after_attempt(running(), transitions.lost(running(), 99))
    assert again.labels == lost.labels
    elsewhere = msgspec.structs.replace(running(), handler="other")
    assert transitions.after_attempt(elsewhere, transitions.lost(elsewhere, 30)).labels != lost.labels


def test_what_did_not_fail_has_no_note() -> None:
    for end in ("completed", "skipped", "cancelled", "snoozed", "handed_back"):
        change = transitions.after_attempt(running(), Outcome(end=end, started=1, ended=2, worker="w", error="e"))
        assert (change.failure, change.labels) == (None, ())
    own = msgspec.structs.replace(running(), job="mainspring.webhooks")
    assert transitions.after_attempt(own, transitions.lost(own, 30)).failure is None


def test_an_execution_shows_the_group_of_its_newest_failure() -> None:
    change = transitions.after_attempt(running(failures=1), transitions.lost(running(), 30))
    assert change.attempt is not None
    row = msgspec.structs.replace(running(), error=change.error, attempts_json=encode_attempts([change.attempt]))
    assert row.error_group == change.attempt.error_group
    assert running().error_group is None
