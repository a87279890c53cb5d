"""Read-only pages in Django's admin for jobs and executions. They link to the dashboard, where commands are given."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlencode

from django.contrib import admin
from django.contrib.admin.utils import unquote
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.template.response import TemplateResponse

from ...core.render.masking import shown_params
from ...model.errors import InvalidValue, NotFound, StoreError
from ...model.execution import State
from . import app, models

PAGE = 50
STATES = tuple(state.value for state in State)


class ReadOnlyPages(admin.ModelAdmin):  # type: ignore[misc]  # Django ships no types
    """A list and a page for each item, for whoever has the permission to view them."""

    area: str

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Any:
        """Without a query: there is no table, and what Django does with the object is refused."""
        return self.model(pk=object_id)

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        return self._page(request, "list", lambda: self.listed(request))

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: Any = None
    ) -> HttpResponse:
        if request.method not in ("GET", "HEAD"):
            raise PermissionDenied
        return self._page(request, "one", lambda: self.shown(unquote(object_id)))

    def history_view(self, request: HttpRequest, object_id: str, extra_context: Any = None) -> HttpResponse:
        raise Http404("The dashboard shows what was changed, and by whom.")

    def _page(self, request: HttpRequest, kind: str, read: Any) -> HttpResponse:
        if not self.has_view_permission(request):
            raise PermissionDenied
        try:
            found = read()
        except NotFound as error:
            raise Http404(str(error)) from None
        except (InvalidValue, StoreError) as error:
            found = {"title": str(self.opts.verbose_name_plural).capitalize(), "problem": str(error)}
        context = {**self.admin_site.each_context(request), "opts": self.opts, **found}
        return TemplateResponse(request, f"admin/mainspring/{self.area}_{kind}.html", context)

    def listed(self, request: HttpRequest) -> dict[str, Any]:
        raise NotImplementedError

    def shown(self, id: str) -> dict[str, Any]:
        raise NotImplementedError


@admin.register(models.Job)
class JobPages(ReadOnlyPages):
    area = "jobs"

    def listed(self, request: HttpRequest) -> dict[str, Any]:
        after, text = request.GET.get("after"), request.GET.get("q") or None
        page = app.sync.jobs(limit=PAGE, after=after, search=text)
        more = None if page.next is None else "?" + urlencode({"q": text or "", "after": page.next})
        return {"title": "Jobs", "jobs": page, "more": more, "q": text or "", "dashboard": dashboard("jobs")}

    def shown(self, id: str) -> dict[str, Any]:
        job = app.sync.job_view(id)
        executions = app.sync.executions(job.name, limit=10, system=True)
        link = dashboard("jobs", job.name)
        return {"title": job.name, "job": job, "executions": executions, "dashboard": link}


@admin.register(models.Execution)
class ExecutionPages(ReadOnlyPages):
    area = "executions"

    def listed(self, request: HttpRequest) -> dict[str, Any]:
        chosen = {name: request.GET.get(name) or None for name in ("job", "status")}
        page = app.sync.executions(
            chosen["job"], status=chosen["status"], limit=PAGE, before=request.GET.get("before") or None
        )
        more = None if page.next is None else "?" + urlencode(_given(chosen) | {"before": page.next})
        links = [(state, "?" + urlencode(_given(chosen) | {"status": state})) for state in STATES]
        return {
            "title": "Executions",
            "executions": page,
            "more": more,
            "states": links,
            "dashboard": dashboard("executions"),
            **chosen,
        }

    def shown(self, id: str) -> dict[str, Any]:
        execution = app.sync.get(id)
        return {
            "title": f"{execution.job} {execution.id}",
            "execution": execution,
            "params": _pretty(shown_params(execution)),
            "result": _pretty(execution.result),
            "logs": [line for _, line in app.sync.logs(execution.id)],
            "dashboard": dashboard("executions", execution.id),
        }


def dashboard(*parts: str) -> str | None:
    """The page of the dashboard; None if the setting `dashboard_url` does not say where it is."""
    base = app.configuration.dashboard_url
    return None if base is None else "/".join([base, "dashboard", *(quote(part, safe="") for part in parts)])


def _given(chosen: Mapping[str, str | None]) -> dict[str, str]:
    return {name: value for name, value in chosen.items() if value}


def _pretty(value: Any) -> str:
    return "" if value is None else json.dumps(value, indent=2, ensure_ascii=False, default=str)


__all__ = ["ExecutionPages", "JobPages", "dashboard"]
