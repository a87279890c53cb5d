"""The description of a setting, and the rules that check its values.

A section is a struct whose fields carry a `Setting`: `lease: Annotated[float, Setting(seconds(0.1, DAY), "...")] = 30`.
Each rule takes the name of the setting (with its source) and the value, and returns the value to use or raises. No rule
has the name of a setting, and none is a lambda: annotations are evaluated with the names of the struct in scope.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from ..core.declaring.options import OPTIONS
from ..model.errors import ConfigurationError, InvalidValue
from ..model.values.access import Secret, network
from ..model.values.database_url import parse_url, proxy_url, redis_url, smtp_url
from ..model.values.reading import choice, duration, duration_text, identifier, whole, zone, zone_name

SettingRule: TypeAlias = Callable[[str, Any], Any]
DAY = 86_400.0

_SWITCH = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}
_HOST_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?", re.IGNORECASE)


class Setting(msgspec.Struct, frozen=True):
    """The rule of one setting, its meaning in the documentation, and its place in a section of the TOML file."""

    rule: SettingRule
    meaning: str
    toml: tuple[str, str] | None = None
    """The section and the key that also set it, such as ("retry", "policy")."""
    secret: bool = False
    """It holds a password: never shown, and `MAINSPRING_..._FILE` may name a file that holds it."""


# --- switches and numbers -------------------------------------------------------------------------------------


def switch(field: str, value: Any) -> bool:
    """True or false, as a value or in words."""
    known = value if isinstance(value, bool) else None
    if isinstance(value, str):
        known = _SWITCH.get(value.strip().lower())
    if known is None:
        raise InvalidValue(field, value, "true or false")
    return known


def switch_or_auto(field: str, value: Any) -> bool | str:
    if isinstance(value, str) and value.strip().lower() == "auto":
        return "auto"
    try:
        return switch(field, value)
    except InvalidValue:
        raise InvalidValue(field, value, "auto, true or false") from None


def number(low: int, high: int) -> SettingRule:
    """A whole number, also as text."""
    return lambda field, value: whole(field, _from_text(value), low, high)


def _from_text(value: Any) -> Any:
    return int(value) if isinstance(value, str) and re.fullmatch(r"\s*[+-]?[0-9]{1,12}\s*", value) else value


def seconds(low: float, high: float) -> SettingRule:
    """A duration within bounds."""

    def rule(field: str, value: Any) -> float:
        found = duration(field, value, allow_zero=True)
        if not low <= found <= high:
            least = duration_text(low) if low else "0s"
            raise InvalidValue(field, value, f"a duration from {least} to {duration_text(high)}")
        return found

    return rule


def retention(field: str, value: Any) -> float | None:
    """A duration of at least a day; None for "forever"."""
    if isinstance(value, str) and value.strip().lower() == "forever":
        return None
    try:
        found = duration(field, value)
    except InvalidValue as error:
        raise InvalidValue(field, error.value, f'{error.allowed}, or "forever"', error.remedy) from None
    if found < DAY:
        raise InvalidValue(field, value, 'at least "1d", or "forever"')
    return found


def of_option(name: str) -> SettingRule:
    """The rule of a setting that gives a job option its default: the option's own check."""
    option = OPTIONS[name]
    if option.text == "switch" or option.check is None:
        return switch
    check = option.check
    return lambda field, value: check(field, _from_text(value))


# --- words ----------------------------------------------------------------------------------------------------


def one_of(*allowed: str, case: Callable[[str], str] = str) -> SettingRule:
    return lambda field, value: choice(field, case(value.strip()) if isinstance(value, str) else value, allowed)


def text(field: str, value: Any) -> str:
    if isinstance(value, str) and len(value) <= 200 and (value.isprintable() or not value):
        return value
    raise InvalidValue(field, value, "printable text of at most 200 characters")


def module_and_name(field: str, value: Any) -> str:
    if isinstance(value, str) and re.fullmatch(r"[^\W\d]\w*(\.\w+)*:[^\W\d]\w*(\.\w+)*", value):
        return value
    raise InvalidValue(field, value, "a module, a colon and a name, such as shop.jobs:app")


