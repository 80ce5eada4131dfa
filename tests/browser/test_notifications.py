"""When a run begins to wait, people are told: by the browser if they want it, by the title, by words."""

from __future__ import annotations

from playwright.async_api import Page, expect

from tests.browser.desk import Desk
from tests.browser.run_page import RunPage
from tests.harness import Client, Json
from tests.spec.scripts import ANSWER, ASK, INTERACTIVE, QUESTION, Latch, script

# Notes each message that the page wants to show; the browser of a test has nowhere to show it.
NOTE = """
window.shown = [];
const Real = window.Notification;
window.Notification = class extends Real {
  constructor(title, options) { super(title, options); window.shown.push({ title, ...options }); }
};
"""


async def opened_with_notes(desk: Desk, path: str, permissions: list[str]) -> Page:
    visitor = await desk.visitor()
    if permissions:
        await visitor.context.grant_permissions(permissions, origin=visitor.url)
    await visitor.context.add_init_script(NOTE)
    return await visitor.open(path)


async def shown(page: Page) -> list[Json]:
    return list(await page.evaluate("window.shown"))


async def test_run_that_begins_to_wait_is_told(desk: Desk, client: Client, latch: Latch) -> None:
    run_id = await client.create("answer", script([*latch.steps, ASK], [ANSWER]), **INTERACTIVE)
    page = await opened_with_notes(desk, "/engines", ["notifications"])
    await expect(page).to_have_title("Engines · Turnkeeper")
    latch.open()
    await expect(page).to_have_title("(1) Engines · Turnkeeper")
    told = await shown(page)
    assert [(each["title"], each["body"]) for each in told] == [("answer needs you", QUESTION)]
    await expect(page.get_by_test_id("announcer")).to_contain_text(QUESTION)
    await expect(page.locator("#icon")).to_have_attribute("href", "/static/icon-waiting.svg")
    await client.reply(run_id, "blue")
    await expect(page).to_have_title("Engines · Turnkeeper")
    assert len(await shown(page)) == 1


async def test_what_is_looked_at_is_not_told_twice(desk: Desk, client: Client, latch: Latch) -> None:
    run_id = await client.create("answer", script([*latch.steps, ASK], [ANSWER]), **INTERACTIVE)
    page = await opened_with_notes(desk, f"/runs/{run_id}", ["notifications"])
    await RunPage(page).reaches("running")
    latch.open()
    await expect(page).to_have_title("(1) answer · Turnkeeper")
    assert await shown(page) == []


async def test_old_questions_are_no_news(desk: Desk, client: Client) -> None:
    run_id = await client.create("answer", script([ASK], [ANSWER]), **INTERACTIVE)
    await client.settled(run_id)
    page = await opened_with_notes(desk, "/", ["notifications"])
    await expect(page).to_have_title("(1) Inbox · Turnkeeper")
    assert await shown(page) == []


async def test_nobody_is_asked_for_permission_unless_they_want_it(desk: Desk, client: Client) -> None:
    run_id = await client.create("answer", script([ASK], [ANSWER]), **INTERACTIVE)
    page = await opened_with_notes(desk, "/", [])
    await expect(page.locator(f"li[data-run='{run_id}']")).to_contain_text(QUESTION)
    assert await shown(page) == []
