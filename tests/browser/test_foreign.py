"""Pages of other people, in a browser that is signed in: they read nothing, start nothing and answer nothing.

One is on another port of this host, to which the browser sends our cookie as well; one is on a host of its own; and one
is on a host whose name leads to the service itself.
"""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from playwright.async_api import Browser, BrowserContext, Page

from tests.browser import chromium
from tests.browser.conftest import SKIPPED
from tests.browser.desk import Visitor
from tests.browser.watch import Watch
from tests.harness import TOKEN, Client, Json, Place
from tests.spec.scripts import ANSWER, ASK, INTERACTIVE, script

EVIL = "evil.example"
UNGUARDED = "--disable-features=LocalNetworkAccessChecks"
"""Chromium would keep some pages from this machine by itself; browsers that do not are ours to keep out."""
NAMES = f"MAP {EVIL} 127.0.0.1, MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"

READ = """
async ([service, run]) => {
  const read = [];
  const job = `/v1/jobs/${run}`;
  const paths = ["/v1/jobs", "/v1/status", job, `${job}/bundle`, `${job}/logs/1/1/stdout`, `${job}/interaction/pending`,
    "/v1/openapi.json", "/v1/session", "/v1/answer", "/", "/healthz", "/static/app.js"];
  const ways = [{}, { credentials: "include" }, { mode: "no-cors", credentials: "include" }, { mode: "no-cors" },
    { credentials: "include", headers: { "X-Turnkeeper-Page": "x" } }, { headers: { Authorization: "Bearer x" } }];
  for (const path of paths) {
    for (const way of ways) {
      try {
        const answer = await fetch(service + path, way);
        const text = await answer.text();
        const isAnything = answer.status || text || [...answer.headers].length;
        if (isAnything) read.push([path, way, answer.status, text.slice(0, 80)]);
      } catch {
        // as it should be
      }
    }
  }
  return read;
}
"""
LOAD = """
async ([service, run]) => {
  const loaded = [];
  const job = `/v1/jobs/${run}`;
  const files = ["/static/icon.svg", "/static/lib/early.js", "/static/app.css"];
  const paths = ["/v1/jobs", `${job}/bundle`, `${job}/artifacts/picture.svg`, ...files];
  const tags = { img: "src", script: "src", link: "href", video: "src", object: "data", embed: "src" };
  for (const path of paths) {
    for (const [tag, name] of Object.entries(tags)) {
      const element = document.createElement(tag);
      if (tag === "link") element.rel = "stylesheet";
      const outcome = new Promise((resolve) => {
        element.onload = element.onloadeddata = () => resolve("loaded");
        element.onerror = () => resolve("refused");
        setTimeout(() => resolve("nothing"), 1500);
      });
      element[name] = service + path;
      document.body.append(element);
      if ((await outcome) === "loaded" && tag !== "object" && tag !== "embed") loaded.push([tag, path]);
      element.remove();
    }
  }
  return loaded;
}
"""
FRAME = """
async (address) => {
  const frame = document.createElement("iframe");
  const loaded = new Promise((resolve) => ((frame.onload = resolve), setTimeout(resolve, 3000)));
  frame.src = address;
  document.body.append(frame);
  await loaded;
  let seen = null;
  try {
    seen = frame.contentWindow.document.body.innerText;
  } catch {
    // another origin, and nothing of it to be seen
  }
  return seen;
}
"""
CHANGE = """
async ([service, run, token]) => {
  const job = JSON.stringify({ skill_id: "answer", engine: "demo", execution_mode: "interactive" });
  const reply = JSON.stringify({ interaction_id: 1, response: "evil" });
  const prune = '{"keep_bytes":0,"status":["waiting_user"]}';
  const calls = [["/v1/jobs", job], [`/v1/jobs/${run}/interaction/reply`, reply], [`/v1/jobs/${run}/cancel`, "{}"],
    [`/v1/jobs/${run}/interaction/links`, "{}"], ["/v1/session/codes", "{}"], ["/v1/prune", prune],
    ["/v1/keys", '{"name":"evil","scopes":["admin"]}'], ["/v1/skills", "{}"],
    ["/v1/answer", '{"response":"evil"}'], ["/v1/session", JSON.stringify({ token })]];
  const told = [];
  for (const [path, body] of calls) {
    for (const type of ["text/plain", "application/json", "application/x-www-form-urlencoded"]) {
      for (const way of [{ mode: "no-cors" }, { mode: "cors" }, { mode: "no-cors", keepalive: true }]) {
        for (const credentials of ["include", "omit"]) {
          try {
            const headers = { "Content-Type": type };
            const answer = await fetch(service + path, { method: "POST", body, headers, credentials, ...way });
            if (answer.status) told.push([path, answer.status]);
          } catch {
            // as it should be
          }
        }
      }
    }
    navigator.sendBeacon(service + path, new Blob([body], { type: "text/plain" }));
    const frame = document.createElement("iframe");
    frame.name = `f${Math.random()}`;
    const form = document.createElement("form");
    Object.assign(form, { method: "POST", enctype: "text/plain", action: service + path, target: frame.name });
    const field = document.createElement("input");
    // The classic: the `=` of the form ends up inside a string of the JSON.
    Object.assign(field, { name: body.replace(/}$/, ',"x":"'), value: '"}' });
    form.append(field);
    document.body.append(frame, form);
    const sent = new Promise((resolve) => ((frame.onload = resolve), setTimeout(resolve, 1500)));
    form.submit();
    await sent;
  }
  return told;
}
"""


