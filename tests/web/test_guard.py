"""Who may come in: the token, the names that the service answers for, other people's pages, the size of a body."""

from __future__ import annotations

import asyncio
import json
import re
import stat
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from pathlib import Path

import httpx
import pytest

from tests.harness import PATIENCE, TOKEN, Client, Place, opened, settings_for
from tests.web.problems import assert_problem
from turnkeeper.core.errors import Code, SettingsInvalid
from turnkeeper.web.app import make_app
from turnkeeper.web.guard import MAX_BODY, OPEN_PATHS
from turnkeeper.web.rates import Rates
from turnkeeper.wiring import own_token, running

OPEN = {"/", "/healthz", "/readyz", "/v1/session"}
JSON = {"Content-Type": "application/json"}


@pytest.fixture
async def stranger(place: Place) -> AsyncIterator[httpx.AsyncClient]:
    """A client that knows the address and nothing else."""
    async with httpx.AsyncClient(base_url=place.service.url, trust_env=False) as http:
        yield http


@pytest.mark.parametrize(
    "authorization",
    [
        None,
        "",
        "Bearer",
        "Bearer another-token-of-this-length",
        f"Bearer {TOKEN}x",
        f"Bearer {TOKEN[:-1]}",
        f"Bearer {TOKEN.upper()}",
        f"Bearer x {TOKEN}",
        f"Basic {TOKEN}",
        TOKEN,
        b"Bearer \xff\xfe",
    ],
)
async def test_without_the_token_nothing_is_said(
    stranger: httpx.AsyncClient, authorization: str | bytes | None
) -> None:
    headers = {} if authorization is None else {"Authorization": authorization}
    answer = await stranger.get("/v1/jobs", headers=headers)  # type: ignore[arg-type]  # bytes are fine at run time
    assert_problem(answer, 401, Code.UNAUTHORIZED)
    assert answer.headers["www-authenticate"] == "Bearer"


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
async def test_the_scheme_may_be_written_in_any_case(stranger: httpx.AsyncClient, scheme: str) -> None:
    answer = await stranger.get("/v1/jobs", headers={"Authorization": f"{scheme} {TOKEN}"})
    assert answer.status_code == 200


async def test_every_documented_call_but_two_needs_the_token(
    client: Client, stranger: httpx.AsyncClient
) -> None:
    described = (await client.http.get("/v1/openapi.json")).json()
    asked = 0
    for path, operations in described["paths"].items():
        for method in operations:
            address = (
                path.replace("{attempt}", "1").replace("{try_number}", "1").replace("{", "").replace("}", "")
            )
            answer = await stranger.request(method, address, json={})
            asked += 1
            if path in OPEN:
                assert answer.status_code in (200, 400), path
            else:
                assert_problem(answer, 401, Code.UNAUTHORIZED)
    assert asked >= 20


async def test_no_route_is_open_that_nobody_knows_of(client: Client, place: Place) -> None:
    described = (await client.http.get("/v1/openapi.json")).json()
    routes = {
        str(getattr(route, "path_format", "")) for route in _routes(make_app(place.house, place.service.door))
    }
    assert routes - set(described["paths"]) == {"/", "/static/{path}", "/v1/openapi.json"}
    assert OPEN == OPEN_PATHS


def _routes(app: object) -> list[object]:
    """Every route, also those in routers that were included as they are."""
    found: list[object] = []
    for route in getattr(app, "routes", []):
        below = _routes(route) or _routes(getattr(route, "original_router", None))
        found += below or [route]
    return found


@pytest.mark.parametrize("path", ["/", "/healthz", "/readyz"])
async def test_page_and_probes_need_no_token(stranger: httpx.AsyncClient, path: str) -> None:
    assert (await stranger.get(path)).status_code == 200


@pytest.mark.parametrize("path", ["//", "//healthz", "/healthz/", "/healthz%0A", "/nowhere", "/metrics"])
async def test_almost_an_open_path_is_not_open(place: Place, stranger: httpx.AsyncClient, path: str) -> None:
    answer = await stranger.get(f"{place.service.url}{path}")
    assert_problem(answer, 401, Code.UNAUTHORIZED)


