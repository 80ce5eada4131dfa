"""One run as it is seen in a tab: its conversation, its answer box, its outcome."""

from __future__ import annotations

from playwright.async_api import Locator, Page, expect


class RunPage:
    def __init__(self, page: Page) -> None:
        self.page = page
        self.conversation = page.get_by_role("region", name="Conversation")
        self.messages = page.get_by_test_id("message")
        self.asked = page.get_by_test_id("asked")
        self.answers = page.get_by_test_id("answer")
        self.late = page.get_by_test_id("late")
        self.outcome = page.get_by_test_id("outcome")
        self.status = page.get_by_test_id("status-line").locator("[data-status]")
        self.link = page.get_by_test_id("link")
        self.box = page.get_by_role("region", name="Your answer")
        self.words = self.box.get_by_role("textbox")
        self.send = self.box.get_by_role("button", name="Send")

    def option(self, label: str) -> Locator:
        return self.box.get_by_role("group").get_by_role("button", name=label)

    async def say(self, text: str) -> None:
        await self.words.fill(text)
        await self.send.click()

    async def reaches(self, status: str) -> None:
        await expect(self.status).to_have_attribute("data-status", status)

    async def asks(self, number: int) -> None:
        """Until this question is the open one."""
        await expect(self.box.get_by_role("heading")).to_contain_text(str(number))

    async def said(self) -> list[str]:
        """Everything in the conversation, item by item."""
        return [text.strip() for text in await self.conversation.locator("li.item").all_inner_texts()]


async def opened(page: Page, status: str) -> RunPage:
    run = RunPage(page)
    await run.reaches(status)
    return run
