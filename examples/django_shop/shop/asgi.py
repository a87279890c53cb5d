"""Django, and the dashboard under /jobs: `uvicorn shop.asgi:application`."""

import os

from django.core.asgi import get_asgi_application
from starlette.applications import Starlette
from starlette.routing import Mount

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "shop.settings")
site = get_asgi_application()

from mainspring.contrib.django import app  # noqa: E402  # Django must be set up first

application = Starlette(routes=[Mount("/jobs", app.asgi()), Mount("/", site)])
