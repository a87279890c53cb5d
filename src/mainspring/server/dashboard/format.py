"""Numbers, durations and instants as people read them. Templates use these as filters."""

from __future__ import annotations

import json
from collections.abc import Sized
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any

import msgspec
from markupsafe import Markup, escape

from ...core.errors.commands import ErrorGroupView
from ...core.rules.fingerprint import readable
from ...model.time.zones import zone_name

_UNITS = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))
_ACTIONS = {
    "bulk_start": "start bulk action",
    "bulk_end": "bulk action ended",
    "bulk_abort": "abort bulk action",
}
_SIZES = ("bytes", "kB", "MB", "GB", "TB")


def number(value: float | None, digits: int = 0) -> str:
    """
    >>> number(1284), number(0.4567, 2), number(None)
    ('1,284', '0.46', '')
    """
    return "" if value is None else f"{value:,.{digits}f}"


def percent(share: float | None) -> str:
    """
    >>> percent(0.764), percent(0.9999), percent(1), percent(None)
    ('76 %', '99.9 %', '100 %', '')
    """
    if share is None:
        return ""
    if 0.99 < share < 1:
        return f"{min(share, 0.999):.1%}".replace("%", " %")
    return f"{share:.0%}".replace("%", " %")


def span(seconds: float | None) -> str:
    """A duration in its two largest units.

    >>> span(0.0042), span(1.25), span(75), span(11520), span(266400), span(None)
    ('4 ms', '1.2 s', '1 min 15 s', '3 h 12 min', '3 d 2 h', '')
    """
    if seconds is None:
        return ""
    if seconds < 0:
        return f"-{span(-seconds)}"
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 10:
        return f"{seconds:.1f}".removesuffix(".0") + " s"
    left, parts = round(seconds), list[str]()
    for unit, size in _UNITS:
        count, left = divmod(left, size)
        if count or parts:
            parts.append(f"{count} {unit}" if count else "")
    return " ".join(part for part in parts[:2] if part)


def milliseconds(value: float | None) -> str:
    return span(None if value is None else value / 1000)


def size(count: float | None) -> str:
    """
    >>> size(512), size(1_536_000)
    ('512 bytes', '1.5 MB')
    """
    if count is None:
        return ""
    place = 0
    while count >= 1000 and place < len(_SIZES) - 1:
        count, place = count / 1000, place + 1
    return f"{count:.0f} bytes" if place == 0 else f"{count:.1f}".removesuffix(".0") + f" {_SIZES[place]}"


def plural(count: float | Sized, one: str, many: str | None = None) -> str:
    """
    >>> plural(1, "tenant"), plural(1200, "tenant"), plural(2, "retry", "retries")
    ('1 tenant', '1,200 tenants', '2 retries')
    """
    amount = count if isinstance(count, int | float) else len(count)
    return f"{amount:,} {one if amount == 1 else many or one + 's'}"


def relative(at: datetime, now: datetime) -> str:
    """
    >>> now = datetime(2026, 1, 1, tzinfo=UTC)
    >>> relative(now, now), relative(datetime(2025, 12, 31, 23, tzinfo=UTC), now)
    ('now', '1 h ago')
    """
    seconds = (now - at).total_seconds()
    if abs(seconds) < 1:
        return "now"
    words = span(float(round(abs(seconds))))
    return f"{words} ago" if seconds > 0 else f"in {words}"


def exact(at: datetime, zone: tzinfo) -> str:
    """
    >>> exact(datetime(2026, 1, 1, 12, 30, 5, tzinfo=UTC), UTC)
    '2026-01-01 12:30:05 UTC'
    """
    return f"{at.astimezone(zone):%Y-%m-%d %H:%M:%S} {zone_name(zone)}"


def clock(at: datetime, zone: tzinfo, now: datetime, *, seconds: bool = True) -> str:
    """The time of day; with the date if that is not today."""
    local, today = at.astimezone(zone), now.astimezone(zone)
    if local.date() == today.date():
        return f"{local:%H:%M:%S}" if seconds else f"{local:%H:%M}"
    return f"{local:%d %b %H:%M}" if local.year == today.year else f"{local:%d %b %Y %H:%M}"


def moment(at: datetime, zone: tzinfo, now: datetime, *, seconds: bool = False) -> str:
    """A time of day, with its day if that is not today: the ends of a chart.

    >>> now = datetime(2026, 1, 3, 12, tzinfo=UTC)
    >>> [moment(datetime(2026, 1, day, 7, tzinfo=UTC), UTC, now) for day in (3, 2, 1)]
    ['07:00', 'yesterday 07:00', '1 Jan 07:00']
    """
    local, today = at.astimezone(zone), now.astimezone(zone).date()
    clock = f"{local:%H:%M:%S}" if seconds else f"{local:%H:%M}"
    if local.date() == today:
        return clock
    return f"yesterday {clock}" if local.date() == today - timedelta(days=1) else f"{local:%-d %b} {clock}"


