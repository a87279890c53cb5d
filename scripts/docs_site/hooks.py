"""Hooks of the documentation site (mkdocs.yml): root pages, links to them, Markdown twins and llms.txt.

- CHANGELOG.md and other pages at the root of the repository become pages of the site. Links to and from them are
  rewritten, so the same link works in a repository browser and on the site.
- The files in deploy/ are on the site too, with a list for each folder, because pages link to them.
- Every page has a Markdown twin beside it: guide.md for guide/. In the twins of reference pages, signatures and
  docstrings stand in the place of the directives.
- llms.txt lists every page with its first sentence; llms-full.txt contains all of them.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.nav import Navigation, Section
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parent.parent.parent
ICON = ROOT / "src/mainspring/server/dashboard/static/icon.svg"
ROOT_PAGES = {
    "README.md": "index.md",  # the site has a home page of its own
    "CHANGELOG.md": "project/changelog.md",
    "ARCHITECTURE.md": "project/architecture.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "SECURITY.md": "project/security-policy.md",
}
DEPLOY = ROOT / "deploy"
SOURCES = {site: source for source, site in ROOT_PAGES.items() if site != "index.md"}
LINK = re.compile(r"(?<=\]\()(?P<path>[^)#:\s]+)(?P<anchor>#[^)\s]*)?(?=\))")
DIRECTIVE = re.compile(r"^::: (?P<name>\S+)\n(?P<options>(?: {4}.*\n|\n(?= {4}))*)", re.MULTILINE)
CODE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
ATTRIBUTE = re.compile(r'doc-attribute">\s*<h\d id="([^"]+)"')
HEADING = re.compile(r"^ +heading: (.+)$", re.MULTILINE)

twins: dict[str, str] = {}
"""The Markdown of each page by its path on the site, in the order of the navigation."""
sections: list[tuple[str, list[Page]]] = []
"""The tabs of the navigation with their pages."""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for site, source in SOURCES.items():
        files.append(File.generated(config, site, content=(ROOT / source).read_text(encoding="utf-8")))
    files.append(File.generated(config, "assets/icon.svg", abs_src_path=str(ICON)))
    for path in (DEPLOY, *DEPLOY.rglob("*")):
        site = f"files/{path.relative_to(ROOT).as_posix()}"
        if path.is_dir():
            files.append(File.generated(config, f"{site}/index.html", content=folder_list(path)))
        else:
            files.append(File.generated(config, site, abs_src_path=str(path), inclusion=InclusionLevel.INCLUDED))
    return files


def on_nav(nav: Navigation, config: MkDocsConfig, files: Files) -> Navigation:
    twins.clear()
    sections[:] = [(tab.title, list(pages_of(tab))) for tab in nav.items]
    return nav


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    markdown = LINK.sub(lambda link: moved(link, page.file.src_uri), markdown)
    twins[page.file.src_uri] = expanded(markdown, config)
    page.meta.setdefault("description", first_sentence(markdown))
    if page.file.src_uri.startswith("reference/"):  # who types a name wants its description; `app.sync` repeats it
        page.meta.setdefault("search", {"boost": 1 if page.file.name == "sync" else 4})
    return markdown


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> None:
    """Leave attributes out of the table of contents, which would be too long; hide a table that is empty."""
    attributes = set(ATTRIBUTE.findall(html))
    for entry in (child for top in page.toc for child in top.children):
        entry.children = [each for each in entry.children if each.id not in attributes]
    if not any(top.children for top in page.toc):
        page.meta.setdefault("hide", ["toc"])


def on_post_build(config: MkDocsConfig) -> None:
    site = Path(config.site_dir)
    for path, text in twins.items():
        target = site / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
    ordered = [page.file.src_uri for _, pages in sections for page in pages]
    (site / "llms.txt").write_text(index(config), encoding="utf-8")
    (site / "llms-full.txt").write_text("\n\n".join(twins[path].strip() for path in ordered) + "\n", encoding="utf-8")


def pages_of(item: Any) -> Iterator[Page]:
    if isinstance(item, Section):
        for child in item.children:
            yield from pages_of(child)
    else:
        yield item


def folder_list(folder: Path) -> str:
    names = sorted(f"{path.name}/index.html" if path.is_dir() else path.name for path in folder.iterdir())
    items = "".join(f'<li><a href="{name}">{name.removesuffix("index.html")}</a></li>' for name in names)
    title = folder.relative_to(ROOT).as_posix()
    return f'<!doctype html><html lang="en"><title>{title}</title><h1>{title}</h1><ul>{items}</ul></html>'


def moved(link: re.Match[str], page: str) -> str:
    """The link as it must be on the site; links that lead to the same place there stay as they are."""
    source = SOURCES.get(page, f"docs/{page}")
    target = posixpath.normpath(posixpath.join(posixpath.dirname(source), link["path"]))
    if target in ROOT_PAGES:
        found = ROOT_PAGES[target]
    elif page in SOURCES and target.startswith("docs/") and (ROOT / target).exists():
        found = target.removeprefix("docs/")
    elif (ROOT / target).is_relative_to(DEPLOY) and (ROOT / target).exists():
        found = f"files/{target}" + ("/index.html" if (ROOT / target).is_dir() else "")
    else:
        return link[0]
    return posixpath.relpath(found, posixpath.dirname(page) or ".") + (link["anchor"] or "")


def first_sentence(markdown: str) -> str:
    """The first whole sentence of the prose, without markup; the heading if there is none."""
    heading, *paragraphs = (part.strip().replace("\n", " ") for part in CODE.sub("", markdown).split("\n\n"))
    for paragraph in paragraphs:
        plain = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", paragraph)
        sentence = re.split(r"(?<=[.!?:])\s+(?=[A-Z`])", plain, maxsplit=1)[0]
        if re.match(r"[A-Z`]", plain) and len(sentence.split()) > 3:
            return re.sub(r"[`*]", "", sentence).removesuffix(":")
    return heading.lstrip("# ")


def index(config: MkDocsConfig) -> str:
    lines = [f"# {config.site_name}", "", f"> {config.site_description}", ""]
    for title, pages in sections:
        lines += [f"## {title}", ""]
        for page in pages:
            lines.append(f"- [{page.title}]({page.file.src_uri}): {page.meta['description']}")
        lines.append("")
    return "\n".join(lines)


# --- twins of reference pages ---------------------------------------------------------------------------------
def expanded(markdown: str, config: MkDocsConfig) -> str:
    """The Markdown with signatures and docstrings in the place of the directives of mkdocstrings."""
    if not DIRECTIVE.search(markdown):
        return markdown
    handler = config.plugins["mkdocstrings"].get_handler("python")

    def described(directive: re.Match[str]) -> str:
        found = handler.collect(directive["name"], handler.get_options({}))
        heading = HEADING.search(directive["options"])
        return "\n\n".join(described_object(found, heading[1] if heading else found.name)) + "\n\n"

    return DIRECTIVE.sub(described, markdown)


def described_object(found: Any, shown: str, level: int = 2) -> Iterator[str]:
    yield f"{'#' * level} {shown}"
    if found.is_function:
        yield described_calls(found, found.name)
    elif found.is_attribute and found.annotation is not None:
        yield f"`{found.value if str(found.annotation) == 'TypeAlias' else found.annotation}`"
    if found.docstring is not None:
        yield found.docstring.value
    if found.is_class:
        yield from described_members(found, shown, level + 1)


def described_members(found: Any, shown: str, level: int) -> Iterator[str]:
    for name, member in found.all_members.items():
        if name == "__init__" and member.docstring is not None:
            yield described_calls(member, found.name)
            yield member.docstring.value
        elif not name.startswith("_") and member.docstring is not None:
            yield from described_object(member, f"{shown}.{name}", level)


def described_calls(found: Any, name: str) -> str:
    return "\n".join(["```python", *(each.signature(name=name) for each in found.overloads or [found]), "```"])
