"""Shoot every page of the dashboard with the data of the demo, light and dark, on a desktop and on a phone:

    docs/images/dashboard/overview-light.png, overview-dark.png, overview-phone-light.png, ...

It starts the demo, lets it work for a while, and stops it afterwards. The exit code is 1 if something went wrong on a
page. Names of pages may be given to shoot only those. The browser is that of tests/browser. Words that only say where
the pictures were made, such as folders and ports, are replaced just before each shot.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import platform
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import product
from pathlib import Path
from typing import TypeAlias

import httpx
from PIL import Image

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.browser.chromium import Device, Theme, Visitor, chromium  # noqa: E402 - only found from here
from tests.browser.pages import NAMES, pages_of  # noqa: E402

Colour: TypeAlias = tuple[int, int, int]

FOLDER = ROOT / "docs" / "images" / "dashboard"
JOB, RUNNING = "order-statistics", "import-catalogue"
"""The job of the demo whose page is shot, and one that takes long enough to be shot while it runs."""
ADDRESS = re.compile(r"(http://127\.0\.0\.1:\d+)/dashboard")
COLOURS = 256  # of one picture, which makes it a third as large
LARGEST = 150_000  # bytes of one picture
STYLESHEET = ROOT / "src" / "mainspring" / "server" / "dashboard" / "static" / "dashboard.css"
TALLEST: dict[Device, int] = {"desktop": 1600, "phone": 1700}  # pixels of one picture
PATIENCE = 60.0
NEUTRAL = {
    re.escape(str(ROOT)): "/srv/shop",
    re.escape(sys.base_prefix): "/usr",
    re.escape(tempfile.gettempdir()) + r"/mainspring-demo-[^/\s]+": "/var/lib/shop",
    re.escape(platform.platform(terse=True)): "Linux",
    rf"\b{re.escape(socket.gethostname())}\b": "web-1",
    r"http://127\.0\.0\.1:\d+/(orders|chat|\.\.\.)": "https://hooks.example.com/$1",
    r"127\.0\.0\.1:\d+": "localhost:8700",
}
"""What a picture shows instead of the names and addresses of the machine that made it, by regular expression."""
SETTLE = """async (table) => {
    window.fetch = () => new Promise(() => {});  // no update of the page from here on
    await new Promise((done) => setTimeout(done, 100));
    for (let timer = setInterval(() => {}, 1e6); timer; timer--) clearInterval(timer);  // nor of its times
    const rules = Object.entries(table).map(([pattern, words]) => [new RegExp(pattern, "g"), words]);
    const neutral = (text) => rules.reduce((text, [pattern, words]) => text.replace(pattern, words), text);
    const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) {
        const words = neutral(texts.currentNode.data);
        if (words !== texts.currentNode.data) texts.currentNode.data = words;
    }
    for (const field of document.querySelectorAll("input, textarea")) field.value = neutral(field.value);
    return document.documentElement.scrollHeight;
}"""
"""Makes the page ready for its picture, and says how tall it is then."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="*", help="which pages to shoot, such as `overview`; all when none is named")
    parser.add_argument("--seconds", type=float, default=25, help="how long the demo works before (default 25)")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where the pictures go")
    arguments = parser.parse_args()
    with receiver() as endpoint, demo() as address, guarded() as login:
        time.sleep(arguments.seconds / 2)  # the data of the demo grow with time: this is no wait for an event
        operate(address, endpoint)
        time.sleep(arguments.seconds / 2)
        return shoot(address, login, arguments.pages, arguments.folder)


class Receiver(BaseHTTPRequestHandler):
    """Receives webhooks, but those below /chat."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("content-length", 0)))
        self.send_response(503 if self.path == "/chat" else 204)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: the terminal says which pictures were made."""


@contextlib.contextmanager
def receiver() -> Iterator[str]:
    """The address of a receiver of webhooks on this machine."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Receiver) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def operate(address: str, endpoint: str) -> None:
    """What an operator would do beside the demo, so that there are endpoints, bulk actions and changes to look at."""
    with httpx.Client(base_url=f"{address}/api/v1", timeout=PATIENCE) as http:

        def post(path: str, **body: object) -> None:
            http.post(path, json=body).raise_for_status()

        failed = ["execution.failed"]
        post("/webhooks", url=f"{endpoint}/orders", id="order-system", description="Marks orders that were not charged")
        post("/webhooks", url=f"{endpoint}/chat", id="team-chat", format="slack", events=failed)
        post("/jobs/export-invoices/pause", note="until the new template is approved")
        post("/queues/notifications/limit", concurrency=3)
        failures = {"job": "charge-order", "status": ["failed"]}
        post(
            "/bulk", action="retry", target="executions", filter=failures, probe=2, note="after the card limit changed"
        )


@contextlib.contextmanager
def demo() -> Iterator[str]:
    """The address of the running demo."""
    with tempfile.TemporaryFile("w+", encoding="utf-8") as output:
        environ = {**os.environ, "PYTHONUNBUFFERED": "1", "MAINSPRING_PRIVATE_URLS": "true"}
        process = subprocess.Popen([sys.executable, "-m", "examples.demo"], cwd=ROOT, stdout=output, env=environ)
        try:
            deadline = time.monotonic() + PATIENCE
            while True:
                output.seek(0)
                said = output.read()
                if found := ADDRESS.search(said):
                    yield found[1]
                    return
                if process.poll() is not None or time.monotonic() > deadline:
                    raise SystemExit(f"the demo did not say where its dashboard is:\n{said}")
                time.sleep(0.1)
        finally:
            process.terminate()
            process.wait()


@contextlib.contextmanager
def guarded() -> Iterator[str]:
    """The address of the login page of a server that asks for a token."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    environ = {**os.environ, "MAINSPRING_API_TOKENS": "true", "MAINSPRING_DATABASE_URL": "memory://"}
    call = [sys.executable, "-m", "mainspring", "run", "examples.shop:app", "--roles", "api", "--port", str(port)]
    process = subprocess.Popen(call, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environ)
    login, deadline = f"http://127.0.0.1:{port}/dashboard/login", time.monotonic() + PATIENCE
    try:
        while not answers(login):
            if process.poll() is not None or time.monotonic() > deadline:
                raise SystemExit("the server of the login page did not start")
            time.sleep(0.1)
        yield login
    finally:
        process.terminate()
        process.wait()


