"""Looks over a browser's shoulder for a whole test: what the page complains of, and whom it speaks to."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urlsplit

from playwright.async_api import BrowserContext, ConsoleMessage, Request, WebError

TELL_VIOLATIONS = """
addEventListener("securitypolicyviolation", (event) =>
  window.tellViolation(`${event.effectiveDirective} refused ${event.blockedURI || "something inline"}`));
"""
INSIDE = ("data", "blob")
"""Schemes of addresses that nobody is asked for."""


class Watch:
    """A test that causes a refusal on purpose says so with `expect`; anything else that is noted fails it."""

    def __init__(self, origin: str) -> None:
        self._origin = origin
        self._expected: list[str] = []
        self.complaints: list[str] = []
        self.strangers: list[str] = []
        """Addresses that are not the service's."""
        self.calls: list[str] = []
        """Method and path of all that was asked of the service."""

    async def attach(self, context: BrowserContext) -> None:
        await context.expose_binding("tellViolation", self._violated)
        await context.add_init_script(TELL_VIOLATIONS)
        context.on("console", self._said)
        context.on("weberror", self._broke)
        context.on("request", self._asked)

    def expect(self, *patterns: str) -> None:
        """Complaints that belong to the test, such as `status of 409`."""
        self._expected += patterns

    def _violated(self, source: Any, text: str) -> None:
        self.complaints.append(f"policy: {text}")

    def _said(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(f"console: {message.text} ({message.location['url']})")

    def _broke(self, error: WebError) -> None:
        self.complaints.append(f"page: {error.error.stack or error.error.message}")

    def _asked(self, request: Request) -> None:
        address = urlsplit(request.url)
        if address.scheme in INSIDE:
            return
        self.calls.append(f"{request.method} {address.path}")
        if f"{address.scheme}://{address.netloc}" != self._origin:
            self.strangers.append(request.url)

    def assert_clean(self) -> None:
        left = [each for each in self.complaints if not any(re.search(one, each) for one in self._expected)]
        assert not left, "the browser complained:\n" + "\n".join(left)
        assert not self.strangers, f"the page asked somebody else: {self.strangers}"
