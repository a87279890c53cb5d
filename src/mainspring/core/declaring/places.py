"""Where in the user's code something is written: errors about declarations name the job, the file and the line."""

from __future__ import annotations

import inspect
import os
import re
import sys
from types import FrameType, TracebackType

from ...model.errors import (
    ConfigurationError,
    HandlerNotFound,
    InvalidDeclaration,
    InvalidValue,
    MainspringError,
    nearby,
)

_PACKAGE = __name__.partition(".")[0]
_FROM_ELSEWHERE = re.compile(r"^environment variable |\(from (?!argument )")
_OURS = os.path.dirname(sys.modules[_PACKAGE].__file__ or "")


class declaring:  # it is used like a function: `with declaring("job 'report'"):`
    """Errors inside the block name what is declared, and the file and line of the declaration: unless they are given,
    those of the nearest caller outside this package. Nothing is looked up as long as all is well."""

    def __init__(self, subject: str, where: str | None = None) -> None:
        self._subject, self._where = subject, where

    def __enter__(self) -> None: ...

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if isinstance(error, MainspringError) and (found := located(error, self._subject, self._where)) is not error:
            raise found from None


def located(error: MainspringError, subject: str = "", where: str | None = None) -> MainspringError:
    """The same error with what is declared and where; as it is if it names that already, or another cause, such as the
    environment variable of a setting."""
    where = where or calling_place()
    match error:
        case InvalidDeclaration():
            return error
        case _ if _FROM_ELSEWHERE.search(str(error)):
            return error
        case InvalidValue():
            return InvalidDeclaration(error, subject, where)
        case ConfigurationError() if not error.where:
            return ConfigurationError(str(error), subject, where)
        case HandlerNotFound() if not error.where:
            return HandlerNotFound(error.name, [error.suggestion] if error.suggestion else [], subject, where)
        case _:
            return error


# --- places ---------------------------------------------------------------------------------------------------


def calling_place() -> str:
    """The file and line of the nearest caller outside this package, as "file:line"."""
    file, line = calling_line()
    return f"{file}:{line}"


def calling_line() -> tuple[str, int]:
    frame = _calling_frame()
    return (frame.f_code.co_filename, frame.f_lineno) if frame is not None else ("unknown", 0)


def calling_module() -> str:
    """The name of the module of the nearest caller outside this package."""
    frame = _calling_frame()
    return "" if frame is None else str(frame.f_globals.get("__name__", ""))


def place_of(error: BaseException) -> str:
    """The line of the user's code that raised an error while it was imported, as "file:line"; of a syntax error, the
    line that has it."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}"
    import traceback  # only when something is wrong

    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if _is_users(frame.filename)]
    last = (own or frames)[-1]
    return f"{last.filename}:{last.lineno}"


def absent(error: BaseException, module: str) -> str:
    """That there is no such module, in words; empty if the error has another cause."""
    if isinstance(error, ModuleNotFoundError) and error.name and f"{module}.".startswith(f"{error.name}."):
        return f"There is no module {error.name!r} in {os.getcwd()!r} or on the Python path"
    return ""


def failure(error: BaseException) -> str:
    """What was raised while a module was imported, and where in the user's code: "KeyError: 'x' at shop/jobs.py:12"."""
    text = error.msg if isinstance(error, SyntaxError) else str(error)
    what = f"{type(error).__name__}: {text}" if text else type(error).__name__
    return f"{what} at {nearby(place_of(error))}"


def _calling_frame() -> FrameType | None:
    frame = inspect.currentframe()
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] == _PACKAGE:
        frame = frame.f_back
    return frame


def _is_users(file: str) -> bool:
    """Neither ours, nor of Python, nor of an installed package."""
    import sysconfig  # only when something is wrong

    libraries = (_OURS, sysconfig.get_path("stdlib"), sysconfig.get_path("purelib"), sysconfig.get_path("platlib"))
    return not file.startswith("<") and not file.startswith(tuple(f"{path}{os.sep}" for path in libraries))
