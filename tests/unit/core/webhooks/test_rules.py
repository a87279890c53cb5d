"""The rules of webhooks that need no store: answers, filters, secrets, texts, what is marked."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainspring.core.ports import HttpAnswer
from mainspring.core.webhooks import payloads
from mainspring.core.webhooks.answers import LONGEST_WAIT, excerpt, judge, wished_delay, without_address
from mainspring.core.webhooks.commands import _rotated
from mainspring.core.webhooks.endpoints import (
    GIVE_UP_AFTER,
    Endpoint,
    EndpointSecret,
    check_filter,
    check_url,
    endpoint_of,
    entry_of,
    masked_url,
)
from mainspring.core.webhooks.events import EVENTS, check_events, ended_event
from mainspring.core.webhooks.hand_over import DELAYS, SYSTEM_SPEC
from mainspring.core.webhooks.templates import email_parts, one_line, slack_body
from mainspring.model.defaults import PAYLOAD_LIMIT
from mainspring.model.errors import InvalidValue
from mainspring.model.execution import AttemptRecord, ExecutionRow, State, encode_attempts

HOUR = 3_600_000_000


def endpoint(**fields: object) -> Endpoint:
    return msgspec.structs.replace(Endpoint(id="e", url="https://x.example/t", created=1, created_by="ada"), **fields)


def execution(**fields: object) -> ExecutionRow:
    base = ExecutionRow(
        id="0192-x", job="report", job_id="i", handler="report", state=State.FAILED, finished=2, started=1
    )
    return msgspec.structs.replace(base, **fields)


@pytest.mark.req("WHK-1")
@given(st.integers(100, 599), st.text(max_size=40), st.integers(0, 10**16))
def test_only_2xx_is_a_success_and_no_answer_breaks_the_judge(status: int, after: str, now: int) -> None:
    verdict = judge(HttpAnswer(status, {"retry-after": after}), now)
    assert (verdict.kind == "delivered") == (200 <= status < 300)
    assert (verdict.kind == "gone") == (status == 410)
    assert 0 <= verdict.delay <= LONGEST_WAIT
    assert verdict.delay == 0 or status in (429, 503)


@pytest.mark.req("WHK-1")
def test_retry_after_is_a_number_or_a_date() -> None:
    asked = ["30", " 30 ", "Thu, 01 Jan 1970 00:00:45 GMT", "Thu, 01 Jan 1970 00:00:01 GMT", "x", "", "1e3", "-1", "٣"]
    assert [wished_delay(text, 15_000_000) for text in asked] == [30, 30, 30, 0, 0, 0, 0, 0, 0]


@pytest.mark.req("WHK-1")
def test_the_delays_are_those_of_standard_webhooks() -> None:
    retry = SYSTEM_SPEC.retry
    waits = [retry.delay(n) for n in range(1, SYSTEM_SPEC.max_attempts)]
    assert waits == [5, 300, 1800, 7200, 18_000, 36_000, 50_400, 72_000, 86_400]
    assert (len(DELAYS), SYSTEM_SPEC.max_attempts, retry.jitter) == (9, 10, 0.1)


@pytest.mark.req("SEC-4")
def test_what_a_receiver_answers_cannot_reach_a_terminal_as_control_codes() -> None:
    assert excerpt(HttpAnswer(500, {}, b"a\x1b[2Jb\x00\xff\nc")) == "a\ufffd[2Jb\ufffd\ufffd\nc"
    assert len(excerpt(HttpAnswer(500, {}, b"x" * 4096))) == 1024


@pytest.mark.req("WHK-1")
def test_filters() -> None:
    assert endpoint().wants_event("execution.failed")
    assert not endpoint(events=("job.paused",)).wants_event("execution.failed")
    narrow = endpoint(jobs=("a", "b"), queues=("q",), tenants=("t",))
    assert narrow.lets_through("b", "q", "t")
    assert not any([narrow.lets_through("c", "q", "t"), narrow.lets_through("a", "x", "t")])
    assert not narrow.lets_through("a", "q", None)
    assert check_events("execution.failed") == ("execution.failed",)
    assert check_filter("tenants", ["Müller & Söhne"]) == ("Müller & Söhne",)
    for check in (
        lambda: check_events(["execution.faild"]),
        lambda: check_events(["error_group.old"]),
        lambda: check_events(7),
        lambda: check_filter("jobs", ["a b"]),
        lambda: check_filter("queues", [str(n) for n in range(200)]),
    ):
        with pytest.raises(InvalidValue):
            check()
    with pytest.raises(InvalidValue, match=r"Did you mean 'execution\.failed'"):
        check_events(["execution.faild"])


@pytest.mark.req("SEC-4")
@pytest.mark.parametrize(
    ("url", "format"),
    [
        ("ftp://x.example/secret", "standard"),
        ("https://user:secret@x.example/", "standard"),
        ("https:///secret", "standard"),
        ("secret", "slack"),
        ("mailto:secret", "email"),
        ("mailto:a@b.example,secret@b.example", "email"),
        ("mailto:secret@b.example?bcc=c@b.example", "email"),
        ("https://x.example/secret", "email"),
    ],
)
def test_addresses_that_are_refused_are_not_shown(url: str, format: str) -> None:
    with pytest.raises(InvalidValue) as refused:
        check_url(url, format, private=False)  # type: ignore[arg-type]
    assert "secret" not in str(refused.value)


def test_an_endpoint_shows_no_secret_and_survives_its_entry() -> None:
    secret = EndpointSecret("whsec_abc", 1, None)
    given = endpoint(secrets=(secret,), url="https://x.example/token", tenants=("a",))
    assert "whsec" not in repr(given) + repr(secret)
    assert "token" not in repr(given) + masked_url(given.url)
    assert endpoint_of(msgspec.structs.replace(entry_of(given), version=3)) == msgspec.structs.replace(given, version=3)
    assert endpoint_of(msgspec.structs.replace(entry_of(given), body='{"format":"newer"}')) is None


@pytest.mark.req("WHK-1")
def test_rotated_secrets_overlap_and_expire() -> None:
    first = (EndpointSecret("a", 0),)
    second = _rotated(first, "b", HOUR, 3 * HOUR)
    third = _rotated(second, "c", 2 * HOUR, 10 * HOUR)
    signing = endpoint(secrets=third).signing_secrets
    assert [signing(at * HOUR) for at in (2, 4, 11)] == [["c", "b", "a"], ["c", "b"], ["c"]]
    assert [each.text for each in _rotated(third, "d", 4 * HOUR, 4 * HOUR)] == ["d"], "no overlap: only the new one"


@pytest.mark.req("WHK-1")
def test_an_endpoint_gives_up_after_five_days_of_nothing_but_failures() -> None:
    assert not endpoint().gives_up(10 * GIVE_UP_AFTER)
    assert not endpoint(failing_since=5).gives_up(4 + GIVE_UP_AFTER)
    assert endpoint(failing_since=5).gives_up(5 + GIVE_UP_AFTER)


@pytest.mark.req("WHK-1")
def test_events_of_executions() -> None:
    assert {ended_event(state, None) for state in State if state.final} <= set(EVENTS)
    assert ended_event(State.SKIPPED, "missed") == "execution.missed"
    tries = [AttemptRecord(1, "w", 1, 2, "failed", "E: x", "Traceback: secret"), AttemptRecord(2, "w", 3, 4, "failed")]
    row = execution(attempts_json=encode_attempts(tries), params='{"password": "secret"}', error="E: x", failures=2)
    event, again = payloads.ended(row), payloads.retrying(row, tries[0])
    assert "secret" not in event.body() + again.body(), "neither parameters nor tracebacks leave"
    assert (event.type, again.type) == ("execution.failed", "execution.retrying")
    ids = {event.id_for("a"), event.id_for("b"), again.id_for("a"), payloads.retrying(row, tries[1]).id_for("a")}
    assert len(ids) == 4
    assert payloads.ended(row).id_for("a") == event.id_for("a")


@pytest.mark.req("WHK-1")
def test_a_body_always_fits() -> None:
    big = msgspec.json.encode({"x": "ü" * 200_000}).decode()
    row = execution(result_json=big, counters_json=None, metadata_json=big, error="e" * 100_000)
    body = payloads.ended(row).body()
    assert len(body.encode()) < PAYLOAD_LIMIT / 2
    assert msgspec.json.decode(body)["data"]["result"]["truncated"] is True


@pytest.mark.req("WHK-1")
@given(st.sampled_from(sorted(EVENTS)), st.text(max_size=30))
def test_every_event_has_words(kind: str, text: str) -> None:
    data = {"job": "j", "error": text, "attempt": 1, "max_attempts": 3, "execution_id": "x", "duration_ms": 5.0}
    data |= {"tenant": text, "metadata": {"count": 3}, "note": text, "webhook": "w", "url": "u", "reason": text}
    data |= {"type": "KeyError", "message": text, "frame": "a:b", "jobs": ["j"], "error_group": "0a1b2c3d4e5f"}
    event = {"type": kind, "timestamp": "t", "data": data}
    assert "\n" not in one_line(event)
    body = msgspec.json.encode(event).decode()
    assert not set("<>") & set(msgspec.json.decode(slack_body(body))["text"])
    subject, _ = email_parts(body)
    assert "\n" not in subject


@pytest.mark.req("WHK-1", "SEC-4")
def test_a_page_that_repeats_the_address_shows_no_secret_of_it() -> None:
    url = "https://chat.example/v1/hooks/0123456789abcdef?key=fedcba9876543210&x=1"
    page = b"<p>no such page: /v1/hooks/0123456789abcdef?key=fedcba9876543210&amp;x=1</p>"
    answer = without_address(HttpAnswer(404, {}, page, 0.5), url)
    assert judge(answer, 0).error == "the receiver answered 404: <p>no such page: /v1/hooks/...?key=...&amp;x=1</p>"
    plain = HttpAnswer(404, {}, b"no such hook")
    assert without_address(plain, url) is plain


@pytest.mark.req("SEC-4")
@pytest.mark.parametrize("host", ["127.0.0.1", "127.1", "localhost", "10.0.0.7", "[::ffff:10.0.0.7]", "[fd00::1]"])
def test_an_address_of_a_private_network_is_refused_at_once_unless_that_is_allowed(host: str) -> None:
    url = f"https://{host}/secret"
    with pytest.raises(InvalidValue, match="private_urls = true") as refused:
        check_url(url, "standard", private=False)
    assert "secret" not in str(refused.value)
    assert check_url(url, "standard", private=True) == url


@pytest.mark.req("SEC-4")
@pytest.mark.parametrize("private", [False, True])
def test_a_metadata_service_is_always_refused(private: bool) -> None:
    for host in ("169.254.169.254", "0xa9fea9fe", "[fd00:ec2::254]", "[64:ff9b::a9fe:a9fe]"):
        with pytest.raises(InvalidValue, match="the metadata service of a cloud"):
            check_url(f"http://{host}/", "standard", private=private)