class _Evil(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = b"<!doctype html><title>evil</title><body>Look, a kitten."
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (as the base class calls it)
        pass


@pytest.fixture(scope="module")
def evil_port() -> Iterator[int]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Evil) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield int(server.server_address[1])
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
async def misled() -> AsyncIterator[Browser]:
    """A browser for which a stranger's name leads to this machine."""
    path = chromium.find()
    if path is None:
        pytest.skip(f"{SKIPPED}{chromium.ADVICE}")
    async with chromium.launched(path, NAMES, UNGUARDED) as browser:
        yield browser


@pytest.fixture
async def context(misled: Browser, place: Place) -> AsyncIterator[BrowserContext]:
    """Signed in, with the page of the service open in a tab."""
    context = await misled.new_context()
    visitor = Visitor(context, Watch(place.service.url), place.service.url)
    await visitor.sign_in()
    page = await visitor.open("/")
    await page.get_by_role("heading", level=1, name="Inbox").wait_for()
    cookies = await context.cookies()
    assert [cookie["sameSite"] for cookie in cookies] == ["Strict"]
    yield context
    await context.close()


@pytest.fixture
async def run_id(client: Client) -> str:
    picture = {"write_file": {"path": "picture.svg", "text": "<svg xmlns='http://www.w3.org/2000/svg'/>"}}
    run_id = await client.create("answer", script([picture, ASK], [ANSWER]), **INTERACTIVE)
    await client.settled(run_id)
    return run_id


@pytest.fixture(params=["another port", "another host"])
async def evil(request: pytest.FixtureRequest, context: BrowserContext, evil_port: int) -> Page:
    host = "127.0.0.1" if request.param == "another port" else EVIL
    page = await context.new_page()
    await page.goto(f"http://{host}:{evil_port}/")
    assert "kitten" in await page.inner_text("body")
    return page


async def known(client: Client, run_id: str) -> list[Json]:
    """All that a stranger could have changed."""
    runs = await client.runs()
    others = [
        (await client.http.get(f"/v1/{name}")).json() for name in ("journal", "keys", "secrets", "skills")
    ]
    return [*runs, *await client.history(run_id), *others]


async def test_reads_nothing(evil: Page, place: Place, run_id: str) -> None:
    assert await evil.evaluate(READ, [place.service.url, run_id]) == []


async def test_loads_nothing(evil: Page, place: Place, run_id: str) -> None:
    assert await evil.evaluate(LOAD, [place.service.url, run_id]) == []


@pytest.mark.parametrize("path", ["/", "/#/runs/{run}", "/v1/jobs", "/v1/jobs/{run}/logs/1/1/stdout"])
async def test_frames_nothing(evil: Page, place: Place, run_id: str, path: str) -> None:
    address = place.service.url + path.format(run=run_id)
    assert await evil.evaluate(FRAME, address) is None
    shown = [await frame.evaluate("document.body?.innerText ?? ''") for frame in evil.frames[1:]]
    assert not [text for text in shown if "Turnkeeper" in text or run_id in text or "Inbox" in text], shown


async def test_changes_nothing(evil: Page, place: Place, client: Client, run_id: str) -> None:
    before = await known(client, run_id)
    cookies = {cookie["value"] for cookie in await evil.context.cookies()}
    assert await evil.evaluate(CHANGE, [place.service.url, run_id, TOKEN]) == []
    assert await known(client, run_id) == before
    assert {cookie["value"] for cookie in await evil.context.cookies()} == cookies, (
        "nor is anybody signed in anew"
    )


async def test_opened_window_is_out_of_reach(evil: Page, place: Place) -> None:
    look = """async (address) => {
      const other = window.open(address);
      await new Promise((resolve) => setTimeout(resolve, 500));
      try { return other.document.body.innerText } catch { return null }
    }"""
    assert not await evil.evaluate(look, place.service.url)


class TestRebinding:
    """The name of a stranger leads to the service, at its own port: to the browser it is the stranger's page."""

    @pytest.mark.parametrize("path", ["/", "/healthz", "/static/app.js", "/v1/jobs", "/v1/session"])
    async def test_address_is_refused(self, context: BrowserContext, place: Place, path: str) -> None:
        page = await context.new_page()
        answer = await page.goto(self._rebound(place) + path)
        assert answer is not None
        assert answer.status == 403
        assert (await answer.json())["code"] == "HOST_NOT_ALLOWED"

    async def test_page_that_came_before_reads_and_changes_nothing(
        self, context: BrowserContext, place: Place, client: Client, run_id: str
    ) -> None:
        before = await known(client, run_id)
        page = await context.new_page()
        # As it came from the stranger's own server, before the name led here.
        await page.route("**/kitten", lambda route: route.fulfill(body="a kitten", content_type="text/html"))
        await page.goto(f"{self._rebound(place)}/kitten")
        ask = """async ([path, method, token]) => {
          const headers = { "Content-Type": "application/json", Authorization: `Bearer ${token}` };
          const body = method === "POST" ? JSON.stringify({ interaction_id: 1, response: "evil" }) : undefined;
          const answer = await fetch(path, { method, headers, body });
          return [answer.status, (await answer.json()).code];
        }"""
        refused = [403, "HOST_NOT_ALLOWED"]
        for token in ("guess", TOKEN):  # not even with the token: a page of that name has no business here
            assert await page.evaluate(ask, ["/v1/jobs", "GET", token]) == refused
            assert (
                await page.evaluate(ask, [f"/v1/jobs/{run_id}/interaction/reply", "POST", token]) == refused
            )
        assert await known(client, run_id) == before

    @staticmethod
    def _rebound(place: Place) -> str:
        return place.service.url.replace("127.0.0.1", EVIL)
