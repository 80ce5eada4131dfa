"""A run from the first click to its result, in the ways people go there."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable

import pytest
from playwright.async_api import Route, expect

from tests.browser.desk import Desk, arrive
from tests.browser.run_page import RunPage, opened
from tests.harness import Client
from tests.spec.scripts import ANSWER, ASK, INTERACTIVE, QUESTION, Latch, script

RUN_ADDRESS = re.compile(r"#/runs/[0-9a-f]+$")
AGAIN = re.compile("again", re.IGNORECASE)
VERSION = {"version": "2.4.0"}


async def test_from_new_run_over_two_questions_to_the_result(desk: Desk) -> None:
    page = await desk.open("/")
    await page.get_by_role("navigation").get_by_role("link", name="New run").click()
    await page.get_by_role("link", name="release-notes").click()
    await page.get_by_label("Version").fill("2.4.0")
    await page.get_by_role("radio", name="demo").check()
    await page.get_by_role("button", name="Start the run").click()
    await expect(page).to_have_url(RUN_ADDRESS)
    run = await opened(page, "waiting_user")
    await expect(run.messages).to_contain_text(["five commits"])
    await expect(run.conversation.get_by_role("table")).to_contain_text("export as PDF")
    await run.option("Administrators").click()
    await run.asks(2)
    await expect(run.answers).to_have_text(["Administrators"])
    await run.say("Ada and Grace,\nfor the undo.")
    await run.reaches("succeeded")
    await expect(run.outcome).to_contain_text("administrators")
    await expect(run.outcome).to_contain_text("for the undo")
    await expect(run.outcome.get_by_role("link", name="RELEASE-NOTES.md")).to_be_visible()
    await expect(run.box).to_have_count(0)
    await expect(run.answers).to_have_text(["Administrators", "Ada and Grace,\nfor the undo."])


async def test_answer_from_the_inbox(desk: Desk, client: Client) -> None:
    run_id = await client.create("release-notes", None, input=VERSION, **INTERACTIVE)
    await client.settled(run_id)
    page = await desk.open("/")
    row = page.locator(f"li[data-run='{run_id}']")
    await expect(row).to_contain_text("Whom are the notes for?")
    await row.get_by_role("button", name="Administrators").click()
    await expect(row).to_contain_text("whom we should thank")
    await row.get_by_role("link", name="release-notes").click()
    run = await opened(page, "waiting_user")
    await expect(run.answers).to_have_text(["Administrators"])


async def test_reload_keeps_draft_and_conversation(desk: Desk, client: Client) -> None:
    run_id = await client.create("release-notes", None, input=VERSION, **INTERACTIVE)
    await client.settled(run_id)
    await client.reply(run_id, "everybody")
    await client.settled(run_id)
    page = await desk.open(f"/runs/{run_id}")
    run = await opened(page, "waiting_user")
    await expect(run.answers).to_have_text(["everybody"])
    before = await run.said()
    await run.words.fill("Half a sent")
    await page.reload()
    run = await opened(page, "waiting_user")
    await expect(run.words).to_have_value("Half a sent")
    assert await run.said() == before
    await run.words.press_sequentially("ence.")
    await run.words.press("Control+Enter")
    await run.reaches("succeeded")
    await expect(run.answers).to_have_text(["everybody", "Half a sentence."])


async def test_reload_in_the_middle_of_a_turn(desk: Desk, client: Client, latch: Latch) -> None:
    steps = [{"stream": ["One, ", "two, "]}, *latch.steps, {"say": "Three."}, {"result": {"answer": "4"}}]
    run_id = await client.create("answer", script(steps))
    await latch.reached()
    page = await desk.open(f"/runs/{run_id}")
    run = await opened(page, "running")
    await expect(run.messages).to_have_text(["One, two,"])
    await page.reload()
    run = await opened(page, "running")
    await expect(run.messages).to_have_text(["One, two,"])
    latch.open()
    await run.reaches("succeeded")
    await expect(run.messages.filter(has_text="two")).to_have_count(1)
    await expect(run.messages.filter(has_text="Three.")).to_have_count(1)


async def test_words_come_in_while_the_agent_speaks(desk: Desk, client: Client, latch: Latch) -> None:
    steps = [*latch.steps, {"stream": ["Alpha ", "beta ", "gamma."], "every_sec": 0.05}, ASK]
    run_id = await client.create(
        "answer", script(steps, [{"result": {"answer": "{{reply}}"}}]), **INTERACTIVE
    )
    await latch.reached()
    run = await opened(await desk.open(f"/runs/{run_id}"), "running")
    await expect(run.link).to_have_attribute("class", re.compile("link-live"))
    latch.open()
    await run.reaches("waiting_user")
    await expect(run.messages).to_have_text(["Alpha beta gamma.", QUESTION])


async def test_whoever_answers_sees_what_comes_of_it(desk: Desk, client: Client) -> None:
    """Who reads above is left alone; an answer is a reason to go to the end."""
    turn = [{"say": f"Word {number}"} for number in range(60)]
    run_id = await client.create("answer", script([*turn, ASK], [*turn, ASK], [ANSWER]), **INTERACTIVE)
    await client.settled(run_id)
    run = await opened(await desk.open(f"/runs/{run_id}"), "waiting_user")
    await expect(run.messages.last).to_be_in_viewport()
    await run.conversation.evaluate("(box) => { box.scrollTop = 0; }")
    await expect(run.page.get_by_role("button", name="Newest")).to_be_visible()
    await run.say("blue")
    await run.asks(2)
    await expect(run.answers).to_have_text(["blue"])
    await expect(run.messages.last).to_be_in_viewport()
    await expect(run.page.get_by_role("button", name="Newest")).to_have_count(0)


async def test_second_tab_is_told_who_was_first_and_loses_nothing(desk: Desk, client: Client) -> None:
    run_id = await client.create("answer", script([ASK], [ASK], [{"result": {"answer": "a"}}]), **INTERACTIVE)
    await client.settled(run_id)
    visitor = await desk.visitor()
    visitor.watch.expect("status of 409")
    first = await opened(await visitor.open(f"/runs/{run_id}"), "waiting_user")
    second = await opened(await visitor.open(f"/runs/{run_id}"), "waiting_user")
    await second.words.fill("Green, with a long explanation")
    await first.page.bring_to_front()
    await first.say("Blue")
    await second.page.bring_to_front()
    await expect(second.late).to_contain_text("Blue")
    await expect(second.late).to_contain_text("Green, with a long explanation")
    await second.asks(2)
    await second.late.get_by_role("button", name="Use").click()
    await expect(second.words).to_have_value("Green, with a long explanation")
    assert [entry["response"] for entry in await client.history(run_id)][:1] == ["Blue"]


async def test_both_tabs_send_at_once(desk: Desk, client: Client) -> None:
    """Neither knew of the other's answer: one wins, the other one's words are kept and shown."""
    run_id = await client.create("answer", script([ASK], [ASK], [{"result": {"answer": "a"}}]), **INTERACTIVE)
    await client.settled(run_id)
    visitor = await desk.visitor()
    visitor.watch.expect("status of 409")
    page = await visitor.open(f"/runs/{run_id}")
    run = await opened(page, "waiting_user")
    await run.words.fill("Green")
    await visitor.context.route("**/interaction/reply", _after_another(client, run_id))
    await run.send.click()
    await expect(run.late).to_contain_text("Green")
    await expect(run.late).to_contain_text("Blue")
    assert (await client.history(run_id))[0]["response"] == "Blue"


def _after_another(client: Client, run_id: str) -> Callable[[Route], Awaitable[None]]:
    """Somebody else's answer arrives while ours is on its way."""

    async def handle(route: Route) -> None:
        await client.reply(run_id, "Blue")
        await route.continue_()

    return handle


