"""What agents, files and skills say is shown, and never more than that: nothing of it runs, loads or leads astray."""

from __future__ import annotations

import io
import json
import re
import zipfile

import pytest
from playwright.async_api import FilePayload, Page, expect

from tests.browser.desk import Desk
from tests.browser.run_page import opened
from tests.harness import Client, Json
from tests.spec.scripts import ANSWER, INTERACTIVE, script

IMAGE = "<img src=x onerror='window.hacked=1'>"
BREAKOUT = "</script></textarea></title><script>window.hacked=2</script>"
TEMPLATE = "${window.hacked=3}"
BIDI = "invoice\u202efdp.exe\u2066\u200f"
LINKS = (
    "[click](javascript:window.hacked=4) [data](data:text/html,<script>window.hacked=5</script>) "
    "[entity](java&#115;cript:window.hacked=6) [tab](java\tscript:window.hacked=7) <javascript:window.hacked=8> "
    "[vb](VBSCRIPT:x) [file](file:///etc/passwd) [rel](//evil.example/x) ![pic](https://evil.example/pixel.png) "
    "![x](javascript:window.hacked=9) [good](https://example.org/page)"
)
HTML = (
    f"{IMAGE}\n\n<iframe srcdoc=\"<script>parent.hacked=10</script>\"></iframe>\n\n<svg onload='window.hacked=11'>"
    "<style>*{display:none!important}</style><form action='https://evil.example'><button>Sign in</button></form>"
    "<a href='javascript:window.hacked=12'>link</a><meta http-equiv=refresh content='0;url=https://evil.example'>"
)
ALL = f"{IMAGE}\n\n{BREAKOUT}\n\n{TEMPLATE}\n\n{BIDI}\n\n{LINKS}\n\n{HTML}"
MARKDOWN = f"# {IMAGE}\n\n| {IMAGE} |\n| --- |\n| {LINKS} |\n\n- {IMAGE}\n  - `{BREAKOUT}`"
TOOL = {"name": IMAGE, "input": {"command": ALL, IMAGE: BREAKOUT}, "output": ALL}
QUESTION = {
    "ask": {
        "prompt": ALL,
        "kind": "choose_one",
        "options": [{"label": IMAGE, "value": BREAKOUT}, {"label": BIDI, "value": "b"}],
        "ui_hints": {"placeholder": IMAGE},
        "context": {"note": ALL},
    }
}
SAFE = re.compile(r"^(https?://|mailto:|#|/)")


async def assert_harmless(page: Page) -> None:
    """The watch of the visitor looks for requests and violations; this, for what stands in the page."""
    assert await page.evaluate("window.hacked") is None
    foreign = (
        "iframe, object, embed, form[action], meta[http-equiv], base, style, script:not([src^='/static/'])"
    )
    assert await page.locator(foreign).count() == 0
    handlers = """() => [...document.querySelectorAll("*")].flatMap((element) => [...element.attributes])
      .filter((each) => /^on/i.test(each.name)).map((each) => each.name)"""
    assert await page.evaluate(handlers) == []
    images = await page.evaluate("() => [...document.images].map((each) => each.getAttribute('src'))")
    assert all(source.startswith("/static/") for source in images), images
    links = await page.evaluate("() => [...document.links].map((each) => each.getAttribute('href'))")
    assert all(SAFE.match(link) and not link.startswith("//") for link in links), links
    outside = """() => [...document.links].filter((each) => each.origin !== location.origin)
      .filter((each) => each.target !== "_blank" || !each.relList.contains("noopener")).length"""
    assert await page.evaluate(outside) == 0


async def test_conversation(desk: Desk, client: Client) -> None:
    steps: list[Json] = [
        {"think": ALL},
        {"tool": TOOL},
        {"raw": IMAGE},
        {"stderr": BREAKOUT},
        {"say": ALL},
        {"say": f"```html\n{HTML}\n```\n\n{MARKDOWN}"},
        QUESTION,
    ]
    run_id = await client.create("answer", script(steps, [ANSWER]), **INTERACTIVE)
    await client.settled(run_id)
    page = await desk.open(f"/runs/{run_id}")
    run = await opened(page, "waiting_user")
    await expect(run.messages.first).to_contain_text(IMAGE)
    for fold in await page.locator("details:not([open]) > summary").all():
        if await fold.is_visible():
            await fold.click()
    await expect(page.get_by_role("link", name="good").first).to_have_attribute(
        "href", "https://example.org/page"
    )
    await assert_harmless(page)
    await run.option(IMAGE).click()
    await run.reaches("succeeded")
    await expect(run.outcome).to_contain_text("window.hacked=2")
    await expect(run.answers).to_have_text([IMAGE])
    await assert_harmless(page)
    await page.goto(f"{page.url.partition('#')[0]}#/")
    await expect(page.locator("li[data-run]")).to_have_count(1)
    await assert_harmless(page)


