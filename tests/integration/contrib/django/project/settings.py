"""Settings of the project under test. Its database is in the environment: PROJECT_SQLITE or PROJECT_POSTGRES."""

import os
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit

SECRET_KEY = "not-a-secret"
DEBUG = False
ALLOWED_HOSTS = ["*"]
USE_TZ = True
ROOT_URLCONF = "ledger.urls"
STATIC_URL = "static/"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
HAS_TASKS = find_spec("django.tasks") is not None  # from Django 6.0 on

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    *([] if HAS_TASKS else ["django_tasks"]),
    "mainspring.contrib.django",
    "ledger",
]
MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]
SQLITE = {
    "ENGINE": "django.db.backends.sqlite3",
    "NAME": Path(os.environ.get("PROJECT_SQLITE", "project.sqlite3")),
    "OPTIONS": {"transaction_mode": "IMMEDIATE"},
}
_address = urlsplit(os.environ.get("PROJECT_POSTGRES", ""))
POSTGRES = {
    "ENGINE": "django.db.backends.postgresql",
    "NAME": _address.path.strip("/"),
    "USER": _address.username,
    "HOST": _address.hostname,
    "PORT": _address.port,
    "CONN_MAX_AGE": int(os.environ.get("PROJECT_MAX_AGE", "0")),
}
DATABASES = {"default": POSTGRES if _address.scheme else SQLITE}
TASKS = {
    "default": {
        "BACKEND": "mainspring.contrib.django.TasksBackend",
        "QUEUES": ["default", "mail"],
        "OPTIONS": {"max_attempts": 2, "retry": "1s"},
    }
}
MAINSPRING = {
    "dashboard_url": "https://jobs.example.com/",
    **({"database_url": os.environ["PROJECT_STORE"]} if "PROJECT_STORE" in os.environ else {}),
}
