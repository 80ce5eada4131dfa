"""What every answer says to a browser, whatever it is an answer to."""

from __future__ import annotations

import h11
import httpx
import pytest

from tests.harness import Client, Place
from tests.spec.scripts import script
from tests.web.requests import DONE
from turnkeeper.web.patience import Whole

ALWAYS = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
}
SHUT = "default-src 'none'; frame-ancestors 'none'; sandbox"


def assert_guarded(answer: httpx.Response) -> None:
    for name, value in ALWAYS.items():
        assert answer.headers.get_list(name) == [value], (name, answer.url)
    assert len(answer.headers.get_list("content-security-policy")) == 1, answer.url
    assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
    assert not [name for name in answer.headers if name.startswith("access-control")]
    assert "strict-transport-security" not in answer.headers, "without TLS it would be a lie"


async def test_every_documented_read_and_refusal(client: Client, told: tuple[str, list[object]]) -> None:
    described = (await client.http.get("/v1/openapi.json")).json()
    values = {
        "run_id": told[0],
        "attempt": "1",
        "try_number": "1",
        "stream": "stdout",
        "skill_id": "answer",
        "name": "demo",
        "path": "x",
    }
    for path, operations in described["paths"].items():
        for method in operations:
            if method in ("get", "post") and not path.endswith(("/events", "/cancel")):
                answer = await client.http.request(method, path.format(**values), json={})
                assert_guarded(answer)
                if method == "get" and path.startswith("/v1/"):
                    assert "no-store" in answer.headers["cache-control"], path
                    assert answer.headers["content-security-policy"] == SHUT


@pytest.mark.parametrize("path", ["/", "/static/app.js", "/static/nowhere.js", "/nowhere", "/healthz"])
async def test_page_files_and_what_is_not_there(client: Client, path: str) -> None:
    assert_guarded(await client.http.get(path))


async def test_page_keeps_its_own_policy_and_files_may_be_kept(client: Client) -> None:
    page = await client.http.get("/")
    assert "script-src 'self'" in page.headers["content-security-policy"]
    assert "sandbox" not in page.headers["content-security-policy"]
    assert page.headers["cache-control"] == "no-cache"
    edition = page.text.partition('src="/static/e-')[2].partition("/")[0]
    kept = await client.http.get(f"/static/e-{edition}/app.js")
    assert "immutable" in kept.headers["cache-control"]


async def test_stream_says_it_too(client: Client, told: tuple[str, list[object]]) -> None:
    async with client.http.stream("GET", f"/v1/jobs/{told[0]}/events") as answer:
        assert_guarded(answer)
        assert "no-store" in answer.headers["cache-control"]


async def test_files_of_a_run_are_for_saving_and_never_for_showing(client: Client) -> None:
    page = "<script>alert(1)</script>"
    run_id = await client.create("plain", script([{"write_file": {"path": "page.html", "text": page}}, DONE]))
    await client.settled(run_id)
    for path in ("artifacts/page.html", "bundle", "logs/1/1/stdout"):
        answer = await client.http.get(f"/v1/jobs/{run_id}/{path}")
        assert answer.status_code == 200, path
        assert_guarded(answer)
        assert answer.headers["content-disposition"].startswith("attachment"), path
        assert answer.headers["content-security-policy"] == SHUT, path
        assert answer.headers["cache-control"] == "no-store", path


@pytest.mark.parametrize("method", ["OPTIONS", "TRACE", "CONNECT", "PROPFIND"])
async def test_other_methods_get_nothing(place: Place, method: str) -> None:
    """A preflight above all: whoever sends one is a page of somebody else."""
    async with httpx.AsyncClient(base_url=place.service.url, trust_env=False) as stranger:
        for path in ("/v1/jobs", "/", "/v1/session", "/healthz"):
            answer = await stranger.request(
                method,
                path,
                headers={"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "x"},
            )
            assert answer.status_code in (401, 405), (method, path)
            assert_guarded(answer)


def test_head_and_body_leave_in_one_piece() -> None:
    server = Whole(h11.SERVER)
    server.receive_data(b"GET / HTTP/1.1\r\nHost: here\r\n\r\n")
    assert [type(server.next_event()) for _ in range(2)] == [h11.Request, h11.EndOfMessage]
    answer = h11.Response(status_code=200, headers=[("content-length", "4")])
    sent = [server.send(event) for event in (answer, h11.Data(data=b"body"), h11.EndOfMessage())]
    assert sent == [b"", b"HTTP/1.1 200 \r\ncontent-length: 4\r\n\r\nbody", b""]


def test_a_head_without_a_body_leaves_at_the_end() -> None:
    server = Whole(h11.SERVER)
    server.receive_data(b"HEAD / HTTP/1.1\r\nHost: here\r\n\r\n")
    assert [type(server.next_event()) for _ in range(2)] == [h11.Request, h11.EndOfMessage]
    head = h11.Response(status_code=200, headers=[("content-length", "4")])
    assert server.send(head) == b""
    assert server.send(h11.EndOfMessage()) == b"HTTP/1.1 200 \r\ncontent-length: 4\r\n\r\n"
