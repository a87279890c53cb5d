"""What a request for the tenants of an execution may say."""

from __future__ import annotations

from typing import Annotated

from pydantic import ConfigDict, Field

from ..model.execution import State
from .models import MOST_OFFSET, MOST_PER_PAGE, PAGE, Strict


class TenantList(Strict):
    model_config = ConfigDict(strict=False)

    status: Annotated[list[State] | None, Field(max_length=8)] = None
    limit: Annotated[int, Field(ge=1, le=MOST_PER_PAGE)] = PAGE
    offset: Annotated[int, Field(ge=0, le=MOST_OFFSET)] = 0
