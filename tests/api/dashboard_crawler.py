"""Follows every link of the dashboard, as a visitor without JavaScript could, and reads what the pages say."""

from __future__ import annotations

from collections import Counter, deque
from html.parser import HTMLParser
from urllib.parse import urldefrag, urljoin, urlsplit

import httpx

VOID = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}


class Document(HTMLParser):
    """The links, the texts and the suspicious parts of one page."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.links: list[str] = []
        self.texts: list[str] = []
        self.forms: list[str] = []
        self.inline: list[str] = []
        """Scripts, styles and handlers inside the page, which a strict policy forbids."""
        self._open: list[str] = []
        self.feed(html)
        self.close()

    @property
    def text(self) -> str:
        return "".join(self.texts)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag not in VOID:
            self._open.append(tag)
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        if tag == "form" and given.get("method", "get").lower() == "post":
            self.forms.append(given.get("action", ""))
        suspicious = [name for name in given if name.startswith("on") or name == "style"]
        if suspicious or tag == "style" or (tag == "script" and not given.get("src")) or given.get("src") == "x":
            self.inline.append(self.get_starttag_text() or tag)
        self.texts += [f"\n{value}\n" for name, value in given.items() if name not in ("class", "href", "d")]

    def handle_endtag(self, tag: str) -> None:
        if tag in self._open:
            while self._open.pop() != tag:
                pass

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


class Crawl:
    """The pages of a dashboard that can be reached from its overview, at `root`. At most so many pages of things of the
    same kind are read, and so many lists with the same filters, whatever the values of these."""

    def __init__(self, http: httpx.AsyncClient, root: str, things: int = 60, lists: int = 1) -> None:
        self._http, self._root, self._things, self._lists = http, root, things, lists
        self.pages: dict[str, Document] = {}
        self.problems: list[str] = []

    async def read(self) -> Crawl:
        waiting, seen, kinds = deque([self._root]), {self._root}, Counter[tuple[str, ...]]()
        while waiting:
            path = waiting.popleft()
            kind = self._kind(path)
            if kinds[kind] >= (self._lists if "?" in path else self._things):
                continue
            kinds[kind] += 1
            for link in await self._page(path):
                if link not in seen:
                    seen.add(link)
                    waiting.append(link)
        return self

    async def _page(self, path: str) -> list[str]:
        """The links of a page."""
        answer = await self._http.get(path)
        if answer.status_code != 200:
            self.problems.append(f"{path} answered {answer.status_code}")
            return []
        if not answer.headers["content-type"].startswith("text/html"):
            return []
        page = self.pages[path] = Document(answer.text)
        self.problems += [f"{path} has {found}" for found in page.inline]
        links = [urldefrag(urljoin(str(answer.url), link)).url for link in (*page.links, *page.forms)]
        inside = f"{answer.url.scheme}://{answer.url.netloc.decode()}{self._root}"
        self.problems += [f"{path} leads to {link}" for link in links if not link.startswith(inside)]
        return [link[len(inside) - len(self._root) :] for link in links[: len(page.links)]]

    def _kind(self, path: str) -> tuple[str, ...]:
        """`jobs/report?limit=5` and `jobs/import?limit=9` are pages of the same kind."""
        parts = urlsplit(path)
        names = sorted({pair.partition("=")[0] for pair in parts.query.split("&") if pair})
        area = parts.path.removeprefix(self._root).split("/")
        return (*area[:2], str(len(area)), *area[3:], *names)
