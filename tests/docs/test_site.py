"""The documentation site: it builds without warnings, knows every public name, and every link in it leads somewhere."""

from __future__ import annotations

import importlib
import inspect
import json
import os
import posixpath
import re
import subprocess
import sys
import typing
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import click
import pytest
from mkdocs.config import load_config

import mainspring
from mainspring import Mainspring
from mainspring.cli.root import root as command_line
from mainspring.config.settings import SETTINGS
from mainspring.testing import harness

pytestmark = pytest.mark.req("DEV-4")

ROOT = Path(__file__).parent.parent.parent
ROOT_PAGES = ("ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
MODULES = ("mainspring", "mainspring.testing", "mainspring.webhooks", "mainspring.contrib.sqlalchemy")
DJANGO = ("mainspring.contrib.django.TasksBackend", "mainspring.contrib.django.app", "mainspring.contrib.django.load")
DJANGO_TESTING = ("mainspring.contrib.django.testing.JobsMixin", "mainspring.contrib.django.testing.harness")
NOT_SHOWN = ("Runtime", "Settings", "FastAPI", "JobSpec", "Trigger", "JobDecorator", "Handler", "Calendar")
"""What public methods also return: described elsewhere, or of no use by itself."""


@dataclass
class HtmlPage(HTMLParser):
    """The anchors and the links of a page, and what a browser loads to show it."""

    ids: set[str] = field(default_factory=set)
    links: list[str] = field(default_factory=list)
    loaded: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        given = dict(attributes)
        self.ids |= {each for name in ("id", "name") if (each := given.get(name))}
        if (href := given.get("href")) and tag == "a":
            self.links.append(href)
        self.loaded += [each for name in ("src", "href") if tag != "a" and (each := given.get(name))]


class Site:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.pages: dict[str, HtmlPage] = {}
        for path in folder.rglob("*.html"):
            page = self.pages[path.relative_to(folder).as_posix()] = HtmlPage()
            page.feed(path.read_text(encoding="utf-8"))
        index = json.loads((folder / "search" / "search_index.json").read_text(encoding="utf-8"))
        self.own = [name for name in self.pages if name != "404.html" and not name.startswith("files/")]
        """Those that are made from Markdown."""
        self.sections = [(plain(each["title"]), plain(each["text"])) for each in index["docs"]]

    @property
    def anchors(self) -> set[str]:
        return {id for name, page in self.pages.items() if name.startswith("reference/") for id in page.ids}

    def target(self, page: str, link: str) -> tuple[str, str]:
        """The file of the site that a link leads to, and the anchor in it."""
        parts = urlsplit(link)
        path = posixpath.normpath(posixpath.join(posixpath.dirname(page), unquote(parts.path))) if parts.path else page
        folder = parts.path.endswith("/") or (self.folder / path).is_dir()
        return (posixpath.normpath(posixpath.join(path, "index.html")) if folder else path), unquote(parts.fragment)


def plain(html: str) -> str:
    text = re.sub(r"<[^>]+>", "", html)
    return re.sub(r"\s+", " ", text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")).strip()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    folder = tmp_path_factory.mktemp("site")
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    program = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    built = subprocess.run(program, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    assert [line for line in built.stderr.splitlines() if not line.startswith("INFO ")] == []  # --quiet hides warnings
    return Site(folder)


# --- navigation and links -------------------------------------------------------------------------------------
def test_every_page_is_in_the_navigation_once() -> None:
    listed = sorted(files_in(load_config(str(ROOT / "mkdocs.yml")).nav))
    own = [path.relative_to(ROOT / "docs").as_posix() for path in ROOT.glob("docs/**/*.md")]
    from_root = [f"project/{name}.md" for name in ("architecture", "changelog", "contributing", "security-policy")]
    assert listed == sorted(own + from_root)


def files_in(item: Any) -> Iterator[str]:
    if isinstance(item, str):
        yield item
    elif isinstance(item, dict):
        for child in item.values():
            yield from files_in(child)
    else:
        for child in item or []:
            yield from files_in(child)


def test_links_of_the_site_lead_somewhere(site: Site) -> None:
    broken = []
    for name, page in site.pages.items():
        if name == "404.html":  # its links are absolute: it is shown at any address
            continue
        for link in (link for link in page.links if not urlsplit(link).scheme):
            target, anchor = site.target(name, link)
            known = target in site.pages and (not anchor or anchor in site.pages[target].ids)
            if not known and (anchor or not (site.folder / target).is_file()):
                broken.append(f"{name}: {link}")
    assert broken == []


def test_pages_load_nothing_from_elsewhere(site: Site) -> None:
    loaded = {(name, each) for name, page in site.pages.items() for each in page.loaded}
    assert {each for each in loaded if urlsplit(each[1]).scheme or each[1].startswith("//")} == set()
    for name, each in loaded:
        target = site.folder / each.lstrip("/") if name == "404.html" else site.folder / site.target(name, each)[0]
        assert target.exists(), f"{name} loads {each}"
    sheets = [path.read_text(encoding="utf-8") for path in site.folder.rglob("*.css")]
    assert [sheet for sheet in sheets if re.search(r"url\(\s*['\"]?(https?:)?//", sheet)] == []


def test_links_of_the_repository_lead_somewhere() -> None:
    """As a repository browser shows the pages: relative to the file, with its own names of anchors."""
    pages = [ROOT / "README.md", *(ROOT / name for name in ROOT_PAGES), *ROOT.glob("docs/**/*.md")]
    headings = {page: anchors_of(page.read_text(encoding="utf-8")) for page in pages}
    broken = []
    for page in pages:
        for link in re.findall(r"\]\(([^)\s]+)\)", without_code(page.read_text(encoding="utf-8"))):
            parts = urlsplit(link)
            target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            missing = not target.exists() or (parts.fragment and parts.fragment not in headings.get(target, ()))
            reference = target.parent.name == "reference"  # its anchors are made from docstrings, on the site
            if not parts.scheme and missing and not (reference and target.exists()):
                broken.append(f"{page.relative_to(ROOT)}: {link}")
    assert broken == []


def without_code(markdown: str) -> str:
    return re.sub(r"`[^`\n]+`", "", re.sub(r"^```.*?^```", "", markdown, flags=re.MULTILINE | re.DOTALL))


def anchors_of(markdown: str) -> set[str]:
    anchors: list[str] = []
    prose = re.sub(r"^```.*?^```", "", markdown, flags=re.MULTILINE | re.DOTALL)
    for heading in re.findall(r"^#+ (.+)$", prose, re.MULTILINE):
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        anchor = re.sub(r"[^\w\- ]", "", text).replace(" ", "-")
        taken = sum(1 for each in anchors if re.fullmatch(rf"{re.escape(anchor)}(-\d+)?", each))
        anchors.append(f"{anchor}-{taken}" if taken else anchor)
    return set(anchors)


# --- the reference --------------------------------------------------------------------------------------------
def test_the_reference_describes_every_public_name(site: Site) -> None:
    """A name without a docstring has no anchor."""
    names = {anchor for anchor, _ in public_names()}
    assert len(names) > 600
    assert sorted(names - site.anchors) == []


def test_the_reference_describes_what_public_methods_return(site: Site) -> None:
    app = Mainspring("memory://")
    returned = {kind for owner in (Mainspring, *map(type, namespaces(app).values())) for kind in returned_by(owner)}
    assert len(returned) > 25
    names = {f"{anchor_of(kind)}.{name}" for kind in returned for name in members(kind)}
    assert sorted((names | set(map(anchor_of, returned))) - site.anchors) == []


def test_search_finds_every_public_name(site: Site) -> None:
    titles = {title.split(" ")[0] for title, _ in site.sections}
    assert sorted({shown for _, shown in public_names()} - titles) == []


def test_search_finds_every_command_and_setting(site: Site) -> None:
    texts = [f"{title} {text}" for title, text in site.sections]
    wanted = [f"mainspring {path}" for path in commands(command_line)] + list(SETTINGS)
    assert [each for each in wanted if not any(re.search(rf"\b{re.escape(each)}\b", text) for text in texts)] == []


def public_names() -> Iterator[tuple[str, str]]:
    """The anchor of each public name in the reference, and the name as its heading shows it."""
    for module in MODULES:
        for name in importlib.import_module(module).__all__:
            value = getattr(importlib.import_module(module), name)
            same = value in (harness, mainspring.cron)  # a module beside it has the same name
            anchor = f"{value.__module__}.{name}" if same else f"{module}.{name}"
            yield from described(anchor, value, f"webhooks.{name}" if module == "mainspring.webhooks" else name)
    yield from ((anchor, anchor.removeprefix("mainspring.contrib.django.")) for anchor in (*DJANGO, *DJANGO_TESTING))
    app = Mainspring("memory://")
    for name in public(vars(app)):
        yield f"mainspring.Mainspring.{name}", f"Mainspring.{name}"
    for owner, shown in ((app, "app"), (app.sync, "app.sync")):
        for name, namespace in namespaces(owner).items():
            yield from described(anchor_of(type(namespace)), type(namespace), f"{shown}.{name}")
    yield from described(anchor_of(type(app.sync)), type(app.sync), "app.sync")
    with harness(app) as kit:
        yield from ((f"mainspring.testing.BlockingKit.{name}", f"BlockingKit.{name}") for name in public(vars(kit)))


def described(anchor: str, value: Any, shown: str) -> Iterator[tuple[str, str]]:
    yield anchor, shown
    if inspect.isclass(value):
        yield from ((f"{anchor}.{name}", f"{shown}.{name}") for name in members(value))


def anchor_of(kind: type) -> str:
    public_name = getattr(mainspring, kind.__name__, None) is kind
    return f"mainspring.{kind.__name__}" if public_name else f"{kind.__module__}.{kind.__qualname__}"


def members(kind: type) -> set[str]:
    """The public methods, properties and fields that a class of ours has."""
    own = [base for base in kind.__mro__ if base.__module__.startswith("mainspring")]
    names = {name for base in own for name in (*vars(base), *vars(base).get("__annotations__", {}))}
    return set(public(names)) - set(dir(BaseException))


def public(names: Any) -> list[str]:
    return [name for name in names if not name.startswith("_")]


def namespaces(owner: Any) -> dict[str, Any]:
    return {
        name: value
        for name, value in vars(owner).items()
        if type(value).__module__.startswith("mainspring.app.") and name[0] != "_"
    }


def returned_by(owner: type) -> Iterator[type]:
    """The classes of ours in the return annotations of the public methods of a class, and in the fields of those."""
    todo: list[Any] = []
    for name in members(owner):
        if inspect.isfunction(method := inspect.unwrap(getattr(owner, name, None))):
            known = {**vars(sys.modules[method.__module__]), **dict.fromkeys(NOT_SHOWN, Any)}
            todo.append(eval(method.__annotations__["return"], known))
    seen: set[Any] = set()
    while todo:
        hint = todo.pop()
        todo += [each for each in typing.get_args(hint) if each not in seen]
        if inspect.isclass(kind := typing.get_origin(hint) or hint) and kind not in seen:
            seen.add(kind)
            if kind.__module__.startswith("mainspring.") and kind.__name__ not in NOT_SHOWN:
                yield kind
                todo += [hint for name, hint in typing.get_type_hints(kind).items() if name[0] != "_"]


def commands(group: click.Group, path: str = "") -> Iterator[str]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from commands(command, f"{path}{name} ")
        else:
            yield f"{path}{name}"


# --- Markdown for programs ------------------------------------------------------------------------------------
def test_every_page_has_a_markdown_twin(site: Site) -> None:
    twins = {name: twin_of(name) for name in site.own}
    assert [name for name, twin in twins.items() if not (site.folder / twin).is_file()] == []
    everything = (site.folder / "llms-full.txt").read_text(encoding="utf-8")
    for name, twin in twins.items():
        text = (site.folder / twin).read_text(encoding="utf-8")
        assert text.strip() in everything
        assert posixpath.join("/", twin) in {
            posixpath.join("/", site.target(name, each)[0]) for each in site.pages[name].loaded
        }
        for link in re.findall(r"\]\(([^)#:\s]+)(?=[)#])", without_code(text)):
            assert (site.folder / twin).parent.joinpath(unquote(link)).exists(), f"{twin} links to {link}"


def twin_of(page: str) -> str:
    index = page.removesuffix(".html") + ".md"
    return index if (ROOT / "docs" / index).exists() else page.removesuffix("/index.html") + ".md"


def test_twins_of_reference_pages_have_signatures_and_docstrings(site: Site) -> None:
    twin = (site.folder / "reference" / "namespaces.md").read_text(encoding="utf-8")
    assert ":::" not in twin
    assert "### app.calendars.jobs\n\n```python\njobs(name: str) -> list[str]\n```\n\nThe names of the jobs" in twin


def test_llms_txt_describes_every_page(site: Site) -> None:
    text = (site.folder / "llms.txt").read_text(encoding="utf-8")
    described = dict(re.findall(r"^- \[[^\]]+\]\(([^)]+)\): (.+)$", text, re.MULTILINE))
    assert sorted(described) == sorted(twin_of(name) for name in site.own)
    assert [path for path, sentence in described.items() if len(sentence.split()) < 3] == []
