"""The application that the tests of the dashboard look at: a small shop whose jobs give every page something to show.

Every text that users control is a probe: markup, a script, quotes and an emoji, which a page must show as text.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from mainspring import JobContext, Mainspring, Retry, every, hourly_at
from tests.receiver import Receiver, answers
from tests.support import until

ODD_JOB = "odd.name-with_dots.and-dashes"
ODD_TENANT = """O'Neill & "Söhne" / 50% <b>tenant</b> #1? 🦉"""
FAILED_CHARGES = 12
WAITING_MAILS = 25


def probe(field: str) -> str:
    """Text for this field that would run as a script on a page that does not escape it."""
    return f""""'><script>window.injected="{field}"</script><img src=x onerror="window.injected='{field}'">&lt; 🦉"""


class Shop:
    """The application, and the switches by which a test controls its handlers."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        usual = {"fold_interval": 0.1, "stop_timeout": 0.5, "private_urls": True, "release": "v1-<b>'release'</b>"}
        self.app = Mainspring(f"sqlite:///{folder}/shop.db", **{**usual, "port": 0, **settings})
        self.bank_is_down = True
        self.broken_tenants = {"globex"}
        self.broken_days: set[int] = set()
        self.steps = asyncio.Semaphore(0)
        """`import-catalogue` takes one for each page, `ledger` one for each day."""
        self._declare()

    def _declare(self) -> None:
        app = self.app

        @app.job("charge-card", queue="payments", search=("order_id", "customer"), max_attempts=1, owner="billing")
        async def charge_card(ctx: JobContext, order_id: int, customer: str = "ada") -> str:
            """Charges the card of an order."""
            ctx.logger.info("charging order %d", order_id)
            if self.bank_is_down:
                raise ConnectionError(f"the bank does not answer for order {order_id}: <b>error</b> & so on")
            return f"charged order {order_id}"

        @app.job("import-catalogue", timeout="1h", max_attempts=1)
        async def import_catalogue(ctx: JobContext, pages: int = 3, supplier: str = "acme", full: bool = False) -> int:
            """Reads the catalogue of a supplier page by page."""
            for page in range(pages):
                await self.steps.acquire()
                ctx.logger.info("page %d of %s", page + 1, supplier)
                ctx.progress(page + 1, pages, f"page {page + 1}")
            return pages

        @app.job("reindex-search", trigger=every(hours=6), timeout="2h")
        async def reindex_search(ctx: JobContext) -> None:
            """Runs until somebody cancels it."""
            ctx.progress(42, 100, probe("progress"))
            ctx.logger.info("indexing %s", probe("log"))
            ctx.logger.warning("shelf 41 is empty")
            await asyncio.Event().wait()

        @app.job(
            "daily-report", cron="0 6 * * *", tz="Europe/Paris", window="yesterday", overlap="allow", max_attempts=1
        )
        async def daily_report(ctx: JobContext) -> dict[str, Any]:
            """Adds up the orders of a day."""
            assert ctx.window is not None
            if ctx.window.begin.day in self.broken_days:
                raise ValueError("the books of the day are not closed")
            ctx.count(orders=ctx.window.begin.day)
            return {"orders": ctx.window.begin.day, "exact": 12345678901234567890}

        @app.job("ledger", cron="0 5 * * *", tz="Europe/Paris", window="yesterday", overlap="allow", max_attempts=1)
        async def ledger(ctx: JobContext) -> None:
            """Takes a step for each day."""
            await self.steps.acquire()

        @app.job("hourly-totals", trigger=hourly_at(5), window="previous_hour", max_attempts=1)
        async def hourly_totals(ctx: JobContext) -> None: ...

        @app.job("invoices", cron="0 3 1 * *", tenants=self._tenants, tenant_max_attempts=1)
        async def invoices(ctx: JobContext) -> str:
            if ctx.tenant in self.broken_tenants:
                raise LookupError(f"{ctx.tenant} has no address {probe('error')}")
            return f"invoices of {ctx.tenant}"

        @app.job("price-update", cron="0 30 2 * * *", tz="Europe/Berlin", retry=Retry("1h"), max_attempts=3)
        async def price_update(ctx: JobContext, factor: float = 1.0) -> None:
            """Sets the prices of the day."""

        @app.job("weekly-newsletter", cron="0 9 * * MON", description=probe("description"), queue="mail")
        async def weekly_newsletter(ctx: JobContext) -> None: ...

        @app.job("send-mail", queue="mail", search=("order_id",))
        async def send_mail(ctx: JobContext, to: str, order_id: int = 0) -> None: ...

        odd = {"metadata": {"note": probe("metadata")}, "owner": "<b>owner</b>", "tags": ["a.b", "c-d"]}

        @app.job(ODD_JOB, max_attempts=1, **odd)  # type: ignore[arg-type]
        async def odd_job(ctx: JobContext, text: str = "", number: int = 1) -> str:
            ctx.tag(text=probe("tag"))
            return probe("result")

    async def _tenants(self) -> list[str]:
        return ["acme", "globex", "initech", ODD_TENANT]

    async def seed(self, receiver: Receiver) -> None:
        """Fill every page; returns when all of it is there."""
        app, now = self.app, datetime.now(UTC)
        receiver.behaviours["/broken"] = answers(500, body=probe("answer").encode())
        events = {"events": ["execution.failed"], "jobs": ["invoices"]}
        await app.webhooks.create(receiver.url("/broken"), id="shop-alerts", description=probe("endpoint"), **events)
        await app.trigger("reindex-search", by="ada")
        charges = [await app.enqueue("charge-card", {"order_id": 4700 + n}) for n in range(FAILED_CHARGES)]
        soon = now + timedelta(hours=1)
        await app.enqueue_many(
            [("send-mail", {"to": f"customer-{n}", "order_id": n}, {"start_at": soon}) for n in range(WAITING_MAILS)]
        )
        odd = await app.trigger(ODD_JOB, {"text": probe("params"), "number": 9007199254740993}, by="<b>actor</b>")
        bills = await app.trigger("invoices")
        self.broken_days = {(now - timedelta(days=3)).day}
        reports = [await app.trigger("daily-report", window=self.day(ago)) for ago in (6, 5, 3, 2)]  # not 4: a hole
        for each in (*charges, odd, bills, *reports):
            assert each is not None
            await app.wait(each, timeout=60)
        hours = await app.backfill("hourly-totals", now - timedelta(hours=6), now, note=probe("backfill"), by="ada")
        bulk = await app.bulk.start("retry", "executions", charges[:1], note=probe("bulk"), by="ada")
        await app.pause("weekly-newsletter", note=probe("note"), by="ada")
        await app.queues.pause("slow", note=probe("queue"), by="ada")
        await app.queues.limit("payments", concurrency=5, by="ada")
        await app.update_job("price-update", priority=5, by="ada")
        await app.try_lock("nightly.stock-lock", ttl="1h")
        await app.bulk.wait(bulk.id, timeout=60)
        await app.backfills.wait(hours.id, timeout=60)
        await until(self._everything_is_counted, "errors are counted and a delivery has been tried")
        [group] = [group for group in await app.errors.all() if "has no address" in group.message]
        await app.errors.mute(group.id, note=probe("mute"), by="ada")

    def day(self, days_ago: int) -> tuple[str, str]:
        """The window of that day, in the zone of the job."""
        day = datetime.now(UTC).date() - timedelta(days=days_ago)
        return f"{day}T00:00:00", f"{day + timedelta(days=1)}T00:00:00"

    async def _everything_is_counted(self) -> bool:
        counted = {job.name: group.count for group in await self.app.errors.all() for job in group.jobs}
        tried = [each for each in await self.app.webhooks.deliveries("shop-alerts") if each.attempt > 0]
        return counted.get("charge-card", 0) > FAILED_CHARGES and "invoices" in counted and bool(tried)
