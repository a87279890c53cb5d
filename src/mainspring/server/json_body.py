"""Bodies of requests, read as RFC 8259 has JSON: UTF-8, and numbers that are numbers. Python's own reader also takes
UTF-16 and UTF-32, which a filter before this server cannot read, and NaN and 1e400, which no store keeps."""

from __future__ import annotations

import asyncio
from json import JSONDecodeError
from typing import Any

import msgspec
from fastapi.requests import Request

from ..model.errors import InvalidValue
from ..model.values.json_text import read_json

LARGE = 32 * 1024


class JsonRequest(Request):
    """A request whose body FastAPI reads by `json`; it answers a `JSONDecodeError` with 400."""

    async def json(self) -> Any:
        try:
            body = await self.body()
            if len(body) <= LARGE:
                return read_json("body", body)
            turns: asyncio.Lock = self.app.state.large_bodies
            async with turns:
                found = read_json("body", body)
                await asyncio.sleep(0)  # what is made of it is a step of its own, and so is the next one of many
            return found
        except msgspec.DecodeError as error:
            raise JSONDecodeError(str(error), "", 0) from None
        except InvalidValue as error:
            raise JSONDecodeError(str(error).removeprefix(f"{error.field}: "), "", 0) from None
