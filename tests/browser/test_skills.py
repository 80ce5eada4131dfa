"""Skills by upload: a broken one with its problems, a good one, the same again, and away with it."""

from __future__ import annotations

import io
import json
import zipfile

from playwright.async_api import FilePayload, Locator, Page, expect

from tests.browser.desk import Desk, arrive
from tests.browser.run_page import opened


def packed(version: str = "1.0.0", **files: str) -> FilePayload:
    runner = {"id": "greeter", "version": version, "description": "Greets."}
    inside = {
        "SKILL.md": "---\nname: greeter\ndescription: Greets. Use it to greet.\n---\nGreet.\n",
        "assets/runner.json": json.dumps(runner),
    }
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, text in (inside | files).items():
            archive.writestr(f"greeter/{name}", text)
    return {"name": "greeter.zip", "mimeType": "application/zip", "buffer": buffer.getvalue()}


async def upload(page: Page, payload: FilePayload) -> None:
    await page.locator("#install-file").set_input_files(payload)


def installed(page: Page, version: str) -> Locator:
    return page.get_by_role("main").get_by_text(f"Installed: greeter {version}")


async def test_broken_skill_is_refused_with_its_problems(desk: Desk) -> None:
    visitor = await desk.visitor()
    visitor.watch.expect("status of 4")
    page = await visitor.open("/skills")
    await upload(page, packed(**{"assets/runner.json": '{"id": "no good!", "max_attempt": "many"}'}))
    problems = page.get_by_role("alert")
    await expect(problems).to_contain_text("greeter.zip")
    await expect(problems.get_by_role("listitem")).not_to_have_count(0)
    await expect(problems).to_contain_text("id")
    not_a_zip: FilePayload = {"name": "notes.zip", "mimeType": "application/zip", "buffer": b"hello"}
    await upload(page, not_a_zip)
    await expect(page.get_by_role("alert")).to_contain_text("zip")


async def test_install_replace_and_remove(desk: Desk) -> None:
    visitor = await desk.visitor()
    visitor.watch.expect("status of 409", "status of 404")
    page = await visitor.open("/skills")
    await arrive(page, "Skills")
    await upload(page, packed())
    await expect(installed(page, "1.0.0")).to_be_visible()
    card = page.get_by_role("listitem").filter(has=page.get_by_role("heading", name="greeter"))
    await expect(card).to_contain_text("installed here")
    await upload(page, packed())
    await page.get_by_role("button", name="Replace it").click()
    await expect(installed(page, "1.0.0")).to_be_visible()
    await upload(page, packed("1.1.0"))
    await expect(installed(page, "1.1.0")).to_be_visible()
    await card.get_by_role("link", name="Details of greeter").click()
    await arrive(page, "greeter")
    await page.get_by_role("button", name="Remove").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_role("button", name="Keep it").click()
    await expect(dialog).to_have_count(0)
    await page.get_by_role("button", name="Remove").click()
    await dialog.get_by_role("button", name="Remove").click()
    await arrive(page, "Skills")
    await expect(page.get_by_role("heading", name="interview")).to_be_visible()
    await expect(page.get_by_role("heading", name="greeter")).to_have_count(0)


async def test_installed_skill_can_be_started_at_once(desk: Desk) -> None:
    page = await desk.open("/skills")
    await upload(page, packed())
    await page.get_by_role("link", name="Start a run", exact=True).last.click()
    await arrive(page, "New run")
    await page.get_by_role("radio", name="demo").check()
    await page.get_by_role("radio", name="Without questions").check()
    await page.get_by_role("button", name="Start the run").click()
    await opened(page, "succeeded")


async def test_skill_in_a_folder_tells_all_and_cannot_be_removed(desk: Desk) -> None:
    page = await desk.open("/skills/trip-plan")
    await arrive(page, "trip-plan")
    await expect(page.get_by_role("main")).to_contain_text("A town, a region or an island.")
    await expect(page.get_by_role("button", name="Remove")).to_have_count(0)
    await expect(page.get_by_role("heading", name="Check")).to_be_visible()


async def test_search_finds_by_any_word(desk: Desk) -> None:
    page = await desk.open("/skills")
    await page.get_by_role("searchbox").fill("weekend two")
    await expect(page.get_by_role("heading", name="trip-plan")).to_be_visible()
    await expect(page.get_by_role("heading", name="interview")).to_have_count(0)