def window(begin: datetime, end: datetime) -> str:
    """A range of time by the clock of its own zone; whole days without the time of day.

    >>> day = datetime(2026, 1, 1, tzinfo=UTC)
    >>> window(day, day.replace(day=2)), window(day, day.replace(hour=1))
    ('1 Jan 2026', '1 Jan 2026 00:00 to 01:00 UTC')
    """
    days = (end.date() - begin.date()).days
    if days >= 1 and begin.time() == end.time() == datetime.min.time():
        last = end - timedelta(days=1)
        return f"{begin:%-d %b %Y}" if days == 1 else f"{begin:%-d %b %Y} to {last:%-d %b %Y}"
    until = f"{end:%H:%M}" if days == 0 else f"{end:%-d %b %Y %H:%M}"
    return f"{begin:%-d %b %Y %H:%M} to {until} {zone_name(begin.tzinfo or UTC)}"


def weekday(at: datetime, zone: tzinfo) -> str:
    """
    >>> weekday(datetime(2026, 1, 1, 12, 30, 5, tzinfo=UTC), UTC)
    'Thu 2026-01-01 12:30:05'
    """
    return f"{at.astimezone(zone):%a %Y-%m-%d %H:%M:%S}"


def local_input(at: datetime, zone: tzinfo) -> str:
    """The value of a field of type `datetime-local`."""
    return f"{at.astimezone(zone):%Y-%m-%dT%H:%M:%S}"


def time_element(at: datetime | None, text: str, zone: tzinfo, kind: str = "", also: tzinfo | None = None) -> Markup:
    """A `<time>` with the exact instant and its zone as tooltip, `also` in another zone; the script of the page keeps
    relative ones true."""
    if at is None:
        return Markup("")
    relative_mark = Markup(' data-time="{}"').format(kind) if kind else Markup("")
    return Markup('<time datetime="{}" title="{}"{}>{}</time>').format(
        at.astimezone(UTC).isoformat(timespec="milliseconds"), _both(at, zone, also), relative_mark, text
    )


def _both(at: datetime, zone: tzinfo, also: tzinfo | None) -> str:
    shown = exact(at, zone)
    return shown if also is None or also.utcoffset(at) == zone.utcoffset(at) else f"{shown} is {exact(at, also)}"


def error_title(group: ErrorGroupView) -> str:
    """The message of an error group without placeholders; with the type if little else is left of it."""
    message = readable(group.message)
    if message.strip(" …,;:") or not group.short_type:
        return message or group.id
    return f"{group.short_type}: {message}" if message else group.short_type


def actor(name: str | None) -> str:
    """Who did something.

    >>> actor("loopback"), actor("token:ci/3f9a"), actor(None)
    ('this machine', 'token:ci/3f9a', '')
    """
    return "this machine" if name == "loopback" else name or ""


def action_words(action: str) -> str:
    """The action of an audit record.

    >>> action_words("bulk_end"), action_words("create_webhook")
    ('bulk action ended', 'create webhook')
    """
    return _ACTIONS.get(action, action.replace("_", " "))


def reason_words(reason: str) -> str:
    """Why an execution ended as it did: a code, or what somebody wrote."""
    return "its last run was still running" if reason == "overlap" else reason.replace("_", " ")


def with_code(words: str) -> Markup:
    """Text in which backticks mark code.

    >>> str(with_code("run `a < b` now"))
    'run <code>a &lt; b</code> now'
    """
    parts = words.split("`")
    pieces = [Markup("<code>{}</code>").format(part) if place % 2 else escape(part) for place, part in enumerate(parts)]
    return Markup("").join(pieces) if len(parts) % 2 else escape(words)


def pretty_json(value: Any) -> str:
    """JSON for reading: integers of any size exactly as they are, every character as itself."""
    try:
        text: bytes = msgspec.json.format(msgspec.json.encode(value), indent=2)
        return text.decode()
    except (TypeError, ValueError, OverflowError):  # Python's own writer takes more, and twenty times as long
        return json.dumps(value, indent=2, ensure_ascii=False, default=str)


def page_size(text: str) -> int:
    """How many bytes a text takes on a page, where some characters are escaped."""
    return len(escape(text).encode("utf-8", "replace"))


def cut(text: str, room: int) -> tuple[str, bool]:
    """The beginning of a text that takes about so many bytes on a page, and whether there is more of it.

    >>> cut("short", 100), cut("<<<<<<", 12)
    (('short', False), ('<<<', True))
    """
    begin = text[:room]
    taken = page_size(begin)
    if taken > room:
        begin = begin[: len(begin) * room // taken]
    return begin, len(begin) < len(text)
