"""A Grafana dashboard, generated from the stored jobs. Import its JSON, and choose a Prometheus data source."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

MOST_NAMED = 200
"""The most jobs that the dashboard's selector lists by name. With more, Grafana queries Prometheus for them."""
WIDTH = 24
_PROMETHEUS = {"type": "prometheus", "uid": "${datasource}"}
_JOB = '{job_name=~"$job_name"}'


def dashboard(jobs: Sequence[str]) -> str:
    return json.dumps(
        {
            "uid": "mainspring",
            "title": "Mainspring",
            "description": "Jobs: what ran, what failed, what is late, what waits.",
            "tags": ["mainspring"],
            "schemaVersion": 38,
            "version": 1,
            "editable": True,
            "timezone": "browser",
            "refresh": "30s",
            "time": {"from": "now-6h", "to": "now"},
            "templating": {"list": [_datasource(), _names(jobs)]},
            "panels": _placed(_panels()),
        },
        indent=2,
    )


def _panels() -> list[tuple[int, dict[str, Any]]]:
    """Each panel with its width, from left to right. Totals are the same in every process, so never summed."""
    ended = _ended("", "$__rate_interval")
    good, judged = _ended(',status="completed"'), _ended(',status=~"completed|partial|failed"')
    failed = _ended(',status="failed"')
    trouble = {
        "retries {{job_name}}": f"sum by (job_name) ({_increase('job_retries_total')})",
        "rescued {{job_name}}": f"max by (job_name) ({_increase('job_rescued_total')})",
        "refused {{job_name}}": f"sum by (job_name) ({_increase('job_fenced_writes_total')})",
    }
    skips = f"sum by (job_name, reason) ({_increase('job_skips_total')})"
    by_job = "{{job_name}}"
    overdue = _age("job_next_expected_timestamp_seconds")
    return [
        (4, _number("Success rate", f"sum({good}) / sum({judged})", "percentunit")),
        (4, _number("Failures", f"sum({failed})", "short")),
        (4, _number("Running", f"sum(max by (job_name) (job_currently_running{_JOB}))", "short")),
        (4, _number("Waiting", f"sum({_of_queues('ready')}) + sum({_of_queues('parked')})", "short")),
        (4, _number("Most overdue", f"max({overdue})", "s")),
        (4, _number("Processes", "count(mainspring_info)", "short")),
        (12, _graph("Executions by how they ended", {"{{status}}": f"sum by (status) ({ended})"}, "short")),
        (12, _graph("Executions by job", {by_job: f"sum by (job_name) ({ended})"}, "short")),
        (12, _graph("Duration, 95th percentile", {by_job: _quantile("job_execution_duration_seconds")}, "s")),
        (12, _graph("Lateness, 95th percentile", {by_job: _quantile("job_lateness_seconds")}, "s")),
        (12, _graph("Overdue", {by_job: overdue}, "s")),
        (12, _graph("Oldest running attempt", {by_job: _age("job_oldest_running_start_timestamp_seconds")}, "s")),
        (12, _graph("Waiting for a worker, by queue", {"{{queue}}": _of_queues("ready")}, "short")),
        (12, _graph("Oldest that waits, by queue", {"{{queue}}": _of_queues("oldest_seconds")}, "s")),
        (8, _graph("Running, by queue", {"{{queue}}": _of_queues("running")}, "short")),
        (8, _graph("Planned, by queue", {"{{queue}}": _of_queues("planned")}, "short")),
        (8, _graph("Waiting for a limit, by queue", {"{{queue}}": _of_queues("parked")}, "short")),
        (12, _graph("Oldest that waits", {by_job: _age("job_oldest_waiting_timestamp_seconds")}, "s")),
        (12, _graph("Trouble", trouble, "short")),
        (12, _graph("Skips", {"{{job_name}} {{reason}}": skips}, "short")),
    ]


def _ended(status: str, since: str = "$__range") -> str:
    selected = f'job_execution_total{{job_name=~"$job_name"{status}}}'
    return f"max by (job_name, status, trigger_type) (increase({selected}[{since}]))"


def _of_queues(what: str) -> str:
    """The same from every process, for every queue, however many jobs there are."""
    return f"max by (queue) (mainspring_queue_{what})"


def _increase(counter: str) -> str:
    return f"increase({counter}{_JOB}[$__rate_interval])"


def _age(instant: str) -> str:
    return f"clamp_min(time() - (max by (job_name) ({instant}{_JOB} > 0)), 0)"


def _quantile(histogram: str) -> str:
    return f"histogram_quantile(0.95, sum by (job_name, le) (rate({histogram}_bucket{_JOB}[$__rate_interval])))"


def _number(title: str, expr: str, unit: str) -> dict[str, Any]:
    return {
        "type": "stat",
        "title": title,
        "targets": [{"refId": "A", "expr": expr, "instant": True, "datasource": _PROMETHEUS}],
        "fieldConfig": {"defaults": {"unit": unit}, "overrides": []},
        "options": {"reduceOptions": {"calcs": ["lastNotNull"]}},
    }


def _graph(title: str, series: dict[str, str], unit: str) -> dict[str, Any]:
    return {
        "type": "timeseries",
        "title": title,
        "targets": [
            {"refId": chr(ord("A") + place), "expr": expr, "legendFormat": legend, "datasource": _PROMETHEUS}
            for place, (legend, expr) in enumerate(series.items())
        ],
        "fieldConfig": {"defaults": {"unit": unit, "min": 0}, "overrides": []},
    }


def _placed(panels: list[tuple[int, dict[str, Any]]]) -> list[dict[str, Any]]:
    placed, across, down, row = [], 0, 0, 0
    for number, (width, panel) in enumerate(panels, start=1):
        height = 4 if panel["type"] == "stat" else 8
        if across + width > WIDTH:
            across, down, row = 0, down + row, 0
        position = {"x": across, "y": down, "w": width, "h": height}
        placed.append(panel | {"id": number, "gridPos": position, "datasource": _PROMETHEUS})
        across, row = across + width, max(row, height)
    return placed


def _datasource() -> dict[str, Any]:
    return {"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Prometheus"}


def _names(jobs: Sequence[str]) -> dict[str, Any]:
    every = {"name": "job_name", "label": "Job", "multi": True, "includeAll": True, "allValue": ".*"}
    if len(jobs) > MOST_NAMED:
        query = "label_values(job_execution_total, job_name)"
        return every | {"type": "query", "query": query, "datasource": _PROMETHEUS, "refresh": 2}
    options = [{"text": name, "value": name, "selected": False} for name in sorted(jobs)]
    return every | {"type": "custom", "query": ",".join(sorted(jobs)), "options": options}
