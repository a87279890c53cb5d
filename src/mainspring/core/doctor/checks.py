"""The table of all checks, in the order in which they run."""

from __future__ import annotations

from . import database_checks, job_checks, process_checks, settings_checks
from .examination import Check

CHECKS: tuple[Check, ...] = (
    *database_checks.CHECKS,
    *settings_checks.CHECKS,
    *process_checks.CHECKS,
    *job_checks.CHECKS,
)
