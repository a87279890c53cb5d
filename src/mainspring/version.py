"""The version of this release: the only place that names it."""

VERSION = "0.9.0"
