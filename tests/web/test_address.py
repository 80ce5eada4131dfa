"""How long an address may be, how large headers; and that no key ever belongs into an address."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from urllib.parse import quote

import httpx
import pytest

from tests.harness import PATIENCE, TOKEN, Client, Place
from tests.web.problems import assert_problem
from turnkeeper.core.errors import Code
from turnkeeper.web.address import MAX_HEADERS, MAX_URL

KEY = "tk_abcd2345_" + "s" * 43
LINK = "tkl_WyJhIiwxLDIsbnVsbCwidG9rZW4iLG51bGxd.c2lnbmF0dXJl"


@pytest.fixture
async def stranger(place: Place) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=place.service.url, trust_env=False) as http:
        yield http


async def told(place: Place, *pieces: bytes) -> tuple[int, str]:
    """Status and code of the answer to what is sent in these pieces; the connection must be closed after it."""
    async with asyncio.timeout(PATIENCE):
        reader, writer = await asyncio.open_connection("127.0.0.1", httpx.URL(place.service.url).port)
        try:
            for piece in pieces:
                writer.write(piece)
                await writer.drain()
                await asyncio.sleep(0)
            answer = await reader.read()
        except ConnectionError:
            answer = b""
        finally:
            writer.close()
    head, _, body = answer.partition(b"\r\n\r\n")
    assert b"application/problem+json" in head, answer
    assert b"x-content-type-options: nosniff" in head.lower()
    return int(head.split()[1]), json.loads(body)["code"]


class TestSizes:
    async def test_longest_address(self, client: Client) -> None:
        path = "/v1/jobs?q="
        fits = await client.http.get(path + "x" * (MAX_URL - len(path)))
        assert_problem(fits, 400, Code.INVALID_REQUEST)
        longer = await client.http.get(path + "x" * (MAX_URL + 1 - len(path)))
        assert_problem(longer, 414, Code.URL_TOO_LONG)

    async def test_a_path_is_an_address_too(self, client: Client) -> None:
        assert_problem(await client.http.get("/v1/" + "x" * MAX_URL), 414, Code.URL_TOO_LONG)

    async def test_largest_headers(self, client: Client) -> None:
        fits = {f"X-{n}": "x" * 1000 for n in range(30)}
        assert (await client.http.get("/v1/jobs", headers=fits)).status_code == 200
        more = {f"X-{n}": "x" * 1000 for n in range(33)}
        assert_problem(await client.http.get("/v1/jobs", headers=more), 431, Code.HEADERS_TOO_LARGE)

    async def test_one_header_of_all(self, client: Client) -> None:
        answer = await client.http.get("/v1/jobs", headers={"X-Long": "x" * MAX_HEADERS})
        assert_problem(answer, 431, Code.HEADERS_TOO_LARGE)

    async def test_nothing_of_it_is_looked_at_by_anybody(self, stranger: httpx.AsyncClient) -> None:
        """Neither does who has no token learn anything, nor is a cookie of that size compared."""
        answer = await stranger.get("/v1/jobs", headers={"Cookie": "x" * MAX_HEADERS, "Host": "evil.example"})
        assert_problem(answer, 431, Code.HEADERS_TOO_LARGE)

    async def test_head_without_an_end_is_broken_off(self, place: Place) -> None:
        """In pieces, so that it is never whole: what is kept of it is bounded."""
        begun = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n"
        pieces = [b"X-%d: %s\r\n" % (n, b"x" * 1000) for n in range(80)]
        assert await told(place, begun, *pieces) == (431, "HEADERS_TOO_LARGE")

    async def test_address_without_an_end_is_broken_off(self, place: Place) -> None:
        assert await told(place, b"GET /", *[b"x" * 1000 for _ in range(80)]) == (414, "URL_TOO_LONG")

    @pytest.mark.parametrize(
        "words",
        [
            b"hello\r\n\r\n",
            b"GET\r\n\r\n",
            b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n",
            b"GET / HTTP/1.1\r\n: x\r\n\r\n",
        ],
    )
    async def test_what_is_no_http_is_refused_in_our_form(self, place: Place, words: bytes) -> None:
        assert await told(place, words) == (400, "INVALID_REQUEST")


class TestKeys:
    @pytest.mark.parametrize(
        "address",
        [
            f"/v1/jobs?token={TOKEN}",
            f"/v1/jobs?access_token={TOKEN}",
            f"/v1/jobs?API_KEY={TOKEN}",
            f"/v1/jobs?limit=1&key={quote(TOKEN, safe='')}",
            f"/?token={TOKEN}",
            f"/v1/jobs?anything={KEY}",
            f"/v1/jobs?key={KEY}",
            f"/v1/jobs?q=%74k_abcd2345_{'s' * 43}",
            f"/v1/jobs/{KEY}",
            f"/{KEY}",
            f"/static/{KEY}",
            f"/?answer={LINK}",
            f"/v1/answer?link={LINK}",
        ],
    )
    async def test_key_in_the_address(
        self, client: Client, stranger: httpx.AsyncClient, address: str
    ) -> None:
        for http in (client.http, stranger):
            answer = await http.get(address)
            body = assert_problem(answer, 400, Code.KEY_IN_URL)
            assert "revoke" in body["detail"]
            assert TOKEN not in answer.text
            assert KEY not in answer.text

    @pytest.mark.parametrize(
        "address",
        [
            *("/v1/jobs?q=tk_short", "/v1/jobs?q=atk_2", "/v1/jobs?key=blue", "/v1/jobs?token="),
            *("/v1/jobs?q=tk_settings_dialog", "/v1/jobs?q=gtk_calendar_view.py", f"/v1/jobs?q=g{KEY}"),
            "/v1/jobs?q=tkl_settings_of_the_dialog",
        ],
    )
    async def test_other_words_are_none(
        self, client: Client, stranger: httpx.AsyncClient, address: str
    ) -> None:
        assert (await client.http.get(address)).status_code == 200
        assert (await stranger.get(address)).status_code == 401

    async def test_no_route_takes_one(self, client: Client, stranger: httpx.AsyncClient) -> None:
        described = (await client.http.get("/v1/openapi.json")).json()
        for path, operations in described["paths"].items():
            for method, operation in operations.items():
                names = {each["name"] for each in operation.get("parameters", []) if each["in"] == "query"}
                assert not names & {"token", "access_token", "api_key", "key"}, path
                address = re.sub(r"\{\w+\}", "1", path)
                answer = await stranger.request(method, address, params={"token": TOKEN}, json={})
                assert_problem(answer, 400, Code.KEY_IN_URL)
