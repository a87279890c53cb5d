"""Declarations: the jobs of the code, with the options as given, until the settings are known.

Text options may hold placeholders, `cron="${reports.cron}"` or `"${reports.cron:0 3 * * *}"`. They are filled in at
start-up from the settings and the environment, and the values are checked then.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import Any, TypeAlias

import msgspec

from ...model.errors import ConfigurationError, InvalidValue
from ...model.job import JobSpec
from ...model.policies import Isolation
from ...model.values.payload import NO_LIMIT
from .dependency_options import parents_in
from .job_specs import NO_DEFAULTS, JobDefaults, job_spec, refuse_unknown_secrets, refuse_without_parents
from .options import OPTIONS
from .places import declaring
from .signature import Signature

Lookup: TypeAlias = Callable[[str], str | None]
"""Finds the value of a placeholder; returns None or raises `ConfigurationError` when there is none."""

_WORDS = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}
_PLACEHOLDER = re.compile(r"\$\{([A-Za-z0-9_.-]+)(?::([^}]*))?\}")


class Declaration(msgspec.Struct, frozen=True):
    """One job as code declares it. `where` is the place of the declaration, as "file:line"."""

    name: str
    handler: str
    options: dict[str, Any]
    where: str
    description: str = ""

    def check(self, signature: Signature, isolation: Isolation = "thread") -> JobSpec:
        """Refuse at once what is wrong whatever the placeholders and settings say. Returns what is known now."""
        known = {name: _stand_in(name, value) for name, value in self.options.items()}
        spec = job_spec(
            self.handler,
            signature,
            known,
            "UTC",
            self.description,
            warn=True,
            isolation=isolation,
            payload_limit=NO_LIMIT,
        )
        refuse_without_parents(self.options, self.options.get("after"))
        refuse_unknown_secrets(self.options, signature)
        return spec

    @property
    def parents(self) -> tuple[str, ...]:
        """The jobs that it follows. Those that a placeholder names are known at start-up, when cycles are looked for
        again."""
        after = self.options.get("after")
        return () if after is None or _has_placeholder("after", after) else parents_in(after)

    def spec(
        self, signature: Signature, lookup: Lookup | None = None, tz: str = "UTC", defaults: JobDefaults = NO_DEFAULTS
    ) -> JobSpec:
        """The specification, with placeholders filled in; `tz` is the zone of jobs that name none."""
        with declaring(f"job {self.name!r}", self.where):
            if not any(_has_placeholder(name, value) for name, value in self.options.items()):
                return self._spec(self.options, signature, tz, defaults)
            filled = {name: fill(name, value, lookup) for name, value in self.options.items()}
            try:
                return self._spec(filled, signature, tz, defaults)
            except InvalidValue as error:
                remedy = f"{error.remedy}{'. ' if error.remedy else ''}It comes from a setting"
                raise error.reworded(remedy=remedy) from None

    def _spec(self, options: dict[str, Any], signature: Signature, tz: str, defaults: JobDefaults) -> JobSpec:
        given = defaults.under(options)
        return job_spec(
            self.handler,
            signature,
            given,
            tz,
            self.description,
            isolation=defaults.isolation,
            payload_limit=defaults.payload_limit,
        )


def fill(option: str, value: Any, lookup: Lookup | None) -> Any:
    """The value with its placeholders replaced; whole numbers and switches are read from the text."""
    if not _has_placeholder(option, value):
        return value
    text = _PLACEHOLDER.sub(lambda found: _looked_up(option, found[1], found[2], lookup), value)
    kind = OPTIONS[option].text
    if kind == "whole" and re.fullmatch(r"[+-]?[0-9]{1,18}", text.strip()):
        return int(text)
    return _WORDS.get(text.strip().lower(), text) if kind == "switch" else text


def _has_placeholder(option: str, value: Any) -> bool:
    if not isinstance(value, str) or "${" not in value or OPTIONS[option].literal:
        return False
    if "${" in _PLACEHOLDER.sub("", value):
        raise InvalidValue(option, value, '"${key}" or "${key:default}", with a key such as reports.cron')
    return True


def _stand_in(option: str, value: Any) -> Any:
    """A value for an option whose placeholder is filled in at start-up, so that all others can be checked now."""
    return OPTIONS[option].stand_in if _has_placeholder(option, value) else value


def _looked_up(option: str, key: str, default: str | None, lookup: Lookup | None) -> str:
    variable = re.sub(r"[.-]", "_", key).upper()
    try:
        found = lookup(key) if lookup is not None else None
    except ConfigurationError:
        if default is None:
            raise
        found = None
    found = os.environ.get(variable) if found is None else found
    if found is None and default is None:
        raise ConfigurationError(
            f"{option} refers to ${{{key}}}, which has no value; set it in the settings or as {variable}, "
            f'or give a default: "${{{key}:...}}"'
        )
    return str(found if found is not None else default)
