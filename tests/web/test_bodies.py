"""A large body does not keep the event loop from everybody else, however it is made."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from turnkeeper.core.errors import UnknownFields
from turnkeeper.web.bodies import LARGE
from turnkeeper.web.calls import Call
from turnkeeper.web.problems import MOST_ERRORS
from turnkeeper.web.schemas import CreateJob, Reply, Strict


def request(body: bytes) -> Call:
    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    return Call({"type": "http", "headers": []}, receive)


async def turns_while_read(body: bytes) -> int:
    turns, is_read = 0, False

    def turn() -> None:
        nonlocal turns
        if not is_read:
            turns += 1
            asyncio.get_running_loop().call_soon(turn)

    asyncio.get_running_loop().call_soon(turn)
    assert await request(body).json() == json.loads(body)
    is_read = True
    return turns


async def test_a_large_body_is_read_beside_the_loop() -> None:
    assert await turns_while_read(b'{"a": 1}') == 0
    assert await turns_while_read(json.dumps({"a": "x" * LARGE}).encode()) > 0


@pytest.mark.parametrize("model", [CreateJob, Reply])
def test_many_unknown_fields_are_one_error(model: type[Strict]) -> None:
    """One for each of them would take seconds: as many as there may be are named, the others counted."""
    with pytest.raises(UnknownFields) as refused:
        model.model_validate({f"k{n}": n for n in range(100_000)})
    assert refused.value.message.startswith("unknown field(s): k0, k1, ")
    assert refused.value.message.endswith(f", and {100_000 - MOST_ERRORS} more")
