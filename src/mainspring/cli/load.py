"""The application that the command line names: `MODULE:APP`."""

from __future__ import annotations

import os

from ..app.import_path import load_application
from ..app.mainspring import Mainspring
from ..model.errors import InvalidValue

FIELD = "MODULE:APP"


def load_app(target: str) -> Mainspring:
    """The application, or one clear line about what is wrong with its name. People tend to give the path of its file:
    that is answered with the name of the module."""
    module, _, name = target.partition(":")
    meant = _meant_module(module)
    if module and (meant or not name):
        raise InvalidValue(
            FIELD, target, "a module, a colon and a name", f"Did you mean {meant or module}:{name or 'app'}?"
        )
    return load_application(target, FIELD)


def _meant_module(name: str) -> str:
    """The module behind the path of a file: `shop/jobs.py` is `shop.jobs`; empty for what is no path."""
    if not name.endswith(".py") and os.sep not in name and "/" not in name:
        return ""
    path = os.path.relpath(name) if os.path.isabs(name) else os.path.normpath(name)
    return path.removesuffix(".py").replace(os.sep, ".").strip(".")
