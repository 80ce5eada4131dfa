"""Signing in and out: an address that works once, the token, and a friendly page for everybody else."""

from __future__ import annotations

from playwright.async_api import expect

from tests.browser.desk import Desk, arrive
from tests.harness import TOKEN, Client
from tests.spec.scripts import ANSWER, ASK, INTERACTIVE, script

NOT_YET = r"status of 401"


async def test_address_with_a_code_signs_in_and_forgets_the_code(desk: Desk) -> None:
    visitor = await desk.visitor(signed_in=False)
    page = await visitor.context.new_page()
    await page.goto(desk.place.service.sign_in())
    await arrive(page, "Inbox")
    assert page.url == f"{visitor.url}/#/"
    await page.reload()
    await arrive(page, "Inbox")
    assert "code" not in await page.evaluate(
        "JSON.stringify([history.state, location.href, {...localStorage}])"
    )


async def test_code_is_good_for_one_browser(desk: Desk) -> None:
    address = desk.place.service.sign_in()
    first = await desk.visitor(signed_in=False)
    page = await first.context.new_page()
    await page.goto(address)
    await arrive(page, "Inbox")
    second = await desk.visitor(signed_in=False)
    second.watch.expect(NOT_YET)
    late = await second.context.new_page()
    await late.goto(address)
    await arrive(late, "Sign in")
    await expect(late.get_by_role("alert")).to_contain_text("ten minutes")
    assert "code" not in late.url


async def test_address_leads_to_where_the_person_was(desk: Desk) -> None:
    visitor = await desk.visitor(signed_in=False)
    visitor.watch.expect(NOT_YET)
    page = await visitor.open("/skills")
    await arrive(page, "Sign in")
    await page.goto(desk.place.service.sign_in())
    await arrive(page, "Skills")
    await page.reload()
    await arrive(page, "Skills")


async def test_signed_out_page_says_how_to_come_in(desk: Desk) -> None:
    visitor = await desk.visitor(signed_in=False)
    visitor.watch.expect(NOT_YET)
    page = await visitor.open("/")
    await arrive(page, "Sign in")
    await expect(page.get_by_role("main")).to_contain_text("turnkeeper open")
    await expect(page.get_by_role("navigation")).to_have_count(0)


async def test_token_signs_in_and_a_wrong_one_does_not(desk: Desk) -> None:
    visitor = await desk.visitor(signed_in=False)
    visitor.watch.expect(NOT_YET)
    page = await visitor.open("/")
    await arrive(page, "Sign in")
    field = page.locator("#proof")
    await field.fill("another-token-entirely")
    await field.press("Enter")
    await expect(page.get_by_role("alert")).to_be_visible()
    await expect(field).to_have_value("another-token-entirely")
    await field.fill(TOKEN)
    await field.press("Enter")
    await arrive(page, "Inbox")
    assert TOKEN not in await page.content()


async def test_pasted_address_signs_in(desk: Desk) -> None:
    visitor = await desk.visitor(signed_in=False)
    visitor.watch.expect(NOT_YET)
    page = await visitor.open("/")
    await page.locator("#proof").fill(f"  {desk.place.service.sign_in()} ")
    await page.locator("#proof").press("Enter")
    await arrive(page, "Inbox")


async def test_pasted_nonsense_is_refused(desk: Desk) -> None:
    visitor = await desk.visitor(signed_in=False)
    visitor.watch.expect(NOT_YET)
    page = await visitor.open("/")
    await page.locator("#proof").fill("http://127.0.0.1/#code=%zz")
    await page.locator("#proof").press("Enter")
    await expect(page.get_by_role("alert")).to_contain_text("did not open the door")
    await expect(page.get_by_role("button", name="Sign in")).to_be_enabled()


async def test_sign_out(desk: Desk, client: Client) -> None:
    await client.settled(await client.create("answer", script([ASK], [ANSWER]), **INTERACTIVE))
    visitor = await desk.visitor()
    visitor.watch.expect(NOT_YET)
    page = await visitor.open("/")
    other = await visitor.open("/engines")
    await arrive(page, "Inbox")
    await expect(page).to_have_title("(1) Inbox · Turnkeeper")
    await page.get_by_label("Menu").click()
    await page.get_by_role("button", name="Sign out").click()
    await arrive(page, "Sign in")
    await expect(page).to_have_title("Sign in to Turnkeeper · Turnkeeper")
    await page.reload()
    await arrive(page, "Sign in")
    await other.reload()
    await arrive(other, "Sign in")
