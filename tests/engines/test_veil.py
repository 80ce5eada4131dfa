"""Secrets in a stream: hidden in whatever pieces they come, and nothing else is touched."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.engines.keys import EVERY, made
from tests.engines.processes import engine, python
from turnkeeper.core.errors import Code
from turnkeeper.core.permission import Choice, PermissionAsked
from turnkeeper.core.run import Failure
from turnkeeper.core.turn import (
    MAX_TOOL_TEXT,
    Ended,
    Model,
    Reasoning,
    Remark,
    Text,
    TextDelta,
    ToolCall,
    Transcript,
    TurnEvent,
)
from turnkeeper.engines.veil import Pieces, Veil

KEY = "sk-aaab-aaac"
OTHER = 'quo"ted\\key'
TEXT = f'first {KEY} and {KEY[:-1]} and again {KEY}{KEY}, then {OTHER} as JSON quo\\"ted\\\\key\n'.encode()
HIDDEN = (
    b"first ************ and sk-aaab-aaa and again ************************, "
    b"then *********** as JSON *************\n"
)


def hidden(*chunks: bytes, secrets: tuple[str, ...] = (KEY, OTHER)) -> bytes:
    veil = Veil(secrets)
    return b"".join([*map(veil.hide, chunks), veil.close()])


def test_every_border_between_two_pieces() -> None:
    for border in range(len(TEXT) + 1):
        assert hidden(TEXT[:border], TEXT[border:]) == HIDDEN


def test_byte_by_byte() -> None:
    assert hidden(*(TEXT[at : at + 1] for at in range(len(TEXT)))) == HIDDEN


@given(st.lists(st.sampled_from([b"sk-", b"aaa", b"b-", b"aaac", b"a", b"\n", KEY.encode()]), max_size=30))
def test_pieces_do_not_matter_and_nothing_is_lost(chunks: list[bytes]) -> None:
    whole = b"".join(chunks)
    shown = hidden(*chunks)
    assert shown == whole.replace(KEY.encode(), b"*" * len(KEY))


def test_what_could_be_anything_is_left_alone() -> None:
    """A key of a few characters would be found in ordinary words."""
    assert hidden(b"a box of x", secrets=("x", "", "box")) == b"a box of x"


def test_of_two_that_begin_alike_the_longer_is_hidden_whole() -> None:
    for border in range(15):
        chunks = (b"secret-one-two"[:border], b"secret-one-two"[border:])
        assert hidden(*chunks, secrets=("secret-one", "secret-one-two")) == b"*" * 14
    assert hidden(b"secret-one", b"-three", secrets=("secret-one", "secret-one-two")) == b"*" * 10 + b"-three"


def test_secrets_that_overlap_are_hidden_together() -> None:
    text = b"a secret-end-of-it, too"
    for border in range(len(text) + 1):
        shown = hidden(text[:border], text[border:], secrets=("secret-end", "end-of-it"))
        assert shown == b"a ****************, too"


def test_quoted_twice() -> None:
    secret = "first line\nsecond"
    quoted = json.dumps(json.dumps({"key": secret}))
    assert "first" not in hidden(quoted.encode(), secrets=(secret,)).decode()


SPOKEN = "wJalrXUtnFEMI/K7<MD>&'NG+bPx RfiCYöz\"EXAMPLEKEY="
ASCII = json.dumps(SPOKEN)
PERCENT = quote(SPOKEN, safe="")
WRITTEN = {
    "PHP": ASCII.replace("/", "\\/"),
    "PHP, and letters as they are": json.dumps(SPOKEN, ensure_ascii=False).replace("/", "\\/"),
    "PHP in JSON": json.dumps(ASCII.replace("/", "\\/")),
    "capital hex": ASCII.replace("\\u00f6", "\\u00F6"),
    "Go": ASCII.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"),
    "an address": PERCENT,
    "an address in small letters": re.sub("%..", lambda found: found[0].lower(), PERCENT),
    "an address with its slashes": quote(SPOKEN),
    "a form": quote_plus(SPOKEN),
    "JavaScript": quote(SPOKEN, safe="!~*'()"),
    "JavaScript, a whole address": quote(SPOKEN, safe=";,/?:@&=+$-_.!~*'()#"),
}
for sign in "<>&'=":
    WRITTEN["Gson"] = WRITTEN.get("Gson", ASCII).replace(sign, f"\\u{ord(sign):04x}")
for sign in "<>&'+":
    WRITTEN["C#"] = WRITTEN.get("C#", WRITTEN["capital hex"].replace('\\"', "\\u0022")).replace(
        sign, f"\\u{ord(sign):04X}"
    )


@pytest.mark.parametrize("how", WRITTEN)
def test_every_way_in_which_it_is_written(how: str) -> None:
    data = WRITTEN[how].encode()
    shown = hidden(b"it is ", data, b" indeed", secrets=(SPOKEN,))
    assert len(shown) == len(data) + 13
    for part in (b"wJal", b"FEMI", b"RfiC", b"EXAMPLE"):
        assert part not in shown


def test_a_secret_of_several_lines_ended_or_set_in_in_another_way() -> None:
    secret = "-----BEGIN THINGS-----\nfirst-line-of-it\nsecond-line-of-it\npassword\n12\n"
    assert hidden(secret.replace("\n", "\r\n").encode(), secrets=(secret,)).strip(b"*\r\n") == b""
    set_in = secret.replace("\n", "\n    ").encode()
    shown = hidden(set_in, secrets=(secret,))
    assert shown == set_in.replace(b"first-line-of-it", b"*" * 16).replace(b"second-line-of-it", b"*" * 17)


@given(st.lists(st.sampled_from([*WRITTEN.values(), "wJal", "x", "\n"])), st.lists(st.integers(0, 500)))
def test_forms_are_found_wherever_they_are_cut(told: list[str], borders: list[int]) -> None:
    data = "".join(told).encode()
    places = sorted({0, len(data), *(border % (len(data) + 1) for border in borders)})
    chunks = [data[start:end] for start, end in pairwise(places)]
    assert hidden(*chunks, secrets=(SPOKEN,)) == hidden(data, secrets=(SPOKEN,))


def test_a_message_that_is_told_in_pieces() -> None:
    """Each piece stands in a line of its own, so no line has the whole key."""
    pieces = Pieces([KEY])
    told: list[TurnEvent] = [
        *(
            TextDelta("the key: " + KEY[:3], "1"),
            TextDelta(KEY[3:7], "1"),
            TextDelta(KEY[7:] + " is it", "1"),
        ),
        *(Reasoning("hm"), TextDelta(f"and {KEY[:4]}", "1"), TextDelta("s is none", "1")),
        *(TextDelta(KEY[:5], "1"), TextDelta(KEY[5:], "2"), TextDelta("é" + KEY, "2"), Ended()),
    ]
    shown = [each for event in told for each in pieces.hide([event])]
    assert "".join(each.text for each in shown if isinstance(each, TextDelta)) == (
        f"the key: {'*' * len(KEY)} is itand {KEY[:4]}s is none{KEY}é{'*' * len(KEY)}"
    )
    assert [each for each in shown if not isinstance(each, TextDelta)] == [Reasoning("hm"), Ended()]
    before_the_end = shown[shown.index(Reasoning("hm")) - 1]
    assert isinstance(before_the_end, TextDelta)
    assert pieces.has_hidden
    assert TextDelta(KEY[:5], "1") in shown  # of another message than what follows
    assert pieces.close() == []
    assert pieces.hide([TextDelta(KEY[:5], "3")]) == []
    assert pieces.close() == [TextDelta(KEY[:5], "3")]


def test_what_only_shows_when_the_line_is_read() -> None:
    """A writer of JSON may escape any letter: the line has no key, and its words have one."""
    pieces, stars = Pieces([KEY]), "*" * len(KEY)
    told: list[TurnEvent] = [
        Text(f"use {KEY}"),
        ToolCall("1", "shell", "completed", {"env": {KEY: [KEY]}}, f"got {KEY}"),
        Remark("ENGINE_REMARK", f"{KEY} is old"),
        Model(f"model {KEY}"),
        PermissionAsked(
            "key-1", f"run {KEY}", (Choice(KEY, f"yes, {KEY}", "allow_once"),), {"rawInput": {"c": [KEY]}}
        ),
        ToolCall(KEY, f"shell {KEY}", "completed"),
        Ended(Failure(Code.ENGINE_FAILED, f"{KEY} was refused", evidence=KEY)),
    ]
    assert pieces.hide(told) == [
        Text(f"use {stars}"),
        ToolCall("1", "shell", "completed", {"env": {stars: [stars]}}, f"got {stars}"),
        Remark("ENGINE_REMARK", f"{stars} is old"),
        Model(f"model {stars}"),
        # By the id of a choice the agent is answered.
        PermissionAsked(
            "key-1",
            f"run {stars}",
            (Choice(KEY, f"yes, {stars}", "allow_once"),),
            {"rawInput": {"c": [stars]}},
        ),
        ToolCall(stars, f"shell {stars}", "completed"),
        Ended(Failure(Code.ENGINE_FAILED, f"{stars} was refused", evidence=stars)),
    ]
    assert pieces.has_hidden


@pytest.mark.parametrize("shift", [-20, -6, 0, 3])
def test_of_a_tool_only_what_is_told_is_looked_at(shift: int) -> None:
    """And a key over that border is known all the same."""
    text = "x" * (MAX_TOOL_TEXT + shift) + KEY + "y" * 1_000_000
    for output in (text, [text, *range(250_000)]):
        (shown,) = Pieces([KEY]).hide([ToolCall("1", "shell", "completed", None, output)])
        assert isinstance(shown, ToolCall)
        assert len(shown.output) < MAX_TOOL_TEXT + 10_000
        (event,) = Transcript(1).take(shown, datetime.now(UTC))
        assert event.data["output_truncated"]
        assert KEY[:3] not in event.data["output"]


@pytest.mark.parametrize("shape", EVERY)
def test_a_key_by_its_looks_over_two_lines(shape: str) -> None:
    """What is long enough to be known is hidden in its own line, and its rest would not be known again."""
    key = made(shape)
    for border in range(len(key) + 1):
        pieces, lines = Pieces(), (f"it is {key[:border]}", f"{key[border:]} indeed")
        shown: list[TurnEvent] = []
        for line in lines:
            veil = Veil()
            heard = TextDelta(json.loads(veil.whole(json.dumps(line).encode())), "1")
            shown += pieces.hide([heard], has_stars=veil.has_hidden)
        shown += pieces.close()
        text = "".join(each.text for each in shown if isinstance(each, TextDelta))
        assert key[-12:] not in text, border
        assert text.startswith("it is ")
        assert text.endswith(" indeed")
        assert len(text) >= len(f"it is {key} indeed")


ROUGH = ("*", "*" * 15, "*" * 80, "\n", "\r\n", " ", "SUMMARY", "Total: 42", "/", "=", "a/b+c", "x" * 70, "é")


@given(st.lists(st.lists(st.sampled_from(ROUGH)).map("".join)))
def test_stars_that_somebody_wrote_are_no_sign_of_a_key(told: list[str]) -> None:
    """Frames, rules and comments are full of them."""
    for kind in (TextDelta, Reasoning):
        pieces = Pieces([KEY])
        shown = [*pieces.hide([kind(text) for text in told]), *pieces.close()]
        assert "".join(each.text for each in shown if isinstance(each, kind)) == "".join(told)
        assert not pieces.has_hidden


async def test_a_line_tells_whether_something_was_hidden_in_it(tmp_path: Path) -> None:
    code = (
        f"os.write(1, b'{'*' * 80}\\na {KEY[:5]}'); os.write(1, b'{KEY[5:]} b\\n{'*' * 20}\\n{KEY}\\n');"
        f"os.write(1, b'none\\nlast {KEY}')"
    )
    async with engine(tmp_path, *python(code), secrets=frozenset({KEY})) as it:
        await it.exits()
        assert [line.has_stars for _, line in it.lines] == [False, True, False, True, False, True]


def test_a_thought_does_not_part_the_words_before_and_after_it() -> None:
    pieces = Pieces([KEY])
    told: list[TurnEvent] = [
        TextDelta(KEY[:6]),
        Reasoning(f"hm {KEY[:4]}"),
        TextDelta(KEY[6:]),
        Reasoning(KEY[4:]),
    ]
    shown = [*pieces.hide(told), *pieces.close()]
    for kind, words in ((TextDelta, ""), (Reasoning, "hm ")):
        text = "".join(each.text for each in shown if isinstance(each, kind))
        assert text == words + "*" * len(KEY)


async def test_an_engine_that_prints_its_key(tmp_path: Path) -> None:
    """Neither the lines nor the raw log have it, on both streams, and the offsets are those of the raw log."""
    code = f"os.write(2, b'key: {KEY}'); os.write(1, b'a {KEY[:5]}'); os.write(1, b'{KEY[5:]} b\\nend')"
    async with engine(tmp_path, *python(code), secrets=frozenset({KEY})) as it:
        await it.exits()
        assert it.said() == [b"a ************ b", b"end"]
        assert it.said("stderr") == [b"key: ************"]
        raw = it.stdout.read_bytes()
        for stream, line in it.lines:
            if stream == "stdout":
                assert raw[line.offset : line.offset + line.length].rstrip(b"\n") == line.data
        assert KEY.encode() not in raw + it.stderr.read_bytes()
