"""What the settings of the project say, and what is wrong with them."""

import sys
from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.db import connections
from django.test import SimpleTestCase, override_settings

from mainspring.contrib.django.apps import check_sqlite, discover
from mainspring.contrib.django.configuration import _postgres_url, _sqlite_url, load_configuration


class ConfigurationTests(SimpleTestCase):
    def test_django_is_followed_unless_mainspring_says_otherwise(self) -> None:
        with override_settings(MAINSPRING={}, TIME_ZONE="Asia/Tokyo"):
            arguments = load_configuration().arguments
        assert (arguments["timezone"], arguments["application"]) == ("Asia/Tokyo", "settings")
        assert arguments["database_url"].startswith(("sqlite:///", "postgresql://", "memory://"))
        with override_settings(MAINSPRING={"timezone": "UTC", "database_url": "mongodb://localhost/jobs"}):
            chosen = load_configuration()
        assert (chosen.arguments["timezone"], chosen.store_is_django) == ("UTC", False)

    def test_mistakes_are_named_with_their_remedy(self) -> None:
        for given, message in [
            ({"CONCURRENCY": 3}, "MAINSPRING has no setting 'CONCURRENCY'; did you mean 'concurrency'?"),
            ({"concurency": 3}, "MAINSPRING has no setting 'concurency'; did you mean 'concurrency'?"),
            ({"concurrency": 0}, r"concurrency \(from MAINSPRING\['concurrency'\]\)"),
            ({"database": "othr"}, r"MAINSPRING\['database'\] is 'othr'; allowed: a name in DATABASES \(default\)"),
            ({"dashboard_url": "jobs"}, r"MAINSPRING\['dashboard_url'\] is 'jobs'; allowed: an address"),
            (["concurrency"], r"MAINSPRING is \['concurrency'\]; allowed: a dictionary"),
        ]:
            with override_settings(MAINSPRING=given), pytest.raises(ImproperlyConfigured, match=message):
                load_configuration()

    def test_addresses_of_databases(self) -> None:
        plain = {"NAME": "shop", "USER": "", "PASSWORD": "", "HOST": "", "PORT": "", "OPTIONS": {}}
        full = {**plain, "USER": "ada", "PASSWORD": "p@ss/word", "HOST": "db", "PORT": 5433}
        options = {"sslmode": "require", "pool": True}
        for given, url in [
            (plain, "postgresql:///shop"),
            (full, "postgresql://ada:p%40ss%2Fword@db:5433/shop"),
            ({**plain, "HOST": "/run/postgresql"}, "postgresql:///shop?host=%2Frun%2Fpostgresql"),
            ({**plain, "HOST": "::1", "OPTIONS": options}, "postgresql://[::1]/shop?sslmode=require"),
            ({**plain, "NAME": "", "OPTIONS": {"service": "main"}}, "postgresql:///?service=main"),
        ]:
            assert _postgres_url(given) == url
        assert _sqlite_url("default", "/srv/a b.db") == "sqlite:////srv/a%20b.db"
        assert _sqlite_url("default", ":memory:") == "memory://"

    def test_a_sqlite_file_that_is_shared_should_have_immediate_transactions(self) -> None:
        connection = connections["default"]
        if connection.vendor != "sqlite":
            return
        assert check_sqlite() == []
        options, connection.settings_dict["OPTIONS"] = connection.settings_dict["OPTIONS"], {}
        try:
            [warning] = check_sqlite()
        finally:
            connection.settings_dict["OPTIONS"] = options
        assert (warning.id, "'transaction_mode': 'IMMEDIATE'" in warning.hint) == ("mainspring.W001", True)

    def test_a_module_that_cannot_be_imported_is_named(self) -> None:
        broken = Path(__file__).parent.parent / "broken.py"
        broken.write_text("import nowhere_to_be_found\n")
        try:
            with pytest.raises(ImproperlyConfigured, match=r"module 'ledger.broken' .* No module named 'nowhere"):
                discover("broken")
        finally:
            broken.unlink()
            sys.modules.pop("ledger.broken", None)
