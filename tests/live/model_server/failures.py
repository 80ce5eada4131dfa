"""Failures in the words of each provider; the bodies are in `failures.json`, as they would come."""

from __future__ import annotations

import json
from pathlib import Path

from .replies import Fail
from .requests import Json, Request

_PROVIDERS = {"responses": "openai", "chat": "openai", "gemini": "gemini", "anthropic": "anthropic"}
_BODIES = Path(__file__).with_suffix(".json").read_text(encoding="utf-8")


def refuse(request: Request, fail: Fail) -> tuple[int, Json, dict[str, str]]:
    """Status, body and headers."""
    known = json.loads(_BODIES.replace("MODEL", request.model))[_PROVIDERS[request.protocol]]
    if fail.name in known:
        status, body = known[fail.name]
    else:
        status = int(fail.name)
        _, body = known["500" if status >= 500 else "400"]
        body["error"] |= {"message": f"scripted failure {status}"}
        body["error"] |= {"code": status} if request.protocol == "gemini" else {}
    if fail.message:
        body["error"]["message"] = fail.message
    return status, body, {"retry-after": "7"} if fail.name == "429" else {}
