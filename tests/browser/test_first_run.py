"""The first minutes of a newcomer at the page, by the words that README and quickstart print in bold."""

from __future__ import annotations

import re
from pathlib import Path

from playwright.async_api import expect

from tests.browser.desk import Desk, arrive

ROOT = Path(__file__).parents[2]
INTERVIEW, START, SEND, WAITING = "Try the interview", "Start the run", "Send", "Needs you"


def bold(page: str) -> set[str]:
    """What the page tells a reader to press or to find, but for its own headings in bold."""
    text = (ROOT / page).read_text(encoding="utf-8").partition("## What it promises")[0]
    return {" ".join(found.split()) for found in re.findall(r"\*\*(.+?)\*\*", text, re.DOTALL)}


def test_the_pages_name_what_is_pressed_here() -> None:
    assert bold("README.md") == {INTERVIEW, START}
    assert bold("docs/quickstart.md") == {INTERVIEW, START, SEND, WAITING}


async def test_the_interview_is_two_clicks_and_three_answers(desk: Desk) -> None:
    visitor = await desk.visitor(signed_in=False)
    page = await visitor.context.new_page()
    await page.goto(desk.place.service.sign_in())
    await arrive(page, "Inbox")
    await page.get_by_text(INTERVIEW).click()
    await page.get_by_role("button", name=START).click()
    for question in ("What is the project", "Who is it for", "when would you call it a success"):
        await expect(page.get_by_role("main")).to_contain_text(question)
        await page.get_by_role("textbox").last.fill("A quiet alarm clock.")
        await page.get_by_role("button", name=SEND).click()
    await expect(page.get_by_role("main")).to_contain_text("Success: A quiet alarm clock.")


async def test_a_run_that_is_left_stands_in_the_inbox(desk: Desk) -> None:
    run_id = await desk.client.create("interview", execution_mode="interactive")
    await desk.client.settled(run_id)
    page = await desk.open("/")
    await expect(page.get_by_role("main")).to_contain_text(WAITING)
    await expect(page.get_by_role("main")).to_contain_text("What is the project, in one sentence?")
