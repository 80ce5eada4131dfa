"""A question as a terminal shows it, and what somebody typed means as an answer to it. Nothing is read or printed."""

from __future__ import annotations

import json
import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from turnkeeper.cli.conversation import in_short
from turnkeeper.core.permission import KIND as PERMISSION

CONFIRM = "confirm"
YES, NO = frozenset({"y", "yes"}), frozenset({"n", "no"})


@dataclass(frozen=True, slots=True)
class Option:
    label: str
    value: str
    kind: str = ""


@dataclass(frozen=True, slots=True)
class Form:
    """What of a question matters to who answers it in a terminal."""

    interaction_id: int
    prompt: str
    kind: str
    options: tuple[Option, ...] = ()
    wants: tuple[str, ...] = ()
    """What the agent wants to do, if it asks for a permission: a line for each thing that is known."""
    expires_at: datetime | None = None

    @property
    def is_permission(self) -> bool:
        return self.kind == PERMISSION

    @property
    def marks(self) -> Sequence[str]:
        """Numbers, unless an option is itself a number: then it would not be clear which one is meant."""
        numbers = [str(number) for number in range(1, len(self.options) + 1)]
        letters = string.ascii_lowercase[: len(self.options)]
        names = {name.strip() for option in self.options for name in (option.label, option.value)}
        return letters if names & set(numbers) and len(letters) == len(numbers) else numbers


def form_of(question: Mapping[str, Any]) -> Form:
    """Of a question as the service tells it, in the log or when asked for it."""
    kind, context = str(question.get("kind") or ""), question.get("context")
    known = context if kind == PERMISSION and isinstance(context, Mapping) else {}
    return Form(
        interaction_id=int(question["interaction_id"]),
        prompt=str(question["prompt"]),
        kind=kind,
        options=tuple(_option(each) for each in question.get("options") or ()),
        wants=tuple(f"{name}: {in_short(known[name])}" for name in known if name != "call_id"),
        expires_at=_moment(question.get("expires_at")),
    )


def understand(form: Form, typed: str) -> str | None:
    """The reply that is meant; None: ask again."""
    words = typed.strip()
    if not words:
        return None
    chosen = _chosen(form, words)
    if chosen is None and form.is_permission and words.casefold() in YES:
        return None  # it cannot be allowed just once, and as words it would refuse
    return chosen.value if chosen else words


def how_to_answer(form: Form) -> str:
    """For the line below the question."""
    marks = form.marks
    choose = f"{marks[0]}–{marks[-1]}" if len(marks) > 1 else "".join(marks)
    match (form.kind, bool(marks)):
        case ("permission", True):
            return (
                f"{choose}, y to allow it once, n to refuse; other words refuse too, and the agent hears them"
            )
        case ("confirm", True):
            return f"{choose}, y or n, or any other words"
        case ("confirm", False):
            return "y or n, or any other words"
        case (_, True):
            return f"{choose}, or your own words"
        case _:
            return "in your own words"


def time_left(form: Form, now: datetime) -> str | None:
    """In words; None if there is no deadline."""
    if form.expires_at is None:
        return None
    seconds = max(0, round((form.expires_at - now).total_seconds()))
    at = form.expires_at.astimezone().strftime("%H:%M:%S")
    return f"answer before {at} (in {in_time(seconds)})"


def in_time(seconds: float) -> str:
    """A length of time, as short as one would say it."""
    whole = int(seconds)
    for unit, size, smaller, rest in (("d", 86400, "h", 3600), ("h", 3600, "min", 60), ("min", 60, "s", 1)):
        if whole >= size:
            more = whole % size // rest
            return f"{whole // size} {unit} {more} {smaller}" if more else f"{whole // size} {unit}"
    return f"{whole} s" if whole or seconds < 0.05 else f"{seconds:.1f} s"


def _chosen(form: Form, words: str) -> Option | None:
    said = words.casefold()
    by_mark = dict(zip(form.marks, form.options, strict=True))
    if said.rstrip(".)") in by_mark:
        return by_mark[said.rstrip(".)")]
    for names in (_value, _label, _kind):
        for option in form.options:
            if names(option) == said:
                return option
    return _yes_or_no(form, said)


def _yes_or_no(form: Form, said: str) -> Option | None:
    """`y` at a permission allows it once, never for ever."""
    if said not in YES | NO or form.kind not in (CONFIRM, PERMISSION):
        return None
    if form.is_permission:
        kind = "allow_once" if said in YES else "reject_once"
        return next((option for option in form.options if option.kind == kind), None)
    meant = YES if said in YES else NO
    named = (option for option in form.options if meant & {_value(option), _first_word(option)})
    return next(named, Option("", "yes" if said in YES else "no"))


def _value(option: Option) -> str:
    return option.value.strip().casefold()


def _label(option: Option) -> str:
    return option.label.strip().casefold()


def _kind(option: Option) -> str:
    return option.kind or "\n"


def _first_word(option: Option) -> str:
    return _label(option).replace(",", " ").split(" ")[0]


def _option(entry: Any) -> Option:
    if not isinstance(entry, Mapping):
        return Option(str(entry), str(entry))
    value = entry.get("value", entry.get("label", ""))
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return Option(str(entry.get("label", text)), text, str(entry.get("kind") or ""))


def _moment(given: Any) -> datetime | None:
    if isinstance(given, datetime) or given is None:
        return given
    try:
        return datetime.fromisoformat(str(given))
    except ValueError:
        return None
