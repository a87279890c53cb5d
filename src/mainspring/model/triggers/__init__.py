"""When a job is due: the triggers, the functions that make them, and their JSON form.

>>> from datetime import UTC, datetime
>>> cron("30 2 * * *", tz="America/New_York").next_after(datetime(2026, 3, 8, tzinfo=UTC)).isoformat()
'2026-03-08T07:00:00+00:00'
"""

from .base import Trigger
from .codec import decode_trigger, encode_trigger
from .combined import AnyOf, AnyTrigger, Excluding, Spread, any_of
from .interval import Every, Once, every, interval, once
from .wall_clock import Cron, DailyAt, HourlyAt, MonthlyAt, WeeklyAt, cron, daily_at, hourly_at, monthly_at, weekly_at

__all__ = [
    "AnyOf",
    "AnyTrigger",
    "Cron",
    "DailyAt",
    "Every",
    "Excluding",
    "HourlyAt",
    "MonthlyAt",
    "Once",
    "Spread",
    "Trigger",
    "WeeklyAt",
    "any_of",
    "cron",
    "daily_at",
    "decode_trigger",
    "encode_trigger",
    "every",
    "hourly_at",
    "interval",
    "monthly_at",
    "once",
    "weekly_at",
]
