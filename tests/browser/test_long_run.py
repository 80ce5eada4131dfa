"""A run with twenty thousand events: opens at its end, holds only a part in the page, and goes both ways."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.async_api import Page, expect

from tests.browser.desk import Desk
from tests.browser.run_page import opened
from tests.harness import Client, Json
from tests.spec.scripts import ANSWER, INTERACTIVE, Latch, script

ROUNDS = 6_700
"""Of three events each."""
MOST_NODES = 4_000
MOST_REQUESTS = 12
MOST_HEAP = 60 * 1024 * 1024
COUNT = "document.getElementsByTagName('*').length"
FIRST_SEEN = """() => {
  const top = (element) => element.getBoundingClientRect().top;
  const edge = top(document.querySelector("[role=region]"));
  const seen = [...document.querySelectorAll("[data-test=message]")].find((each) => top(each) > edge);
  return `${seen.textContent} at ${Math.round(top(seen) / 4)}`;
}"""
PATIENT = {"idle_sec": 600, "turn_sec": 600}
"""It is silent while somebody reads, and a busy machine reads slowly."""
AT_END = "(box) => box.scrollHeight - box.scrollTop - box.clientHeight < 60"


def steps(rounds: int) -> list[Json]:
    return [
        step
        for number in range(rounds)
        for step in (
            {"think": f"Thought {number}."},
            {"tool": {"name": "shell", "input": {"command": f"step {number}"}, "output": f"line {number}"}},
            {"say": f"Message {number} about *the work*."},
        )
    ]


@pytest.fixture
async def long_run(client: Client, latch: Latch) -> str:
    """It has said all that, and goes on when the latch is opened."""
    more = [*latch.steps, *steps(300), {"say": "Which one?"}]
    run_id = await client.create(
        "answer", script([*steps(ROUNDS), *more], [ANSWER]), **INTERACTIVE, timeouts=PATIENT
    )
    await latch.reached()
    return run_id


async def heap(page: Page) -> int:
    session = await page.context.new_cdp_session(page)
    await session.send("HeapProfiler.collectGarbage")
    used = await session.send("Runtime.getHeapUsage")
    await session.detach()
    return int(used["usedSize"])


async def test_opens_at_its_end_and_holds_a_part(desk: Desk, long_run: str, latch: Latch) -> None:
    visitor = await desk.visitor()
    page = await visitor.open(f"/runs/{long_run}")
    run = await opened(page, "running")
    await expect(run.conversation).to_contain_text(f"Message {ROUNDS - 1} ")
    assert await run.conversation.evaluate(AT_END)
    assert await page.evaluate(COUNT) < MOST_NODES
    calls = [call for call in visitor.watch.calls if long_run in call]
    assert len(calls) <= MOST_REQUESTS, calls
    latch.open()
    await run.reaches("waiting_user")
    await expect(run.conversation).to_contain_text("Message 299 ")
    await expect(run.words).to_be_in_viewport()
    assert await run.conversation.evaluate(AT_END)
    assert await page.evaluate(COUNT) < MOST_NODES


async def test_scrolling_up_brings_what_was_before(desk: Desk, long_run: str, latch: Latch) -> None:
    page = await desk.open(f"/runs/{long_run}")
    run = await opened(page, "running")
    await expect(run.conversation).to_contain_text(f"Message {ROUNDS - 1} ")
    await _scroll(page, -1, until=lambda seen: min(seen) < ROUNDS - 600)
    assert await page.evaluate(COUNT) < MOST_NODES
    place = await _first_seen(page)
    latch.open()
    await run.reaches("waiting_user")
    assert await _first_seen(page) == place, "new words moved the reader away"
    await run.page.get_by_role("button", name="Newest").click()
    await expect(run.conversation).to_contain_text("Which one?")
    assert await run.conversation.evaluate(AT_END)
    await expect(run.page.get_by_role("button", name="Newest")).to_have_count(0)
    assert await heap(page) < MOST_HEAP


async def test_nothing_is_left_out_or_doubled_on_the_way_up(desk: Desk, client: Client) -> None:
    rounds = 900
    run_id = await client.create(
        "answer", script([*steps(rounds), {"say": "Which one?"}], [ANSWER]), **INTERACTIVE
    )
    await client.settled(run_id)
    page = await desk.open(f"/runs/{run_id}")
    run = await opened(page, "waiting_user")
    await expect(run.conversation).to_contain_text(f"Message {rounds - 1} ")
    seen = await _scroll(page, -1, until=lambda seen: 0 in seen)
    assert seen == set(range(rounds))
    seen = await _scroll(page, 1, until=lambda seen: rounds - 1 in seen)
    assert seen == set(range(rounds))


async def _numbers(page: Page) -> list[int]:
    """Of the messages that are in the page, in their order."""
    texts = await page.get_by_test_id("message").all_inner_texts()
    return [int(found[1]) for text in texts if (found := re.match(r"Message (\d+) ", text))]


async def _first_seen(page: Page) -> str:
    """The topmost message that is seen, and where it stands, give or take a few pixels."""
    return str(await page.evaluate(FIRST_SEEN))


async def _scroll(page: Page, direction: int, *, until: Callable[[set[int]], bool]) -> set[int]:
    """As with a wheel, screen by screen, and never further than what is there; returns all numbers that were met."""
    box = page.get_by_role("region", name="Conversation")
    seen: set[int] = set()
    for _ in range(2000):
        numbers = await _numbers(page)
        assert numbers == sorted(set(numbers)), "doubled or out of order"
        seen.update(numbers)
        if until(seen):
            return seen
        await box.evaluate("(box, pages) => { box.scrollTop += pages * box.clientHeight; }", 3 * direction)
        await page.evaluate(
            "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
        )
    raise AssertionError(f"met only {len(seen)}: {min(seen)} to {max(seen)}")
