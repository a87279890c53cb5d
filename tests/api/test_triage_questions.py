"""The benchmark of triage in small: each of the sixteen questions of an operator has an answer, each list a page."""

from __future__ import annotations

import pytest

from benchmarks.triage import triage
from benchmarks.triage_fill import SMALL
from benchmarks.triage_questions import QUESTIONS


@pytest.mark.req("SRC-3", "QUE-1")
def test_sixteen_questions_are_answered_with_one_request_each() -> None:
    assert len(QUESTIONS) == 16
    assert triage("sqlite", SMALL, 1, "", judged=False) == []
