"""Holds a page against axe-core, and says readably what it found."""

from __future__ import annotations

from importlib import resources
from typing import Literal

from playwright.async_api import Page

from tests.harness import Json

SOURCE = (resources.files("axe_playwright_python") / "axe.min.js").read_text(encoding="utf-8")
SEVERE = ("serious", "critical")
OPTIONS = {"runOnly": {"type": "tag", "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]}}
THEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
MOST_SHOWN = 4
"""Places of one kind that are listed; the rest is counted."""


async def violations(page: Page) -> list[Json]:
    """Not by a script tag: our own policy would refuse it."""
    if not await page.evaluate("'axe' in window"):
        await page.evaluate(f"(() => {{ {SOURCE} }})()")
    report = await page.evaluate("(options) => axe.run(document, options)", OPTIONS)
    return [each for each in report["violations"] if each["impact"] in SEVERE]


async def barriers(page: Page) -> str:
    """What is in somebody's way, in either theme."""
    found = []
    for theme in THEMES:
        await page.emulate_media(color_scheme=theme)
        if wrong := await violations(page):
            found.append(f"{theme}\n{told(wrong)}")
    return "\n".join(found)


def told(found: list[Json]) -> str:
    return "\n".join(
        f"{each['impact']} {each['id']}: {each['help']}\n{_places(each['nodes'])}" for each in found
    )


def _places(nodes: list[Json]) -> str:
    shown = [f"    {node['html'][:160]}\n      {_reason(node)}" for node in nodes[:MOST_SHOWN]]
    more = [f"    and {len(nodes) - MOST_SHOWN} more"] if len(nodes) > MOST_SHOWN else []
    return "\n".join(shown + more)


def _reason(node: Json) -> str:
    return "; ".join(check["message"] for check in [*node["any"], *node["all"], *node["none"]])
