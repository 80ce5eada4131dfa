"""Event logs at random, as the service could have written them: for what must hold of every log."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from tests.harness import Json
from turnkeeper.core.fcmp import Type

WORDS = (
    "The plan",
    "is ready.",
    "Next,",
    "a *list*:",
    "- one\n",
    "好的。",
    "```py\nx = 1\n```",
    " and ",
    "",
    "Why?",
)
TICK = "2026-03-01T09:{:02d}:{:02d}.000000Z"


class Writer:
    """Writes one log: turns with messages in pieces, thoughts, tools and noise between them, and a question each."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._attempt = 0
        self._events: list[Json] = []

    def write(self, turns: int) -> list[Json]:
        self._add(Type.CONVERSATION_STARTED, skill_id="answer", state="queued")
        for number in range(1, turns + 1):
            self._attempt = number
            self._turn(number)
            if number < turns:
                self._question(number)
        self._change("running", "succeeded", "turn.succeeded")
        self._add(Type.COMPLETED, result_path="result.json")
        return self._events

    def _add(self, what: Type, **data: object) -> None:
        seq = len(self._events) + 1
        self._events.append(
            {
                "seq": seq,
                "ts": TICK.format(seq // 60 % 60, seq % 60),
                "type": what.value,
                "data": data,
                "meta": {"attempt": self._attempt},
                "raw_ref": {"try": 1, "stream": "stdout", "offset": seq, "length": 1},
            }
        )

    def _change(self, before: str, after: str, trigger: str) -> None:
        self._add(Type.STATE_CHANGED, **{"from": before, "to": after, "trigger": trigger})

    def _turn(self, number: int) -> None:
        self._change("queued", "running", "turn.started")
        strands = [self._strand(place) for place in range(self._random.randint(1, 6))]
        while strands:  # several at once: a tool may run while the agent speaks
            strand = self._random.choice(strands)
            if next(strand, None) is None:
                strands.remove(strand)

    def _strand(self, place: int) -> Iterator[bool]:
        """Each step adds an event."""
        kinds = (self._message, self._tool, self._thoughts, self._noise)
        for _ in range(self._random.randint(1, 3)):
            yield from self._random.choice(kinds)(f"{self._attempt}.{place}.{len(self._events)}")

    def _message(self, name: str) -> Iterator[bool]:
        pieces = self._random.choices(WORDS, k=self._random.randint(0, 5))
        for piece in pieces:
            self._add(Type.MESSAGE_DELTA, message_id=name, text=piece)
            yield True
        self._add(Type.MESSAGE_FINAL, message_id=name, text="".join(pieces) or "Done.")
        yield True

    def _tool(self, name: str) -> Iterator[bool]:
        if self._random.random() < 0.6:
            self._add(Type.TOOL_CALL, call_id=name, name="shell", status="pending", input={"command": name})
            yield True
        self._add(Type.TOOL_CALL, call_id=name, name="shell", status="completed", output="ok")
        yield True

    def _thoughts(self, name: str) -> Iterator[bool]:
        for _ in range(self._random.randint(1, 4)):
            self._add(Type.REASONING, text=self._random.choice([word for word in WORDS if word]))
            yield True

    def _noise(self, name: str) -> Iterator[bool]:
        for _ in range(self._random.randint(1, 3)):
            what = self._random.choice((Type.RAW_STDOUT, Type.RAW_STDERR, Type.WARNING, Type.USAGE))
            self._add(what, text=name, code="LINE_UNREADABLE", message=name)
            yield True

    def _question(self, number: int) -> None:
        said = [event["data"]["text"] for event in self._events if event["type"] == Type.MESSAGE_FINAL.value]
        prompt = said[-1] if said and self._random.random() < 0.5 else "Shall I go on?"
        self._add(Type.INPUT_REQUIRED, interaction_id=number, kind="open_text", prompt=prompt, options=[])
        self._change("running", "waiting_user", "turn.asks")
        answered = self._random.choice((Type.REPLY_ACCEPTED, Type.AUTO_DECIDE_TIMEOUT))
        self._add(answered, interaction_id=number, resolution_mode="user_reply", response_preview="yes")
        self._change("waiting_user", "queued", "interaction.reply.accepted")


def random_log(random: Random) -> list[Json]:
    return Writer(random).write(turns=random.randint(1, 4))


def random_cuts(random: Random, length: int) -> list[int]:
    """Where the log is cut, ascending; none at all is possible too."""
    return sorted(random.sample(range(1, length), k=min(length - 1, random.randint(0, 6))))
