"""Keeps what nobody may read out of everything that is stored, shown or logged: for all words that come in."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from turnkeeper.core.run import Failure, RunWarning
from turnkeeper.engines.veil import Known, Veil, hidden, hidden_text


class Secrecy:
    def __init__(self) -> None:
        self.known = Known()

    def learn(self, secrets: Iterable[str]) -> None:
        """For the rest of the service's life: what was a secret once may stand in some text still to come."""
        self.known.learn(secrets)

    def veil(self) -> Veil:
        """For one stream of bytes."""
        return Veil(known=self.known)

    def hide_text(self, text: str) -> str:
        return hidden_text(text, self.veil())

    def hide_json(self, value: Any, masked: list[str] | None = None) -> Any:
        """`masked` gets the JSON pointers of what was changed."""
        return hidden(value, self.veil(), masked)

    def has_secret(self, text: str) -> bool:
        return self.hide_text(text) != text

    def hide_failure(self, failure: Failure | None) -> Failure | None:
        if failure is None:
            return None
        evidence = failure.evidence and self.hide_text(failure.evidence)
        return replace(failure, message=self.hide_text(failure.message), evidence=evidence)

    def hide_warnings(self, warnings: Iterable[RunWarning]) -> list[RunWarning]:
        return [replace(each, message=self.hide_text(each.message)) for each in warnings]

    @contextmanager
    def over_logs(self) -> Iterator[None]:
        """Whatever is logged meanwhile, by us or by a library."""
        veiled = _Discreet(self)
        handlers = list(logging.getLogger().handlers)
        for handler in handlers:
            handler.addFilter(veiled)
        try:
            yield
        finally:
            for handler in handlers:
                handler.removeFilter(veiled)


class _Discreet(logging.Filter):
    """Changes the record itself, words and traceback: every handler after this one sees it so."""

    _format = logging.Formatter()

    def __init__(self, secrecy: Secrecy) -> None:
        super().__init__()
        self._secrecy = secrecy

    def filter(self, record: logging.LogRecord) -> bool:
        hide = self._secrecy.hide_text
        try:
            words = record.getMessage()
        except Exception:  # noqa: BLE001 (arguments are anybody's; logging goes on, and does not repeat them)
            words = f"{record.msg if isinstance(record.msg, str) else type(record.msg)} (cannot be formatted)"
            record.msg, record.args = words, None
        if (shown := hide(words)) != words:
            record.msg, record.args = shown, None
        if record.exc_info:
            told = record.exc_text or self._format.formatException(record.exc_info)
            if (shown := hide(told)) != told:
                # A handler that formats for itself would begin again with the error, and not with its words.
                record.exc_text, record.exc_info = shown, None
        if record.stack_info:
            record.stack_info = hide(record.stack_info)
        return True
