"""Values that settings of all kinds have: switches and whole numbers, as such or in words."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from ..model.errors import InvalidValue
from ..model.values.reading import whole

_SWITCH = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}


def switch(field: str, value: Any) -> bool:
    """True or false, as a value or in words."""
    known = value if isinstance(value, bool) else None
    if isinstance(value, str):
        known = _SWITCH.get(value.strip().lower())
    if known is None:
        raise InvalidValue(field, value, "true or false")
    return known


def from_text(value: Any) -> Any:
    """A whole number that is written as text, as in the environment; anything else as it is."""
    return int(value) if isinstance(value, str) and re.fullmatch(r"\s*[+-]?[0-9]{1,12}\s*", value) else value


def number(low: int, high: int) -> Callable[[str, Any], int]:
    """The rule of a setting that is a whole number."""
    return lambda field, value: whole(field, from_text(value), low, high)