async def test_run_that_is_over_opens_at_its_result(desk: Desk, client: Client) -> None:
    run_id = await client.create("release-notes", None, input=VERSION, **INTERACTIVE)
    for answer in ("everybody", "nobody"):
        await client.settled(run_id)
        await client.reply(run_id, answer)
    await client.settled(run_id)
    run = await opened(await desk.open(f"/runs/{run_id}"), "succeeded")
    await expect(run.outcome).to_contain_text("everybody")
    await expect(run.outcome.get_by_role("link", name=AGAIN)).to_be_in_viewport(ratio=1)
    await expect(run.page.get_by_role("button", name="Newest")).to_have_count(0)


async def test_run_again_with_another_input(desk: Desk, client: Client) -> None:
    run_id = await client.create(
        "meeting-notes", None, input={"notes": "We ship on Friday.", "title": "Weekly"}
    )
    await client.ended(run_id)
    run = await opened(await desk.open(f"/runs/{run_id}"), "succeeded")
    await run.outcome.get_by_role("link", name=AGAIN).click()
    page = run.page
    await arrive(page, "Run again")
    await expect(page.get_by_label("Title")).to_have_value("Weekly")
    await expect(page.get_by_label("Notes")).to_have_value("We ship on Friday.")
    await page.get_by_label("Notes").fill("We ship on Monday.")
    await page.get_by_role("button", name="Start the run").click()
    await expect(page).not_to_have_url(re.compile(f"{run_id}|/new"))
    again = await opened(page, "succeeded")
    await expect(again.outcome).to_contain_text("We ship on Monday.")
    assert len(await client.runs()) == 2


