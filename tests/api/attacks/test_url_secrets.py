"""Secrets in addresses of databases, mail servers and Redis: whatever is wrong with one, no error shows them."""

from __future__ import annotations

import pytest

from mainspring import Mainspring
from mainspring.config.load import load
from mainspring.model.errors import MainspringError
from mainspring.model.values.url_secrets import without_password, without_secrets_of

pytestmark = pytest.mark.req("SEC-3")

SECRET = "hunter2"
TOKEN = "AbCd0123456789EfGhIj0123"
ADDRESSES = [
    f"postgresql://app:{SECRET}@h/jobs",
    f"postgresql://app:{SECRET}@h:5432,h2:5432/jobs",
    f"postgresql://app%3A{SECRET}@h/jobs",
    f"postgresql://app:a@b/{SECRET}@h/jobs",
    f"postgresql://app:a?{SECRET}@h/jobs",
    f"postgresql://app:?{SECRET}@h:5432/jobs?sslmode=require",
    f"redis://:?{SECRET}@h:6379/0",
    f"mongodb://app:/{SECRET}?b@h/jobs",
    f"mongodb://app:c@2{SECRET}?@h/jobs?appName=a@b",
    f"postgresql://h:5432/jobs?password={SECRET}",
    f"postgresql://h:5432/jobs?password=p@{SECRET}",
    f"postgresql://h/jobs?PassWord={SECRET}&sslmode=require",
    f"postgresql://h/jobs?pass%77ord={SECRET}",
    f"postgresql://h/jobs?p%2561ssword={SECRET}",
    f"postgresql://h/jobs?sslpassword={SECRET}#x",
    f"postgresql://h/jobs?options=-c%20password%3D{SECRET}",
    f"host=h user=app password={SECRET}",
    f"host=h user=app password = 'a b@{SECRET} c' dbname=jobs",
    f"mongodb://app:{SECRET}@h/jobs",
    f"mongodb+srv://app:{SECRET}@h/jobs",
    f"mongodb://h/?authMechanism=MONGODB-AWS&authMechanismProperties=AWS_SESSION_TOKEN:{SECRET}",
    f"mongodb://h/?authMechanismProperties=SERVICE_NAME:x,AWS_SESSION_TOKEN%3A{SECRET}",
    f"mongodb://h/?tlsCertificateKeyFilePassword={SECRET}",
    f"mongodb://h/?apikey={SECRET}",
    f"mongodb://h/?api_key={SECRET}",
    f"mongodb://h/?access_key={SECRET}",
    f"mongodb://h/?a=1;secret={SECRET}",
    f"redis://:{SECRET}@h:6379/0",
    f"rediss://app:{SECRET}@h:6379/0?ssl_password={SECRET}",
    f"redis://h:6379/0?password={SECRET}",
    f"unix:///run/redis.sock?password={SECRET}",
    f"smtp://app:{SECRET}@h:587?from=a@b.example",
    f"smtps://h?auth_token={SECRET}&from=a@b.example",
    f"http://app:{SECRET}@proxy.internal:3128",
    f"https://h/x?sig={SECRET}",
]
SHOWN = [
    "postgresql://ada@localhost:5432/jobs",
    "postgresql://h/jobs?sslmode=require&passfile=/etc/pgpass",
    "sqlite:////var/lib/jobs.db",
    "memory://",
    "redis://localhost:6379/0?prefix=shop",
    "smtp://localhost:2525?from=jobs@example.com",
    "mongodb://h1:27017,h2:27017/jobs?replicaSet=rs0&authMechanism=MONGODB-AWS",
]


@pytest.mark.parametrize("url", ADDRESSES)
def test_no_address_shows_its_secret(url: str) -> None:
    shown = without_password(url)
    assert SECRET not in shown
    assert "***" in shown
    assert without_password(shown) == shown


@pytest.mark.parametrize("url", [f"redis://{TOKEN}@h/0", f"mongodb://{TOKEN}:@h/x", "https://ghp_short@h/x"])
def test_a_token_given_as_user_name_is_masked(url: str) -> None:
    shown = without_password(url)
    assert (TOKEN in shown, "ghp_" in shown) == (False, False)


@pytest.mark.parametrize("url", SHOWN)
def test_what_is_no_secret_is_shown(url: str) -> None:
    assert without_password(url) == url


@pytest.mark.parametrize("url", ADDRESSES)
def test_settings_that_are_refused_do_not_show_it(url: str) -> None:
    for setting in ("database_url", "redis_url", "smtp_url", "egress_proxy"):
        scheme = url.partition("://")[0] if "://" in url else "none"
        broken = url.replace(f"{scheme}://", f"{scheme}x://", 1)
        with pytest.raises(MainspringError) as refused:
            load({setting: broken}, environ={})
        assert SECRET not in f"{refused.value} {refused.value!r}"


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://app:{SECRET}%zz@h/jobs",
        f"postgresql://h/jobs?password={SECRET}&nonsense=1",
        f"mongodb://app:{SECRET}@@h/jobs",
        f"mongodb://app:{SECRET}%zz@h:99999/jobs",
        f"mongodb://h/?authMechanism=MONGODB-AWS&authMechanismProperties=AWS_SESSION_TOKEN={SECRET}",
    ],
)
async def test_drivers_that_quote_what_they_cannot_read_do_not_show_it(url: str) -> None:
    with pytest.raises(MainspringError) as refused:
        await Mainspring(url).open()
    assert SECRET not in f"{refused.value} {refused.value!r} {refused.value.__cause__}"


def test_errors_of_drivers_are_searched_for_decoded_secrets_too() -> None:
    assert without_secrets_of("redis://:a%20b@h", "cannot read 'a b' of :a%20b@h") == "cannot read '***' of :***@h"
