"""What a CLI asks the model, freed from its protocol: who said what so far, and which tools are on offer."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]
Line = tuple[str, str]
"""Who said what. Who: user, assistant, system, call (of a tool, by the assistant) or tool (its result)."""


@dataclass(frozen=True)
class Request:
    protocol: str
    model: str
    streamed: bool
    conversation: tuple[Line, ...]
    tools: Mapping[str, Json]
    """The schema of the arguments of each tool."""
    schema: Json | None
    """Of the answer, when only such JSON will do. Gemini alone asks for that."""


_GEMINI = re.compile(r"/models/([^/:]+):(generateContent|streamGenerateContent)$")
_PATHS = {"/responses": "responses", "/chat/completions": "chat", "/messages": "anthropic"}


def read(path: str, body: Json) -> Request | None:
    """None if no model is at the path."""
    if found := _GEMINI.search(path):
        protocol, model, streamed = "gemini", found[1], found[2] == "streamGenerateContent"
    elif known := [protocol for ending, protocol in _PATHS.items() if path.endswith(ending)]:
        protocol, model, streamed = known[0], body["model"], bool(body.get("stream"))
    else:
        return None
    tools = dict(_tools(body.get("tools") or ()))
    schema = body.get("generationConfig", {}).get("responseJsonSchema")
    return Request(protocol, model, streamed, tuple(_conversation(body)), tools, schema)


def _conversation(body: Json) -> Iterator[Line]:
    for place in ("instructions", "systemInstruction", "system"):
        if place in body:
            yield "system", _text(body[place])
    for place in ("input", "messages", "contents"):
        for item in body.get(place, ()):
            yield from _lines(_ROLES.get(item.get("role"), item.get("role")), item)


_ROLES = {"developer": "system", "model": "assistant"}


def _lines(role: str, part: Any) -> Iterator[Line]:
    """The four protocols name their parts differently enough to be read together."""
    match part:
        case {"call_id": _, "output": result}:
            yield "tool", _text(result)
        case {"type": "tool_result"}:
            yield "tool", _text(part.get("content", ""))
        case {"functionResponse": {"response": result}}:
            yield "tool", _text(result)
        case {"call_id": _} | {"type": "tool_use"} | {"function": _} | {"functionCall": _}:
            yield "call", json.dumps(part)
        case {"role": _}:
            content = part.get("content") or part.get("parts") or ()
            for each in [content] if isinstance(content, str) else content:
                yield from _lines(role, each)
            for call in part.get("tool_calls") or ():
                yield from _lines(role, call)
        case {"thought": True}:
            return
        case str() | {"text": _}:
            yield role, _text(part)


def _text(content: Any) -> str:
    match content:
        case str():
            return content
        case list():
            return "\n".join(_text(part) for part in content)
        case {"text": inner} | {"output": inner} | {"parts": inner}:
            return _text(inner)
    return json.dumps(content)


def _tools(offered: Iterable[Json]) -> Iterator[tuple[str, Json]]:
    for tool in offered:
        tool = tool.get("function", tool)
        if inner := tool.get("functionDeclarations") or tool.get("tools"):
            yield from _tools(inner)
        else:
            schemas = (tool.get(place) for place in ("parameters", "parametersJsonSchema", "input_schema"))
            yield tool.get("name") or tool["type"], next(filter(None, schemas), {})
