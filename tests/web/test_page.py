"""The page and its files as HTTP gives them; what they do in a browser is tested in one."""

from __future__ import annotations

import hashlib
import re
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from tests.harness import Place
from tests.web.problems import assert_problem
from turnkeeper.core.errors import Code
from turnkeeper.web.page import FOLDER, edition

STATIC = FOLDER


@pytest.fixture
async def stranger(place: Place) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=place.service.url, trust_env=False) as http:
        yield http


async def test_page_runs_nothing_but_its_own_files(stranger: httpx.AsyncClient) -> None:
    answer = await stranger.get("/")
    assert answer.status_code == 200
    policy = dict(part.split(" ", 1) for part in answer.headers["content-security-policy"].split("; "))
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
    assert policy["frame-ancestors"] == policy["base-uri"] == policy["form-action"] == "'none'"
    assert not re.search(r"<script(?![^>]*\bsrc=)|\bon\w+=|<style|\bstyle=|https?://", answer.text)


async def test_monitors_may_ask_for_the_head_of_it(stranger: httpx.AsyncClient) -> None:
    head, whole = await stranger.head("/"), await stranger.get("/")
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-security-policy"] == whole.headers["content-security-policy"]


async def test_every_file_is_served_with_its_kind(stranger: httpx.AsyncClient) -> None:
    kinds = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
    files = [path for path in sorted(STATIC.rglob("*")) if path.suffix in kinds]
    assert len(files) > 10
    for path in files:
        answer = await stranger.get(f"/static/{path.relative_to(STATIC)}")
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith(kinds[path.suffix]), path
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "script-src 'self'" in answer.headers["content-security-policy"]


async def test_unchanged_file_is_not_sent_again(stranger: httpx.AsyncClient) -> None:
    first = await stranger.get("/static/app.js")
    assert first.headers["cache-control"] == "no-cache"
    again = await stranger.get("/static/app.js", headers={"If-None-Match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


async def test_files_of_an_edition_are_kept_for_good(stranger: httpx.AsyncClient) -> None:
    """A phone that is far away would else ask for each of many small files at every visit."""
    text = (await stranger.get("/")).text
    named = re.findall(r'"(/static/[^"]+)"', text)
    assert len(named) >= 5
    for path in named:
        answer = await stranger.get(path)
        assert answer.status_code == 200, path
        assert "immutable" in answer.headers["cache-control"]
        assert "script-src 'self'" in answer.headers["content-security-policy"]


async def test_edition_changes_with_any_file(tmp_path: Path) -> None:
    before = edition(STATIC)
    copy = shutil.copytree(STATIC, tmp_path / "static")
    first = edition(copy)
    assert (edition(STATIC), edition(copy)) == (before, first)
    (copy / "lib" / "words.js").write_text("export {};")
    second = edition(copy)
    (copy / "lib" / "new.js").touch()
    assert len({first, second, edition(copy)}) == 3


async def test_files_come_small(stranger: httpx.AsyncClient) -> None:
    whole = await stranger.get("/static/vendor/marked.js", headers={"Accept-Encoding": "identity"})
    async with stranger.stream(
        "GET", "/static/vendor/marked.js", headers={"Accept-Encoding": "gzip"}
    ) as small:
        sent = sum([len(part) async for part in small.aiter_raw()])
    assert small.headers["content-encoding"] == "gzip"
    assert sent < len(whole.content) / 2


@pytest.mark.parametrize(
    "path",
    [
        "..%2fapp.py",
        "%2e%2e/app.py",
        "nothing.js",
        "",
        "lib",
        "vendor/",
        "e-0/app.js",
        "e-0123456789abcdef/../app.py",
        "e-0123456789abcdef/",
    ],
)
async def test_nothing_else_is_served(stranger: httpx.AsyncClient, path: str) -> None:
    answer = await stranger.get(f"/static/{path}")
    assert_problem(answer, 404, Code.NOT_FOUND)


def test_every_import_leads_to_a_file() -> None:
    """There is no build step that would notice."""
    for path in STATIC.rglob("*.js"):
        source = path.read_text(encoding="utf-8")
        for name in re.findall(r"""(?:from|import)\s*\(?["']([^"']+)["']""", source):
            if path.parent.name == "vendor" and not name.startswith("."):
                pytest.fail(f"{path.name} imports {name!r}, which no browser can find")
            assert (path.parent / name).is_file(), f"{path.relative_to(STATIC)} imports {name!r}"


def test_vendored_files_are_those_that_are_named() -> None:
    told = (STATIC / "vendor" / "VERSIONS.md").read_text(encoding="utf-8")
    files = sorted((STATIC / "vendor").glob("*.js"))
    assert len(files) >= 4
    for path in files:
        assert path.name in told
        assert hashlib.sha256(path.read_bytes()).hexdigest() in told, path.name


def test_both_languages_have_the_same_words() -> None:
    for english in STATIC.rglob("*.en.js"):
        chinese = english.with_name(english.name.replace(".en.js", ".zh.js"))
        keys = [
            set(re.findall(r"""^\s*["']?([\w.]+)["']?:""", each.read_text(), re.MULTILINE))
            for each in (english, chinese)
        ]
        assert keys[0], english
        assert keys[0] == keys[1], english
