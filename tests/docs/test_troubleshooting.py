"""The page about symptoms explains every code that `mainspring jobs why` prints, and no other."""

from __future__ import annotations

import re

import pytest

from tests.docs.blocks import ROOT

WHY = ROOT / "src" / "mainspring" / "core" / "monitoring" / "why.py"
COMPUTED = {"queue_paused", "handler_paused", "retry_wait", "start_later", "running", "waiting_on_children"}
"""Codes that the source does not name as the first argument of a call."""


@pytest.mark.req("DEV-4")
def test_every_code_of_jobs_why_is_explained() -> None:
    codes = set(re.findall(r'\b(?:Reason|_pause)\(\s*"(\w+)"', WHY.read_text())) | COMPUTED
    page = (ROOT / "docs" / "troubleshooting.md").read_text()
    [section] = re.findall(r"^## A job does not run\n(.*?)^## ", page, re.MULTILINE | re.DOTALL)
    first_cells = re.findall(r"^\| (`.*?) \|", section, re.MULTILINE)
    assert {code for cell in first_cells for code in re.findall(r"`(\w+)`", cell)} == codes
