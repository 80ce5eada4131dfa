"""Takes the pictures of the documentation: `make pictures`. A morning on the demo engine, as if it were real."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path

from playwright.async_api import Browser, Page, expect

from tests.browser import chromium
from tests.browser.conftest import EXAMPLES, OWN
from tests.browser.desk import PHONE, Desk
from tests.browser.palette import reduced
from tests.browser.run_page import opened as opened_run
from tests.harness import Json, Place, opened
from tests.spec.scripts import INTERACTIVE, script

FOLDER = Path(__file__).parents[2] / "docs" / "images"
SIZE = {"width": 1160, "height": 770}
SHARP = 2
LARGEST = 200_000
HOUR, MINUTE = 3600, 60

NOTES: Json = {"version": "2.4.0", "highlights": ["Boards can be exported as PDF"]}
MEETING: Json = {"title": "Weekly", "notes": "Friday is the last day for texts. Ada asks the translators."}
READS: list[Json] = [
    {"think": "The notes are long; I read them in parts."},
    {"tool": {"name": "read_file", "input": {"path": "notes.txt"}, "output": "412 lines"}},
    {"say": "I have read the notes and sort the decisions now."},
]
LIMIT = {
    "fail": {"code": "ENGINE_QUOTA_EXHAUSTED", "message": "The monthly limit of this account is reached."}
}


class Morning:
    """The runs of a morning: some over, one at work, three that wait for a person."""

    def __init__(self, place: Place, folder: Path) -> None:
        self._place = place
        self._client = place.client
        self._done = folder / "done"
        self.waiting = ""
        self.ended = ""

    async def pass_by(self) -> None:
        self._place.clock.advance(-3 * HOUR)
        await self._ended("meeting-notes", input=MEETING)
        self._place.clock.advance(50 * MINUTE)
        await self._ended("meeting-notes", script([LIMIT]), input=MEETING)
        self._place.clock.advance(40 * MINUTE)
        self.ended = await self._release_notes("2.3.1", "Administrators", "Nobody this time.")
        self._place.clock.advance(65 * MINUTE)
        await self._asks("interview", input={"topic": "the new onboarding"})
        self._place.clock.advance(17 * MINUTE)
        await self._asks("trip-plan", input={"destination": "Porto", "travellers": "two adults"})
        self._place.clock.advance(7 * MINUTE)
        await self._at_work()
        self.waiting = await self._asks("release-notes", input=NOTES)

    async def _ended(self, skill: str, plays: Json | None = None, **job: object) -> None:
        await self._client.ended(await self._client.create(skill, plays, **job))

    async def _asks(self, skill: str, **job: object) -> str:
        run_id = await self._client.create(skill, None, **INTERACTIVE, **job)
        await self._client.settled(run_id)
        return run_id

    async def _release_notes(self, version: str, *answers: str) -> str:
        run_id = await self._asks("release-notes", input={"version": version})
        for answer in answers:
            await self._client.reply(run_id, answer)
            await self._client.settled(run_id)
        return run_id

    async def _at_work(self) -> None:
        await self._client.until(
            await self._client.create(
                "meeting-notes", script([*READS, {"wait_for": str(self._done)}]), input=MEETING
            ),
            "running",
        )

    def end(self) -> None:
        self._done.touch()


async def inbox(page: Page) -> None:
    await expect(page.locator("li[data-run]")).to_have_count(7)


async def result(page: Page) -> None:
    run = await opened_run(page, "succeeded")
    await expect(run.outcome.get_by_role("link", name="RELEASE-NOTES.md")).to_be_in_viewport()


async def filled_in(page: Page) -> None:
    await page.get_by_role("textbox", name="Version").fill("2.4.0")
    await page.get_by_role("button", name="Add to Highlights").click()
    await page.get_by_role("textbox", name="Highlights 1").fill("Boards can be exported as PDF")
    await page.evaluate("document.activeElement.blur(); scrollTo(0, 0)")


async def question(page: Page) -> None:
    run = await opened_run(page, "waiting_user")
    await expect(run.option("Administrators")).to_be_visible()


Ready = Callable[[Page], Awaitable[None]]


def shots(morning: Morning) -> list[tuple[str, str, Ready, Json]]:
    """Name, place, what to wait for, and what the screen is like."""
    dark, phone = {"color_scheme": "dark"}, {"viewport": PHONE, "is_mobile": True, "has_touch": True}
    return [
        ("inbox", "/", inbox, {}),
        ("run", f"/runs/{morning.waiting}", question, {}),
        ("result", f"/runs/{morning.ended}", result, dark),
        ("new-run", "/new?skill=release-notes&engine=demo", filled_in, {}),
        ("phone", f"/runs/{morning.waiting}", question, phone),
        ("phone-inbox", "/", inbox, phone | dark),
    ]


async def take(browser: Browser, desk: Desk, morning: Morning) -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, path, ready, screen in shots(morning):
        page = await desk.open(path, **({"viewport": SIZE, "device_scale_factor": SHARP} | screen))
        await ready(page)
        await page.mouse.move(0, 0)
        target = FOLDER / f"{name}.png"
        picture = await page.screenshot(animations="disabled", caret="hide")
        size = target.write_bytes(await reduced(browser, picture))
        assert size < LARGEST, f"{target} has {size} bytes; {LARGEST} at most"
        sys.stdout.write(f"{target.relative_to(FOLDER.parents[1])}: {size // 1000} kB\n")


async def main() -> None:
    path = chromium.find()
    if path is None:
        sys.exit(chromium.ADVICE)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        async with (
            chromium.launched(path) as browser,
            opened(folder / "data", skills_dir=(EXAMPLES, OWN), slots=4) as place,
        ):
            morning = Morning(place, folder)
            await morning.pass_by()
            desk = Desk(browser, place)
            await take(browser, desk, morning)
            morning.end()
            await desk.leave()


if __name__ == "__main__":
    asyncio.run(main())
