"""How notes of failures are counted into their error group. Pure functions."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence

import msgspec

from ...model.error_groups import FailureNote
from ...model.time.instants import SECOND, Micros
from .records import HOUR, HOURS, MOST_NAMES, MOST_RELEASES, OTHER, SPAN, Announcement, ErrorGroup, Mute

UNSEEN_FOR: Micros = 30 * 86_400 * SECOND
"""Groups that have not been seen for this long are removed."""

Note = tuple[str, FailureNote]
"""A note with the key of its entry."""

Spans = Mapping[int, Mapping[str, int]]
"""See `ErrorGroup.spans`."""


def new_group(note: FailureNote) -> ErrorGroup:
    return ErrorGroup(
        id=note.group, type=note.type, message=note.message, frame=note.frame, first_seen=note.at, last_seen=note.at
    )


def other_group(at: Micros) -> ErrorGroup:
    return ErrorGroup(id=OTHER, type="", message="errors beyond the limit of groups", first_seen=at, last_seen=at)


def counted(group: ErrorGroup, notes: Sequence[Note], kept: Collection[str]) -> ErrorGroup:
    """The group after counting these notes, none of which it has counted before. `kept` are the keys in `folded` whose
    notes may still exist."""
    if not notes:
        return group
    failures = [note for _, note in notes]
    newest = max(failures, key=lambda note: note.at)
    jobs, more_jobs = _added(group.jobs, Counter(note.job for note in failures))
    tenants, more_tenants = _added(group.tenants, Counter(note.tenant for note in failures if note.tenant is not None))
    releases = _with_releases(group.releases, failures)
    last_seen = max(group.last_seen, newest.at)
    return msgspec.structs.replace(
        group,
        attempts=group.attempts + len(failures),
        failures=group.failures + sum(note.final for note in failures),
        first_seen=min(group.first_seen, *(note.at for note in failures)),
        last_seen=last_seen,
        hours=_recent(group.hours, failures, last_seen),
        jobs=jobs,
        more_jobs=group.more_jobs or more_jobs,
        tenants=tenants,
        more_tenants=group.more_tenants or more_tenants,
        spans=_spans(group.spans, failures, last_seen),
        first_release=group.first_release or (releases[0] if releases else ""),
        releases=releases,
        execution=newest.execution if newest.at >= group.last_seen or not group.execution else group.execution,
        folded=(*(key for key in group.folded if key in kept), *(key for key, _ in notes)),
    )


def announcement(
    before: ErrorGroup | None, after: ErrorGroup, notes: Sequence[Note], mute: Mute | None
) -> Announcement | None:
    """What webhooks announce: a new group, or one whose mute ends because the error occurs elsewhere. The group `other`
    is never announced."""
    if after.id == OTHER:
        return None
    if before is None:
        return "new"
    if before.announce is not None or mute is None:
        return before.announce
    return "changed" if any(_elsewhere(note, mute) for _, note in notes) else None


def announced(after: ErrorGroup, what: Announcement | None) -> ErrorGroup:
    if what is None or after.announce is not None:
        return after
    return msgspec.structs.replace(after, announce=what, announce_at=after.last_seen)


def mute_of(group: ErrorGroup, at: Micros, by: str, note: str, until: Micros | None) -> Mute:
    jobs, releases = tuple(sorted(group.jobs)), group.releases
    return Mute(at=at, by=by, note=note, until=until, jobs=jobs, all_jobs=group.more_jobs, releases=releases)


def is_over(group: ErrorGroup, now: Micros) -> bool:
    """Whether nobody needs this group any more."""
    return now - group.last_seen > UNSEEN_FOR and group.announce is None


def _elsewhere(note: FailureNote, mute: Mute) -> bool:
    other_release = note.release != "" and note.release not in mute.releases
    return mute.lasts(note.at) and (other_release or not mute.covers(note.job))


def covers_all(mute: Mute, group: ErrorGroup) -> bool:
    """Whether the mute covers all jobs and releases in which the error has occurred."""
    jobs = all(map(mute.covers, group.jobs)) and (mute.all_jobs or not group.more_jobs)
    return jobs and set(group.releases) <= set(mute.releases)


def _added(known: Mapping[str, int], new: Mapping[str, int]) -> tuple[dict[str, int], bool]:
    """Counts by name, and whether names were left out because there are too many."""
    result, left_out = dict(known), False
    for name, count in new.items():
        if name in result or len(result) < MOST_NAMES:
            result[name] = result.get(name, 0) + count
        else:
            left_out = True
    return result, left_out


def _with_releases(known: tuple[str, ...], notes: Sequence[FailureNote]) -> tuple[str, ...]:
    """The releases in the order in which they first showed the error."""
    by_time = sorted(notes, key=lambda note: note.at)
    new = dict.fromkeys(note.release for note in by_time if note.release and note.release not in known)
    return (*known, *new)[-MOST_RELEASES:]


def _recent(hours: Mapping[int, int], notes: Sequence[FailureNote], last_seen: Micros) -> dict[int, int]:
    found = Counter(note.at // HOUR for note in notes)
    oldest = last_seen // HOUR - HOURS
    merged = Counter(hours) + found
    return {hour: merged[hour] for hour in sorted(merged) if hour > oldest}


def _spans(known: Spans, notes: Sequence[FailureNote], last_seen: Micros) -> dict[int, dict[str, int]]:
    """Counts by span and tenant. Of new tenants, those with the most failures take the places that are left."""
    length = SPAN * HOUR
    new: defaultdict[int, Counter[str]] = defaultdict(Counter)
    for note in notes:
        if note.tenant is not None:
            new[note.at // length][note.tenant] += 1
    oldest = last_seen // length - HOURS // SPAN
    spans = sorted(span for span in {*known, *new} if span > oldest)
    return {span: _added(known.get(span, {}), dict(new[span].most_common()))[0] for span in spans}
