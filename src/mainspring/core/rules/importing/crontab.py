"""Reading a crontab: pure. What cron does and a job does not is named, line by line, instead of being guessed.

MAILTO=ops@example.com
CRON_TZ=Europe/Istanbul
0 * * * *   /opt/shop/refresh --all
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection

import msgspec

from ....model.errors import InvalidValue
from ....model.time.zones import zone

_VARIABLE = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*)")
_UNESCAPED_PERCENT = re.compile(r"(?<!\\)%")
_UNUSED = frozenset({"MAILTO", "MAILFROM", "SHELL", "HOME", "LOGNAME", "USER"})
"""Variables of cron itself: the output of a job goes to its log, and its shell is the handler's choice."""
_ZONES = frozenset({"CRON_TZ", "TZ"})


class CrontabLine(msgspec.Struct, frozen=True, kw_only=True):
    """One line that runs a command. With a `reason` somebody has to look at it: it cannot be imported as it is."""

    number: int
    schedule: str
    command: str
    name: str
    tz: str | None = None
    environment: dict[str, str] = {}
    reason: str | None = None


def read_crontab(
    text: str, *, system: bool = False, user: str | None = None, users: Collection[str] = (), environment: bool = False
) -> list[CrontabLine]:
    """`system`: the lines name a user, as in /etc/crontab; those of another one than `user` have to be looked at.
    `users` are names that betray such a line. With `environment`, variables are kept with the lines below them."""
    found: list[CrontabLine] = []
    variables: dict[str, str] = {}
    tz: str | None = None
    bad_zone: str | None = None
    names: dict[str, int] = {}
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.strip()
        if not line or line.startswith("#"):
            continue
        if variable := _VARIABLE.fullmatch(line):
            name, value = variable[1], variable[2].strip().strip("\"'")
            if name in _ZONES:
                tz, bad_zone = _zone(value)
            elif name not in _UNUSED:
                variables[name] = value
            continue
        schedule, rest = _split(line)
        owner, command = _split_user(rest) if system else (None, rest)
        reason = bad_zone or _reason(schedule, command, owner, user, users, system)
        if reason is None and variables and not environment:
            listed = ", ".join(variables)
            reason = f"it runs with {listed}, which a job does not get; --environment passes them as a parameter"
        found.append(
            CrontabLine(
                number=number,
                schedule=schedule,
                command=command.replace("\\%", "%"),
                name=_name(command, owner, names),
                tz=tz,
                environment=dict(variables) if environment else {},
                reason=reason,
            )
        )
    return found


def _zone(value: str) -> tuple[str | None, str | None]:
    try:
        zone("CRON_TZ", value)
    except InvalidValue as error:
        return None, str(error)
    return value, None


def _split(line: str) -> tuple[str, str]:
    """The schedule and what follows it."""
    fields = line.split(None, 1 if line.startswith("@") else 5)
    width = 1 if line.startswith("@") else 5
    return " ".join(fields[:width]), fields[width] if len(fields) > width else ""


def _split_user(rest: str) -> tuple[str | None, str]:
    owner, *command = rest.split(None, 1) or [""]
    return owner, command[0] if command else ""


def _reason(
    schedule: str, command: str, owner: str | None, user: str | None, users: Collection[str], system: bool
) -> str | None:
    if not command:
        return "it has no command"
    if schedule.lower() == "@reboot":
        return "@reboot runs when the machine starts, which no schedule can express; start it with the worker instead"
    if _UNESCAPED_PERCENT.search(command):
        return "cron passes the text after the first % to the command's input; write \\% for a percent sign"
    if system and owner != user:
        return f"it runs as the user {owner}, but a job runs as the user of its worker; --user {owner} takes it over"
    if not system and command.split()[0] in users:
        return f"{command.split()[0]!r} is a user, as in /etc/crontab; read the file with --system"
    return None


def _name(command: str, owner: str | None, names: dict[str, int]) -> str:
    """The program's own name and a few digits of the whole command: the same line has the same name wherever it stands
    in the file, and keeps it when its schedule changes."""
    program = command.split()[0].rpartition("/")[2] if command.split() else "job"
    readable = re.sub(r"[^A-Za-z0-9_-]+", "-", program).strip("-")[:60] or "job"
    digest = hashlib.sha256(f"{owner or ''} {' '.join(command.split())}".encode()).hexdigest()[:8]
    name = f"{readable}-{digest}"
    names[name] = names.get(name, 0) + 1
    return name if names[name] == 1 else f"{name}-{names[name]}"
