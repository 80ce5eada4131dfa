"""What a call answers with, where it is made all the time: a view of what is stored, written down as it is.

The model of an answer describes it, and a test holds the one against the other; FastAPI would check and copy each.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from starlette.middleware.gzip import GZipMiddleware
from starlette.responses import Response
from starlette.types import Receive, Scope, Send


class Shown(Response):
    media_type = "application/json"

    def __init__(self, view: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> None:
        super().__init__(msgspec.json.encode(view), headers=headers)


class ShownSmall(Shown):
    """For the list of runs, which every open inbox asks for again and again. Nothing else is compressed: not answers
    with a secret in them, whose length could give it away, and not the streams, whose events must not wait in a buffer.
    """

    LEVEL = 3
    """Of 9: runs are so much alike that more work would hardly make the list smaller."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await GZipMiddleware(super().__call__, compresslevel=self.LEVEL)(scope, receive, send)
