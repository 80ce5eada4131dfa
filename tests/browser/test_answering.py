"""What may happen to somebody who is answering: a lost receipt, an ended run, a reload, words in disguise."""

from __future__ import annotations

import asyncio
import re

from playwright.async_api import Route, expect

from tests.browser.desk import Desk
from tests.browser.run_page import opened
from tests.harness import Client, Json
from tests.spec.scripts import ANSWER, ASK, INTERACTIVE, script

TWO_QUESTIONS = script([ASK], [{"say": "And the border?"}], [ANSWER])
FORM: Json = {
    "ask": {
        "prompt": "Who are you?",
        "kind": "open_text",
        "requested_schema": {"type": "object", "properties": {"name": {"type": "string", "title": "Name"}}},
    }
}
DISGUISED = "rm photo\u202egpj.exe"
HOLIDAY = "Is it a holiday?"
YES_OR_NO: Json = {"ask": {"prompt": HOLIDAY, "kind": "confirm"}}
TYPE_AND_CHOOSE = """
() => {
  const change = (element, value, event) => {
    element.value = value;
    element.dispatchEvent(new Event(event, { bubbles: true }));
  };
  change(document.querySelector("input[type=search]"), "holiday", "input");
  change(document.querySelector("select[aria-label=State]"), "waiting_user", "change");
}
"""


def row_of(run_id: str) -> str:
    return f"li[data-run='{run_id}']"


async def test_lost_receipt_is_not_somebody_elses_answer(desk: Desk, client: Client) -> None:
    run_id = await client.create("answer", TWO_QUESTIONS, **INTERACTIVE)
    await client.settled(run_id)
    visitor = await desk.visitor()
    visitor.watch.expect("ERR_CONNECTION_RESET")
    run = await opened(await visitor.open(f"/runs/{run_id}"), "waiting_user")
    await visitor.context.route("**/interaction/reply", _arrives_without_receipt)
    await run.say("Blue")
    await run.asks(2)
    await expect(run.answers).to_have_text(["Blue"])
    await expect(run.late).to_have_count(0)
    await expect(run.words).to_have_value("")
    await expect(run.box.get_by_role("alert")).to_have_count(0)


async def _arrives_without_receipt(route: Route) -> None:
    await route.fetch()
    await route.abort("connectionreset")


async def test_box_of_an_answered_question_takes_no_more_words(desk: Desk, client: Client) -> None:
    """They would be for the next question, which is not there yet, and be lost with this one."""
    run_id = await client.create("answer", TWO_QUESTIONS, **INTERACTIVE)
    await client.settled(run_id)
    visitor = await desk.visitor()
    run = await opened(await visitor.open(f"/runs/{run_id}"), "waiting_user")
    goes_on = asyncio.Event()

    async def slowly(route: Route) -> None:
        await goes_on.wait()
        await route.continue_()

    await visitor.context.route("**/interaction/history", slowly)
    await run.say("Blue")
    await expect(run.words).to_have_count(0)
    goes_on.set()
    await run.asks(2)
    await run.say("Green")
    await run.reaches("succeeded")


async def test_words_for_a_run_that_was_canceled_are_kept(desk: Desk, client: Client) -> None:
    run_id = await client.create("answer", TWO_QUESTIONS, **INTERACTIVE)
    await client.settled(run_id)
    run = await opened(await desk.open(f"/runs/{run_id}"), "waiting_user")
    await run.words.fill("Green, with a long explanation")
    await client.cancel(run_id)
    await expect(run.late).to_contain_text("no longer open")
    await run.page.reload()
    await expect(run.late).to_contain_text("Green, with a long explanation")
    await run.late.get_by_role("button", name="All right").click()
    await expect(run.late).to_have_count(0)
    await run.page.reload()
    await run.reaches("canceled")
    await expect(run.late).to_have_count(0)


async def test_fields_survive_a_reload(desk: Desk, client: Client) -> None:
    run_id = await client.create("answer", script([FORM], [ANSWER]), **INTERACTIVE)
    await client.settled(run_id)
    page = await desk.open(f"/runs/{run_id}")
    await page.get_by_label("Name").fill("Ada")
    await page.reload()
    await expect(page.get_by_label("Name")).to_have_value("Ada")


