"""Every page there is, each with something to see, for what must hold on all of them."""

from __future__ import annotations

from dataclasses import dataclass

from playwright.async_api import Page, expect

from tests.browser.desk import Desk
from tests.harness import Client
from tests.spec.scripts import INTERACTIVE, script

RICH = script(
    [
        {"think": "The numbers first.\nThen the words."},
        {
            "tool": {
                "name": "shell",
                "input": {"command": "ls -la " + "very-" * 40 + "long"},
                "output": "a\nb\n" + "x" * 300,
            }
        },
        {"raw": "a line that nobody asked for"},
        {"stderr": "and one more"},
        {
            "say": "# Findings\n\nSome *words*, a [link](https://example.org/), `code` and a table:\n\n"
            "| One | Two | Three | Four | Five | Six |\n| --- | ---: | --- | --- | --- | --- |\n"
            "| a long cell of a table | 2 | a long cell of a table | 4 | a long cell | six |\n\n"
            "1. first\n2. second\n\n- [x] done\n- [ ] open\n\n> quoted\n\n```python\n"
            "print('a line of code that is far too long for the screen of a telephone, but it is code')\n```\n"
            + "Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaft"
            * 2
        },
        {
            "ask": {
                "prompt": "Which way?",
                "kind": "choose_one",
                "options": [
                    {
                        "label": "The left one, with a label that needs a second line on a telephone",
                        "value": "left",
                    },
                    {"label": "Right", "value": "right"},
                ],
            }
        },
    ],
    [
        {"write_file": {"path": "out/" + "name-" * 20 + ".md", "text": "x"}},
        {"result": {"answer": "{{reply}}"}},
    ],
)


@dataclass(frozen=True)
class Stop:
    name: str
    path: str
    signs: tuple[str, ...]
    """What is in the page once it has arrived there, and in no other."""


def _run(name: str, run_id: str, sign: str) -> Stop:
    return Stop(name, f"/runs/{run_id}", (f"#details :text-is('{run_id}')", sign))


def _form(name: str, path: str, skill: str, *signs: str) -> Stop:
    return Stop(name, path, (f"form h2:text-is('{skill}')", "form button[type=submit]", *signs))


async def prepared(client: Client) -> list[Stop]:
    """The stops of the tour, with runs in every state behind them."""
    waiting = await client.create("answer", RICH, **INTERACTIVE)
    ended = await client.create("answer", RICH, **INTERACTIVE)
    failed = await client.create("answer", "auth_required")
    asking = await client.create("answer", "permission", **INTERACTIVE, permissions="ask")
    held = await client.create("document-summary", None)
    for run_id in (waiting, ended, failed, asking):
        await client.settled(run_id)
    await client.reply(ended, "right")
    assert (await client.settled(ended))["status"] == "succeeded"
    return [
        Stop("inbox", "/", ("li[data-run]",)),
        Stop("inbox, nothing found", "/?q=nothing-of-this-name", (".page-inbox .empty",)),
        _run("run that waits", waiting, "section [role=group] kbd"),
        _run("run that succeeded", ended, "[data-test=outcome] pre"),
        _run("run that failed", failed, "[data-test=outcome] code"),
        _run("run that asks for permission", asking, ".permission"),
        _run("run that waits for files", held, "input[type=file]"),
        Stop("new run, which skill", "/new", ("a.skill-link",)),
        _form("new run", "/new?skill=fields&engine=demo", "fields"),
        _form("new run, with a file", "/new?skill=document-summary", "document-summary", "input[type=file]"),
        _form("new run, anything goes", "/new?skill=plain&engine=demo", "plain"),
        _form("run again", f"/new?skill=answer&from={ended}", "answer"),
        Stop("skills", "/skills", (".skill-grid .chip.good", "#install-file")),
        Stop("skill", "/skills/document-summary", ("h1:text-is('document-summary')", "#facts", "#lint")),
        Stop("engines", "/engines", (".engine-grid",)),
        Stop("nowhere", "/nowhere", (".page-lost .empty",)),
    ]


async def visit(page: Page, stop: Stop) -> None:
    """In the same tab: the page changes, its document stays."""
    await page.evaluate("(path) => { location.hash = path; }", stop.path)
    for sign in stop.signs:
        await expect(page.locator(sign).first).to_be_attached()
    await expect(page.locator(".loading")).to_have_count(0)


async def sign_in_page(desk: Desk, **options: object) -> Page:
    visitor = await desk.visitor(signed_in=False, **options)
    visitor.watch.expect("status of 401")
    page = await visitor.open("/")
    await expect(page.locator("#proof")).to_be_visible()
    return page
