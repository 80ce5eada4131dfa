"""Whether agents have a sandbox, as the page shows it: on every page if they have none, and in each run."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.async_api import Browser, expect

from tests.browser.desk import Desk
from tests.browser.run_page import opened as shown
from tests.browser.tour import sign_in_page
from tests.harness import opened
from tests.walls import needs_walls

WORDS = {"en-GB": "Agents have no sandbox here", "zh-CN": "这里的智能体没有沙箱"}


@pytest.mark.parametrize("locale", WORDS)
async def test_without_walls_each_page_says_so(desk: Desk, locale: str) -> None:
    visitor = await desk.visitor(locale=locale)
    for path in ("/", "/new", "/skills"):
        page = await visitor.open(path)
        await expect(page.get_by_role("note")).to_contain_text(WORDS[locale])
        await expect(page.get_by_role("note")).to_contain_text("sandbox.mode = off")


async def test_who_is_not_signed_in_is_not_told(desk: Desk) -> None:
    page = await sign_in_page(desk)
    await expect(page.get_by_role("note")).to_have_count(0)


@needs_walls
async def test_behind_walls_only_the_run_tells(browser: Browser, tmp_path: Path) -> None:
    async with opened(tmp_path / "data", sandbox={"mode": "required"}) as place:
        desk = Desk(browser, place)
        run_id = await place.client.create(script="done")
        await place.client.settled(run_id)
        page = await desk.open(f"/runs/{run_id}")
        await shown(page, "succeeded")
        facts = page.locator("dl.facts").first
        await expect(facts).to_contain_text("Sandbox")
        await expect(facts).to_contain_text("bubblewrap")
        await expect(page.get_by_role("note")).to_have_count(0)
        await desk.leave()
        desk.assert_clean()
