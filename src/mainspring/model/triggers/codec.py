"""Triggers as plain JSON data, and back."""

from __future__ import annotations

from typing import Any

import msgspec

from ..errors import InvalidValue
from .base import Trigger
from .combined import AnyTrigger


def encode_trigger(trigger: Trigger) -> dict[str, Any]:
    return msgspec.json.decode(msgspec.json.encode(trigger))  # type: ignore[no-any-return]


def decode_trigger(data: dict[str, Any]) -> AnyTrigger:
    """The inverse of `encode_trigger`.

    >>> from mainspring import every
    >>> decode_trigger(encode_trigger(every(minutes=30))) == every(minutes=30)
    True
    """
    try:
        return msgspec.convert(data, AnyTrigger)  # type: ignore[no-any-return]
    except msgspec.ValidationError as error:
        if isinstance(error.__cause__, InvalidValue):
            raise error.__cause__ from None
        raise InvalidValue("trigger", data, f"a stored trigger ({error})") from None
