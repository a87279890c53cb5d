"""How checks run over facts, and what comes out: a report. Pure functions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Literal, TypeAlias

import msgspec

from .facts import Facts, Group

Severity: TypeAlias = Literal["error", "warning", "note"]
Area: TypeAlias = Literal["database", "schema", "settings", "machine", "access", "redis", "processes", "jobs"]
AREAS: dict[Area, str] = {
    "database": "the database answers and is set up well",
    "schema": "every object is as this release expects it",
    "settings": "accepted, and they fit together",
    "machine": "packages, time zones and limits are in order",
    "access": "nothing is open that should not be",
    "redis": "it answers and keeps locks safely",
    "processes": "everything that is due has a process to run it",
    "jobs": "every job can run as it is written",
}
"""Every area, in the order of the report, and what is said of one without findings."""
_RANK = {"error": 0, "warning": 1, "note": 2}
MOST_OF_A_CHECK = 10
"""One check never hides the others: the rest of its findings is counted."""


class Found(msgspec.Struct, frozen=True):
    """What a check found: one sentence, and a remedy if that of the check is not precise enough."""

    words: str
    remedy: str = ""
    severity: Severity | None = None


class Check(msgspec.Struct, frozen=True):
    """One row of the table: what it looks at, how bad a finding is, what to do then, and which facts it needs."""

    id: str
    area: Area
    looks_at: str
    severity: Severity
    remedy: str
    needs: tuple[Group, ...]
    find: Callable[..., Iterable[Found]]
    """Gets the facts of each group in `needs`, in that order."""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    check: str
    area: Area
    severity: Severity
    words: str
    remedy: str


class Skipped(msgspec.Struct, frozen=True, kw_only=True):
    """Checks that could not run, and why."""

    checks: tuple[str, ...]
    reason: str


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """The findings, errors first. `fine` are the areas where every check passed, `script` repairs the schema."""

    findings: Sequence[Finding]
    fine: Sequence[Area]
    skipped: Sequence[Skipped] = ()
    checked: int = 0
    script: str = ""

    @property
    def healthy(self) -> bool:
        """No error. Warnings and notes alone do not fail an examination."""
        return all(each.severity != "error" for each in self.findings)

    @property
    def needs_attention(self) -> bool:
        """At least one error or warning."""
        return any(each.severity != "note" for each in self.findings)

    def count(self, severity: Severity) -> int:
        return sum(each.severity == severity for each in self.findings)


def examine(checks: Sequence[Check], facts: Facts) -> Report:
    """Run every check whose facts are there. One that cannot run is reported, and does not stop the others."""
    findings: list[Finding] = []
    ran: list[Check] = []
    reasons: dict[str, list[str]] = {}
    for check in checks:
        missing = [group for group in check.needs if getattr(facts, group) is None]
        if not missing:
            try:
                findings += _bounded(check, _findings(check, facts))
                ran.append(check)
            except Exception as error:  # a check with a bug must not hide what the others find
                reasons.setdefault(f"the check failed: {type(error).__name__}: {error}", []).append(check.id)
        elif reason := next((facts.unknown[group] for group in missing if group in facts.unknown), ""):
            reasons.setdefault(reason, []).append(check.id)
    findings.sort(key=_place)
    troubled = {finding.area for finding in findings}
    return Report(
        findings=findings,
        fine=[area for area in AREAS if area not in troubled and any(check.area == area for check in ran)],
        skipped=[Skipped(checks=tuple(ids), reason=reason) for reason, ids in reasons.items()],
        checked=len(ran),
        script="" if facts.objects is None else facts.objects.script,
    )


def _findings(check: Check, facts: Facts) -> Iterator[Finding]:
    for found in check.find(*(getattr(facts, group) for group in check.needs)):
        yield Finding(
            check=check.id,
            area=check.area,
            severity=found.severity or check.severity,
            words=found.words,
            remedy=found.remedy or check.remedy,
        )


def _bounded(check: Check, findings: Iterable[Finding]) -> list[Finding]:
    found = list(findings)
    if check.area == "schema" or len(found) <= MOST_OF_A_CHECK:
        return found
    last = found[MOST_OF_A_CHECK - 1]
    more = len(found) - MOST_OF_A_CHECK
    return [*found[: MOST_OF_A_CHECK - 1], msgspec.structs.replace(last, words=f"{last.words}; and {more:,} more")]


def _place(finding: Finding) -> tuple[int, int]:
    return _RANK[finding.severity], list(AREAS).index(finding.area)
