"""What is not there is a problem document too, and so is a fault of ours."""

from __future__ import annotations

from typing import cast

import httpx
import pytest

from tests.harness import DOOR, Client, let_in
from tests.web.problems import assert_problem
from turnkeeper.core.errors import Code
from turnkeeper.runtime.house import House
from turnkeeper.web.app import make_app


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/interaction/pending",
        "/interaction/history",
        "/events",
        "/events/history",
        "/result",
        "/artifacts",
        "/logs",
    ],
)
@pytest.mark.parametrize("run_id", ["nobody", "x" * 64, "%00", "..%2f..", "🐝", "a%0Ab"])
async def test_unknown_run(client: Client, run_id: str, path: str) -> None:
    answer = await client.http.get(f"/v1/jobs/{run_id}{path}")
    assert answer.status_code == 404
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["code"] in ("RUN_NOT_FOUND", "NOT_FOUND")


async def test_unknown_run_cannot_be_changed(client: Client) -> None:
    assert_problem(await client.post_reply("nobody", 1, "x"), 404, Code.RUN_NOT_FOUND)
    assert_problem(await client.http.post("/v1/jobs/nobody/cancel"), 404, Code.RUN_NOT_FOUND)


async def test_run_id_of_any_length_is_answered(client: Client) -> None:
    assert_problem(await client.http.get(f"/v1/jobs/{'x' * 65}"), 400, Code.INVALID_REQUEST)


@pytest.mark.parametrize(
    "path", ["/nowhere", "/v1", "/v1/", "/v2/jobs", "/v1/jobs/a/b/c/d", "/docs", "/redoc"]
)
async def test_unknown_path(client: Client, path: str) -> None:
    problem = assert_problem(await client.http.get(path), 404, Code.NOT_FOUND)
    assert problem["detail"] == f"there is nothing at {path}"


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("DELETE", "/v1/jobs", {"GET", "POST"}),
        ("PUT", "/v1/jobs/some-run", {"GET"}),
        ("GET", "/v1/jobs/some-run/cancel", {"POST"}),
        ("POST", "/healthz", {"GET"}),
        ("TRACE", "/v1/engines", {"GET"}),
    ],
)
async def test_wrong_method(client: Client, method: str, path: str, allowed: set[str]) -> None:
    answer = await client.http.request(method, path)
    assert_problem(answer, 405, Code.METHOD_NOT_ALLOWED)
    assert set(answer.headers["allow"].split(", ")) & allowed


async def test_fault_of_ours_shows_nothing_of_the_inside(caplog: pytest.LogCaptureFixture) -> None:
    app = make_app(cast(House, None), DOOR)  # whatever is asked of this house goes wrong
    transport = httpx.ASGITransport(let_in(app), raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as http:
        problem = assert_problem(await http.get("/v1/jobs"), 500, Code.INTERNAL_ERROR)
    assert problem["detail"] == "a fault of ours; the service's log has the details"
    assert "GET /v1/jobs failed" in caplog.text