async def test_fields_of_a_question_that_somebody_else_answered_are_kept(desk: Desk, client: Client) -> None:
    run_id = await client.create("answer", script([FORM], [ANSWER]), **INTERACTIVE)
    await client.settled(run_id)
    run = await opened(await desk.open(f"/runs/{run_id}"), "waiting_user")
    await run.page.get_by_label("Name").fill("Ada")
    await client.reply(run_id, "Grace")
    await expect(run.late).to_contain_text("name: Ada")
    await expect(run.late).to_contain_text("Grace")
    await run.page.reload()
    await run.late.get_by_role("button", name="All right").click()
    await expect(run.late).to_have_count(0)
    await expect(run.conversation).to_be_focused()


async def test_permission_is_what_it_looks_like_and_not_given_at_a_glance(desk: Desk, client: Client) -> None:
    asked = {"permission": {"tool": "shell", "title": DISGUISED, "input": {"command": DISGUISED}}}
    run_id = await client.create("answer", script([asked, ANSWER]), **INTERACTIVE, permissions="ask")
    await client.settled(run_id)
    page = await desk.open("/")
    row = page.locator(row_of(run_id))
    await expect(row).to_contain_text("rm photo⟨U+202E⟩gpj.exe")
    await expect(row.get_by_role("button")).to_have_count(0)
    await row.get_by_role("link").click()
    run = await opened(page, "waiting_user")
    await expect(run.box.get_by_role("heading")).to_contain_text("photo⟨U+202E⟩gpj.exe")
    await expect(run.box.locator("pre")).to_have_text("rm photo⟨U+202E⟩gpj.exe")


async def test_inbox_goes_on_where_it_was_left(desk: Desk, client: Client) -> None:
    runs = [
        await client.create("answer", script([{"say": HOLIDAY}], [ANSWER]), **INTERACTIVE) for _ in range(3)
    ]
    for run_id in runs:
        await client.settled(run_id)
    page = await desk.open("/")
    link = page.locator(row_of(runs[0])).get_by_role("link")
    await link.click()
    await opened(page, "waiting_user")
    await page.go_back()
    await expect(link).to_be_focused()


async def test_answer_from_the_inbox_that_comes_too_late_is_told(desk: Desk, client: Client) -> None:
    run_id = await client.create("answer", script([YES_OR_NO], [ANSWER]), **INTERACTIVE)
    await client.settled(run_id)
    visitor = await desk.visitor()
    visitor.watch.expect("status of 409")
    page = await visitor.open("/")

    async def after_another(route: Route) -> None:
        await client.reply(run_id, "no")
        await route.continue_()

    await visitor.context.route("**/interaction/reply", after_another)
    await page.locator(row_of(run_id)).get_by_role("button", name="Yes").click()
    await expect(page.locator(row_of(run_id)).locator("[data-status=succeeded]")).to_be_visible()
    late = page.get_by_test_id("late")
    await expect(late).to_contain_text("was answered already")
    await expect(late).to_contain_text("Through the API")
    await late.get_by_role("button", name="All right").click()
    await expect(late).to_have_count(0)


async def test_search_and_filter_of_one_moment_are_both_kept(desk: Desk, client: Client) -> None:
    """A search waits for the next letter: a filter may be chosen meanwhile."""
    run_id = await client.create("answer", script([{"say": HOLIDAY}], [ANSWER]), **INTERACTIVE)
    await client.settled(run_id)
    page = await desk.open("/")
    await expect(page.locator(row_of(run_id))).to_be_visible()
    await page.evaluate(TYPE_AND_CHOOSE)
    await expect(page).to_have_url(re.compile("q=holiday"))
    await expect(page).to_have_url(re.compile("status=waiting_user"))


async def test_search_keeps_the_blank_between_two_words(desk: Desk, client: Client) -> None:
    run_id = await client.create("answer", script([{"say": HOLIDAY}], [ANSWER]), **INTERACTIVE)
    await client.settled(run_id)
    page = await desk.open("/")
    search = page.get_by_role("searchbox")
    await search.fill("it ")
    await expect(page).to_have_url(f"{page.url.partition('#')[0]}#/?q=it")
    await search.press_sequentially("is")
    await expect(search).to_have_value("it is")
    await expect(page.get_by_role("heading", name="No run matches")).to_be_visible()