async def test_the_page_may_load_nothing_from_elsewhere(stranger: httpx.AsyncClient) -> None:
    answer = await stranger.get("/")
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert answer.headers["x-content-type-options"] == "nosniff"


async def test_own_token_is_made_once_and_for_the_owner_only(tmp_path: Path) -> None:
    settings = settings_for(tmp_path / "data", token=None)
    async with running(settings) as service:
        first = service.token
        path = tmp_path / "data" / "token"
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert path.read_text().strip() == first
        client = Client(service.url, first)
        assert (await client.http.get("/v1/jobs")).status_code == 200
        await client.http.aclose()
    async with running(settings) as service:
        assert service.token == first
    async with running(settings_for(tmp_path / "other", token=None)) as service:
        assert service.token != first
    assert len(first) >= 32


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o644])
def test_token_that_others_can_read_is_refused(tmp_path: Path, mode: int) -> None:
    own_token(tmp_path)
    (tmp_path / "token").chmod(mode)
    with pytest.raises(SettingsInvalid, match=r"can be read by others; run: chmod 600 "):
        own_token(tmp_path)


def test_empty_token_file_opens_nothing(tmp_path: Path) -> None:
    (tmp_path / "token").touch(0o600)
    with pytest.raises(SettingsInvalid, match="no usable token"):
        own_token(tmp_path)


@pytest.mark.parametrize(
    "token", ["short", "with a blank in the middle", "ümläute-sind-schön-hier", "line\nbreak-of-sixteen"]
)
def test_token_that_no_header_can_carry_is_refused_and_not_shown(tmp_path: Path, token: str) -> None:
    with pytest.raises(SettingsInvalid) as refused:
        settings_for(tmp_path, token=token)
    assert "TURNKEEPER_TOKEN" in refused.value.message
    assert token not in refused.value.message


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:9813",
        "127.0.0.1.evil.example",
        "localhost.evil.example",
        "evil.example#localhost",
        "127.0.0.2",
        "0.0.0.0",
        "2130706433",
        "[::1",
        "[::ffff:7f00:1]",
        ":9813",
        "/localhost",
    ],
)
@pytest.mark.parametrize("path", ["/", "/healthz", "/v1/jobs"])
async def test_name_of_another_host_is_refused(client: Client, host: str, path: str) -> None:
    """A page that resolves its own name to this machine (DNS rebinding) gets nothing, not even health."""
    answer = await client.http.get(path, headers={"Host": host})
    assert_problem(answer, 403, Code.HOST_NOT_ALLOWED)


@pytest.mark.parametrize("host", ["localhost", "LocalHost:1", "127.0.0.1:80", "[::1]:9813", "[::1]"])
async def test_loopback_answers_for_all_its_names(client: Client, host: str) -> None:
    assert (await client.http.get("/v1/jobs", headers={"Host": host})).status_code == 200


async def test_further_names_can_be_allowed(tmp_path: Path) -> None:
    async with opened(tmp_path / "data", allowed_hosts="box.lan, Turnkeeper.Example") as place:
        for host in ("box.lan", "BOX.lan:9813", "turnkeeper.example"):
            assert (await place.client.http.get("/v1/jobs", headers={"Host": host})).status_code == 200
        answer = await place.client.http.get("/v1/jobs", headers={"Host": "other.lan"})
        assert_problem(answer, 403, Code.HOST_NOT_ALLOWED)


async def test_request_without_a_host_is_refused(place: Place) -> None:
    status, _ = await _spoken(place, b"GET /healthz HTTP/1.0\r\n\r\n")
    assert status == 403


@pytest.mark.parametrize(
    "origin",
    [
        "http://evil.example",
        "https://evil.example",
        "null",
        "",
        "http://127.0.0.1",
        "http://127.0.0.1:1",
        "http://localhost:9813",
        "file://",
        "http://[",
        "garbage",
    ],
)
@pytest.mark.parametrize("path", ["/healthz", "/v1/jobs"])
async def test_page_of_another_site_is_refused(client: Client, origin: str, path: str) -> None:
    answer = await client.http.get(path, headers={"Origin": origin})
    assert_problem(answer, 403, Code.ORIGIN_NOT_ALLOWED)


