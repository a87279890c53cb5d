"""A value that must not be seen: it never shows in a log, an error, a `repr` or a dump."""

from __future__ import annotations

import hmac

HIDDEN = "********"


class Secret:
    """Holds a secret text; `reveal` is the only way to it.

    >>> print(Secret("hunter2"), [Secret("hunter2")])
    ******** [********]
    """

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        return self._value

    def __repr__(self) -> str:
        return HIDDEN

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and hmac.compare_digest(self._value.encode(), other._value.encode())

    def __hash__(self) -> int:
        return hash(self._value)

    def __reduce__(self) -> str:
        raise TypeError("a secret cannot be pickled")
