"""The page and its files. They hold no secret and need no token; whoever opens them signs in first.

There are many small files and no build step that would make one of them. So that a phone far away does not ask for
each of them at every visit, the page names them by an edition that changes with any of them, and browsers keep an
edition for good.
"""

from __future__ import annotations

import hashlib
import os
import re
from importlib import resources
from pathlib import Path

from fastapi import APIRouter
from starlette.responses import HTMLResponse, Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from turnkeeper import __version__
from turnkeeper.web.calls import Route

router = APIRouter(route_class=Route)

STATIC = "/static"
FOLDER = Path(str(resources.files("turnkeeper.web") / "static"))
POLICY = "; ".join(
    (
        "default-src 'none'",
        *(f"{kind}-src 'self'" for kind in ("script", "style", "connect", "font", "manifest")),
        "img-src 'self' data:",
        *(f"{what} 'none'" for what in ("base-uri", "form-action", "frame-ancestors")),
    )
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "Referrer-Policy": "no-referrer",
    # Asked for each time, sent only if it changed.
    "Cache-Control": "no-cache",
}
KEPT = {"Cache-Control": "public, max-age=31536000, immutable"}
_EDITION = re.compile(r"e-[0-9a-f]{16}/(.+)", re.DOTALL)


@router.api_route("/", methods=["GET", "HEAD"], response_class=HTMLResponse, include_in_schema=False)
async def page() -> HTMLResponse:
    text = (FOLDER / "index.html").read_text(encoding="utf-8")
    return HTMLResponse(text.replace(f'"{STATIC}/', f'"{STATIC}/e-{edition()}/'), headers=HEADERS)


def edition(root: Path = FOLDER) -> str:
    """Of all files as they are now: whoever works on the page sees each change at once."""
    seen = hashlib.sha256(__version__.encode())
    for folder, _, names in sorted(os.walk(root)):
        for name in sorted(names):
            facts = (Path(folder) / name).stat()
            seen.update(f"{folder}/{name} {facts.st_size} {facts.st_mtime_ns}\n".encode())
    return seen.hexdigest()[:16]


class Files(StaticFiles):
    def __init__(self) -> None:
        super().__init__(directory=str(FOLDER))

    async def get_response(self, path: str, scope: Scope) -> Response:
        named = _EDITION.fullmatch(path)
        answer = await super().get_response(named[1] if named else path, scope)
        answer.headers.update(HEADERS | (KEPT if named else {}))
        return answer
