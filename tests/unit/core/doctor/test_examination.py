"""Checks over facts: what could not be gathered, a check that fails, many findings of one check."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from mainspring.core.doctor.examination import MOST_OF_A_CHECK, Check, Found, examine
from mainspring.core.doctor.facts import Facts, MachineFacts

MACHINE = MachineFacts(year=2026)


def _check(id: str, find: Any, severity: Any = "warning", needs: Any = ("machine",)) -> Check:
    return Check(id, "machine", "something", severity, "Mend it", needs, find)


def _many(machine: MachineFacts) -> Iterator[Found]:
    yield from (Found(f"number {number}") for number in range(25))


def _breaks(machine: MachineFacts) -> Iterator[Found]:
    raise KeyError("zones")


@pytest.mark.req("DEV-2")
def test_a_check_that_fails_or_lacks_its_facts_stops_no_other() -> None:
    checks = [
        _check("broken", _breaks),
        _check("lacking", _many, needs=("live",)),
        _check("elsewhere", _many, needs=("mongo",)),  # another kind of database: not worth a word
        _check("fine", lambda machine: ()),
    ]
    report = examine(checks, Facts(machine=MACHINE, unknown={"live": "it does not answer"}))
    assert (report.checked, report.findings, report.fine) == (1, [], ["machine"])
    assert [(each.checks, each.reason) for each in report.skipped] == [
        (("broken",), "the check failed: KeyError: 'zones'"),
        (("lacking",), "it does not answer"),
    ]


@pytest.mark.req("DEV-2")
def test_errors_come_first_and_one_check_does_not_hide_the_others() -> None:
    own = Found("worse", "Do this instead", "error")
    report = examine([_check("many", _many), _check("one", lambda machine: [own])], Facts(machine=MACHINE))
    first, *others = report.findings
    assert (first.check, first.severity, first.remedy) == ("one", "error", "Do this instead")
    assert len(others) == MOST_OF_A_CHECK
    assert others[-1].words == "number 9; and 15 more"
    assert (report.healthy, report.needs_attention, report.fine) == (False, True, [])