def some_text(field: str, value: Any) -> str:
    if isinstance(value, str) and 0 < len(value) <= 200 and value.isprintable():
        return value
    raise InvalidValue(field, value, "printable text of 1 to 200 characters")


def secret(field: str, value: Any) -> Secret:
    """Errors never repeat the value."""
    if isinstance(value, Secret):
        return value
    if not isinstance(value, str) or not value.strip():
        raise ConfigurationError(f"{field} is not valid; allowed: text")
    return Secret(value)


MOST_CHARACTERS = 65_536
"""Of a secret in a file: a device never ends."""


class SecretFile(Secret):
    """A secret that a file holds. The file is read when the secret is used."""

    __slots__ = ("_path", "_source")

    def __init__(self, path: str, source: str) -> None:
        super().__init__(path)
        self._path, self._source = path, source

    def reveal(self) -> str:
        try:
            with Path(self._path).open(encoding="utf-8") as file:
                text = file.read(MOST_CHARACTERS + 1).strip()
        except (OSError, UnicodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not text"
            raise ConfigurationError(f"{self._source}: the file {self._path!r} cannot be read: {reason}") from None
        if not text:
            raise ConfigurationError(f"{self._source}: the file {self._path!r} is empty")
        if len(text) > MOST_CHARACTERS:
            raise ConfigurationError(f"{self._source}: the file {self._path!r} is too long to be a secret")
        return text


def file(field: str, value: Any) -> str:
    if isinstance(value, Path):
        value = str(value)
    if not isinstance(value, str) or not value or "\0" in value:
        raise InvalidValue(field, value, "the path of a file")
    return value


def database(field: str, value: Any) -> str:
    return parse_url(value, field).url


def redis_server(field: str, value: Any) -> str:
    return redis_url(value, field)


def smtp_server(field: str, value: Any) -> str:
    return smtp_url(value, field)


def proxy_server(field: str, value: Any) -> str:
    return proxy_url(value, field)


def zone_of(field: str, value: Any) -> str:
    return zone_name(zone(field, value))


def host_address(field: str, value: Any) -> str:
    if isinstance(value, str) and re.fullmatch(r"[A-Za-z0-9_.:%\[\]-]{1,255}", value):
        return value.strip("[]")
    raise InvalidValue(field, value, "an address or a name to listen on, such as 127.0.0.1")


# --- lists ----------------------------------------------------------------------------------------------------


def items(field: str, value: Any) -> list[Any]:
    """The items of a list, or of text with commas between them; empty ones are dropped."""
    found = value.split(",") if isinstance(value, str) else value
    if not isinstance(found, list | tuple | set | frozenset):
        raise InvalidValue(field, value, "a list, or text with commas between its items")
    stripped = [item.strip() if isinstance(item, str) else item for item in found]
    return [item for item in stripped if item != ""]


def each(rule: SettingRule) -> SettingRule:
    """A list whose items follow a rule; each item once."""
    return lambda field, value: tuple(dict.fromkeys(rule(field, item) for item in items(field, value)))


names = each(identifier)


def queue_names(field: str, value: Any) -> tuple[str, ...] | None:
    """Names of queues; None for "*", which means all."""
    if value == "*":
        return None
    found: tuple[str, ...] = names(field, value)
    if not found:
        raise InvalidValue(field, value, 'at least one queue, or "*" for all', "To run no work, leave out role worker")
    return found


networks = each(lambda field, item: str(network(field, item)))


def proxies(field: str, value: Any) -> tuple[str, ...]:
    """Networks, or "unix" for a Unix socket."""
    given = items(field, value)
    found: tuple[str, ...] = networks(field, [item for item in given if item != "unix"])
    return (*found, "unix") if "unix" in given else found


def _host_name(field: str, item: Any) -> str:
    if not isinstance(item, str) or _HOST_NAME.fullmatch(item) is None:
        raise InvalidValue(field, item, "host names without scheme and port, such as jobs.example.com")
    return item.lower()


host_names = each(_host_name)