async def test_cancel_asks_first(desk: Desk, client: Client, latch: Latch) -> None:
    run_id = await client.create("answer", script([{"say": "Working."}, *latch.steps]))
    await latch.reached()
    run = await opened(await desk.open(f"/runs/{run_id}"), "running")
    await run.page.get_by_role("button", name="Cancel").click()
    dialog = run.page.get_by_role("dialog")
    await dialog.get_by_role("button", name="Keep").click()
    await expect(dialog).to_have_count(0)
    assert (await client.get(run_id))["status"] == "running"
    await run.page.get_by_role("button", name="Cancel").click()
    await dialog.get_by_role("button", name="Cancel").click()
    await run.reaches("canceled")
    await expect(run.page.get_by_role("button", name="Cancel")).to_have_count(0)
    await expect(run.outcome).to_be_visible()


async def test_failed_run_says_what_and_what_to_do(desk: Desk, client: Client) -> None:
    run_id = await client.create("answer", "auth_required")
    await client.ended(run_id)
    run = await opened(await desk.open(f"/runs/{run_id}"), "failed")
    error = (await client.get(run_id))["error"]
    await expect(run.outcome).to_contain_text(error["code"])
    await expect(run.outcome).to_contain_text(error["message"])
    await expect(run.outcome).to_contain_text("What to do")
    await expect(run.outcome.get_by_role("link", name=re.compile("ngine"))).to_have_attribute(
        "href", "#/engines"
    )


async def test_address_of_no_run(desk: Desk) -> None:
    visitor = await desk.visitor()
    visitor.watch.expect("status of 404")
    page = await visitor.open("/runs/01a1e25b702b62d6a50d11d69e6ca9e1")
    await expect(page.get_by_role("main")).to_contain_text("no such run", ignore_case=True)


@pytest.mark.parametrize(("kind", "outcome"), [("allow_once", "allow"), ("reject_once", "reject")])
async def test_permission_is_allowed_or_refused(desk: Desk, client: Client, kind: str, outcome: str) -> None:
    run_id = await client.create("answer", "permission", **INTERACTIVE, permissions="ask")
    await client.settled(run_id)
    pending = await client.pending(run_id)
    run = await opened(await desk.open(f"/runs/{run_id}"), "waiting_user")
    await expect(run.box).to_contain_text(pending["prompt"])
    label = next(option["label"] for option in pending["options"] if option["kind"] == kind)
    await run.option(label).click()
    await run.reaches("succeeded")
    await expect(run.outcome).to_contain_text(outcome)


async def test_title_says_where_we_are(desk: Desk, client: Client) -> None:
    run_id = await client.create("answer", script([ASK], [{"result": {"answer": "a"}}]), **INTERACTIVE)
    await client.settled(run_id)
    page = await desk.open(f"/runs/{run_id}")
    await expect(page).to_have_title("(1) answer · Turnkeeper")
    run = RunPage(page)
    await run.say("blue")
    await expect(page).to_have_title("answer · Turnkeeper")
