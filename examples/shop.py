"""The background jobs of a small web shop: eleven jobs, every kind of trigger, one file.

    mainspring run examples.shop:app            runs them on the database that MAINSPRING_DATABASE_URL names
    python -m examples.demo                     runs them with a live account on the terminal

The schedules are short, so that there is something to see; the sleeps stand for real work.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import defaultdict
from datetime import UTC, datetime, timedelta

from mainspring import JobContext, Mainspring, NonRetryable, Retry, Window, every, hourly_at

app = Mainspring()
BRANCHES = ["amsterdam", "berlin", "istanbul", "lisbon", "oslo", "paris", "porto", "rome", "vienna"]


class Warehouse:
    """Stands for the shop's own database."""

    def __init__(self) -> None:
        self.statistics: dict[datetime, int] = {}
        self.reminders: defaultdict[str, int] = defaultdict(int)

    async def orders(self, window: Window) -> list[float]:
        await asyncio.sleep(0.2)
        chance = random.Random(window.key())
        return [chance.uniform(5, 500) for _ in range(chance.randrange(20, 80))]


app.provide("warehouse", Warehouse())


@app.job("heartbeat", trigger=every(seconds=2), description="Tells the monitoring that the shop is alive")
async def heartbeat(ctx: JobContext) -> None:
    ctx.logger.debug("alive")


@app.job("order-statistics", trigger=hourly_at(5), window="previous_hour")
async def order_statistics(ctx: JobContext) -> dict[str, float]:
    """Statistics of the hour before. Setting the row of the window makes a second run of it harmless."""
    assert ctx.window is not None
    orders = await ctx.resources.warehouse.orders(ctx.window)
    ctx.resources.warehouse.statistics[ctx.window.begin] = len(orders)
    ctx.count(orders=len(orders))
    return {"orders": len(orders), "revenue": round(sum(orders), 2)}


@app.job("nightly-summary", cron="0 30 2 * * *", tz="Europe/Istanbul", window="yesterday", retry=Retry("patient"))
async def nightly_summary(ctx: JobContext) -> str:
    assert ctx.window is not None
    orders = await ctx.resources.warehouse.orders(ctx.window)
    ctx.logger.info("summary of %s: %d orders", ctx.window.begin, len(orders))
    return f"{len(orders)} orders, {sum(orders):.2f} in all"


@app.job("plan-reminders", trigger=every(seconds=3))
async def plan_reminders(ctx: JobContext) -> None:
    """A customer gets one reminder at a time: while one is on its way, a second one is not even enqueued."""
    soon = datetime.now(UTC) + timedelta(seconds=4)
    for customer in ("ada", "grace", "edsger"):
        added = await app.enqueue(send_reminder, {"customer": customer}, start_at=soon, unique=f"reminder-{customer}")
        ctx.count(planned=1 if added else 0, already_planned=0 if added else 1)


@app.job("send-reminder", queue="notifications", max_attempts=5)
async def send_reminder(ctx: JobContext, customer: str) -> None:
    await asyncio.sleep(0.1)
    ctx.resources.warehouse.reminders[customer] += 1


@app.job("sync-stock", trigger=every(seconds=5), retry=Retry("500ms", multiplier=2), max_attempts=4)
async def sync_stock(ctx: JobContext) -> None:
    """The supplier answers only now and then: tries that fail are repeated after a growing pause."""
    await asyncio.sleep(0.1)
    if ctx.attempt < 3:
        raise ConnectionError("the supplier's service does not answer")


@app.job("import-catalogue", trigger=every(seconds=3), overlap="skip", timeout="1m")
async def import_catalogue(ctx: JobContext, pages: int = 8) -> None:
    """Takes longer than its period: the ticks that find it running are skipped, and recorded as such."""
    for page in range(pages):
        await asyncio.sleep(0.5)
        ctx.progress(page + 1, pages, f"page {page + 1}")
        ctx.count(products=25)


@app.job("export-invoices", description="On demand: enqueued by the shop, or triggered by hand")
def export_invoices(ctx: JobContext, month: str, copies: int = 1) -> str:
    """A plain function: it runs in a thread, and looks now and then whether it should stop."""
    for _ in range(5):
        ctx.check()
        time.sleep(0.1)
    return f"invoices-{month}.pdf, {copies} copies"


@app.job(
    "settle-payments", trigger=every(seconds=15), tenants=BRANCHES, max_attempts=2, retry=Retry("1s"), owner="finance"
)
async def settle_payments(ctx: JobContext) -> None:
    """Runs once for each branch. That one branch fails stops none of the others."""
    await asyncio.sleep(random.uniform(0.1, 0.6))
    if ctx.tenant == "porto":
        raise NonRetryable(f"the bank refuses merchant {random.randrange(1000, 9999)}: contract expired")


@app.job("charge-order", search=("order_id",), max_attempts=1, owner="finance", tags=("payments",))
async def charge_order(ctx: JobContext, order_id: str, amount: float) -> dict[str, float]:
    """Found again by its order: order_id=4711."""
    ctx.logger.info("charging order %s: %.2f", order_id, amount)
    await asyncio.sleep(0.2)
    if amount > 400:
        raise ValueError(f"order {order_id}: the limit of the card is exceeded by {amount - 400:.2f}")
    return {"charged": amount}


@app.job("archive-orders", trigger=every(seconds=10), queue="archive", overlap="skip")
async def archive_orders(ctx: JobContext) -> None:
    """The worker of the demo does not serve this queue: what is due waits, and the dashboard says so."""
    await asyncio.sleep(0.1)
