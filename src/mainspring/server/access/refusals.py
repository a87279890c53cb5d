"""How a request is refused: one exception, which carries all that the answer says."""

from __future__ import annotations

from typing import Any

from ...model.errors import MainspringError

AUTHENTICATE = {"WWW-Authenticate": 'Bearer realm="mainspring"'}


class Refused(MainspringError):
    """A request that is not let through. The message never repeats a credential.

    >>> Refused(403, "role_too_low", "this needs the role admin").as_problem()
    {'error': {'code': 'role_too_low', 'message': 'this needs the role admin'}}
    """

    def __init__(self, status: int, code: str, message: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(status, code, message, headers)
        self.status, self.code, self.message = status, code, message
        self.headers = {**(AUTHENTICATE if status == 401 else {}), **(headers or {})}

    def __str__(self) -> str:
        return self.message

    def as_problem(self) -> dict[str, Any]:
        """The body of the answer."""
        return {"error": {"code": self.code, "message": self.message}}


class Unproven(Exception):
    """Credentials that prove nothing; says why, without repeating them. Becomes a 401 and counts as a failed login."""


def unauthenticated(code: str, message: str) -> Refused:
    return Refused(401, code, message)


def forbidden(code: str, message: str) -> Refused:
    return Refused(403, code, message)
