"""Clients that come with a key, and keys that are made for them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

import httpx

from tests.harness import Client, Json, Place

_numbers = count(1)


async def made(place: Place, *scopes: str, **more: Any) -> Json:
    """A new key, as the answer tells of it; at the end of the test it must stand in no file."""
    body = {"name": f"key-{next(_numbers)}", "scopes": list(scopes), **more}
    answer = await place.client.http.post("/v1/keys", json=body)
    assert answer.status_code == 200, answer.text
    key = dict(answer.json())
    place.secrets.append(key["key"])
    return key


@asynccontextmanager
async def holder(place: Place, *scopes: str, **more: Any) -> AsyncIterator[Client]:
    """A client with a new key."""
    async with holding(place, (await made(place, *scopes, **more))["key"]) as client:
        yield client


@asynccontextmanager
async def holding(place: Place, key: str, address: str | None = None) -> AsyncIterator[Client]:
    client = Client(place.service.url, key, address=address)
    try:
        yield client
    finally:
        await client.http.aclose()


async def revoked(place: Place, key: Json) -> httpx.Response:
    return await place.client.http.delete(f"/v1/keys/{key['id']}")
