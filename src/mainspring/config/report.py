"""The settings in force as people read them: each with its value, its default and its origin, without secrets."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec

from ..model.values.reading import duration_text
from .settings import SECTION_OF, SETTINGS, Settings

Origin: TypeAlias = Literal["argument", "environment", "file", "derived", "default"]
FOLLOWS = {"heartbeat": "lease", "stop_reserve": "stop_timeout"}
"""Settings whose default follows another setting, if that one is given."""


class SettingRow(msgspec.Struct, frozen=True, kw_only=True):
    """One setting. `source` names its origin: `argument lease`, `MAINSPRING_LEASE`, `mainspring.toml, lease`."""

    name: str
    section: str
    value: Any
    default: Any
    origin: Origin
    source: str
    meaning: str

    @property
    def text(self) -> str:
        return value_text(self.value)

    @property
    def given(self) -> bool:
        """Whether somebody set it."""
        return self.origin not in ("default", "derived")

    @property
    def changed(self) -> bool:
        """Whether it differs from its default."""
        return bool(self.value != self.default)


def setting_rows(settings: Settings) -> list[SettingRow]:
    """Every setting in force, section by section."""
    defaults = Settings().in_force()
    return [_row(settings, name, value, defaults[name]) for name, value in settings.in_force().items()]


def _row(settings: Settings, name: str, value: Any, default: Any) -> SettingRow:
    origin, source = _origin(settings, name, value != default)
    return SettingRow(
        name=name,
        section=SECTION_OF[name],
        value=value,
        default=default,
        origin=origin,
        source=source,
        meaning=SETTINGS[name].meaning,
    )


def _origin(settings: Settings, name: str, differs: bool) -> tuple[Origin, str]:
    if (source := settings.sources.get(name)) is not None:
        return source.kind, source.place
    if differs and name in FOLLOWS:
        return "derived", f"follows {FOLLOWS[name]}"
    return "default", "default"


def value_text(value: Any) -> str:
    """
    >>> value_text(90.0), value_text(True), value_text(None), value_text(("scheduler", "worker"))
    ('1m30s', 'true', 'not set', 'scheduler, worker')
    """
    if value is None or value == "":
        return "not set"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return duration_text(value) if value else "0"
    if isinstance(value, tuple | list | frozenset | set):
        return ", ".join(map(str, value)) or "none"
    return str(value)
