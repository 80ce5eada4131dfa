"""What the page shows of a run that has secrets planted in it: stars, and links that lead nowhere."""

from __future__ import annotations

from pathlib import Path

from playwright.async_api import Browser, expect

from tests.browser.desk import Desk
from tests.browser.run_page import opened
from tests.faults.planting import KEY, PARTS, assert_nowhere, needles, planted


async def test_no_secret_is_in_the_page(browser: Browser, tmp_path: Path) -> None:
    async with planted(tmp_path) as place:
        run_id = await place.client.create(engine="codex", skill="planted", execution_mode="interactive")
        desk = Desk(browser, place)
        page = await desk.open(f"/runs/{run_id}")
        run = await opened(page, "waiting_user")
        await run.say(f"go on with {KEY}")
        await run.reaches("succeeded")
        for fold in await page.locator("details > summary, [aria-expanded=false]").all():
            if await fold.is_visible():
                await fold.click()
        await expect(run.outcome).to_contain_text("*" * len(KEY))
        files = page.locator(".file-list")
        await expect(files.first).to_contain_text("link, not followed")
        link = files.get_by_role("listitem").filter(has_text="link, not followed").first
        await expect(link.get_by_role("link")).to_have_count(0)
        shown = {"text": await page.locator("body").inner_text(), "html": await page.content()}
        assert "*" * len(KEY) in shown["text"]
        assert_nowhere({where: text.encode() for where, text in shown.items()}, [*needles(), *PARTS])
        await desk.leave()
        desk.assert_clean()
