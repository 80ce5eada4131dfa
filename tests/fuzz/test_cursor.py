"""The inputs for the cursor once more, by header and by query of a real service: a stream, or a typed refusal."""

from __future__ import annotations

import asyncio
from pathlib import Path
from urllib.parse import quote, urlsplit

import pytest

from tests.fuzz import seeds
from tests.harness import TOKEN, opened
from tests.spec.scripts import script

SENDABLE = bytes({9, *range(0x20, 0x7F), *range(0x80, 0x100)})
"""What HTTP allows in the value of a header."""


async def asked(url: str, path: str, *headers: bytes) -> tuple[int, bytes]:
    """By hand: a client of good manners would not send some of it."""
    address = urlsplit(url)
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    lines = [f"GET {path} HTTP/1.0".encode(), b"Host: " + address.netloc.encode()]
    lines += [f"Authorization: Bearer {TOKEN}".encode(), *headers, b"", b""]
    writer.write(b"\r\n".join(lines))
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    return int(answer.split(b" ", 2)[1]), answer


@pytest.mark.failure("E03")
async def test_every_cursor_by_header_and_by_query(tmp_path: Path) -> None:
    async with opened(tmp_path / "data") as place:
        run_id = await place.client.create(script=script([{"result": {"answer": "done"}}]))
        run = await place.client.ended(run_id)
        path = f"/v1/jobs/{run_id}/events"
        for name, data in seeds.of("cursor").items():
            text = data.decode("utf-8", "replace")
            ways: list[tuple[str, str, tuple[bytes, ...]]] = [
                (f"{path}?cursor={quote(text, safe='')}", text, ())
            ]
            if all(byte in SENDABLE for byte in data):
                # Blanks around the value of a header are not part of it.
                ways.append((path, data.decode("latin-1").strip(" \t"), (b"Last-Event-ID: " + data,)))
            for address, given, headers in ways:
                status, answer = await asked(place.service.url, address, *headers)
                is_good = given == "" or (given.isascii() and given.isdigit() and len(given) <= 18)
                is_good = is_good and int(given or "0") <= run["last_seq"]
                assert status == (200 if is_good else 400), f"{name}: {answer[:500]!r}"
                assert (b"event: snapshot" in answer) == is_good, name
                assert is_good or b'"last_seq":%d' % run["last_seq"] in answer, name