async def test_inbox_and_errors(desk: Desk, client: Client) -> None:
    asking = await client.create("answer", script([QUESTION], [ANSWER]), **INTERACTIVE)
    failing = await client.create("answer", script([{"fail": {"code": "ENGINE_FAILED", "message": ALL}}]))
    await client.settled(asking)
    await client.ended(failing)
    page = await desk.open("/")
    await expect(page.locator(f"li[data-run='{asking}']")).to_contain_text(IMAGE)
    await assert_harmless(page)
    await page.goto(f"{page.url.partition('#')[0]}#/runs/{failing}")
    run = await opened(page, "failed")
    await expect(run.outcome).to_contain_text(IMAGE)
    await assert_harmless(page)


async def test_file_names(desk: Desk, client: Client) -> None:
    names = ["<img src=x onerror=hacked=1>.md", f"{BIDI}.txt", "a b&c=#?%2e%2e.txt", "\"'`.html"]
    files = [{"write_file": {"path": name, "text": BREAKOUT}} for name in names]
    run_id = await client.create("plain", script([*files, {"say": "Done."}, {"result": {"answer": "a"}}]))
    await client.ended(run_id)
    page = await desk.open(f"/runs/{run_id}")
    run = await opened(page, "succeeded")
    for name in names:
        link = run.outcome.get_by_role("link", name=name, exact=True)
        async with page.expect_download() as download:
            await link.click()
        assert (await (await download.value).path()).read_text() == BREAKOUT
    await assert_harmless(page)


async def test_permission(desk: Desk, client: Client) -> None:
    asked = {
        "tool": "shell",
        "title": ALL,
        "input": {"command": ALL, IMAGE: BREAKOUT},
        "options": [
            {"optionId": "yes", "name": IMAGE, "kind": "allow_once"},
            {"optionId": "no", "name": BIDI, "kind": "reject_once"},
        ],
    }
    steps = script([{"permission": asked}, {"result": {"answer": "{{permission}}"}}])
    run_id = await client.create("answer", steps, **INTERACTIVE, permissions="ask")
    await client.settled(run_id)
    page = await desk.open(f"/runs/{run_id}")
    run = await opened(page, "waiting_user")
    await expect(run.box).to_contain_text(IMAGE)
    await assert_harmless(page)
    await run.option(IMAGE).click()
    await run.reaches("succeeded")


def packed() -> FilePayload:
    """A skill whose every text is hostile; its id cannot be, since only letters and digits are taken."""
    schema = {
        "type": "object",
        "title": ALL,
        "description": ALL,
        "properties": {
            IMAGE: {
                "type": "string",
                "title": IMAGE,
                "description": ALL,
                "default": BREAKOUT,
                "examples": [IMAGE],
            },
            "pick": {"enum": [IMAGE, BREAKOUT], "description": BIDI},
            "__proto__": {"type": "string"},
            "constructor": {"type": "integer"},
        },
    }
    inside = {
        "SKILL.md": f"---\nname: hostile\ndescription: {json.dumps(ALL)}\n---\n{ALL}\n",
        "assets/runner.json": json.dumps(
            {
                "id": "hostile",
                "version": "1.0.0",
                "name": IMAGE,
                "description": ALL,
                "schemas": {"input": "assets/in.json"},
            }
        ),
        "assets/in.json": json.dumps(schema),
    }
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, text in inside.items():
            archive.writestr(f"hostile/{name}", text)
    return {
        "name": f"{IMAGE.replace('/', '')}.zip",
        "mimeType": "application/zip",
        "buffer": buffer.getvalue(),
    }


async def test_skill(desk: Desk) -> None:
    page = await desk.open("/skills")
    await page.locator("#install-file").set_input_files(packed())
    await expect(page.get_by_role("heading", name="hostile")).to_be_visible()
    await assert_harmless(page)
    for path in ("/skills/hostile", "/new", "/new?skill=hostile"):
        await page.goto(f"{page.url.partition('#')[0]}#{path}")
        await expect(page.get_by_role("main")).to_contain_text(IMAGE)
        await assert_harmless(page)
    await expect(page.get_by_label(IMAGE).first).to_have_value(BREAKOUT)


@pytest.mark.parametrize(
    "path",
    [
        "/runs/<img src=x onerror=hacked=1>",
        "/skills/%3Cimg%20src%3Dx%20onerror%3Dhacked%3D1%3E",
        "/new?skill=<script>hacked=1</script>",
        "/?q=<img src=x onerror=hacked=1>&status=<b>",
        "javascript:hacked=1",
        "/runs/..%2F..%2Fsession",
        "/skills/%",
        "code=",
        "code=%00&to=//evil.example",
        "code=x&to=javascript:hacked=1",
    ],
)
async def test_address(desk: Desk, path: str) -> None:
    visitor = await desk.visitor()
    visitor.watch.expect(r"status of 4\d\d")
    page = await visitor.open(path)
    await expect(page.get_by_role("main")).not_to_be_empty()
    await expect(page.locator(".loading")).to_have_count(0)
    await assert_harmless(page)
    assert page.url.startswith(visitor.url)
    assert "DELETE" not in " ".join(visitor.watch.calls)