async def test_own_page_is_welcome(place: Place, client: Client) -> None:
    answer = await client.http.get("/v1/jobs", headers={"Origin": place.service.url})
    assert answer.status_code == 200
    assert "access-control-allow-origin" not in answer.headers


async def test_no_preflight_is_ever_granted(client: Client) -> None:
    headers = {"Origin": "http://evil.example", "Access-Control-Request-Method": "POST"}
    answer = await client.http.options("/v1/jobs", headers=headers)
    assert_problem(answer, 403, Code.ORIGIN_NOT_ALLOWED)
    assert not [name for name in answer.headers if name.startswith("access-control")]


def _padded(size: int) -> bytes:
    body = json.dumps({"skill_id": "nobody-has-this", "engine": "demo"}).encode()
    return body + b" " * (size - len(body))


async def test_largest_body_is_read(client: Client) -> None:
    answer = await client.http.post("/v1/jobs", content=_padded(MAX_BODY), headers=JSON)
    assert_problem(answer, 404, Code.SKILL_NOT_FOUND)


async def test_declared_length_is_refused_before_the_body_is_read(place: Place) -> None:
    head = (
        f"POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {MAX_BODY + 1}\r\n\r\n"
    )
    status, body = await _spoken(place, head.encode())
    assert (status, json.loads(body)["code"]) == (413, "BODY_TOO_LARGE")


@pytest.mark.parametrize("path", ["/v1/jobs", "/v1/jobs/some-run/interaction/reply"])
async def test_body_of_unknown_length_is_counted(client: Client, path: str) -> None:
    taken = 0

    async def pieces() -> AsyncIterator[bytes]:
        nonlocal taken
        for _ in range(0, MAX_BODY * 4, 1 << 16):
            taken += 1 << 16
            yield b" " * (1 << 16)

    answer = await client.http.post(path, content=pieces(), headers=JSON)
    assert_problem(answer, 413, Code.BODY_TOO_LARGE)


async def test_every_answer_is_dated_and_says_nothing_of_the_server(
    client: Client, stranger: httpx.AsyncClient
) -> None:
    answers = [
        await client.http.get("/v1/jobs"),
        await client.http.get("/nowhere"),
        await stranger.get("/v1/jobs"),
        await stranger.get("/healthz", headers={"Host": "evil.example"}),
    ]
    for answer in answers:
        assert len(answer.headers.get_list("date")) == 1
        sent = parsedate_to_datetime(answer.headers["date"])
        assert abs(sent - datetime.now(UTC)) < timedelta(seconds=30)
        assert answer.headers["date"].endswith(" GMT")
        assert "server" not in answer.headers


async def _spoken(place: Place, request: bytes) -> tuple[int, bytes]:
    """What a client gets that says exactly this, and then only listens."""
    async with asyncio.timeout(PATIENCE):
        reader, writer = await asyncio.open_connection("127.0.0.1", httpx.URL(place.service.url).port)
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        length = re.search(rb"content-length: (\d+)", head)
        assert length is not None, head
        body = await reader.readexactly(int(length[1]))
        writer.close()
        await writer.wait_closed()
    return int(head.split()[1]), body


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
async def test_pictures_of_other_sites_use_up_nothing(client: Client, site: str) -> None:
    """A page anywhere can have a browser ask for them, without an Origin."""
    async with httpx.AsyncClient(
        base_url=client.url, headers={"Sec-Fetch-Site": site}, trust_env=False
    ) as page:
        for _ in range(2 * int(Rates.STRANGERS_BURST)):
            assert (await page.get("/v1/jobs")).json()["code"] == "ORIGIN_NOT_ALLOWED"
        assert (await page.get("/")).status_code == 200, "a link that leads here is followed"
    async with httpx.AsyncClient(base_url=client.url, trust_env=False) as browser:
        assert (await browser.get("/v1/jobs")).status_code == 401
