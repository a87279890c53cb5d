"""Random cron expressions for the oracle: the same 200 for everybody, and 20 zones whose clocks do odd things."""

from __future__ import annotations

from datetime import date, timedelta
from random import Random

from tests.time.oracle import read

ZONES = [
    "UTC",
    "America/New_York",
    "America/Santiago",  # changes at midnight
    "America/Havana",  # changes at midnight, backwards at 01:00
    "America/St_Johns",  # half an hour off
    "America/Nuuk",  # changes on a Saturday evening
    "America/Sao_Paulo",  # no changes any more
    "Atlantic/Azores",  # changes at midnight
    "Africa/Casablanca",  # summer time all year but in Ramadan
    "Africa/Cairo",  # changes on Thursday night
    "Antarctica/Troll",  # by two hours
    "Asia/Beirut",  # changes at midnight
    "Asia/Jerusalem",  # changes on a Friday
    "Asia/Kolkata",
    "Australia/Adelaide",
    "Australia/Lord_Howe",  # by half an hour
    "Europe/Berlin",
    "Europe/Istanbul",
    "Pacific/Auckland",
    "Pacific/Chatham",  # three quarters of an hour off, changes at 02:45
]
_FOUR_YEARS = [date(2024, 1, 1) + timedelta(days=n) for n in range(4 * 365 + 1)]
_DAYS = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"]
_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]


def expressions(count: int = 200, seed: int = 6) -> list[str]:
    chance, found = Random(seed), []
    while len(found) < count:
        text = _expression(chance)
        if any(read(text).on(day) for day in _FOUR_YEARS):  # 31 February is refused, rightly
            found.append(text)
    return found


def _expression(chance: Random) -> str:
    if chance.random() < 0.03:
        return chance.choice(["@hourly", "@daily", "@weekly", "@monthly", "@yearly"])
    minute = "*" if chance.random() < 0.05 else _field(chance, 0, 59, star=0.2)
    hour = _hours_near_changes(chance) if chance.random() < 0.6 else _field(chance, 0, 23, star=0.5)
    fields = [minute, hour, _day_of_month(chance), _month(chance), _day_of_week(chance)]
    if chance.random() < 0.2:
        fields.insert(0, ",".join(map(str, sorted(chance.sample(range(60), chance.choice([1, 1, 2]))))))
    return " ".join(fields)


def _hours_near_changes(chance: Random) -> str:
    hours = chance.sample([0, 1, 2, 3, 4, 22, 23], chance.choice([1, 1, 1, 2, 3]))
    return ",".join(map(str, sorted(hours)))


def _field(chance: Random, low: int, high: int, star: float) -> str:
    if chance.random() < star:
        return chance.choice(["*", f"*/{chance.randint(2, (high - low) // 2)}"]) if high < 59 else "*/15"
    return ",".join(_term(chance, low, high) for _ in range(chance.choice([1, 1, 1, 2, 3])))


def _term(chance: Random, low: int, high: int) -> str:
    first, last = sorted(chance.sample(range(low, high + 1), 2))
    step = chance.randint(2, 9)
    return chance.choice([str(first), str(first), str(first), f"{first}-{last}/{step}", f"{first}/{step + 10}"])


def _day_of_month(chance: Random) -> str:
    if chance.random() < 0.6:
        return chance.choice(["*", "*", "*", "?", "*/2", "*/7"])
    return chance.choice(["L", "LW", "L,15", "31", "29,30", "1-7", _field(chance, 1, 31, star=0)])


def _month(chance: Random) -> str:
    if chance.random() < 0.7:
        return "*"
    return chance.choice(["3,4,9-11", "*/2", "mar-may", "2", "1/5", chance.choice(_MONTHS), chance.choice(_MONTHS)])


def _day_of_week(chance: Random) -> str:
    if chance.random() < 0.55:
        return "*"
    day = chance.randint(0, 7)
    name = chance.choice(_DAYS)
    made = [str(day), name, f"{day}L", f"{name}L", f"{day}#{chance.randint(1, 5)}", f"{name}#1"]
    return chance.choice([*made, "mon-fri", "fri-sun", "0-0", "5-7", "*/2", "0", "7", "sun,wed", "1/2"])
