"""The browser: the Chromium of this machine, found, or installed where that is allowed.

`python -m tests.browser.chromium` installs it if it is missing, apt is there and we are root.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from playwright.async_api import Browser, async_playwright

CHOSEN = "CHROMIUM"
"""A variable with the path of another one."""
NAMES = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
PACKAGES = ("chromium", "fonts-wqy-microhei")
"""The font is for Chinese: without one its pages would be tested, and painted, as empty boxes."""
ADVICE = (
    f"there is no Chromium (apt install {' '.join(PACKAGES)}, or the path of one in the variable {CHOSEN})"
)
# As root in a container it needs --no-sandbox; the rest keeps it from speaking to anybody but the service.
WORDS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    # The same pictures on every machine, as far as its fonts allow.
    "--disable-lcd-text",
)
NO_NAMES = "MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"
"""Names are not looked up at all, so nothing can leave this machine unseen."""


def find() -> str | None:
    chosen = os.environ.get(CHOSEN)
    return shutil.which(chosen) if chosen else next(filter(None, map(shutil.which, NAMES)), None)


def has_chinese_font() -> bool:
    try:
        listed = subprocess.run(["fc-list", ":lang=zh-cn"], capture_output=True, check=False)
    except FileNotFoundError:
        return False
    return bool(listed.stdout.strip())


def missing() -> list[str]:
    """The packages of Debian that would have to come."""
    is_there = {"chromium": find() is not None, "fonts-wqy-microhei": has_chinese_font()}
    return [name for name in PACKAGES if not is_there[name]]


def install(packages: list[str]) -> None:
    """What goes wrong is told by apt itself; the tests then say what is missing."""
    quiet = {"stdout": subprocess.DEVNULL, "env": os.environ | {"DEBIAN_FRONTEND": "noninteractive"}}
    update = ["apt-get", "update", "-qq"]
    fetch = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", *packages]
    if subprocess.run(update, check=False, **quiet).returncode == 0:  # type: ignore[call-overload]
        subprocess.run(fetch, check=False, **quiet)  # type: ignore[call-overload]


@asynccontextmanager
async def launched(path: str, names: str = NO_NAMES, *more: str) -> AsyncIterator[Browser]:
    """Playwright gives it a new, empty user data directory, and removes that afterwards."""
    async with async_playwright() as playwright:
        playwright.selectors.set_test_id_attribute("data-test")
        words = [*WORDS, f"--host-resolver-rules={names}", *more]
        browser = await playwright.chromium.launch(executable_path=path, headless=True, args=words)
        try:
            yield browser
        finally:
            await browser.close()


def main() -> None:
    packages = missing()
    if packages and shutil.which("apt-get") and os.geteuid() == 0:
        sys.stdout.write(f"installing {' and '.join(packages)}\n")
        sys.stdout.flush()
        install(packages)


if __name__ == "__main__":
    main()
