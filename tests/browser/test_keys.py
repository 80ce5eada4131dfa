"""A page that was signed in with a key: it offers what the key is good for, and ends with it."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.async_api import Page, expect

from tests.browser.desk import Desk, arrive
from tests.spec.scripts import ANSWER, ASK, INTERACTIVE, script
from tests.web.keyholders import made, revoked

NOT_YET = r"status of 401"


async def signed_in(desk: Desk, key: str, **options: Any) -> Page:
    """By hand, as people do."""
    visitor = await desk.visitor(signed_in=False, **options)
    visitor.watch.expect(NOT_YET)
    page = await visitor.open("/")
    field = page.locator("#proof")
    await field.fill(key)
    await field.press("Enter")
    await expect(field).to_have_count(0)
    return page


async def waiting(desk: Desk) -> str:
    run_id = await desk.client.create("answer", script([ASK], [ANSWER]), **INTERACTIVE)
    await desk.client.settled(run_id)
    return run_id


async def test_a_key_for_reading_changes_nothing(desk: Desk) -> None:
    run_id = await waiting(desk)
    page = await signed_in(desk, (await made(desk.place, "read"))["key"])
    await arrive(page, "Inbox")
    places = page.get_by_role("navigation").get_by_role("link")
    await expect(places).to_have_text([re.compile("Inbox"), "Skills", "Engines"])
    await expect(page.get_by_role("link", name="New run")).to_have_count(0)
    await page.get_by_role("link", name="answer", exact=True).click()
    await expect(page.get_by_text("your key does not let you answer it")).to_be_visible()
    await expect(page.get_by_role("button", name="Cancel")).to_have_count(0)
    await expect(page.get_by_role("button", name="Send")).to_have_count(0)
    await expect(page.get_by_role("link", name="Run again")).to_have_count(0)
    await page.get_by_role("link", name="Skills").click()
    await arrive(page, "Skills")
    await expect(page.locator("#install-file")).to_have_count(0)
    assert (await desk.client.get(run_id))["status"] == "waiting_user"


async def test_a_key_for_people_who_answer(desk: Desk) -> None:
    run_id = await waiting(desk)
    key = await made(desk.place, "read", "answer")
    page = await signed_in(desk, key["key"])
    await page.get_by_role("link", name="answer", exact=True).click()
    await page.get_by_role("textbox").fill("blue")
    await page.get_by_role("button", name="Send").click()
    assert (await desk.client.ended(run_id))["status"] == "succeeded"
    await expect(page.get_by_text(f"By {key['name']}").first).to_be_visible()
    await expect(page.get_by_role("link", name="Run again")).to_have_count(0)
    assert (await desk.client.history(run_id))[0]["resolved_by"] == f"page:{key['name']}"


async def test_a_key_that_only_answers_is_shown_the_question_and_no_more(desk: Desk) -> None:
    run_id = await waiting(desk)
    key = await made(desk.place, "answer")
    page = await signed_in(desk, key["key"])
    await page.get_by_role("link", name="answer", exact=True).click()
    await expect(page.locator("[data-test=asked]")).to_have_text(ASK["say"])
    await page.get_by_role("textbox").fill("blue")
    await page.get_by_role("button", name="Send").click()
    assert (await desk.client.ended(run_id))["status"] == "succeeded"
    await expect(page.locator("[data-test=outcome]")).to_be_visible()
    await expect(page.get_by_role("button", name="Raw log")).to_have_count(0)
    assert (await desk.client.history(run_id))[0]["resolved_by"] == f"page:{key['name']}"


async def test_a_key_for_everything_offers_everything(desk: Desk) -> None:
    await waiting(desk)
    page = await signed_in(desk, (await made(desk.place, "admin"))["key"])
    await arrive(page, "Inbox")
    await expect(page.get_by_role("main").get_by_role("link", name="New run")).to_be_visible()
    await page.get_by_role("link", name="answer", exact=True).click()
    await expect(page.get_by_role("button", name="Cancel")).to_be_visible()
    await expect(page.get_by_role("button", name="Send")).to_be_visible()


@pytest.mark.parametrize(("locale", "word"), [("en-GB", "a key"), ("zh-CN", "密钥")])
async def test_a_revoked_key_shows_its_session_out(desk: Desk, locale: str, word: str) -> None:
    key = await made(desk.place, "read")
    page = await signed_in(desk, key["key"], locale=locale)
    await expect(page.get_by_role("navigation")).to_be_visible()
    await revoked(desk.place, key)
    await page.reload()
    await expect(page.locator("label[for=proof]")).to_contain_text(word)
