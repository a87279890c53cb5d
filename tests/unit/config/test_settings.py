"""Settings: where they come from, how they are checked, what their errors say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mainspring import Mainspring
from mainspring.config.load import load
from mainspring.config.settings import SETTINGS, Settings, SettingsOptions
from mainspring.model.errors import ConfigurationError, InvalidValue, MainspringError
from mainspring.model.values.database_url import parse_url, without_password


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_defaults() -> None:
    settings = load({}, {}, None)
    assert settings == Settings()
    assert (settings.lease, settings.heartbeat, settings.concurrency) == (30.0, 10.0, 10)
    assert settings.roles == ("scheduler", "worker")


def test_every_setting_has_a_rule_that_accepts_its_default() -> None:
    for name, setting in SETTINGS.items():
        default = getattr(Settings(), name)
        if default is not None:
            assert setting.rule(name, default) == default


def test_the_types_of_arguments_name_every_setting() -> None:
    assert list(SettingsOptions.__annotations__) == list(SETTINGS)


def test_a_setting_is_found_by_its_name_and_in_its_section() -> None:
    settings = load({"lease": "1m"}, {}, "/dev/null")
    assert settings.lease == settings.engine.lease == 60.0
    assert settings.with_changes({"lease": 5.0, "port": 1}).engine.lease == 5.0
    with pytest.raises(AttributeError, match="there is no setting 'leese'"):
        _ = settings.leese


@pytest.mark.req("OPS-2", "SEC-4")
def test_secrets_may_come_from_files(tmp_path: Path) -> None:
    (tmp_path / "url").write_text("postgresql://app:hunter2@localhost/jobs\n")
    variable = "MAINSPRING_DATABASE_URL_FILE"
    settings = load({}, {variable: str(tmp_path / "url")}, None)
    assert settings.database_url == "postgresql://app:hunter2@localhost/jobs"
    assert "hunter2" not in repr(settings)
    with pytest.raises(
        ConfigurationError, match=r"MAINSPRING_DATABASE_URL_FILE: the file .*none' cannot be read: No such"
    ):
        load({}, {variable: str(tmp_path / "none")}, None)
    with pytest.raises(
        ConfigurationError, match=r"MAINSPRING_DATABASE_URL and MAINSPRING_DATABASE_URL_FILE are both set"
    ):
        load({}, {variable: "x", "MAINSPRING_DATABASE_URL": "memory://"}, None)
    with pytest.raises(ConfigurationError, match="MAINSPRING_LEASE_FILE is not a setting"):
        load({}, {"MAINSPRING_LEASE_FILE": str(tmp_path / "url")}, None)
    assert load({}, {"MAINSPRING_JWT_KEY_FILE": "key.pem", "MAINSPRING_JWT_ALGORITHMS": "RS256"}, None).jwt_key_file


@pytest.mark.req("OPS-2", "SEC-4")
def test_only_the_process_that_serves_http_needs_its_secrets(tmp_path: Path) -> None:
    """The secret is mounted where HTTP is served. The rest of the configuration is the same everywhere."""
    (tmp_path / "mainspring.toml").write_text('jwt_audience = "shop"\njwt_issuer = "https://id.example.com"\n')
    elsewhere = load({}, {}, tmp_path / "mainspring.toml")
    app = Mainspring("memory://", config_file=str(tmp_path / "mainspring.toml"))
    for check in (elsewhere.check_http, app.asgi):
        with pytest.raises(
            ConfigurationError, match=r"jwt_audience \(from .*mainspring.toml\) needs a key: set jwt_secret"
        ):
            check()
    secret = tmp_path / "secret"
    named = load({}, {"MAINSPRING_JWT_SECRET_FILE": str(secret)}, tmp_path / "mainspring.toml")
    with pytest.raises(
        ConfigurationError, match=r"MAINSPRING_JWT_SECRET_FILE: the file .*secret' cannot be read: No such"
    ):
        named.check_http()
    assert named.security.authenticates, "nobody gets in without a login because the secret is not there"
    secret.write_text("\n")
    with pytest.raises(ConfigurationError, match="secret' is empty"):
        named.check_http()
    secret.write_text("too-short\n")
    with pytest.raises(
        ConfigurationError, match=r"jwt_secret \(from MAINSPRING_JWT_SECRET_FILE\) is too short"
    ) as raised:
        named.check_http()
    assert "too-short" not in f"{raised.value} {named} {named.jwt_secret!r}"
    secret.write_text("0123456789abcdef" * 4 + "\n")
    named.check_http()
    assert named.jwt_secret.reveal() == "0123456789abcdef" * 4


@pytest.mark.req("OPS-2")
def test_arguments_win_over_environment_over_file_over_defaults(empty_folder: Path) -> None:
    (empty_folder / "mainspring.toml").write_text("concurrency = 2\npoll_interval = '2s'\nusername = 'file'\n")
    environ = {"MAINSPRING_CONCURRENCY": "3", "MAINSPRING_POLL_INTERVAL": "3s"}
    settings = load({"concurrency": 4, "queues": None}, environ, None)
    assert settings.concurrency == 4
    assert settings.poll_interval == 3.0
    assert settings.username == "file"
    assert settings.rescue_interval == 5.0


@pytest.mark.req("OPS-2")
def test_the_table_in_pyproject_counts_when_there_is_no_file_of_its_own(empty_folder: Path) -> None:
    (empty_folder / "pyproject.toml").write_text("[tool.other]\nx = 1\n[tool.mainspring]\nconcurrency = 7\n")
    assert load({}, {}, None).concurrency == 7
    (empty_folder / "mainspring.toml").write_text("concurrency = 8\n")
    assert load({}, {}, None).concurrency == 8


def test_a_named_file_counts_alone_and_must_exist(empty_folder: Path) -> None:
    (empty_folder / "mainspring.toml").write_text("concurrency = 8\n")
    (empty_folder / "other.toml").write_text("username = 'other'\n")
    for settings in (load({}, {"MAINSPRING_CONFIG": "other.toml"}, None), load({}, {}, Path("other.toml"))):
        assert (settings.username, settings.concurrency) == ("other", 10)
    with pytest.raises(ConfigurationError, match=r"'none.toml' \(from MAINSPRING_CONFIG\): No such file"):
        load({}, {"MAINSPRING_CONFIG": "none.toml"}, None)


def test_a_file_that_is_not_toml_is_named(empty_folder: Path) -> None:
    (empty_folder / "mainspring.toml").write_text("concurrency = \n")
    with pytest.raises(ConfigurationError, match=r"'mainspring.toml' is not valid TOML: .*line 1"):
        load({}, {}, None)


@pytest.mark.req("OPS-8")
@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("poll_interval", "250ms", 0.25),
        ("lease", "1m", 60.0),
        ("rescue_interval", "2", 2.0),
        ("fold_interval", "500ms", 0.5),
        ("retention_interval", "1h", 3600.0),
        ("stop_timeout", "1m30s", 90.0),
        ("concurrency", "50", 50),
        ("wakeups", "off", False),
        ("enabled", "No", False),
        ("prune", "1", True),
        ("roles", "worker, scheduler", ("worker", "scheduler")),
        ("queues", "mail,reports,mail", ("mail", "reports")),
        ("queues", "*", None),
        ("exclude", "crawl,", ("crawl",)),
        ("timezone", "Europe/Istanbul", "Europe/Istanbul"),
        ("log_level", "debug", "DEBUG"),
        ("log_format", "JSON", "json"),
        ("payload_limit", "1048576", 1_048_576),
        ("database_url", "memory://", "memory://"),
        ("channel", "nightly", "nightly"),
    ],
)
def test_the_environment_sets_every_kind_of_value(name: str, text: str, value: Any) -> None:
    assert getattr(load({}, {f"MAINSPRING_{name.upper()}": text}, None), name) == value


@pytest.mark.req("OPS-2")
@pytest.mark.parametrize(
    ("arguments", "environ", "file", "words"),
    [
        ({"concurency": 1}, {}, "", ["'concurency'", "argument concurency", "did you mean 'concurrency'?"]),
        ({}, {"MAINSPRING_CONCURENCY": "1"}, "", ["MAINSPRING_CONCURENCY", "did you mean MAINSPRING_CONCURRENCY?"]),
        ({}, {"MAINSPRING_ZEBRA": "80"}, "", ["MAINSPRING_ZEBRA is not a setting", "mainspring config show"]),
        ({}, {}, "leese = 1", ["'leese'", "from mainspring.toml", "did you mean 'lease'?"]),
    ],
)
def test_unknown_keys_are_errors_with_a_suggestion(
    empty_folder: Path, arguments: dict[str, Any], environ: dict[str, str], file: str, words: list[str]
) -> None:
    if file:
        (empty_folder / "mainspring.toml").write_text(file)
    with pytest.raises(ConfigurationError) as caught:
        load(arguments, environ, None)
    assert [word for word in words if word not in str(caught.value)] == []


def test_variables_that_are_no_settings_are_left_alone() -> None:
    kubernetes = {
        "MAINSPRING_SERVICE_HOST": "10.0.0.1",
        "MAINSPRING_SERVICE_PORT_HTTP": "80",
        "MAINSPRING_PORT": "tcp://10.0.0.1:80",
        "MAINSPRING_PORT_80_TCP_ADDR": "10.0.0.1",
        "MAINSPRING_API_SERVICE_HOST": "10.0.0.2",  # of a Service called mainspring-api
        "MAINSPRING_API_SERVICE_PORT_HTTP": "8700",
        "MAINSPRING_API_PORT": "tcp://10.0.0.2:8700",
        "MAINSPRING_API_PORT_8700_TCP_PORT": "8700",
        "MAINSPRING_METRICS_PORT": "tcp://10.0.0.3:9464",
    }
    others = {"MAINSPRING_APP": "shop:app", "MAINSPRING_TEST_URL": "x", "MAINSPRINGS": "x", "MAINSPRING_QUEUES": ""}
    assert load({}, kubernetes | others, None).in_force() == Settings().in_force()


def test_an_address_where_a_port_belongs_is_an_error() -> None:
    with pytest.raises(InvalidValue, match="MAINSPRING_METRICS_PORT"):
        load({}, {"MAINSPRING_METRICS_PORT": "http://127.0.0.1:9464"}, None)


@pytest.mark.req("OPS-2", "OPS-8")
@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("concurrency", "0", "a whole number from 1 to 1000"),
        ("concurrency", "many", "a whole number from 1 to 1000"),
        ("concurrency", "1001", "a whole number from 1 to 1000"),
        ("lease", "soon", "seconds, a timedelta, or text"),
        ("lease", "0", "a duration from 100ms to 1d"),
        ("poll_interval", "2d", "a duration from 10ms to 1d"),
        ("wakeups", "maybe", "true or false"),
        ("roles", "wroker", "'scheduler', 'worker' or 'api'"),
        ("queues", "a b", "1 to 100 characters"),
        ("queues", ",", "at least one queue"),
        ("timezone", "Europe/Istambul", "Did you mean 'Europe/Istanbul'?"),
        ("log_level", "loud", "'DEBUG', 'INFO'"),
        ("log_format", "xml", "'console' or 'json'"),
        ("payload_limit", "1", "a whole number from 1024"),
        ("database_url", "jobs.db", "sqlite:///"),
    ],
)
def test_a_bad_value_is_named_with_its_source_and_what_is_allowed(name: str, value: str, allowed: str) -> None:
    variable = f"MAINSPRING_{name.upper()}"
    with pytest.raises(MainspringError) as caught:
        load({}, {variable: value}, None)
    line = str(caught.value)
    assert name in line
    assert variable in line
    assert allowed in line
    assert "\n" not in line


def test_settings_that_do_not_fit_together_name_both() -> None:
    with pytest.raises(
        InvalidValue, match=r"heartbeat \(from MAINSPRING_HEARTBEAT\): '20s'.*lease \(30s, the default\)"
    ):
        load({}, {"MAINSPRING_HEARTBEAT": "20s"}, None)
    with pytest.raises(InvalidValue, match=r"stop_reserve \(from argument stop_reserve\): '9s'.*\(9s, from MAINSPRING"):
        load({"stop_reserve": 9}, {"MAINSPRING_STOP_TIMEOUT": "9"}, None)


def test_a_default_follows_the_setting_beside_it() -> None:
    assert load({"lease": "3s"}, {}, None).heartbeat == 1.0
    assert load({"stop_timeout": "4s"}, {}, None).stop_reserve == 2.0
    assert load({"stop_timeout": "2m"}, {}, None).stop_reserve == 5.0


@pytest.mark.req("REG-7")
def test_placeholders_come_from_the_free_table_then_from_the_environment(empty_folder: Path) -> None:
    (empty_folder / "mainspring.toml").write_text("[values]\nhours = 3\n[values.reports]\ncron = '0 3 * * *'\n")
    settings = load({}, {"REPORTS_CRON": "@daily", "BILLING_MONTHLY_RUN": "@monthly"}, None)
    assert settings.lookup("reports.cron") == "0 3 * * *"
    assert settings.lookup("hours") == "3"
    assert settings.lookup("billing.monthly-run") == "@monthly"
    with pytest.raises(ConfigurationError, match=r"\$\{reports\.corn\} has no value; did you mean 'reports\.cron'\?"):
        settings.lookup("reports.corn")
    with pytest.raises(ConfigurationError, match=r"set it under \[values\] in mainspring.toml, or as WAREHOUSE_URL"):
        settings.lookup("warehouse.url")
    with pytest.raises(ConfigurationError, match="has no value"):
        settings.lookup("reports")


@pytest.mark.parametrize(
    ("url", "scheme", "path"),
    [
        ("sqlite:///jobs.db", "sqlite", "jobs.db"),
        ("sqlite:////var/lib/my%20jobs.db", "sqlite", "/var/lib/my jobs.db"),
        ("memory://", "memory", ""),
        ("postgresql://app:x@localhost:5432/jobs?sslmode=require", "postgresql", ""),
        ("postgres://localhost/jobs", "postgresql", ""),
        ("mongodb://a:1,b:2/jobs?replicaSet=r", "mongodb", ""),
        ("mongodb+srv://host/jobs", "mongodb", ""),
    ],
)
def test_good_addresses(url: str, scheme: str, path: str) -> None:
    parsed = parse_url(url)
    assert (parsed.scheme, parsed.path, parsed.url) == (scheme, path, url)


@pytest.mark.req("SEC-4")
@pytest.mark.parametrize(
    "url",
    [
        "mysql://app:hunter2@localhost/jobs",
        "postgresql+asyncpg://app:hunter2@localhost/jobs",
        "app:hunter2@localhost/jobs",
        "postgresql://app:hunter2@localhost:99999/jobs",
        "postgresql://app:hunter2/@localhost:x/jobs?password=hunter2",
        "sqlite://app:hunter2@jobs.db",
        "sqlite:///",
        "sqlite:///:memory:",
        "sqlite:///folder/",
        "sqlite:///jobs.db?password=hunter2",
        "memory://x",
        "",
        None,
    ],
)
def test_bad_addresses_are_refused_without_showing_a_password(url: Any) -> None:
    with pytest.raises(InvalidValue) as caught:
        parse_url(url)
    assert "hunter2" not in str(caught.value)
    assert "allowed: " in str(caught.value)


@pytest.mark.req("SEC-4")
def test_what_is_shown_of_settings_holds_no_secret() -> None:
    url = "postgresql://app:hunter2@localhost/jobs"
    settings = load({"database_url": url}, {"AWS_SECRET": "hunter2"}, None)
    assert settings.database_url == url
    assert "hunter2" not in repr(settings)
    assert "hunter2" not in str(settings.in_force())
    assert "hunter2" not in repr(parse_url(url))
    assert without_password("mongodb://a:p@ss://word@h/x") == "mongodb://a:***@h/x"


def test_an_address_without_a_password_is_shown_as_it_is() -> None:
    assert without_password("postgresql://ada@localhost:5432/jobs") == "postgresql://ada@localhost:5432/jobs"
