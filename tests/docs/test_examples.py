"""The examples for HTTP, played against a real service: the curl script as it is, the page through its own proxy."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from tests.docs.examples import EXAMPLES, env, served
from tests.harness import PATIENCE, Client, Json, Place, opened

ANSWERS = [
    'A clock that "glows" & isn\'t loud.',
    "Couples;\nany alarm wakes both.",
    "one couple has slept well",
]

needs_curl = pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    async with opened(tmp_path / "data", skills_dir=(EXAMPLES / "skills",), slots=2) as place:
        yield place


async def interview(env: dict[str, str], *answers: str) -> tuple[int | None, str, str]:
    script = str(EXAMPLES / "curl" / "interview.sh")
    process = await asyncio.create_subprocess_exec(
        script, *answers, env=env, stdin=DEVNULL, stdout=PIPE, stderr=PIPE
    )
    try:
        out, err = await asyncio.wait_for(process.communicate(), PATIENCE)
    except TimeoutError:
        process.kill()
        await process.wait()
        raise
    return process.returncode, out.decode(), err.decode()


@needs_curl
async def test_the_curl_script_comes_to_its_result(place: Place) -> None:
    code, out, err = await interview(env(place), *ANSWERS)
    assert (code, err) == (0, "")
    result = json.loads(out[out.index("\n{") :])
    assert [result[name] for name in ("project", "audience", "success")] == ANSWERS
    assert "What is the project, in one sentence?" in out


@needs_curl
async def test_the_curl_script_says_why_it_was_refused(place: Place) -> None:
    code, out, err = await interview(env(place, TURNKEEPER_TOKEN="some-other-token"), *ANSWERS)
    assert (code, out) == (1, "")
    assert "UNAUTHORIZED" in err


@pytest.fixture
async def page(place: Place) -> AsyncIterator[Client]:
    """Somebody who has opened that address, and knows no token."""
    async with served(env(place)) as url:
        client = Client(url)
        del client.http.headers["Authorization"]
        async with client.http:
            yield client


async def test_the_page_comes_whole(page: Client) -> None:
    answer = await page.http.get("/")
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert answer.content == (EXAMPLES / "html" / "index.html").read_bytes()


async def test_what_the_page_calls_is_passed_on(page: Client) -> None:
    run_id = await page.create("interview", execution_mode="interactive")
    asked: list[Json] = []
    async for event in page.follow(run_id):
        # Each question comes while the stream is open: nothing is held back on the way.
        if event["type"] == "user.input.required":
            await page.reply(run_id, ANSWERS[len(asked)])
            asked.append(event["data"])
    assert [question["interaction_id"] for question in asked] == [1, 2, 3]
    assert (await page.result(run_id))["audience"] == ANSWERS[1]


async def test_a_refusal_is_passed_on(page: Client) -> None:
    answer = await page.post_job("no-such-skill")
    assert (answer.status_code, answer.json()["code"]) == (404, "SKILL_NOT_FOUND")
    assert answer.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize("header", [{"Origin": "http://evil.example"}, {"Host": "evil.example"}])
async def test_the_proxy_is_for_its_own_page(page: Client, header: dict[str, str]) -> None:
    assert (await page.http.get("/v1/jobs", headers=header)).status_code == 403
    assert (await page.http.post("/v1/jobs", json={}, headers=header)).status_code == 403


async def test_a_service_that_is_gone_is_told(place: Place) -> None:
    nobody = env(place, TURNKEEPER_URL="http://127.0.0.1:1")
    async with served(nobody) as url, httpx.AsyncClient(trust_env=False, timeout=PATIENCE) as http:
        answer = await http.get(f"{url}/v1/jobs")
    assert (answer.status_code, answer.json()["code"]) == (502, "SERVICE_UNREACHABLE")


def test_the_page_is_one_file() -> None:
    """Nothing is fetched from anywhere but the proxy."""
    text = (EXAMPLES / "html" / "index.html").read_text(encoding="utf-8")
    assert re.findall(r"https?://", text) == []
    assert "innerHTML" not in text.replace("never innerHTML", "")
