"""The settings as the doctor looks at them: `core` knows no settings, so it gets what its checks need."""

from __future__ import annotations

from ..core.doctor.facts import SettingFacts
from ..model.errors import MainspringError
from ..model.values.database_url import without_password
from .settings import SETTINGS, Settings


def setting_facts(settings: Settings, *, own_store: bool = False) -> SettingFacts:
    """With `own_store`, the application was given a store, and does not use its setting `database_url`."""
    values = {name: getattr(settings, name) for name in SettingFacts.__struct_fields__ if name in SETTINGS}
    values["database_url"] = "" if own_store else without_password(settings.database_url)
    values["redis_url"] = None if settings.redis_url is None else without_password(settings.redis_url)
    security = settings.security
    return SettingFacts(
        **values,
        authenticates=security.authenticates,
        takes_jwt=security.takes_jwt,
        sources={name: source.place for name, source in settings.sources.items()},
        refused=_refused(settings),
    )


def _refused(settings: Settings) -> str:
    """Why the HTTP interface would not start. A secret in a file that only the API may read is not looked at."""
    try:
        settings.check_http()
    except MainspringError as error:
        return str(error)
    return ""
