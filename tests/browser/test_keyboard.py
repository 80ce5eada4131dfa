"""Without a mouse: from the inbox over a question to the result, and every key that the help names."""

from __future__ import annotations

from playwright.async_api import Page, expect

from tests.browser.desk import Desk, arrive
from tests.browser.run_page import RunPage
from tests.harness import Client
from tests.spec.scripts import ANSWER, ASK, INTERACTIVE, script

CHOICE = {
    "ask": {
        "prompt": "Red or blue?",
        "kind": "choose_one",
        "options": [{"label": "Red", "value": "red"}, {"label": "Blue", "value": "blue"}],
    }
}
NAME = "(({ ariaLabel, placeholder, textContent }) => ariaLabel || placeholder || textContent)(document.activeElement)"
# A hidden box of a drawn control shows its focus at the label around it.
UNSEEN = """() => {
  const element = document.activeElement;
  const shown = element.matches("input.visually-hidden") ? element.closest("label") : element;
  const style = getComputedStyle(shown);
  return style.outlineStyle !== "none" && parseFloat(style.outlineWidth) > 0 ? "" : element.outerHTML.slice(0, 160);
}"""


async def tab_to(page: Page, words: str, most: int = 60) -> None:
    """Presses Tab until the control with these words has the focus."""
    for _ in range(most):
        await page.keyboard.press("Tab")
        if words in await page.evaluate(NAME):
            return
    raise AssertionError(f"{words!r} cannot be reached with Tab")


async def test_inbox_to_result_without_a_mouse(desk: Desk, client: Client) -> None:
    run_id = await client.create("answer", script([CHOICE], [ASK], [ANSWER]), **INTERACTIVE)
    await client.settled(run_id)
    page = await desk.open("/")
    await expect(page.locator("li[data-run]")).to_have_count(1)
    await page.keyboard.press("j")
    await page.keyboard.press("Enter")
    run = RunPage(page)
    await run.reaches("waiting_user")
    await expect(run.option("Blue")).to_be_visible()
    await page.keyboard.press("2")
    await run.asks(2)
    await expect(run.answers).to_have_text(["Blue"])
    await tab_to(page, "Your answer")
    await page.keyboard.type("By hand")
    await page.keyboard.press("Enter")
    await page.keyboard.type("and foot")
    await page.keyboard.press("Control+Enter")
    await run.reaches("succeeded")
    await expect(run.answers).to_have_text(["Blue", "By hand\nand foot"])


async def test_options_and_send_are_reached_with_tab(desk: Desk, client: Client) -> None:
    run_id = await client.create("answer", script([CHOICE], [ANSWER]), **INTERACTIVE)
    await client.settled(run_id)
    page = await desk.open(f"/runs/{run_id}")
    run = RunPage(page)
    await expect(run.option("Blue")).to_be_visible()
    await tab_to(page, "Blue")
    await page.keyboard.press("Enter")
    await run.reaches("succeeded")
    await expect(run.outcome).to_contain_text("blue")


async def test_one_key_does_not_give_a_permission(desk: Desk, client: Client) -> None:
    run_id = await client.create("answer", "permission", **INTERACTIVE, permissions="ask")
    await client.settled(run_id)
    page = await desk.open(f"/runs/{run_id}")
    run = RunPage(page)
    await run.reaches("waiting_user")
    label = (await client.pending(run_id))["options"][0]["label"]
    await expect(run.option(label)).to_be_visible()
    await page.keyboard.press("1")
    await expect(run.option(label)).to_be_focused()
    assert (await client.get(run_id))["status"] == "waiting_user"
    await page.keyboard.press("Enter")
    await run.reaches("succeeded")


async def test_new_run_without_a_mouse(desk: Desk) -> None:
    page = await desk.open("/new")
    await expect(page.get_by_role("link", name="meeting-notes")).to_be_visible()
    await tab_to(page, "meeting-notes")
    await page.keyboard.press("Enter")
    await expect(page.get_by_label("Notes")).to_be_visible()
    await page.get_by_label("Notes").focus()
    await page.keyboard.type("We ship on Friday.")
    await page.get_by_role("radio", name="demo").focus()
    await page.keyboard.press("Space")
    await page.get_by_role("radio", name="Without questions").focus()
    await page.keyboard.press("Space")
    await page.get_by_label("Notes").press("Control+Enter")
    await RunPage(page).reaches("succeeded")


async def test_keys_are_listed_and_dialogs_give_the_focus_back(desk: Desk) -> None:
    page = await desk.open("/")
    await arrive(page, "Inbox")
    await page.keyboard.press("?")
    dialog = page.get_by_role("dialog")
    await expect(dialog).to_contain_text("Ctrl")
    await page.keyboard.press("Escape")
    await expect(dialog).to_have_count(0)
    await page.get_by_label("Menu").focus()
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("button", name="Sign out")).to_be_visible()
    await page.keyboard.press("Escape")
    await expect(page.get_by_role("button", name="Sign out")).to_be_hidden()
    await expect(page.get_by_label("Menu")).to_be_focused()


async def test_focus_is_seen_everywhere(desk: Desk, client: Client) -> None:
    run_id = await client.create("answer", script([CHOICE], [ANSWER]), **INTERACTIVE)
    await client.settled(run_id)
    page = await desk.open("/")
    for path in ("/", f"/runs/{run_id}", "/new?skill=fields", "/skills", "/engines"):
        await page.goto(f"{page.url.partition('#')[0]}#{path}")
        await expect(page.get_by_role("heading", level=1)).to_be_visible()
        await expect(page.locator(".loading")).to_have_count(0)
        for _ in range(12):
            await page.keyboard.press("Tab")
            assert not (unseen := await page.evaluate(UNSEEN)), f"on {path} the focus is not seen at {unseen}"
