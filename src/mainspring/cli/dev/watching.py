"""Which folders `mainspring dev` watches, and which saves count.

Watched are the folders of the application's own modules, not those of installed packages, and none below them that hold
no code. A save counts if it changes code or the settings; with `--watch`, other files count too. Files that jobs and
tools write beside the code do not: a report, a database or a cache must not restart the application.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import ModuleType

SETTINGS = frozenset({"mainspring.toml", "pyproject.toml", ".env"})
MOST_FOLDERS = 1_000
_CACHES = frozenset({"__pycache__", "node_modules", "site-packages", "dist-packages", "venv", "build", "dist"})
_WRITTEN = (".pyc", ".pyo", ".log", ".tmp", ".swp", ".swx", ".bak", "~", "___jb_tmp___", "___jb_old___")
_DATABASES = (".db", ".sqlite", ".sqlite3", "-wal", "-shm", "-journal")
_INSTALLED = tuple({sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")})
_MAINSPRING = str(Path(__file__).parents[2])


def counts(path: str, extra: Iterable[str] = ()) -> bool:
    """Whether a change of this file is a reason to reload. `extra` are files and folders of `--watch`.

    >>> counts("/shop/jobs.py"), counts("/shop/mainspring.toml"), counts("/shop/report.csv"), counts("/shop/.#jobs.py")
    (True, True, False, False)
    >>> counts("/shop/rates.csv", ["/shop"]), counts("/shop/jobs.db-wal", ["/shop"])
    (True, False)
    """
    name = os.path.basename(path)
    if name in SETTINGS:
        return True
    if name.startswith((".", "#")) or name.endswith(_WRITTEN) or name.endswith(_DATABASES):
        return False
    return name.endswith(".py") or any(path == each or path.startswith(each.rstrip(os.sep) + os.sep) for each in extra)


def is_own(file: str) -> bool:
    """Whether a module of this file belongs to the application, not to an installed package."""
    inside = file.startswith((*_INSTALLED, _MAINSPRING + os.sep))
    return not inside and not {"site-packages", "dist-packages"} & set(Path(file).parts)


def own_folders(modules: Mapping[str, ModuleType]) -> set[str]:
    """The folders of the application's own modules; of packages, with all folders below them."""
    found = {os.getcwd()}
    for name, module in list(modules.items()):
        file = getattr(module, "__file__", None)
        if not file or name == "__main__" or not os.path.isabs(file) or not is_own(file):
            continue
        folder = os.path.dirname(file)
        is_package = hasattr(module, "__path__")
        above = name.count(".") - (not is_package)
        if above < 0:
            found.add(folder)  # a module outside of any package: its neighbours may be anything
        else:
            found.update(_with_folders_below(str(Path(folder, *[".."] * above).resolve())))
        if len(found) > MOST_FOLDERS:
            break
    return set(sorted(found)[:MOST_FOLDERS])


def folders_of(extra: Iterable[str]) -> set[str]:
    """The folders of what `--watch` names: of a file, the one it is in."""
    found: set[str] = set()
    for path in extra:
        found.update(_with_folders_below(path) if os.path.isdir(path) else [os.path.dirname(path)])
    return found


def _with_folders_below(top: str) -> Iterator[str]:
    for folder, below, _ in os.walk(top):
        below[:] = [name for name in below if not name.startswith(".") and name not in _CACHES]
        yield folder


def loaded_folders() -> list[str]:
    return sorted(own_folders(sys.modules))
