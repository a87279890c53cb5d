"""The application that `benchmarks.dashboard` starts as processes of its own."""

from benchmarks.dashboard_jobs import new_app

app = new_app()
