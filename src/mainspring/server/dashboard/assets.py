"""Stylesheet, scripts and templates: read once, when the first application of this process is created."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

import msgspec
from jinja2 import DictLoader, Environment, StrictUndefined

TOKEN_PLACE = f"@@{secrets.token_hex(8)}@@"
"""Where a rendered page has the token of its forms: several browsers may share a page, and each gets its own token."""
_TYPES = {
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}


class Asset(msgspec.Struct, frozen=True):
    body: bytes
    media_type: str
    etag: str


@cache
def read_assets() -> dict[str, Asset]:
    """The files of `static/`, by name."""
    return {file.name: _asset(file) for file in _folder("static") if file.name.rpartition(".")[2] in _TYPES}


def _asset(file: Traversable) -> Asset:
    body = file.read_bytes()
    digest = hashlib.sha256(body).hexdigest()[:16]
    return Asset(body, _TYPES[file.name.rpartition(".")[2]], f'"{digest}"')


@cache
def read_templates() -> Environment:
    """The templates of `templates/` by their paths in it, such as `jobs/one.html`. Everything they print is escaped;
    an unknown name is an error."""
    return Environment(
        loader=DictLoader(dict(_texts(files(__package__) / "templates"))),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
        cache_size=-1,
    )


def _texts(folder: Traversable, path: str = "") -> Iterator[tuple[str, str]]:
    for each in folder.iterdir():
        if each.is_dir():
            yield from _texts(each, f"{path}{each.name}/")
        elif each.name.endswith(".html"):
            yield f"{path}{each.name}", each.read_text("utf-8")


def _folder(name: str) -> list[Traversable]:
    return sorted((files(__package__) / name).iterdir(), key=lambda file: file.name)
