"""Alert rules: what the thresholds follow from, and a firing and a silent case of each alert, judged by promtool."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from mainspring import every
from mainspring.core.declaring.job_specs import job_spec
from mainspring.model.job import Job, encode_spec
from mainspring.model.time.instants import SECOND
from mainspring.observe.metrics.alert_rules import AlertRule, RecentDurations, job_rules, rules_file
from mainspring.observe.metrics.grafana import MOST_NAMED, dashboard
from mainspring.observe.metrics.process_counters import DURATIONS
from tests.prometheus_server import program

NOW = 1_800_000_000 * SECOND
QUICK = RecentDurations((0.005,) * 20)
JOB = '{instance="a",job_name="daily"}'


def job(name: str = "daily", **options: Any) -> Job:
    spec = job_spec("handler", None, {"cron": "0 3 * * *", **options})
    return Job(name=name, id="1", declared=encode_spec(spec), next_run=NOW)


def usually(seconds: float) -> RecentDurations:
    return RecentDurations((seconds,) * 20)


def rule(alert: str, of: Job, history: RecentDurations = QUICK, slack: float = 5.0) -> AlertRule:
    (found,) = [each for each in job_rules(of, history, NOW, slack) if each.alert == alert]
    return found


@pytest.mark.req("OBS-5")
def test_thresholds_follow_from_timeout_history_and_schedule() -> None:
    assert rule("JobRunningTooLong", job(timeout="1m")).expr.endswith("> 76")  # a tenth more, and twice the slack
    assert rule("JobRunningTooLong", job(), RecentDurations((4.0,) * 9 + (20.0,))).expr.endswith("> 60")
    assert rule("JobRunningTooLong", job(), QUICK).expr.endswith("> 10")
    assert rule("JobRunningTooLong", job(), RecentDurations((4.0,))).expr.endswith("> 86400")  # one run says little
    assert "> 65 or" in rule("JobMissedSchedule", job()).expr
    assert "> 905 or" in rule("JobMissedSchedule", job(grace="15m")).expr
    assert "> 15 or" in rule("JobMissedSchedule", job(cron=None, trigger=every(seconds=10))).expr
    assert "> 65 unless" in rule("JobWorkWaiting", job()).expr
    assert "> 305 unless" in rule("JobWorkWaiting", job(cron=None)).expr
    assert rule("JobMissedSchedule", job()).severity == "critical"
    assert "[5m]" in rule("JobExecutionFailed", job(cron="* * * * *")).expr
    assert "[1d]" in rule("JobExecutionFailed", job()).expr
    assert "> 10 or" in rule("JobDurationAnomaly", job(), usually(2)).expr  # the end of the bucket that holds 6 s
    assert "> 6 and" in rule("JobDurationAnomaly", job(), usually(2)).expr
    assert "histogram_quantile" not in rule("JobDurationAnomaly", job(), usually(4000)).expr  # it ends at 7200 s


@pytest.mark.req("OBS-5")
def test_descriptions_name_long_durations_in_days_and_hours() -> None:
    assert "fires after 1d." in rule("JobRunningTooLong", job(), RecentDurations((4.0,))).description
    assert rule("JobRunningTooLong", job(timeout="1h")).description.startswith("Its timeout is 1h;")
    assert "took 3.33 s at most" in rule("JobRunningTooLong", job(), RecentDurations((3.333,) * 10)).description


def test_a_job_on_demand_misses_nothing() -> None:
    alerts = {each.alert for each in job_rules(job(cron=None), QUICK, NOW)}
    assert alerts == {
        *("JobExecutionFailed", "JobRunningTooLong", "JobWorkWaiting"),
        *("JobDurationAnomaly", "JobSuccessRateLow"),
    }


def series(name: str, values: str, labels: str = JOB) -> dict[str, str]:
    return {"series": f"{name}{labels}", "values": values}


def totals(completed: str, failed: str) -> list[dict[str, str]]:
    """As two processes tell them: the same."""
    return [
        series(
            "job_execution_total", values, f'{{instance="{at}",job_name="daily",status="{status}",trigger_type="api"}}'
        )
        for at in "ab"
        for status, values in (("completed", completed), ("failed", failed))
    ]


def durations(job_name: str, *took: float) -> list[dict[str, str]]:
    """As of a process in which one run of each of these durations ends every 15 seconds."""
    name, labels = "job_execution_duration_seconds", f'instance="a",job_name="{job_name}"'

    def each(step: float) -> str:
        return f"0+{step}x240"

    bounds = {f"{bound:g}": sum(one <= bound for one in took) for bound in DURATIONS} | {"+Inf": len(took)}
    return [
        *(series(f"{name}_bucket", each(count), f'{{{labels},le="{le}"}}') for le, count in bounds.items()),
        series(f"{name}_sum", each(sum(took)), f"{{{labels}}}"),
        series(f"{name}_count", each(len(took)), f"{{{labels}}}"),
    ]


NEXT, OLDEST = "job_next_expected_timestamp_seconds", "job_oldest_running_start_timestamp_seconds"
UNMUTED = "job_unmuted_failure_timestamp_seconds"
WAITING, RUNNING = "job_oldest_waiting_timestamp_seconds", "job_currently_running"
INFO = ("mainspring_info", '{instance="a",version="1"}')
ALIVE, GONE = series(INFO[0], "1x240", INFO[1]), series(INFO[0], "1x8 stale", INFO[1])

READ = series("mainspring_read_timestamp_seconds", "0+15x240", '{instance="a"}')

# Alert, whether it fires, after how many minutes, what was scraped every 15 seconds.
CASES: list[tuple[str, bool, int, list[dict[str, str]]]] = [
    ("JobExecutionFailed", True, 5, totals("0x60", "0x8 1x60")),
    ("JobExecutionFailed", False, 5, totals("0+1x60", "7x60")),
    ("JobExecutionFailed", False, 6, [*totals("0x60", "0x8 1x60"), series(UNMUTED, "-90000x60")]),  # all are muted
    ("JobExecutionFailed", True, 6, [*totals("0x60", "0x8 1x60"), series(UNMUTED, "-90000x8 130x60")]),
    ("JobRunningTooLong", True, 3, [series(OLDEST, "30x60"), READ]),
    ("JobRunningTooLong", False, 1, [series(OLDEST, "30x60"), READ]),
    ("JobRunningTooLong", False, 10, [series(OLDEST, "0x240"), READ]),
    ("JobMissedSchedule", True, 3, [series(NEXT, "60x60"), ALIVE, READ]),
    ("JobMissedSchedule", False, 2, [series(NEXT, "60x60"), ALIVE, READ]),
    ("JobMissedSchedule", False, 10, [series(NEXT, "0x240"), ALIVE, READ]),
    ("JobMissedSchedule", True, 15, [series(NEXT, "600x8 stale"), GONE]),  # nobody is scraped any more
    ("JobMissedSchedule", False, 10, [series(NEXT, "600x8 stale"), GONE]),
    ("JobMissedSchedule", False, 15, [series(NEXT, "600x8 stale"), ALIVE, READ]),  # the job was removed
    ("JobWorkWaiting", True, 3, [series(WAITING, "60x60"), series(RUNNING, "0x60"), READ]),
    ("JobWorkWaiting", False, 2, [series(WAITING, "60x60"), series(RUNNING, "0x60"), READ]),
    ("JobWorkWaiting", False, 10, [series(WAITING, "0x240"), series(RUNNING, "0x240"), READ]),
    ("JobWorkWaiting", False, 10, [series(WAITING, "60x240"), series(RUNNING, "1x240"), READ]),  # behind another run
    ("JobDurationAnomaly", True, 5, durations("daily", 2)),
    ("JobDurationAnomaly", False, 5, durations("daily", 0.005)),
    ("JobSuccessRateLow", True, 10, totals("0+1x240", "0+1x240")),
    ("JobSuccessRateLow", False, 10, totals("0+9x240", "0+1x240")),
    ("JobSuccessRateLow", False, 10, totals("4x240", "4x240")),
    ("JobStaleLocks", True, 5, [series("job_rescued_total", "0x8 1x60")]),
    ("JobStaleLocks", True, 5, [series("job_stale_locks", "1x60")]),
    ("JobStaleLocks", False, 5, [series("job_rescued_total", "3x60"), series("job_stale_locks", "0x60")]),
    ("MainspringAbsent", True, 9, [GONE]),
    ("MainspringAbsent", False, 9, [ALIVE]),
    ("MainspringWakeupChannelDown", True, 9, [series("mainspring_wakeup_channel_up", "1x8 0x60", '{instance="a"}')]),
    ("MainspringWakeupChannelDown", False, 9, [series("mainspring_wakeup_channel_up", "1x60", '{instance="a"}')]),
]


@pytest.mark.req("OBS-5")
def test_each_alert_fires_when_it_should_and_is_silent_otherwise(tmp_path: Path) -> None:
    rules = tmp_path / "rules.yml"
    rules.write_text(rules_file([(job(timeout="1m"), QUICK), (job("other's"), RecentDurations())], NOW))
    told = {each.alert for each in job_rules(job(), QUICK, NOW)} | {"JobStaleLocks"}
    assert all({fires for alert, fires, _, _ in CASES if alert == one} == {True, False} for one in told)
    tests = [
        {
            "interval": "15s",
            "input_series": scraped,
            "promql_expr_test": [
                {
                    "expr": f'count(ALERTS{{alertname="{alert}",alertstate="firing"}}) > 0',
                    "eval_time": f"{minutes}m",
                    "exp_samples": [{"labels": "{}", "value": 1}] if fires else [],
                }
            ],
        }
        for alert, fires, minutes, scraped in CASES
    ]
    file = tmp_path / "tests.yml"
    file.write_text(json.dumps({"rule_files": ["rules.yml"], "evaluation_interval": "1m", "tests": tests}))
    assert promtool("check", "rules", str(rules)) == "ok"
    assert promtool("test", "rules", str(file)) == "ok"


@pytest.mark.req("OBS-5")
def test_a_total_outage_fires_within_the_threshold_and_never_stops_firing(tmp_path: Path) -> None:
    """Every second, with a job that was late before (allowed: 65 s), one that was on time, and two that run each second
    (allowed: 6 s, and 30 s without any process), of which one was late before."""
    often = job("often", cron=None, trigger=every(seconds=1))
    rules = tmp_path / "rules.yml"
    stuck = job("stuck", cron=None, trigger=every(seconds=1))
    rules.write_text(rules_file([(job(), QUICK), (job("later"), QUICK), (often, QUICK), (stuck, QUICK)], NOW))
    scraped = [
        series(NEXT, "40x120 stale"),
        series(NEXT, "200x120 stale", '{instance="a",job_name="later"}'),
        series(NEXT, "1+1x120 stale", '{instance="a",job_name="often"}'),
        series(NEXT, "1+1x50 51x69 stale", '{instance="a",job_name="stuck"}'),
        series(NEXT, "1+1x40 stale", '{instance="b",job_name="stuck"}'),
        series(INFO[0], "1x120 stale", INFO[1]),
        series("mainspring_read_timestamp_seconds", "0+1x120 stale", '{instance="a"}'),
        series("mainspring_read_timestamp_seconds", "0+1x40 stale", '{instance="b"}'),
    ]  # process b, the scheduler, ends after 40 s, and the last process after 120 s
    firing = {"daily": range(106, 400), "later": range(266, 400), "often": range(152, 400)}
    firing["stuck"] = range(58, 400)

    def at(second: int) -> dict[str, Any]:
        names = [name for name, seconds in firing.items() if second in seconds]
        return {
            "expr": 'count by (job_name) (ALERTS{alertname="JobMissedSchedule",alertstate="firing"})',
            "eval_time": f"{second}s",
            "exp_samples": [{"labels": f'{{job_name="{name}"}}', "value": 1} for name in names],
        }

    tests = {"interval": "1s", "input_series": scraped, "promql_expr_test": [at(second) for second in range(90, 400)]}
    file = tmp_path / "tests.yml"
    file.write_text(json.dumps({"rule_files": ["rules.yml"], "evaluation_interval": "1s", "tests": [tests]}))
    assert promtool("test", "rules", str(file)) == "ok"


@pytest.mark.req("OBS-5")
def test_one_failed_scrape_is_no_outage(tmp_path: Path) -> None:
    rules = tmp_path / "rules.yml"
    rules.write_text(rules_file([(job("often", cron=None, trigger=every(seconds=1)), QUICK)], NOW))
    scraped = [
        series(NEXT, "1+15x4 stale 76+15x8", '{instance="a",job_name="often"}'),
        series(INFO[0], "1x4 stale 1x8", INFO[1]),
        series("mainspring_read_timestamp_seconds", "0+15x4 stale 75+15x8", '{instance="a"}'),
    ]
    never = {
        "expr": 'count(max_over_time(ALERTS{alertname="JobMissedSchedule",alertstate="firing"}[5m]))',
        "eval_time": "2m",
        "exp_samples": [],
    }
    tests = {"interval": "15s", "input_series": scraped, "promql_expr_test": [never]}
    file = tmp_path / "tests.yml"
    file.write_text(json.dumps({"rule_files": ["rules.yml"], "evaluation_interval": "1s", "tests": [tests]}))
    assert promtool("test", "rules", str(file)) == "ok"


# How long the runs of a job took so far, how long they take now, and whether that is told.
PACES: dict[str, tuple[RecentDurations, list[float], bool]] = {
    "hardly slower, in another bucket": (usually(0.9), [1.1], False),
    "four times, in the bucket of three times": (usually(0.9), [3.6], True),
    "one in fifty": (usually(0.9), [30.0] + [0.9] * 49, False),
    "one in ten": (usually(0.9), [7.0] + [0.1] * 9, True),
    "long, and now beyond the last bucket": (usually(3000), [30_000], True),
    "long, and not three times as long": (usually(3000), [8_000], False),
    "longest": (usually(8_000), [25_000], True),
    "longest, and not three times as long": (usually(8_000), [23_000], False),
    "new": (RecentDurations(), [1.1], False),
}


@pytest.mark.req("OBS-5")
def test_buckets_neither_raise_an_alarm_nor_hide_one(tmp_path: Path) -> None:
    found = [rule("JobDurationAnomaly", job(name), history) for name, (history, _, _) in PACES.items()]
    rules = [{"alert": each.alert, "expr": each.expr} for each in found]
    (tmp_path / "rules.yml").write_text(json.dumps({"groups": [{"name": "paces", "rules": rules}]}))
    told = {
        "expr": 'count by (job_name) (ALERTS{alertname="JobDurationAnomaly",alertstate="firing"})',
        "eval_time": "5m",
        "exp_samples": [
            {"labels": f'{{job_name="{name}"}}', "value": 1} for name, (_, _, fires) in PACES.items() if fires
        ],
    }
    scraped = [each for name, (_, took, _) in PACES.items() for each in durations(name, *took)]
    test = {"interval": "1m", "input_series": scraped, "promql_expr_test": [told]}
    file = tmp_path / "tests.yml"
    file.write_text(json.dumps({"rule_files": ["rules.yml"], "evaluation_interval": "1m", "tests": [test]}))
    assert promtool("test", "rules", str(file)) == "ok"


@pytest.mark.req("OBS-5")
def test_the_dashboard_asks_what_prometheus_understands(tmp_path: Path) -> None:
    made = json.loads(dashboard(["daily", "hourly"]))
    (_, names) = made["templating"]["list"]
    assert (names["type"], names["query"]) == ("custom", "daily,hourly")
    assert (
        json.loads(dashboard([f"job-{n}" for n in range(MOST_NAMED + 1)]))["templating"]["list"][1]["type"] == "query"
    )
    ids = [panel["id"] for panel in made["panels"]]
    assert len(set(ids)) == len(ids) > 10
    places = [tuple(panel["gridPos"].values()) for panel in made["panels"]]
    assert all(x + width <= 24 for x, _, width, _ in places)
    cells = [(x + i, y + j) for x, y, width, height in places for i in range(width) for j in range(height)]
    assert len(set(cells)) == len(cells), "no panel lies on another"
    asked = [target["expr"] for panel in made["panels"] for target in panel["targets"]]
    recorded = [
        {"record": f"asked_{number}", "expr": expr.replace("$__rate_interval", "1m").replace("$__range", "1h")}
        for number, expr in enumerate(asked)
    ]
    file = tmp_path / "asked.yml"
    file.write_text(json.dumps({"groups": [{"name": "asked", "rules": recorded}]}))
    assert promtool("check", "rules", str(file)) == "ok"


def promtool(*arguments: str) -> str:
    done = subprocess.run([program("promtool"), *arguments], capture_output=True, text=True, timeout=60)
    return "ok" if done.returncode == 0 else done.stdout + done.stderr
