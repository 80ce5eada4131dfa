"""What must hold on every page: in both themes, on a telephone, in both languages, for everybody."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable

import pytest
from playwright.async_api import Page, ViewportSize, expect

from tests.browser import axe
from tests.browser.desk import DESKTOP, PHONE, Desk
from tests.browser.run_page import opened
from tests.browser.tour import RICH, prepared, sign_in_page, visit
from tests.harness import Client
from tests.spec.scripts import ASK, INTERACTIVE, script

OVERFLOW = """
() => {
  const width = document.documentElement.clientWidth;
  const scrolls = (element) => /auto|scroll|hidden|clip/.test(getComputedStyle(element).overflowX);
  const inScroller = ({ parentElement: parent }) =>
    parent !== document.body && (scrolls(parent) || inScroller(parent));
  const wide = [...document.querySelectorAll("body *")].filter((element) => {
    const box = element.getBoundingClientRect();
    return box.width > 0 && box.right > width + 1 && !inScroller(element);
  });
  const names = wide.slice(0, 5).map((element) => element.outerHTML.slice(0, 120));
  return document.documentElement.scrollWidth > width ? ["the page scrolls sideways", ...names] : names;
}
"""
KEY = re.compile(r"[a-z]+(\.[A-Za-z_-]+)+")
"""What a word looks like that has no translation: its key."""
FILE_NAMES = (".json", ".md", ".txt")


async def test_nothing_stands_in_anybodys_way(desk: Desk, client: Client) -> None:
    found: dict[str, str] = {}
    page = await desk.open("/")
    for stop in await prepared(client):
        await visit(page, stop)
        found[stop.name] = await axe.barriers(page)
    found["sign in"] = await axe.barriers(await sign_in_page(desk))
    assert not any(found.values()), "\n\n".join(f"{name}, {text}" for name, text in found.items() if text)


OPENED: dict[str, Callable[[Page], Awaitable[None]]] = {
    "menu": lambda page: page.get_by_label("Menu").click(),
    "keys": lambda page: page.keyboard.press("?"),
    "raw log": lambda page: page.get_by_role("button", name="Raw log").first.click(),
    "cancel": lambda page: page.get_by_role("button", name="Cancel").click(),
}


@pytest.mark.parametrize("screen", [DESKTOP, PHONE], ids=["desktop", "phone"])
async def test_what_opens_above_a_page(desk: Desk, client: Client, screen: ViewportSize) -> None:
    run_id = await client.create("answer", RICH, **INTERACTIVE)
    await client.settled(run_id)
    page = await desk.open(f"/runs/{run_id}", viewport=screen)
    await opened(page, "waiting_user")
    if screen is PHONE:
        await page.get_by_role("button", name="Details").click()
        await expect(page.get_by_role("complementary")).to_be_visible()
    for name, open_it in OPENED.items():
        await open_it(page)
        await expect(page.locator("dialog[open], .menu[open]")).to_be_visible()
        await expect(page.locator(".loading")).to_have_count(0)
        assert not (wrong := await axe.barriers(page)), f"{name}, {wrong}"
        assert not await page.evaluate(OVERFLOW), name
        await page.keyboard.press("Escape")
        await expect(page.locator("dialog[open], .menu[open]")).to_have_count(0)


async def test_nothing_is_wider_than_a_telephone(desk: Desk, client: Client) -> None:
    found: dict[str, list[str]] = {}
    visitor = await desk.visitor(viewport=PHONE, has_touch=True, is_mobile=True)
    page = await visitor.open("/")
    for stop in await prepared(client):
        await visit(page, stop)
        if wide := await page.evaluate(OVERFLOW):
            found[stop.name] = wide
    page = await sign_in_page(desk, viewport=PHONE)
    if wide := await page.evaluate(OVERFLOW):
        found["sign in"] = wide
    assert not found, "\n".join(f"{name}: {wide}" for name, wide in found.items())


async def test_answer_box_is_in_reach_on_a_telephone(desk: Desk, client: Client) -> None:
    run_id = await client.create(
        "answer",
        script([{"say": "words\n\n" * 80}, ASK], [{"result": {"answer": "{{reply}}"}}]),
        **INTERACTIVE,
    )
    await client.settled(run_id)
    page = await desk.open(f"/runs/{run_id}", viewport=PHONE, has_touch=True, is_mobile=True)
    run = await opened(page, "waiting_user")
    await expect(run.words).to_be_in_viewport(ratio=1)
    await expect(run.send).to_be_in_viewport(ratio=1)
    await run.words.tap()
    await run.words.fill("one\n" * 6)
    await expect(run.send).to_be_in_viewport(ratio=1)
    await expect(run.conversation).to_be_in_viewport()
    await run.send.tap()
    await run.reaches("succeeded")


async def test_every_page_speaks_chinese(desk: Desk, client: Client) -> None:
    visitor = await desk.visitor(locale="zh-CN")
    page = await visitor.open("/")
    for stop in await prepared(client):
        await visit(page, stop)
        await expect(page.locator("html")).to_have_attribute("lang", "zh-CN")
        assert not await untranslated(page), f"on {stop.name}"
    page = await sign_in_page(desk, locale="zh-CN")
    assert not await untranslated(page)


async def untranslated(page: Page) -> list[str]:
    """A word without a translation is shown as its key. Texts that came from elsewhere may look like one by chance."""
    told = await page.evaluate(
        """() => {
          const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
          const texts = [];
          while (walker.nextNode()) texts.push(walker.currentNode.textContent.trim());
          const names = ["aria-label", "title", "placeholder"];
          const labels = [...document.querySelectorAll("*")].flatMap((each) =>
            names.map((name) => each.getAttribute(name)));
          return [...texts, ...labels.filter(Boolean)];
        }"""
    )
    return [each for each in told if KEY.fullmatch(each) and not each.endswith(FILE_NAMES)]


async def test_language_and_theme_are_chosen_and_remembered(desk: Desk) -> None:
    page = await desk.open("/engines")
    await page.get_by_label("Menu").click()
    await page.get_by_text("简体中文").click()
    await expect(page.get_by_role("heading", level=1)).to_have_text("引擎")
    await page.get_by_text("深色").click()
    await expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    await page.reload()
    await expect(page.get_by_role("heading", level=1)).to_have_text("引擎")
    await expect(page.locator("html")).to_have_attribute("lang", "zh-CN")
    await expect(page.locator("html")).to_have_attribute("data-theme", "dark")


async def test_themes_differ(desk: Desk) -> None:
    colours = []
    for theme in ("light", "dark"):
        page = await desk.open("/", color_scheme=theme)
        await expect(page.get_by_role("heading", level=1)).to_be_visible()
        colours.append(await page.evaluate("getComputedStyle(document.body).backgroundColor"))
    light, dark = (sum(map(int, re.findall(r"\d+", colour)[:3])) for colour in colours)
    assert light > 600
    assert dark < 200
