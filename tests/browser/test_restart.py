"""The service goes away and comes back: the page notices, waits, and goes on by itself."""

from __future__ import annotations

import re
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from playwright.async_api import Browser, expect

from tests.browser.conftest import SKILLS
from tests.browser.desk import Desk
from tests.browser.run_page import opened as opened_run
from tests.harness import Place, opened
from tests.spec.scripts import ANSWER, ASK, INTERACTIVE, QUESTION, Latch, script

GONE = (
    "ERR_CONNECTION_REFUSED",
    "ERR_CONNECTION_RESET",
    "ERR_INCOMPLETE_CHUNKED_ENCODING",
    "status of 503",
    "ERR_EMPTY_RESPONSE",
)


@pytest.fixture
def port() -> Iterator[int]:
    """One that stays ours while nobody listens on it: another test of this kind, in another process, would take it
    over in that moment, and the page would find a service that does not know it. The same number for UDP is the token
    that tells who has it. Below those that outgoing connections are given: a browser that tries again and again could
    otherwise be given the very port it calls, and speak to itself."""
    for port in range(21_000, 32_000, 7):
        with socket.socket(type=socket.SOCK_DGRAM) as token, socket.socket() as tried:
            tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                token.bind(("127.0.0.1", port))
                tried.bind(("127.0.0.1", port))
            except OSError:
                continue
            tried.close()
            yield port
            return
    raise AssertionError("no port is free")


@asynccontextmanager
async def service(folder: Path, port: int) -> AsyncIterator[Place]:
    async with opened(folder / "data", skills_dir=SKILLS, port=port) as place:
        yield place


async def test_question_is_answered_after_a_restart(browser: Browser, tmp_path: Path, port: int) -> None:
    async with service(tmp_path, port) as place:
        desk = Desk(browser, place)
        run_id = await place.client.create("answer", script([ASK], [ANSWER]), **INTERACTIVE)
        await place.client.settled(run_id)
        visitor = await desk.visitor()
        visitor.watch.expect(*GONE)
        page = await visitor.open(f"/runs/{run_id}")
        run = await opened_run(page, "waiting_user")
        await run.words.fill("Blue, I ")
        await expect(run.link).to_have_attribute("class", re.compile("link-live"))
    await expect(run.link).to_have_attribute("class", re.compile("link-lost"))
    await expect(page.get_by_text("The service does not answer")).to_be_visible()
    await run.words.press_sequentially("think")
    async with service(tmp_path, port):
        await expect(run.link).to_have_attribute("class", re.compile("link-live"))
        await expect(page.get_by_text("The service does not answer")).to_have_count(0)
        await expect(run.words).to_have_value("Blue, I think")
        await run.send.click()
        await run.reaches("succeeded")
        await expect(run.answers).to_have_text(["Blue, I think"])
        await expect(run.messages.filter(has_text=QUESTION)).to_have_count(1)
        await desk.leave()
    desk.assert_clean()


async def test_turn_that_was_cut_off_goes_on(
    browser: Browser, tmp_path: Path, port: int, latch: Latch
) -> None:
    steps = [{"say": "Before."}, *latch.steps, {"say": "After."}, {"result": {"answer": "done"}}]
    async with service(tmp_path, port) as place:
        desk = Desk(browser, place)
        run_id = await place.client.create("answer", script(steps))
        visitor = await desk.visitor()
        visitor.watch.expect(*GONE)
        page = await visitor.open(f"/runs/{run_id}")
        run = await opened_run(page, "running")
        await expect(run.messages).to_have_text(["Before."])
        await latch.reached()
    await expect(run.link).to_have_attribute("class", re.compile("link-lost"))
    latch.open()
    async with service(tmp_path, port) as place:
        await run.reaches("succeeded")
        await expect(run.messages.filter(has_text="After.")).to_have_count(1)
        shown = await run.said()
        await page.reload()
        await run.reaches("succeeded")
        await expect(run.messages.filter(has_text="After.")).to_have_count(1)
        assert await run.said() == shown, "live it looked different"
        await desk.leave()
    desk.assert_clean()


async def test_inbox_comes_back(browser: Browser, tmp_path: Path, port: int) -> None:
    async with service(tmp_path, port) as place:
        desk = Desk(browser, place)
        visitor = await desk.visitor()
        visitor.watch.expect(*GONE)
        page = await visitor.open("/")
        await expect(page.get_by_role("heading", level=1)).to_have_text("Inbox")
    await expect(page.get_by_text("The service does not answer")).to_be_visible()
    async with service(tmp_path, port) as place:
        run_id = await place.client.create("answer", script([ASK], [ANSWER]), **INTERACTIVE)
        await expect(page.locator(f"li[data-run='{run_id}']")).to_contain_text(QUESTION)
        await expect(page.get_by_text("The service does not answer")).to_have_count(0)
        await expect(page.get_by_role("alert")).to_have_count(0)
        await place.client.settled(run_id)
        await desk.leave()
    desk.assert_clean()
