"""A text or a tool call in the shape of each protocol: whole, or as the events of a stream."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from .replies import Call, Say
from .requests import Json

INPUT_TOKENS, CACHED_TOKENS = 1234, 100
OUTPUT_TOKENS, REASONING_TOKENS = 17, 3
"""Of each answer. The second is a part of the first, in a protocol that has a place for it."""

_TOTAL = INPUT_TOKENS + OUTPUT_TOKENS
_PIECE = 16


@dataclass(frozen=True)
class Answer:
    model: str
    number: int
    """A part of each id, so that no two calls of a conversation share one."""
    reply: Say | Call

    @property
    def pieces(self) -> list[str]:
        text = self.reply.text if isinstance(self.reply, Say) else ""
        return [text[start : start + _PIECE] for start in range(0, len(text), _PIECE)]

    @property
    def breaks(self) -> str:
        return self.reply.breaks if isinstance(self.reply, Say) else ""


def whole(protocol: str, answer: Answer) -> Json:
    return _PROTOCOLS[protocol][0](answer)


def stream(protocol: str, answer: Answer) -> Iterator[str]:
    """Server-sent events. Two of the protocols name them, and repeat the name in the data."""
    for data in _PROTOCOLS[protocol][1](answer):
        yield (f"event: {data['type']}\n" if "type" in data else "") + f"data: {json.dumps(data)}\n\n"
    if protocol == "chat" and not answer.breaks:
        yield "data: [DONE]\n\n"


def _responses(answer: Answer) -> Json:
    number, reply = answer.number, answer.reply
    item: Json = {"id": f"item_{number}", "status": "completed"}
    if isinstance(reply, Call):
        item |= {"type": "function_call", "call_id": f"call_{number}"}
        item |= {"name": reply.name, "arguments": json.dumps(reply.arguments)}
    else:
        part = {"type": "output_text", "text": reply.text, "annotations": []}
        item |= {"type": "message", "role": "assistant", "content": [part]}
    usage = {
        "input_tokens": INPUT_TOKENS,
        "input_tokens_details": {"cached_tokens": CACHED_TOKENS},
        "output_tokens": OUTPUT_TOKENS,
        "output_tokens_details": {"reasoning_tokens": REASONING_TOKENS},
        "total_tokens": _TOTAL,
    }
    response = {"id": f"resp_{number}", "object": "response", "created_at": int(time.time())}
    return response | {"model": answer.model, "status": "completed", "output": [item], "usage": usage}


def _responses_events(answer: Answer) -> Iterator[Json]:
    response = _responses(answer)
    [item] = response["output"]
    place = {"output_index": 0, "content_index": 0, "item_id": item["id"]}
    begun = response | {"status": "in_progress", "output": [], "usage": None}
    yield {"type": "response.created", "response": begun}
    if answer.pieces:
        empty = item | {"status": "in_progress", "content": []}
        yield {"type": "response.output_item.added", "output_index": 0, "item": empty}
    for piece in answer.pieces:
        yield {"type": "response.output_text.delta", "delta": piece} | place
    if not answer.breaks:
        yield {"type": "response.output_item.done", "output_index": 0, "item": item}
        yield {"type": "response.completed", "response": response}


def _chat_frame(answer: Answer, kind: str, *choices: Json) -> Json:
    frame = {"id": f"chatcmpl-{answer.number}", "object": kind, "created": int(time.time())}
    return frame | {"model": answer.model, "choices": [{"index": 0} | choice for choice in choices]}


def _chat(answer: Answer) -> Json:
    reply = answer.reply
    if isinstance(reply, Call):
        function = {"name": reply.name, "arguments": json.dumps(reply.arguments)}
        call = {"index": 0, "id": f"call_{answer.number}", "type": "function", "function": function}
        reason, message = "tool_calls", {"role": "assistant", "content": None, "tool_calls": [call]}
    else:
        reason, message = "stop", {"role": "assistant", "content": reply.text}
    usage = {
        "prompt_tokens": INPUT_TOKENS,
        "prompt_tokens_details": {"cached_tokens": CACHED_TOKENS},
        "completion_tokens": OUTPUT_TOKENS,
        "completion_tokens_details": {"reasoning_tokens": REASONING_TOKENS},
        "total_tokens": _TOTAL,
    }
    choice = {"message": message, "finish_reason": reason}
    return _chat_frame(answer, "chat.completion", choice) | {"usage": usage}


def _chat_events(answer: Answer) -> Iterator[Json]:
    completion = _chat(answer)
    [choice] = completion["choices"]
    deltas = [{"content": piece} for piece in answer.pieces] or [choice["message"]]
    for delta in deltas:
        yield _chat_frame(answer, "chat.completion.chunk", {"delta": delta, "finish_reason": None})
    if not answer.breaks:
        ending = {"delta": {}, "finish_reason": choice["finish_reason"]}
        yield _chat_frame(answer, "chat.completion.chunk", ending)
        yield _chat_frame(answer, "chat.completion.chunk") | {"usage": completion["usage"]}


def _gemini_frame(answer: Answer, part: Json) -> Json:
    candidate = {"index": 0, "content": {"role": "model", "parts": [part]}}
    return {"candidates": [candidate], "modelVersion": answer.model, "responseId": f"gem-{answer.number}"}


def _gemini(answer: Answer, text: str | None = None) -> Json:
    """With another text it is the last frame of a stream."""
    reply = answer.reply
    if isinstance(reply, Call):
        call = {"id": f"call_{answer.number}", "name": reply.name, "args": reply.arguments}
        frame = _gemini_frame(answer, {"functionCall": call, "thoughtSignature": "c2ln"})
    else:
        frame = _gemini_frame(answer, {"text": reply.text if text is None else text})
    frame["candidates"][0]["finishReason"] = "STOP"
    # Thoughts are counted beside the candidates here, not as a part of them, so there are none.
    frame["usageMetadata"] = {
        "promptTokenCount": INPUT_TOKENS,
        "cachedContentTokenCount": CACHED_TOKENS,
        "candidatesTokenCount": OUTPUT_TOKENS,
        "totalTokenCount": _TOTAL,
    }
    return frame


def _gemini_events(answer: Answer) -> Iterator[Json]:
    *pieces, last = answer.pieces or [""]
    for piece in pieces:
        yield _gemini_frame(answer, {"text": piece})
    if not answer.breaks:
        yield _gemini(answer, last)


def _anthropic(answer: Answer) -> Json:
    reply = answer.reply
    if isinstance(reply, Call):
        call = {"id": f"toolu_{answer.number}", "name": reply.name, "input": reply.arguments}
        reason, block = "tool_use", {"type": "tool_use"} | call
    else:
        reason, block = "end_turn", {"type": "text", "text": reply.text}
    usage = {
        "input_tokens": INPUT_TOKENS - CACHED_TOKENS,  # the cached ones are counted beside them here
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": CACHED_TOKENS,
        "output_tokens": OUTPUT_TOKENS,
    }
    message = {"id": f"msg_{answer.number}", "type": "message", "role": "assistant", "model": answer.model}
    return message | {"content": [block], "stop_reason": reason, "stop_sequence": None, "usage": usage}


def _anthropic_events(answer: Answer) -> Iterator[Json]:
    message = _anthropic(answer)
    [block] = message["content"]
    yield {"type": "message_start", "message": message | {"content": [], "stop_reason": None}}
    empty = {key: {} if key == "input" else "" for key in ("input", "text") if key in block}
    yield {"type": "content_block_start", "index": 0, "content_block": block | empty}
    deltas = [{"type": "text_delta", "text": piece} for piece in answer.pieces]
    if isinstance(answer.reply, Call):
        deltas = [{"type": "input_json_delta", "partial_json": json.dumps(answer.reply.arguments)}]
    for delta in deltas:
        yield {"type": "content_block_delta", "index": 0, "delta": delta}
    if not answer.breaks:
        ending = {"stop_reason": message["stop_reason"], "stop_sequence": None}
        yield {"type": "content_block_stop", "index": 0}
        yield {"type": "message_delta", "delta": ending, "usage": {"output_tokens": OUTPUT_TOKENS}}
        yield {"type": "message_stop"}


_PROTOCOLS: dict[str, tuple[Callable[[Answer], Json], Callable[[Answer], Iterator[Json]]]] = {
    "responses": (_responses, _responses_events),
    "chat": (_chat, _chat_events),
    "gemini": (_gemini, _gemini_events),
    "anthropic": (_anthropic, _anthropic_events),
}
