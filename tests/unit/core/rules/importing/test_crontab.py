"""What each line of a crontab is, and why some of them need a person."""

from __future__ import annotations

import pytest

from mainspring.core.rules.importing.crontab import read_crontab

pytestmark = pytest.mark.req("MIG-1")


def test_lines_zones_and_names() -> None:
    lines = read_crontab(
        "# nightly\n\nMAILTO=ops@example.com\n0 * * * *\t/opt/shop/refresh --all\n"
        "CRON_TZ='Europe/Istanbul'\n@daily  backup.sh 50\\%\n5 0 * * * backup.sh 50\\%\n"
    )
    assert [(each.number, each.schedule, each.command, each.tz, each.reason) for each in lines] == [
        (4, "0 * * * *", "/opt/shop/refresh --all", None, None),
        (6, "@daily", "backup.sh 50%", "Europe/Istanbul", None),
        (7, "5 0 * * *", "backup.sh 50%", "Europe/Istanbul", None),
    ]
    refresh, backup, again = (each.name for each in lines)
    assert refresh.startswith("refresh-")
    assert backup.startswith("backup-sh-")
    assert again == f"{backup}-2"


def test_a_name_follows_the_command_alone() -> None:
    [one] = read_crontab("0 * * * * /opt/refresh --all")
    [_, moved] = read_crontab("1 1 * * * other\n*/5 * * * *   /opt/refresh   --all")
    assert one.name == moved.name


@pytest.mark.parametrize(
    ("text", "options", "reason"),
    [
        ("@reboot /opt/run", {}, "@reboot runs when the machine starts"),
        ("0 1 * * * mail -s hi me%body", {}, "cron passes the text after the first %"),
        ("PATH=/bin\n0 1 * * * run", {}, "it runs with PATH"),
        ("0 1 * * * root /opt/run", {"users": {"root"}}, "'root' is a user, as in /etc/crontab"),
        ("0 1 * * * www-data /opt/run", {"system": True, "user": "root"}, "it runs as the user www-data"),
        ("CRON_TZ=Mars/Olympus\n0 1 * * * run", {}, "CRON_TZ: 'Mars/Olympus' is not valid"),
        ("0 1 * * *", {}, "it has no command"),
    ],
)
def test_what_a_job_cannot_do_is_named(text: str, options: dict[str, object], reason: str) -> None:
    [line] = read_crontab(text, **options)  # type: ignore[arg-type]
    assert line.reason is not None
    assert line.reason.startswith(reason)


def test_users_and_variables_on_request() -> None:
    [line] = read_crontab("PATH=/bin\n0 1 * * *\troot\t/opt/run -v\n", system=True, user="root", environment=True)
    assert (line.command, line.environment, line.reason) == ("/opt/run -v", {"PATH": "/bin"}, None)
