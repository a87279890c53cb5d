"""Requests made up from the OpenAPI document, by schemathesis: every operation, every check, and sequences of requests.

No answer may be a 5xx or anything that the document does not declare; what the document forbids must be refused.
"""

from __future__ import annotations

import contextlib
import logging
import os
import random
from collections import Counter
from collections.abc import Iterator
from typing import Any, ClassVar

import hypothesis
import hypothesis.errors
import pytest
import schemathesis
from schemathesis import Case, CheckContext, Response
from schemathesis.checks import load_all_checks
from schemathesis.config import SchemathesisConfig
from schemathesis.generation.feedback import FeedbackSources
from schemathesis.generation.hypothesis import builder
from schemathesis.generation.meta import TestPhase
from schemathesis.pytest._test_builder import build_operation_test
from schemathesis.python import asgi
from schemathesis.python._constants.orchestrator import make_constants_value_source
from schemathesis.specs.openapi.checks import ignored_auth

from mainspring.server import request
from mainspring.server.routes import run_handler
from tests.api.schema_aim import aim, fit_path
from tests.api.schema_app import ADMIN, InProcess, application

EXAMPLES = int(os.environ.get("API_EXAMPLES", "10"))
"""Of each operation. `make api-full` tries many more."""
COVERING = 300
"""Of the requests that try each field of an operation with each kind of value, as many are sent. Bodies that describe a
job have four times as many; `make api-full` sends all of them."""
SEQUENCES, STEPS = 8, 25
"""How many tests of sequences there are, and at least how many requests of each follow from an answer before."""

ACCEPTED = ["2xx", "400", "404", "409", "412", "422"]
"""Answers to requests that fit the document: it cannot say what exists, in which state it is and which keys were used.
That a 400 is given for a good reason only is checked by `only_rules_refuse`."""
REJECTED = ["400", "401", "403", "404", "405", "406", "409", "413", "415", "422", "428", "429"]
"""Answers to requests that do not fit it. A text that is too long may make the body larger than 1 MiB: that is a
413, as every operation with a body documents."""
READ_BY_CORE = (
    *("schedule", "schedule_time", "timezone", "window", "resume_at"),
    *("interval_minutes", "interval_type", "overlap_limit"),  # one bounds the other, or needs it
    *("timeout", "run_timeout", "grace", "pace", "wait", "span", "duration"),  # durations
    *("isolation", "max_cpu", "max_memory", "max_address_space"),  # limits go with a process; coroutines take no thread
    *("begin", "end", "begin_date", "end_date", "since", "until"),  # instants, and their order
    *("handler", "params"),  # whether it is registered, and its signature
    "metadata",  # texts anywhere inside it
    *("at", "to"),  # instants of a schedule
    *("entries", "ics", "expires"),  # dates, the text of a file, a duration
    "range",  # of windows: how many there are in it
    "limits",  # a burst goes with a rate, and what a key may hold
    *("after", "not_before", "on_failed_parent"),  # jobs that exist, not after this one; a time of day; both with after
    *("tenant", "tenants"),  # printable, and known to jobs that have them
    *("search", "metadata", "longer_than", "release", "overdue"),  # pairs, a duration, releases that ran, true only
    "job",  # a backfill is for jobs with windows
    *("secret", "overlap"),  # keys in base64, a duration
    *("url", "format"),  # an address; e-mails need a server
    *("rate", "min", "max"),  # a rate; one bounds the other
    "worker",  # the beginning of one id
    "cursor",  # goes with sort=name only
    "offset",  # not together with a cursor
    *("hours", "missed", "missed_while_paused", "retry", "non_retryable", "ping"),  # texts in them, and their limits
    *("tenant_concurrency", "tenant_max_attempts", "tenant_retry", "continue_on_failure"),  # for jobs with tenants
)
"""Fields whose values are texts with a grammar, or belong together in a way that the document has no words for."""

SIGNED = ("POST /hooks/{name}",)
"""Nobody makes up a signature: such requests are all refused."""

SERVED = InProcess()
CONFIG = SchemathesisConfig.from_dict(
    {
        "generation": {"deterministic": True, "max-examples": EXAMPLES, "with-security-parameters": False},
        "checks": {
            "positive_data_acceptance": {"expected-statuses": ACCEPTED},
            "negative_data_rejection": {"expected-statuses": REJECTED},
        },
        "operations": [
            {
                "include-name": SIGNED[0],
                "checks": {"positive_data_acceptance": {"expected-statuses": [*ACCEPTED, "401"]}},
            }
        ],
    }
)
SCHEMA = schemathesis.openapi.from_dict(application().asgi().openapi(), config=CONFIG)
SCHEMA.app = SERVED
load_all_checks()
OPERATIONS = {operation.ok().label: operation.ok() for operation in SCHEMA.get_all_operations()}
NOT_TRIED = (
    *(builder.UnsatisfiableExampleMark, builder.NonSerializableMark, builder.UnserializablePayloadMark),
    *(builder.InvalidRegexMark, builder.InvalidHeadersExampleMark, builder.MissingPathParameters),
)
"""How schemathesis marks a test that leaves out something of its operation."""
CLIENT = asgi.get_client(SERVED)
CLIENT.trust_env = False  # looking for proxies takes longer than the request
SEQUENCE = hypothesis.settings(
    max_examples=5,
    stateful_step_count=12,
    phases=[hypothesis.Phase.generate],
    suppress_health_check=list(hypothesis.HealthCheck),
)


