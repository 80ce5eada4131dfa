"""Both languages say everything, with the same places to fill in, and no room overwrites another's words."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.async_api import Page

from tests.browser.desk import Desk
from tests.harness import Json
from turnkeeper.web.page import FOLDER

# A function is called with a value for everything; what it leaves of a text without words is of no interest.
READ = """
async () => {
  const read = async (room, language) => {
    const words = (await import(`/static/words/${room}.${language}.js`)).default;
    const values = new Proxy({}, { get: () => 2, has: () => true });
    return Object.fromEntries(Object.entries(words).map(([key, text]) => [key, {
      places: typeof text === "function" ? null : [...text.matchAll(/\\{(\\w+)\\}/g)].map((found) => found[1]).sort(),
      text: typeof text === "function" ? String(text(values)) : text,
    }]));
  };
  const rooms = {};
  for (const room of ["frame", "catalogue", "guest"]) {
    rooms[room] = { en: await read(room, "en"), zh: await read(room, "zh") };
  }
  return rooms;
}
"""
USED = re.compile(r'\bt\(\s*"([\w.-]+)"')
"""Keys that are asked for by their full name; those that are put together while it runs are met by other tests."""


@pytest.fixture
async def page(desk: Desk) -> Page:
    return await desk.open("/")


async def test_languages_have_the_same_words(page: Page) -> None:
    rooms = await page.evaluate(READ)
    for room, words in rooms.items():
        assert words["en"].keys() == words["zh"].keys(), f"in {room}"
        for key, told in words["en"].items():
            other = words["zh"][key]
            assert told["text"].strip(), key
            assert other["text"].strip(), key
            if told["places"] is not None and other["places"] is not None:
                assert told["places"] == other["places"], f"{room}: {key}"


async def test_rooms_do_not_overwrite_each_other(page: Page) -> None:
    rooms = await page.evaluate(READ)
    both = rooms["frame"]["en"].keys() & rooms["catalogue"]["en"].keys()
    differing = {key for key in both if _told(rooms["frame"], key) != _told(rooms["catalogue"], key)}
    assert not differing, "these say one thing until another page was open, then another"


def _told(words: Json, key: str) -> list[str]:
    return [words[language][key]["text"] for language in ("en", "zh")]


async def test_every_word_that_is_asked_for_exists(page: Page) -> None:
    rooms = await page.evaluate(READ)
    known = {key for words in rooms.values() for key in words["en"]}
    sources = {
        path: path.read_text() for path in Path(str(FOLDER)).rglob("*.js") if "vendor" not in path.parts
    }
    used = {key: path.name for path, source in sources.items() for key in USED.findall(source)}
    assert not {key: name for key, name in used.items() if key not in known}
