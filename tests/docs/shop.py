"""The application that the commands of the pages are typed at: whatever the pages name is declared here.

No schedule is late within the hour of a test, wherever in the day that is.
"""

from typing import Any

from mainspring import JobContext, Mainspring, every

app = Mainspring("sqlite:///jobs.db", poll_interval="1s", stop_timeout="5s")
app.calendars.declare("holidays", ["2026-12-25"])


@app.job("crawl", trigger=every(hours=1), timeout="1m", queue="web")
async def crawl(ctx: JobContext, url: str = "http://localhost", pages: int = 1, depth: int = 1) -> int:
    ctx.logger.warning("crawling %s", url)
    if not url.startswith(("http", "/")):
        raise ValueError(f"cannot crawl {url}")
    return pages


@app.job("report", cron="0 3 * * *", window="yesterday", grace="1h")
async def report(ctx: JobContext) -> str:
    return str(ctx.begin_date)


@app.job("revenue", cron="0 4 * * *", window="yesterday", grace="1h", params={"currency": "EUR"})
async def revenue(ctx: JobContext, currency: str = "EUR") -> None: ...


@app.job("invoices", tenants=["acme", "globex"], max_attempts=1)
async def invoices(ctx: JobContext) -> None:
    if ctx.tenant == "globex":
        raise ValueError("globex has no address")


@app.job("charge", max_attempts=1, queue="slow")
async def charge(ctx: JobContext, order_id: int) -> None:
    raise ValueError(f"order {order_id} is not paid")


@app.job("pay", max_attempts=1)
async def pay(ctx: JobContext, order: int = 1, gateway: str = "old", items: list[int] | None = None) -> None:
    if gateway == "old":
        raise ValueError("no answer")


@app.job("mail", queue="mail")
async def mail(ctx: JobContext) -> None: ...


@app.job("send-mail", queue="mail")
async def send_mail(ctx: JobContext) -> None: ...


@app.job("send_invoice")
async def send_invoice(ctx: JobContext) -> None: ...


@app.job("nightly", cron="0 3 * * *", grace="1h")
async def nightly(ctx: JobContext) -> None: ...


@app.job("hourly", cron="0 * * * *", grace="1h")
async def hourly(ctx: JobContext) -> None: ...


@app.job("deploy")
async def deploy(payload: dict[str, Any]) -> None: ...


@app.job("shell")
async def shell(ctx: JobContext, command: str = "") -> None: ...


@app.job("dump")
async def dump(ctx: JobContext, command: str = "") -> None: ...
