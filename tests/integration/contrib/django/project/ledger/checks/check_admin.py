"""The pages in Django's admin: for whoever may view them, without a way to change anything."""

from django.contrib.auth.models import Permission, User
from django.test import TestCase

from mainspring.contrib.django import app
from mainspring.contrib.django.testing import harness

from ..jobs import in_thread
from ..models import Entry


class AdminTests(TestCase):
    def test_jobs_and_executions_are_shown_and_cannot_be_changed(self) -> None:
        self.client.force_login(User.objects.create_superuser("ada"))
        Entry.objects.create(name="<tea>")
        with harness(raise_errors=False) as kit:
            in_thread.sync.enqueue(name="<tea>")
            app.sync.enqueue("in-thread", {"name": "nobody"})
            kit.run_until_idle()
            [done], [failed] = kit.executions(state="completed"), kit.executions(state="failed")
            jobs = self.page("job/")
            assert 'href="/admin/mainspring/job/in-thread/change/"' in jobs
            assert 'href="https://jobs.example.com/dashboard/jobs"' in jobs
            assert "No jobs." in self.page("job/?q=nowhere")
            one = self.page("job/in-thread/change/")
            assert "1 completed, 1 failed" in one
            assert "https://jobs.example.com/dashboard/jobs/in-thread" in one
            assert done.id in self.page("execution/?job=in-thread&status=completed")
            assert "No executions." in self.page("execution/?status=cancelled")
            assert "errornote" in self.page("execution/?status=wrong")
            shown = self.page(f"execution/{failed.id}/change/")
            assert "Entry matching query does not exist" in shown
            assert "&lt;tea&gt;" in self.page(f"execution/{done.id}/change/")
            for path, code in [
                ("job/add/", 403),
                ("job/in-thread/delete/", 403),
                ("job/nobody/change/", 404),
                ("execution/nobody/change/", 404),
                ("execution/nobody/history/", 404),
            ]:
                assert self.client.get(f"/admin/mainspring/{path}").status_code == code, path
            assert self.client.post("/admin/mainspring/job/in-thread/change/", {"name": "x"}).status_code == 403

    def test_the_permission_to_view(self) -> None:
        user = User.objects.create_user("bob", is_staff=True)
        self.client.force_login(user)
        assert self.client.get("/admin/mainspring/job/").status_code == 403
        user.user_permissions.add(Permission.objects.get(codename="view_job"))
        with harness():
            assert self.client.get("/admin/mainspring/job/").status_code == 200
        found = Permission.objects.filter(content_type__app_label="mainspring")
        assert sorted(found.values_list("codename", flat=True)) == ["view_execution", "view_job"]

    def page(self, path: str) -> str:
        answer = self.client.get(f"/admin/mainspring/{path}")
        assert answer.status_code == 200, path
        return answer.content.decode()
