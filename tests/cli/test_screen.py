"""What reaches a terminal, and what never does: an agent's words are words, whatever signs they hold."""

from __future__ import annotations

import io
import json

import pytest
from rich.console import Console

from turnkeeper.cli.conversation import Asked, Note, Said, Shown, Tone
from turnkeeper.cli.outcome import harmless
from turnkeeper.cli.screen import LiveScreen, Progress, SafeMarkdown, lines_of
from turnkeeper.cli.terminal import printable, printable_lines

NASTY = "\x1b]0;owned\x07 \x1b[2J \x9b31m \u202egnp.exe \r hidden \x08\x08"
QUESTION = {
    "interaction_id": 2,
    "kind": "permission",
    "prompt": f"Delete it? {NASTY}",
    "options": [{"label": f"Yes {NASTY}", "value": "y", "kind": "allow_once"}],
    "context": {"input": {"command": NASTY}, NASTY: 1},
    "expires_at": "2026-11-16T12:00:00.000000Z",
}
EVERYTHING: list[Shown] = [
    Said(
        f"# Title {NASTY}\n\n[a link](http://example.com/{NASTY}) `{NASTY}` &#27;[31m &#x9b;31m <b>{NASTY}</b>"
    ),
    Said(f"```python\n{NASTY}\n```\n\n| a | b |\n|---|---|\n| {NASTY} | x |\n\n![image {NASTY}](x.png)"),
    *(Note(f"{NASTY}\nsecond {NASTY}", tone) for tone in Tone),
    Asked(QUESTION, is_told=False),
    Asked(QUESTION, is_told=True),
    Asked(QUESTION, is_told=False, is_open=False),
]
COMMANDS = {"\x1b]", "\x07", "\x9b", "\u202e", "\x08", "\x1b[2J"}


@pytest.mark.parametrize("item", EVERYTHING, ids=lambda item: type(item).__name__)
def test_no_command_reaches_a_file(item: Shown) -> None:
    for line in lines_of(item):
        assert all(sign.isprintable() for sign in line), repr(line)


@pytest.mark.parametrize("item", EVERYTHING, ids=lambda item: type(item).__name__)
def test_no_command_reaches_a_terminal(item: Shown) -> None:
    shown = on_a_terminal(item)
    assert not {sign for sign in COMMANDS if sign in shown}, repr(shown)
    assert "\r" not in shown
    # Without colours there is nothing left that rich itself would say to the terminal.
    assert all(sign.isprintable() or sign == "\n" for sign in on_a_terminal(item, color_system=None)), shown


def on_a_terminal(item: Shown, color_system: str | None = "truecolor") -> str:
    out = io.StringIO()
    console = Console(
        file=out,
        force_terminal=True,
        width=60,
        color_system=color_system,  # type: ignore[arg-type]
        markup=False,
        highlight=False,
        emoji=False,
        _environ={},
    )
    LiveScreen(console).show(item)
    return out.getvalue()


def test_markdown_is_drawn() -> None:
    out = io.StringIO()
    Console(file=out, width=40).print(SafeMarkdown("- *one*\n- [red]two[/red] :smile:"))
    assert out.getvalue().split() == ["•", "one", "•", "[red]two[/red]", ":smile:"]


def test_links_show_where_they_lead() -> None:
    assert "http://example.com" in on_a_terminal(Said("[your bank](http://example.com)"))


@pytest.mark.parametrize("width", [20, 200])
def test_notes_take_one_line_whatever_the_width(width: int) -> None:
    out = io.StringIO()
    LiveScreen(Console(file=out, force_terminal=True, width=width, color_system=None)).show(
        Note("shell " + "very " * 60, Tone.TOOL)
    )
    assert out.getvalue().count("\n") == 1


def test_blanks_and_joined_signs_stay() -> None:
    words = "你好\u3000世界 caf\u00e9\u00a0! \U0001f468\u200d\U0001f469 नमस्ते"
    assert printable(words) == words
    assert printable_lines("a\tb\r\nc") == "a   b\nc"
    assert printable("a\u2028b\u0000c\ud800") == "a\ufffdb\ufffdc\ufffd"


def test_json_stays_the_same_value() -> None:
    value = {"a": f"{NASTY}\u2028\x7f\U000e0001", "b": "ü你 \u3000"}
    text = harmless(json.dumps(value, ensure_ascii=False, indent=2))
    assert json.loads(text) == value
    assert not {sign for sign in text if not sign.isprintable()} - {"\n", "\u3000"}
    assert "ü你" in text


def test_the_moving_line() -> None:
    progress = Progress(began=0, heard=0, queue_position=3)
    assert progress.sentence(2.5) == "in line, number 3 · 2 s"
    progress.state, progress.attempt = "running", 2
    assert progress.sentence(4) == "the agent is at work · turn 2 · 4 s"
    assert progress.sentence(70) == "the agent is at work · turn 2 · 1 min 10 s · quiet for 1 min 10 s"
    progress.state, progress.waiting_for = "queued", "upload"
    assert progress.sentence(70) == "waiting for its files · turn 2 · 1 min 10 s"


def test_of_a_question_that_was_answered_nobody_is_told_how_to() -> None:
    for is_open in (True, False):
        item = Asked(QUESTION, is_told=True, is_open=is_open)
        shown = f"{on_a_terminal(item)} {lines_of(item)}"
        assert ("to refuse" in shown, "answer before" in shown, "Yes" in shown) == (is_open, is_open, True)
