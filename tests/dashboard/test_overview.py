"""The overview: every problem has a link and a button, in words that a newcomer understands."""

from __future__ import annotations

from typing import get_args

import msgspec
import pytest
from starlette.requests import Request

from mainspring import Mainspring
from mainspring.core.rules.problems import Problem, ProblemKind
from mainspring.model.values.access import Role
from mainspring.server.access import Principal
from mainspring.server.dashboard.drawing import charts
from mainspring.server.dashboard.format import span
from mainspring.server.dashboard.routes.overview import problem_row
from mainspring.server.dashboard.visit import Visit
from tests.dashboard.support import pages_of, text_of
from tests.support import Nodes, until
from tests.unit.core.rules.test_problems import CASES, error, found, late

pytestmark = pytest.mark.req("DSH-1")
EXECUTION = "0199c1f2-7d5e-7abc-8def-0123456789ab"


def visit(role: Role = Role.ADMIN, zone: str = "Europe/Berlin") -> Visit:
    headers = [(b"host", b"localhost"), (b"cookie", f"mainspring_zone={zone}".encode())]
    scope = {"type": "http", "method": "GET", "path": "/dashboard", "headers": headers, "query_string": b""}
    return Visit(Request(scope), Principal("ada", role, "token"), None)  # type: ignore[arg-type]


def problems() -> dict[str, Problem]:
    cases = {name: {**facts, "alive": frozenset(facts.get("alive", ()))} for name, (*_, facts) in CASES.items()}
    return {name: found(**facts)[0] for name, facts in cases.items()}


@pytest.mark.parametrize("role", Role)
def test_every_kind_of_problem_has_a_link_and_a_button(role: Role) -> None:
    shown = [problem_row(visit(role), each) for each in problems().values()]
    assert {row.problem.kind for row in shown} == set(get_args(ProblemKind))
    for row in shown:
        assert row.link.startswith("/dashboard/"), row
        assert row.to.startswith("/dashboard/"), row
        assert row.words, row
        assert row.fields is None or role != Role.VIEWER


def test_a_handler_that_no_worker_has_leads_to_what_waits_for_it() -> None:
    row = problem_row(visit(), problems()["no handler"])
    assert (row.words, row.to) == ("What is pending", "/dashboard/executions?handler=send&queue=mail&status=pending")
    assert row.link == "/dashboard/jobs?handler=send"


@pytest.mark.parametrize(
    ("failures", "words", "probe"), [(1, "Retry 1", False), (5, "Retry 5", False), (9, "Try 5 first", True)]
)
def test_the_button_of_an_error_has_the_true_number(failures: int, words: str, probe: bool) -> None:
    [problem] = found(errors=[error(count=20, failures=failures)])
    row = problem_row(visit(), problem)
    assert (row.words, "probe=5" in row.to) == (words, probe)
    runs = "1 failed run" if failures == 1 else f"{failures} failed runs"
    assert f"20 failed attempts, {runs}" in row.evidence


def test_a_late_job_was_due_by_the_clock_of_the_viewer() -> None:
    [problem] = found(late=[late(tz="UTC")])
    assert problem.since is not None
    row = problem_row(visit(), problem)
    assert "UTC" in problem.evidence
    assert "UTC" not in text_of(row.evidence)
    assert "09:48" in text_of(row.evidence)  # and 08:48 UTC
    assert f"is {problem.since:%Y-%m-%d %H:%M:%S} UTC" in row.evidence


def test_the_id_of_an_execution_is_a_short_link() -> None:
    [problem] = found(errors=[error()])
    named = msgspec.structs.replace(problem, evidence=f"<b> execution {EXECUTION} failed")
    row = problem_row(visit(), named)
    link = f'<a class="mono" href="/dashboard/executions/{EXECUTION}" title="{EXECUTION}">456789ab</a>'
    assert str(row.evidence) == f"&lt;b&gt; execution {link} failed"


async def test_the_overview_says_what_its_numbers_are(nodes: Nodes) -> None:
    app: Mainspring = nodes.app(roles="scheduler,worker", fold_interval=0.05)

    @app.job("charge", max_attempts=1)
    async def charge(order: int) -> None:
        raise LookupError(f"order {order} is gone")

    async with app, pages_of(app) as pages:
        assert "no new error" in text_of(await pages.get())
        run = await app.enqueue("charge", {"order": 4711})
        assert run is not None
        await app.wait(run, timeout=60)
        text = text_of(await pages.get())
        assert ("Jobs whose last run failed" in text, "no new error" in text) == (True, False)
        (await app._runtime.engine()).problems.cache.forget()
        await until(app.errors.all, "the failure is counted")
        text = text_of(await pages.get())
        assert "LookupError: order … is gone" in text
        assert "1 failed attempt, 1 failed run" in text
        assert "Retry 1" in text
        assert "99 % of scheduled runs began within this, last hour" in text
        [group] = await app.errors.all()
        assert group.message == "order <n> is gone"
        for path in ("errors", f"errors/{group.id}"):
            shown = text_of(await pages.get(path))
            assert "order … is gone" in shown
            assert "<n>" not in shown
    await app.close()


def test_the_axis_of_a_chart_has_its_unit() -> None:
    late = charts.Series("late", "run", [0.5, 0.0])
    chart = charts.stacked_bars(["1", "2"], [late], "x", unit=span, numbers=span, least=0.1)
    assert ">500 ms</p>" in chart
    assert "1: 500 ms late" in chart
