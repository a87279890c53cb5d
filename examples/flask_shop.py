"""A Flask application with background jobs, in both shapes.

Enqueue only: the web processes enqueue, and a process of its own does the work.

    gunicorn "examples.flask_shop:create_app()"
    mainspring worker examples.flask_shop:jobs

Work inside: every web process also runs jobs, and hands back what it cannot finish when it is stopped.

    gunicorn "examples.flask_shop:create_app(work_inside=True)"
"""

from __future__ import annotations

import time
from typing import Any

from flask import Flask, abort, request

from mainspring import ExecutionNotFound, JobContext, Mainspring

jobs = Mainspring()  # on the database that MAINSPRING_DATABASE_URL names


@jobs.job("make-invoice", max_attempts=5)
def make_invoice(ctx: JobContext, order: int, pages: int = 1) -> str:
    """A plain function: it runs in a thread, and looks after each page whether it should stop."""
    for page in range(pages):
        ctx.check()
        ctx.progress(page, pages)
        time.sleep(0.05)
    return f"invoice-{order}.pdf"


def create_app(work_inside: bool = False) -> Flask:
    """Nothing else is needed to enqueue: each process connects when it first does."""
    site = Flask(__name__)

    @site.post("/orders/<int:order>")
    def place_order(order: int) -> tuple[dict[str, Any], int]:
        pages = request.args.get("pages", 1, type=int)
        execution = make_invoice.sync.enqueue(order=order, pages=pages)
        return {"execution": execution.id}, 202

    @site.get("/invoices/<id>")
    def invoice(id: str) -> dict[str, Any]:
        try:
            execution = jobs.sync.get(id)
        except ExecutionNotFound:
            abort(404)
        return {"state": execution.state, "file": execution.result}

    if work_inside:
        jobs.sync.start()
    return site
