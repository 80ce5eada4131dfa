"""Somebody is given a link: one question on a phone, an answer, and thanks; and kind words where it is too late."""

from __future__ import annotations

import re

import httpx
import pytest
from playwright.async_api import Page, expect

from tests.browser.axe import barriers
from tests.browser.desk import PHONE, Desk, Visitor, arrive
from tests.browser.run_page import RunPage, opened
from tests.harness import Client, Json, Place
from tests.spec.scripts import ANSWER, ASK, INTERACTIVE, script

TWICE = script([ASK], [{"say": "And the border?"}], [ANSWER])
CHOICE: Json = {
    "ask": {
        "prompt": "Which **colour** shall the door have?",
        "kind": "choose_one",
        "options": [{"label": "Blue", "value": "blue"}, {"label": "Red", "value": "red"}],
    }
}
FORM: Json = {
    "ask": {
        "prompt": "Who are you?",
        "kind": "fill_fields",
        "requested_schema": {
            "type": "object",
            "required": ["name"],
            "properties": {
                "name": {"type": "string", "title": "Name"},
                "age": {"type": "integer", "title": "Age"},
            },
        },
    }
}
GONE = r"status of 410"
HELD = "JSON.stringify([location.href, history.state, {...localStorage}, document.cookie])"


async def asking(client: Client, steps: Json | None = None) -> str:
    run_id = await client.create("answer", steps or TWICE, **INTERACTIVE)
    await client.settled(run_id)
    return run_id


async def link_for(place: Place, run_id: str, **body: object) -> str:
    answer = await place.client.http.post(f"/v1/jobs/{run_id}/interaction/links", json=body)
    address = str(answer.json()["url"])
    place.secrets.append(secret_of(address))
    return address


def secret_of(address: str) -> str:
    return address.partition("#answer=")[2]


async def guest(desk: Desk, **options: object) -> Visitor:
    """A stranger with a phone."""
    return await desk.visitor(signed_in=False, viewport=PHONE, has_touch=True, **options)


async def came(visitor: Visitor, address: str) -> Page:
    page = await visitor.context.new_page()
    await page.goto(address)
    return page


async def test_from_the_question_to_the_thanks(desk: Desk, place: Place, client: Client) -> None:
    run_id = await asking(client, script([CHOICE], [ANSWER]))
    address = await link_for(place, run_id, **{"for": "Anna"})
    visitor = await guest(desk)
    page = await came(visitor, address)
    await arrive(page, "A question for you")
    await expect(page.get_by_test_id("asked")).to_have_text("Which colour shall the door have?")
    await expect(page.get_by_role("main")).to_contain_text("answer asks:")
    await expect(page.get_by_role("navigation")).to_have_count(0)
    await expect(page.get_by_label("Menu")).to_have_count(0)
    assert page.url == f"{visitor.url}/#answer", "the secret is gone from the address at once"
    assert secret_of(address) not in await page.evaluate(HELD)
    wide = await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert wide, "nothing is wider than the phone"
    assert await barriers(page) == ""
    await RunPage(page).option("Blue").tap()
    await arrive(page, "Thank you!")
    assert await barriers(page) == ""
    await client.settled(run_id)
    (entry,) = await client.history(run_id)
    assert (entry["response"], entry["resolved_by"]) == ("blue", "link:Anna")
    assert set(visitor.watch.calls) & {"GET /v1/answer", "POST /v1/answer"}
    assert not [call for call in visitor.watch.calls if "/v1/" in call and "/v1/answer" not in call]


async def test_own_words_survive_a_reload_and_are_sent_once(desk: Desk, place: Place, client: Client) -> None:
    run_id = await asking(client)
    page = await came(await guest(desk), await link_for(place, run_id))
    box = RunPage(page)
    await box.words.fill("A warm yellow")
    await page.reload()
    await expect(box.words).to_have_value("A warm yellow")
    await box.send.dblclick()
    await arrive(page, "Thank you!")
    await client.settled(run_id)
    assert [entry["response"] for entry in await client.history(run_id)] == ["A warm yellow", None]


async def test_form(desk: Desk, place: Place, client: Client) -> None:
    run_id = await asking(client, script([FORM], [ANSWER]))
    page = await came(await guest(desk), await link_for(place, run_id))
    await page.get_by_label("Name").fill("Anna")
    await page.get_by_label("Age").fill("44")
    await page.get_by_role("button", name="Send").first.click()
    await arrive(page, "Thank you!")
    assert (await client.history(run_id))[0]["response"] == '{"name":"Anna","age":44}'