@pytest.fixture(autouse=True)
def started(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Some executions never end; who waits for them need not wait for minutes. Failed logins are meant to fail."""
    monkeypatch.setattr(request, "LONGEST_WAIT", 0.02)
    monkeypatch.setattr(run_handler, "PATIENCE", 0.5)
    caplog.set_level(logging.ERROR, "mainspring.access")
    with CLIENT:
        yield


@pytest.fixture
def sent() -> Iterator[Counter[str]]:
    """Counts the requests of one operation; when it is over there must have been enough of them, and good ones too."""
    counted: Counter[str] = Counter()
    yield counted
    assert len(counted) == 1
    assert min(counted.values()) >= EXAMPLES, counted
    [label] = counted
    if label in SIGNED:
        return
    if label not in GUARDED:
        try_on(label)
    assert label in GUARDED, f"never did what it is for: {counted}"


def try_on(label: str) -> None:
    """Which requests are made up depends on what else was imported: the first fifty may all have been refused. Only a
    failure ends a run of hypothesis early; it is called flaky, as what was done once may be refused the second time."""

    class GoodOne(Exception):
        pass

    @hypothesis.given(case=OPERATIONS[label].as_strategy())
    @hypothesis.settings(
        max_examples=1_000,
        report_multiple_bugs=False,
        deadline=None,
        database=None,
        phases=[hypothesis.Phase.generate],
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    def more(case: Case) -> None:
        aim(case, SERVED.known)
        if case.call(**options(case)).status_code < 300:
            GUARDED.add(label)
            raise GoodOne

    with contextlib.suppress(GoodOne, hypothesis.errors.Flaky):
        more()


GUARDED: set[str] = set()
"""Operations of which a good request was tried without and with wrong credentials: once is enough."""


def only_rules_refuse(ctx: CheckContext, response: Response, case: Case) -> None:
    """A request that fits the document is never refused for its shape."""
    if case.meta is None or not case.meta.generation.mode.is_positive or response.status_code != 400:
        return
    error = response.json()["error"]
    fields = [each["field"].partition(".")[0].partition("[")[0] for each in error["details"]]
    assert error["code"] == "invalid_value", error
    assert set(fields) <= set(READ_BY_CORE), error


def options(case: Case) -> dict[str, Any]:
    """How a request is sent. Streams of executions that never end are cut."""
    timeout = {"timeout": 0.05} if case.operation.path.endswith("/stream") else {}
    return {"session": CLIENT, "headers": ADMIN, **timeout}


@pytest.mark.req("API-9")
@pytest.mark.parametrize("operation", OPERATIONS)
def test_operation(operation: str, sent: Counter[str]) -> None:
    """Making up the requests of an operation takes longer than sending them, so it is done here and not when tests are
    collected, as `SCHEMA.parametrize` would have it: each process of a parallel run collects them all."""
    requests = build_operation_test(
        config=SCHEMA.config,
        operation=OPERATIONS[operation],
        test_func=answers_as_promised,
        given_kwargs={},
        feedback=FeedbackSources(constants_value_source=make_constants_value_source(SCHEMA)),
    )
    assert [mark.attr_name for mark in NOT_TRIED if mark.is_set(requests)] == []
    covering = requests.hypothesis_explicit_examples
    assert covering
    if EXAMPLES < 100 and len(covering) > COVERING:
        chosen = random.Random(operation).sample(range(len(covering)), COVERING)
        requests.hypothesis_explicit_examples = [covering[place] for place in sorted(chosen)]
    requests(sent=sent)


@hypothesis.settings(suppress_health_check=list(hypothesis.HealthCheck))
def answers_as_promised(case: Case, sent: Counter[str]) -> None:
    aim(case, SERVED.known)
    sent[case.operation.label] += case.meta is not None and case.meta.phase.name is TestPhase.FUZZING
    known = [ignored_auth] if case.operation.label in GUARDED else []
    answer = case.call_and_validate(additional_checks=[only_rules_refuse], excluded_checks=known, **options(case))
    if answer.status_code < 300:
        GUARDED.add(case.operation.label)


@pytest.mark.req("API-9")
def test_every_operation_of_the_document_is_tested() -> None:
    served = CLIENT.get("/openapi.json", headers=ADMIN).json()
    told = {f"{method.upper()} {path}" for path, item in served["paths"].items() for method in item}
    assert OPERATIONS.keys() == told
    assert len(told) > 40


class Sequences(SCHEMA.as_state_machine()):  # type: ignore[misc]
    """What one answer tells is used in the next request: names and ids of what was just made, paused or removed.

    Such a value may fit the document no better than the place it was taken from, so any refusal is a good one here.
    """

    steps: ClassVar[list[str]] = []
    failures: ClassVar[list[BaseException]] = []

    def step(self, input: Any) -> Any:
        if input.transition is None:
            aim(input.case, SERVED.known)
        else:
            self.steps.append(input.case.operation.label)
            fit_path(input.case)
        try:
            return super().step(input)
        except BaseExceptionGroup as error:
            self.failures.append(error)
            raise

    def get_call_kwargs(self, case: Case) -> dict[str, Any]:
        return options(case)


@pytest.mark.req("API-9")
@pytest.mark.parametrize("seed", range(SEQUENCES))
def test_sequences_of_requests(seed: int) -> None:
    """Executions end when they end, so a sequence need not take the same course twice. Hypothesis then gives up, which
    says nothing about the answers: the next round begins, on a new application."""
    Sequences.steps.clear()
    Sequences.failures.clear()
    rounds = 0
    while len(Sequences.steps) < STEPS and not Sequences.failures:
        assert rounds < 20, "hardly any answer leads to a next request"
        rounds += 1
        with contextlib.suppress(hypothesis.errors.Flaky):
            hypothesis.seed(seed * 1_000 + rounds)(Sequences).run(settings=SEQUENCE)
        asgi.shutdown_lifespans()
    assert not Sequences.failures, Sequences.failures
