"""What of a log a person reads: plain events in, plain records out."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import count
from typing import Any

import pytest

from turnkeeper.cli.conversation import Asked, Conversation, Note, Said, Shown, Tone, in_short, without_result
from turnkeeper.client.records import Event, Meta

QUESTION: dict[str, Any] = {"interaction_id": 1, "kind": "open_text", "prompt": "Which colour?"}


class Log:
    """Numbers events as a service does."""

    def __init__(self, *, verbose: bool = False) -> None:
        self.conversation = Conversation(verbose=verbose)
        self._numbers = count(1)

    def tell(self, type_: str, attempt: int = 1, **data: Any) -> list[Shown]:
        event = Event(
            run_id="r",
            seq=next(self._numbers),
            ts=datetime(2026, 11, 16, tzinfo=UTC),
            type=type_,
            data=data,
            meta=Meta(attempt=attempt),
        )
        return self.conversation.hear(event)

    def move(self, before: str, to: str, trigger: str, attempt: int = 1) -> list[Shown]:
        return self.tell(
            "conversation.state.changed", attempt, **{"from": before, "to": to, "trigger": trigger}
        )

    def starts(self) -> None:
        self.move("queued", "running", "turn.started")


def test_a_run_with_a_question() -> None:
    log = Log()
    begun = log.tell(
        "conversation.started", 0, skill_id="interview", engine="demo", execution_mode="interactive"
    )
    assert begun == [Note("interview on demo, interactive: in line")]
    assert log.move("queued", "running", "turn.started") == [Note("turn 1")]
    assert log.tell("assistant.reasoning", text="Hm.") == []
    assert log.tell("assistant.message.delta", message_id="1", text="Which ") == []
    assert log.tell("assistant.message.delta", message_id="1", text="colour?") == []
    assert log.conversation.streaming == "Which colour?"
    assert log.tell("assistant.message.final", message_id="1", text="Which colour?") == [
        Said("Which colour?")
    ]
    assert log.conversation.streaming == ""
    assert log.tell("usage.reported", input_tokens=5) == []
    assert log.move("running", "waiting_user", "turn.needs_input") == []
    assert log.tell("user.input.required", **QUESTION) == [Asked(QUESTION, is_told=True)]
    assert (log.conversation.pending, log.conversation.state) == (QUESTION, "waiting_user")
    answer: dict[str, Any] = {"interaction_id": 1, "response_preview": "Blue."}
    assert log.tell("interaction.reply.accepted", **answer) == [Note("Blue.", Tone.REPLY)]
    assert log.move("waiting_user", "queued", "interaction.reply.accepted") == []
    assert log.conversation.pending is None
    assert log.move("queued", "running", "turn.started", attempt=2) == [Note("turn 2")]
    assert log.tell("conversation.completed", 2, state="succeeded") == []
    assert (log.conversation.is_over, log.conversation.last_seq) == (True, 13)


def test_who_typed_an_answer_is_not_told_it() -> None:
    log = Log()
    log.conversation.answered_here.add(1)
    assert log.tell("interaction.reply.accepted", interaction_id=1, response_preview="Blue.") == []


def test_an_ask_block_is_a_question_and_no_words() -> None:
    log = Log()
    log.starts()
    block = "<ASK_USER_YAML>\ninteraction_id: 1\nprompt: x\n</ASK_USER_YAML>"
    log.tell("assistant.message.delta", message_id="1", text=f"Which colour?\n\n{block[:20]}")
    assert log.conversation.streaming == "Which colour?"
    said = log.tell("assistant.message.final", message_id="1", text=f"Which colour?\n\n{block}")
    assert said == [Said("Which colour?")]
    assert log.tell("user.input.required", **QUESTION) == [Asked(QUESTION, is_told=True)]
    other = QUESTION | {"prompt": "Something else?"}
    assert log.tell("user.input.required", **other) == [Asked(other, is_told=False)]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"answer": 1, "__SKILL_DONE__": true}', ""),
        ('{"answer": 1}', ""),
        ('Here it is.\n\n```json\n{"a": 1, "__SKILL_DONE__": true}\n```\n', "Here it is."),
        ('Here it is: {"a": 1, "__SKILL_DONE__": true} Bye.', "Here it is:  Bye."),
        ('Like this: {"a": 1}?', 'Like this: {"a": 1}?'),
        ('```json\n{"a": 1}\n```', '```json\n{"a": 1}\n```'),
        ("Just words.", "Just words."),
        ("", ""),
    ],
)
def test_a_result_is_shown_at_the_end_and_not_before(text: str, words: str) -> None:
    assert without_result(text) == words


def test_a_result_is_only_mentioned() -> None:
    log = Log()
    log.starts()
    log.tell("assistant.message.delta", message_id="1", text='{"answer": ')
    assert log.conversation.streaming == ""
    handed_in = log.tell("assistant.message.final", message_id="1", text='{"answer": 1}')
    assert handed_in == [Note("the agent hands in a result")]


def test_a_question_that_looks_like_a_result_is_shown_all_the_same() -> None:
    log = Log()
    log.starts()
    log.tell("assistant.message.final", message_id="1", text='{"answer": 1}')
    asked = QUESTION | {"prompt": '{"answer": 1}'}
    assert log.tell("user.input.required", **asked) == [Asked(asked, is_told=False)]


def test_words_that_were_cut_off_are_not_lost() -> None:
    log = Log()
    log.starts()
    log.tell("assistant.message.delta", message_id="1", text="I was about to")
    cut = log.move("running", "queued", "restart.resume_turn")
    assert cut[:2] == [Said("I was about to"), Note("the agent was cut off here")]
    assert isinstance(cut[2], Note)
    assert cut[2].tone is Tone.WARNING
    log.starts()
    log.tell("assistant.message.delta", message_id="2", text="And again")
    assert log.tell("conversation.failed", error={}) == [
        Said("And again"),
        Note("the agent was cut off here"),
    ]


class TestTools:
    def test_one_line_for_a_call(self) -> None:
        log = Log()
        log.starts()
        call: dict[str, Any] = {"call_id": "t1", "name": "shell"}
        assert log.tell("assistant.tool_call", **call, status="pending") == []
        begun = log.tell("assistant.tool_call", **call, status="in_progress", input={"command": "ls -l"})
        assert begun == [Note("shell ls -l", Tone.TOOL)]
        assert log.tell("assistant.tool_call", **call, status="completed", input={"command": "ls -l"}) == []

    def test_another_if_it_fails(self) -> None:
        log = Log()
        log.starts()
        failed = log.tell("assistant.tool_call", call_id="t", name="x", status="failed", output="no\nway")
        assert failed == [Note("x", Tone.TOOL), Note("x failed no way", Tone.TOOL)]

    @pytest.mark.parametrize(
        ("value", "short"),
        [
            (None, ""),
            ({}, ""),
            ("a\n  b", "a b"),
            ({"path": "a.md"}, "a.md"),
            ({"path": "a.md", "lines": [1, 2]}, "path: a.md, lines: [1, 2]"),
            ([1, {"a": 2}], '[1, {"a": 2}]'),
            ("x" * 300, "x" * 200 + "…"),
        ],
    )
    def test_in_short(self, value: Any, short: str) -> None:
        assert in_short(value) == short


def test_what_is_only_for_the_curious() -> None:
    log = Log(verbose=True)
    assert log.tell("assistant.reasoning", text="Hm.\n") == [Note("Hm.", Tone.THOUGHT)]
    assert log.tell("raw.stderr", text="a warning\n") == [Note("a warning")]


def test_warnings_and_decisions() -> None:
    log = Log()
    warned = log.tell("diagnostic.warning", code="ENGINE_REMARK", message="slow today")
    assert warned == [Note("slow today [ENGINE_REMARK]", Tone.WARNING)]
    decided = log.tell("interaction.auto_decide.timeout", interaction_id=1, policy="reject", timeout_sec=2.0)
    assert decided == [Note("nobody answered within 2 seconds: the agent decides (reject)", Tone.WARNING)]
    assert log.move("waiting_user", "queued", "interaction.withdrawn") == [
        Note("the agent went on without an answer")
    ]


def test_a_type_of_a_newer_service_is_passed_over() -> None:
    log = Log()
    assert log.tell("assistant.dances", style="waltz") == []
    assert log.conversation.last_seq == 1
