"""The JSON form of what needs attention."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta

from ..rules.problems import Fix, Problem, ProblemKind, ProblemList, Severity, SubjectKind
from .entities import Instant, JsonForm, rendered


class SubjectJson(JsonForm):
    kind: SubjectKind
    name: str
    id: Annotated[str | None, Meta(description="Set if the name alone does not identify it.")]


class ProblemJson(JsonForm):
    kind: ProblemKind
    severity: Severity
    subject: SubjectJson
    text: Annotated[str, Meta(description="A sentence that begins with the name of the subject.")]
    evidence: Annotated[str, Meta(description="The facts behind it.")]
    since: Instant | None
    count: Annotated[int, Meta(description="How many failures, missed runs or ready executions the problem concerns.")]
    fix: Annotated[Fix | None, Meta(description="The action that fixes it.")]
    by: Annotated[str | None, Meta(description="Who paused or drained it; not shown to viewers.")]
    details: Annotated[dict[str, Any], Meta(description="The facts for programs, by kind.")]


class ProblemsJson(JsonForm):
    problems: list[ProblemJson]
    left_out: Annotated[int, Meta(description="How many others there are.")]
    checked_at: Instant


def problems_json(found: ProblemList, *, names: bool = True) -> dict[str, Any]:
    """With `names`, it says who paused or drained something."""
    shown = [_problem(each, names) for each in found.problems]
    return rendered(ProblemsJson, found, problems=shown)


def _problem(problem: Problem, names: bool) -> dict[str, Any]:
    return rendered(
        ProblemJson, problem, subject=rendered(SubjectJson, problem.subject), by=problem.by if names else None
    )