async def test_in_chinese(desk: Desk, place: Place, client: Client) -> None:
    run_id = await asking(client)
    page = await came(await guest(desk, locale="zh-CN"), await link_for(place, run_id))
    await arrive(page, "有一个问题想请教您")
    await expect(page.locator("html")).to_have_attribute("lang", "zh-CN")
    await page.get_by_role("textbox").fill("蓝色")
    await page.get_by_role("button", name="发送").click()
    await arrive(page, "谢谢")


async def test_previews_use_nothing_up(desk: Desk, place: Place, client: Client) -> None:
    """A messenger asks for the address, with a script or without, before the person does."""
    run_id = await asking(client)
    address = await link_for(place, run_id)
    async with httpx.AsyncClient(trust_env=False) as preview:
        seen = await preview.get(address)
        assert seen.status_code == 200
        assert "colour" not in seen.text
    plain = await guest(desk, java_script_enabled=False)
    await came(plain, address)
    assert plain.watch.calls, "it was there"
    assert not [call for call in plain.watch.calls if "answer" in call]
    for _ in range(2):
        await arrive(await came(await guest(desk), address), "A question for you")
    assert (await client.get(run_id))["status"] == "waiting_user"
    assert [entry["response"] for entry in await client.history(run_id)] == [None]


async def test_answered_meanwhile_keeps_the_words(desk: Desk, place: Place, client: Client) -> None:
    run_id = await asking(client)
    visitor = await guest(desk)
    visitor.watch.expect(GONE)
    page = await came(visitor, await link_for(place, run_id))
    box = RunPage(page)
    await box.words.fill("A warm yellow")
    await client.reply(run_id, "blue")
    await box.send.click()
    await arrive(page, "This question needs no answer any more")
    await expect(page.get_by_role("main")).to_contain_text("It was answered on")
    await expect(page.get_by_role("main")).to_contain_text("A warm yellow")
    await expect(page.get_by_role("main")).not_to_contain_text("blue")


@pytest.mark.parametrize(
    ("end", "title", "words"),
    [
        ("answered", "This question needs no answer any more", "It was answered on"),
        ("canceled", "This question needs no answer any more", "The work that it was about ended on"),
        ("expired", "This link has expired", "ask whoever sent you the link"),
        ("forged", "This link does not work", "a part of it is missing"),
        ("lost", "This link does not work", "a part of it is missing"),
    ],
)
async def test_dead_links_say_so_kindly(
    desk: Desk, place: Place, client: Client, end: str, title: str, words: str
) -> None:
    run_id = await asking(client)
    address = await link_for(place, run_id)
    if end == "answered":
        await client.reply(run_id, "blue")
    elif end == "canceled":
        await client.cancel(run_id)
    elif end == "expired":
        place.clock.advance(8 * 24 * 3600)
    elif end == "forged":
        address = address[:-20]
    else:
        address = address.partition("=")[0]
    visitor = await guest(desk)
    visitor.watch.expect(GONE, r"status of 401")
    page = await came(visitor, address)
    await arrive(page, title)
    await expect(page.get_by_role("main")).to_contain_text(words)
    await expect(page.get_by_role("textbox")).to_have_count(0)
    assert await barriers(page) == ""


async def test_link_is_copied_from_the_run(desk: Desk, place: Place, client: Client) -> None:
    run_id = await asking(client)
    visitor = await desk.visitor(permissions=["clipboard-read", "clipboard-write"])
    page = await visitor.open(f"/runs/{run_id}")
    await opened(page, "waiting_user")
    await page.get_by_role("button", name="Copy a link for somebody else").click()
    await expect(page.get_by_role("button", name="Link copied")).to_be_visible()
    await expect(page.get_by_test_id("shared")).to_contain_text("can answer this one question")
    address = await page.evaluate("navigator.clipboard.readText()")
    assert re.fullmatch(rf"{visitor.url}/#answer=tkl_[\w.-]+", address)
    assert secret_of(address) not in await page.content()
    assert await barriers(page) == ""
    other = await came(await guest(desk), address)
    await RunPage(other).say("By a friend")
    await arrive(other, "Thank you!")
    await expect(RunPage(page).answers).to_have_text(["By a friend"])
    await expect(page.get_by_role("button", name="Copy a link for somebody else")).to_be_visible()


async def test_link_in_a_tab_of_the_page_and_back(desk: Desk, place: Place, client: Client) -> None:
    """Only the part behind `#` changes then. Who is signed in sees no more by a link than others."""
    run_id = await asking(client)
    page = await desk.open("/")
    await arrive(page, "Inbox")
    await page.goto(await link_for(place, run_id))
    await arrive(page, "A question for you")
    await expect(page.get_by_role("navigation")).to_have_count(0)
    await page.goto(f"{page.url.partition('#')[0]}#/")
    await arrive(page, "Inbox")
