"""The settings of security: each value checked, no secret ever shown."""

from __future__ import annotations

import copy
import json
import logging
import pickle
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mainspring import Mainspring
from mainspring.config.load import load
from mainspring.config.settings import Settings
from mainspring.model.errors import ConfigurationError, InvalidValue
from mainspring.model.values.access import HIDDEN, Secret
from tests.api.access_support import SECRET, settings

pytestmark = pytest.mark.req("SEC-2")


def from_environment(**variables: str) -> Settings:
    return load({}, {f"MAINSPRING_{name.upper()}": value for name, value in variables.items()}, "/dev/null")


def test_out_of_the_box_nobody_can_log_in_and_only_this_machine_is_served() -> None:
    plain = settings()
    assert not plain.authenticates
    assert (plain.sys_allow, plain.api_allow, plain.trusted_proxies) == ((), (), ())


def test_from_the_environment() -> None:
    given = from_environment(
        sys_allow="10.0.0.0/8, 192.0.2.7",
        trusted_proxies="unix,10.0.0.1",
        proxy_header="Forwarded",
        api_tokens="true",
        api_hosts="Jobs.Example.com, build",
        jwt_secret=SECRET,
        jwt_algorithms="HS256,HS512",
        jwt_leeway="5s",
        failed_logins_per_minute="3",
    )
    assert given.sys_allow == ("10.0.0.0/8", "192.0.2.7/32")
    assert given.trusted_proxies == ("10.0.0.1/32", "unix")
    assert (given.proxy_header, given.api_tokens) == ("forwarded", True)
    assert given.api_hosts == ("jobs.example.com", "build")
    assert (given.jwt_algorithms, given.jwt_leeway) == (("HS256", "HS512"), 5.0)
    assert given.jwt_secret is not None
    assert given.jwt_secret.reveal() == SECRET
    assert given.failed_logins_per_minute == 3


def test_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "mainspring.toml"
    path.write_text('sys_allow = ["10.0.0.0/8"]\napi_tokens = true\njwt_leeway = 0\n')
    given = load({}, {}, path)
    assert (given.sys_allow, given.api_tokens, given.jwt_leeway) == (("10.0.0.0/8",), True, 0.0)


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("sys_allow", "10.0.0.1/8", "Did you mean 10.0.0.0/8?"),
        ("sys_allow", "unix", "an address or network"),
        ("sys_allow", 7, "a list"),
        ("api_allow", ["10.0.0.0/8", 7], "an address or network"),
        ("trusted_proxies", "proxy.internal", "an address or network"),
        ("proxy_header", "x-real-ip", "'x-forwarded-for' or 'forwarded'"),
        ("api_hosts", "https://jobs.example.com", "without scheme and port"),
        ("api_hosts", "jobs.example.com:80", "without scheme and port"),
        ("api_tokens", "maybe", "true or false"),
        ("allow_loopback", 1, "true or false"),
        ("jwt_algorithms", "none", "'HS256'"),
        ("jwt_algorithms", "hs256", "'HS256'"),
        ("jwt_leeway", "2m", "from 0s to 1m"),
        ("jwt_key_file", "", "the path of a file"),
        ("jwt_audience", "", "printable text"),
        ("jwt_role_claim", "a\nb", "printable text"),
        ("failed_logins_per_minute", 0, "from 1 to 100000"),
    ],
)
def test_a_bad_value_is_named_with_what_is_allowed(name: str, value: Any, words: str) -> None:
    with pytest.raises(InvalidValue) as raised:
        settings(**{name: value})
    assert name in str(raised.value)
    assert words in str(raised.value)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"jwt_secret": SECRET, "jwt_key_file": "key.pem"}, "only one can hold the key"),
        ({"jwt_secret": "short"}, "too short for HS256: 32 bytes"),
        ({"jwt_secret": "x" * 40, "jwt_algorithms": "HS512"}, "64 bytes"),
        ({"jwt_secret": SECRET, "jwt_algorithms": "RS256"}, "an algorithm for jwt_secret"),
        ({"jwt_key_file": "key.pem", "jwt_algorithms": "RS256, HS256"}, "an algorithm for jwt_key_file"),
        ({"jwt_jwks_file": "jwks.json"}, "needs jwt_algorithms"),
        ({"jwt_audience": "mainspring"}, "needs a key"),
        ({"jwt_issuer": "https://id.example.com"}, "needs a key"),
        ({"jwt_algorithms": "RS256"}, "needs a key"),
    ],
)
def test_settings_that_do_not_go_together(given: dict[str, str], words: str) -> None:
    with pytest.raises((ConfigurationError, InvalidValue), match=words):
        settings(**given)


# --- secrets ------------------------------------------------------------------------------------------------------


@pytest.mark.req("SEC-4")
@pytest.mark.parametrize("bad", ["short-secret-of-mine", "   ", 7, ["list-of-secrets"]])
def test_an_error_about_a_secret_does_not_repeat_it(bad: Any) -> None:
    with pytest.raises(ConfigurationError, match="jwt_secret") as raised:
        settings(jwt_secret=bad)
    assert "secret-of-mine" not in str(raised.value)
    assert "list-of" not in str(raised.value)
    assert raised.value.__cause__ is None
    assert "secret-of-mine" not in repr(raised.value.__context__)


@pytest.mark.req("SEC-4")
def test_a_secret_is_in_no_dump(caplog: pytest.LogCaptureFixture) -> None:
    given = load({"jwt_secret": SECRET}, {}, "/dev/null")
    with caplog.at_level(logging.INFO):
        logging.getLogger("x").info("settings %s %r %s", given, given.jwt_secret, given.in_force())
    app = Mainspring("memory://", jwt_secret=SECRET)
    shown = [
        caplog.text,
        repr(given),
        str(given),
        json.dumps(given.in_force(), default=repr),
        repr(app.settings),
    ]
    for text in shown:
        assert SECRET not in text
        assert HIDDEN in text
    with pytest.raises(TypeError):
        msgspec.json.encode(given)
    with pytest.raises(TypeError):
        pickle.dumps(given.jwt_secret)


@pytest.mark.req("SEC-4")
def test_a_secret_of_another_setting_does_not_slip_out() -> None:
    """One setting is wrong, the secret is right: the error is about the former alone."""
    with pytest.raises(InvalidValue) as raised:
        settings(jwt_secret=SECRET, jwt_leeway="1h")
    assert SECRET not in repr(raised.value)


def test_secrets_are_compared_without_being_shown() -> None:
    assert Secret("a") == Secret("a") != Secret("b")
    assert Secret("a") != "a"
    assert len({Secret("a"), Secret("a")}) == 1
    assert copy.copy(settings(jwt_secret=SECRET)).jwt_secret == Secret(SECRET)
