"""From `MODULE:APP` to the application object, with one clear line for everything that can be wrong."""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from types import ModuleType
from typing import Any

from ..app.mainspring import Mainspring
from ..model.errors import InvalidValue, MainspringError, nearest


def load_app(target: str) -> Mainspring:
    """Import the application with the working folder on the path, as `python -m` does."""
    module_name, colon, path = target.partition(":")
    if not colon or not module_name or not path:
        raise _refused(target, "a module, a colon and a name", "Such as shop.jobs:app")
    if meant := _meant_module(module_name):
        raise _refused(target, "a module, a colon and a name", f"Did you mean {meant}:{path}?")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    found: Any = _import(target, module_name)
    for name in path.split("."):
        found = _attribute(target, found, name)
    if not isinstance(found, Mainspring):
        raise _refused(target, "the name of a Mainspring object", f"{path!r} is of type {type(found).__name__}")
    return found


def _meant_module(name: str) -> str:
    """The module behind the path of a file: `shop/jobs.py` is `shop.jobs`; empty for what is no path."""
    if not name.endswith(".py") and os.sep not in name and "/" not in name:
        return ""
    path = os.path.relpath(name) if os.path.isabs(name) else os.path.normpath(name)
    return path.removesuffix(".py").replace(os.sep, ".").strip(".")


def _import(target: str, name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name and (name == error.name or name.startswith(f"{error.name}.")):
            remedy = f"There is no module {error.name!r} in {os.getcwd()!r} or on the Python path"
            raise _refused(target, "a module that can be imported", remedy) from error
        raise _broken(target, name, error) from error
    except MainspringError:
        raise  # a bad registration says it all itself
    except (Exception, SystemExit) as error:
        raise _broken(target, name, error) from error


def _attribute(target: str, owner: Any, name: str) -> Any:
    try:
        return getattr(owner, name)
    except AttributeError:
        apps = [key for key, value in vars(owner).items() if isinstance(value, Mainspring)]
        near = nearest(name, apps) or next(iter(apps), None)
        remedy = f"Did you mean {near!r}?" if near else "It holds no Mainspring object"
        raise _refused(target, f"a name in module {getattr(owner, '__name__', owner)!r}", remedy) from None


def _broken(target: str, module: str, error: BaseException) -> InvalidValue:
    if isinstance(error, SyntaxError) and error.filename:
        what, where = f"{type(error).__name__}: {error.msg}", f"{error.filename}:{error.lineno}"
    else:
        frame = traceback.extract_tb(error.__traceback__)[-1]
        what, where = f"{type(error).__name__}: {error}".removesuffix(": "), f"{frame.filename}:{frame.lineno}"
    remedy = f"{module!r} raised {what} at {where}"
    return _refused(target, "a module that can be imported", remedy)


def _refused(target: str, allowed: str, remedy: str) -> InvalidValue:
    return InvalidValue("MODULE:APP", target, allowed, remedy)
