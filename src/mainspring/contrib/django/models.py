"""Jobs and executions as Django's admin sees them: names and permissions, without tables.

The pages read through Mainspring's own queries (`admin.py`), so they work wherever the store is.
"""

from __future__ import annotations

from django.db import models


class Job(models.Model):  # type: ignore[misc]  # Django ships no types
    """A job; there is the permission `mainspring.view_job`, and no other."""

    name = models.CharField(primary_key=True, max_length=200)

    class Meta:
        managed = False
        default_permissions = ("view",)
        verbose_name = "job"


class Execution(models.Model):  # type: ignore[misc]  # Django ships no types
    """An execution; there is the permission `mainspring.view_execution`, and no other."""

    id = models.CharField(primary_key=True, max_length=36)

    class Meta:
        managed = False
        default_permissions = ("view",)
        verbose_name = "execution"
