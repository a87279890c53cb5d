"""Retrying an error group: the words on the button, and the address of the dry run that it leads to."""

from __future__ import annotations

import msgspec

from ...core.errors.commands import failed_with
from .visit import Visit

PROBE = 5
"""How many executions are retried first if there are more."""


DRY_RUN = "Shows first what would run; nothing starts yet."
"""The tooltip of buttons that lead to a dry run."""


class RetryOffer(msgspec.Struct, frozen=True):
    words: str
    url: str
    title: str = DRY_RUN


def retry_offer(visit: Visit, group: str, runs: int) -> RetryOffer:
    """For a group with so many failed runs: all of them if they are few, otherwise some of them first."""
    if runs > PROBE:
        return RetryOffer(f"Try {PROBE} first", retry_url(visit, group, PROBE))
    return RetryOffer(f"Retry {runs:,}", retry_url(visit, group))


def retry_url(visit: Visit, group: str, probe: int | None = None) -> str:
    """The dry run of a retry of every failed run of this group; with `probe`, so many run first."""
    return visit.url("bulk", "new", target="executions", action="retry", **failed_with(group), probe=probe)
