"""What the server has been asked, and what it was told to answer; safe to use from all threads."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from .replies import Reply
from .requests import Line, Request
from .script import choose


@dataclass(frozen=True)
class Seen:
    """One request to the model."""

    protocol: str
    path: str
    model: str
    rule: str
    conversation: tuple[Line, ...]
    tools: tuple[str, ...]
    headers: Mapping[str, str]
    """Their names in small letters."""
    body: str
    """All of it, as it came."""


class Log:
    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._seen: list[Seen] = []
        self._open = 0
        self._forced: str | None = None

    def seen(self, containing: str = "") -> list[Seen]:
        """The requests that have this text somewhere in their conversation, oldest first."""
        with self._changed:
            return [each for each in self._seen if any(containing in text for _, text in each.conversation)]

    def force(self, marker: str | None) -> None:
        """From now on this marker picks each reply, whatever the conversations say; None ends that."""
        with self._changed:
            self._forced = marker

    def idle(self, within: float) -> bool:
        """Whether no request is open any more, at the latest after so many seconds."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._open, within)

    @contextmanager
    def answering(
        self, request: Request, path: str, headers: Mapping[str, str], body: str
    ) -> Iterator[tuple[int, Reply]]:
        """Notes the request, which is open until the block ends. Gives its number and the reply to it."""
        said, tools = request.conversation, tuple(request.tools)
        with self._changed:
            rule, reply = choose(request, self._forced)
            self._seen.append(Seen(request.protocol, path, request.model, rule, said, tools, headers, body))
            number = len(self._seen)
            self._open += 1
        try:
            yield number, reply
        finally:
            with self._changed:
                self._open -= 1
                self._changed.notify_all()
