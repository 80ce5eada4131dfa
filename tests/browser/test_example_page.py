"""The minimal front end of the examples, as somebody meets it who has opened its address."""

from __future__ import annotations

from pathlib import Path

from playwright.async_api import Browser, expect

from tests.docs.examples import EXAMPLES, env, served
from tests.harness import opened


async def test_from_start_to_result(browser: Browser, tmp_path: Path) -> None:
    async with (
        opened(tmp_path / "data", skills_dir=(EXAMPLES / "skills",)) as place,
        served(env(place)) as url,
        await browser.new_context() as context,
    ):
        faults: list[str] = []
        context.on("weberror", lambda error: faults.append(str(error.error)))
        page = await context.new_page()
        await page.goto(url)
        await page.get_by_role("button", name="Start").click()
        for question in ("What is the project", "Who is it for"):
            await expect(page.locator("#log")).to_contain_text(question)
            await page.get_by_label("Your answer").fill("A quiet <b>alarm</b> clock.")
            await page.get_by_role("button", name="Send").click()
        await page.get_by_role("button", name="When it saves an hour a day").click()
        await expect(page.locator("#result")).to_contain_text('"project": "A quiet <b>alarm</b> clock."')
        await expect(page.get_by_role("status")).to_have_text("succeeded")
        assert not faults
