"""A module that only a worker could import."""

raise RuntimeError("no such database")
