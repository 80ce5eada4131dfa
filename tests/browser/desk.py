"""People at their browsers: each `Visitor` has one of their own, with its cookies, its language and its screen."""

from __future__ import annotations

import json
from typing import Any

from playwright.async_api import Browser, BrowserContext, Page, ViewportSize, expect

from tests.browser.watch import Watch
from tests.harness import TOKEN, Place

DESKTOP: ViewportSize = {"width": 1280, "height": 800}
PHONE: ViewportSize = {"width": 360, "height": 740}
CALM: dict[str, Any] = {
    "locale": "en-GB",
    "timezone_id": "Europe/Berlin",
    "color_scheme": "light",
    "reduced_motion": "reduce",
    "viewport": DESKTOP,
}
"""What a browser is like unless a test says otherwise."""


class Visitor:
    def __init__(self, context: BrowserContext, watch: Watch, url: str) -> None:
        self.context = context
        self.watch = watch
        self.url = url

    async def open(self, path: str = "/") -> Page:
        """A new tab at a place such as `/runs/01a1`."""
        page = await self.context.new_page()
        await page.goto(f"{self.url}/#{path}")
        return page

    async def sign_in(self) -> None:
        answer = await self.context.request.post(f"{self.url}/v1/session", data={"token": TOKEN})
        assert answer.ok, await answer.text()
        key = json.dumps((await answer.json())["page_key"])
        await self.context.add_init_script(
            f"try {{ localStorage.setItem('turnkeeper.pageKey', {key}) }} catch {{}}"
        )


class Desk:
    """Brings visitors to a service; at the end none of their browsers may have complained."""

    def __init__(self, browser: Browser, place: Place) -> None:
        self._browser = browser
        self.place = place
        self.client = place.client
        self.visitors: list[Visitor] = []

    async def visitor(self, *, signed_in: bool = True, **options: Any) -> Visitor:
        context = await self._browser.new_context(**(CALM | options))
        watch = Watch(self.place.service.url)
        await watch.attach(context)
        visitor = Visitor(context, watch, self.place.service.url)
        self.visitors.append(visitor)
        if signed_in:
            await visitor.sign_in()
        return visitor

    async def open(self, path: str = "/", **options: Any) -> Page:
        """A page of a visitor who needs nothing else."""
        return await (await self.visitor(**options)).open(path)

    async def leave(self) -> None:
        for visitor in self.visitors:
            await visitor.context.close()

    def assert_clean(self) -> None:
        for visitor in self.visitors:
            visitor.watch.assert_clean()


async def arrive(page: Page, heading: str) -> None:
    """Until the page with this heading is there."""
    await expect(page.get_by_role("heading", level=1, name=heading)).to_be_visible()