def answers(address: str) -> bool:
    try:
        return httpx.get(address).is_success
    except httpx.TransportError:
        return False


def shoot(address: str, login: str, wanted: list[str], folder: Path) -> int:
    if unknown := [name for name in wanted if name not in (*NAMES, "login")]:
        raise SystemExit(f"there is no page {unknown[0]!r}; there are: login, {', '.join(NAMES)}")
    folder.mkdir(parents=True, exist_ok=True)
    problems: list[str] = []
    themes: tuple[Theme, ...] = ("light", "dark")
    devices: tuple[Device, ...] = ("desktop", "phone")
    with chromium() as browser:
        for theme, device in product(themes, devices):
            visitor = Visitor(browser, address, theme, device)
            visitor.open("/dashboard/login")  # whose script finds the time zone, which the other pages then use
            pages = {"login": login} | {name: address + path for name, path in paths(address).items()}
            for name in wanted or (*NAMES, "login"):
                if name == "execution-running":  # the one that was found first may have ended
                    pages[name] = address + paths(address)[name]
                problems += picture(
                    visitor, pages[name], folder / f"{name}{'-phone' * (device == 'phone')}-{theme}.png"
                )
            problems += visitor.close()
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


def paths(address: str) -> dict[str, str]:
    """Now and then nothing runs: the next job begins within seconds."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            return pages_of(address, JOB, RUNNING)
        except AssertionError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)


def picture(visitor: Visitor, url: str, file: Path) -> list[str]:
    page = visitor.page
    page.goto(url)
    if page.locator("[data-live]").count():
        page.locator("#live-state.on").wait_for(state="attached")
    wide = page.viewport_size or {"width": 1280, "height": 800}
    tall = min(TALLEST[visitor.device], max(page.evaluate(SETTLE, NEUTRAL), wide["height"]))
    clip = {"x": 0.0, "y": 0.0, "width": float(wide["width"]), "height": float(tall)}
    shot = page.screenshot(full_page=True, clip=clip, animations="disabled")  # type: ignore[arg-type]
    with_palette(Image.open(io.BytesIO(shot)).convert("RGB")).save(file, optimize=True)
    size = file.stat().st_size
    print(f"{file.name}: {wide['width']} x {tall}, {size / 1000:.0f} KB")
    return [f"{file.name} has {size:,} bytes; at most {LARGEST:,} are wanted"] if size > LARGEST else []


def with_palette(shot: Image.Image) -> Image.Image:
    """The picture with fewer colours. Those of the stylesheet and the most frequent ones stay exactly as they are; rare
    ones, such as the edges of letters, become the nearest of these."""
    found: list[tuple[int, Colour]] = shot.getcolors(shot.width * shot.height)  # type: ignore[assignment]
    styled = {tuple(bytes.fromhex(text)) for text in re.findall(r"#([0-9a-f]{6})\b", STYLESHEET.read_text("utf-8"))}
    by_rank = sorted(found, key=lambda each: (each[1] not in styled, -each[0]))
    kept = [colour for _, colour in by_rank[:COLOURS]]
    places = {colour: place for place, colour in enumerate(kept)}
    for _, colour in by_rank[COLOURS:]:
        places[colour] = min(range(COLOURS), key=lambda place: distance(kept[place], colour))
    picture = Image.frombytes("P", shot.size, bytes(places[colour] for colour in pixels(shot)))
    picture.putpalette([part for colour in kept for part in colour])
    return picture


def pixels(picture: Image.Image) -> Iterator[Colour]:
    """From left to right, row by row."""
    data = iter(picture.tobytes())
    return zip(data, data, data, strict=True)


def distance(one: Colour, other: Colour) -> int:
    return sum((first - second) ** 2 for first, second in zip(one, other, strict=True))


if __name__ == "__main__":
    sys.exit(main())
