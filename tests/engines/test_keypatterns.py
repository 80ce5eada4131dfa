"""Keys that nobody told us of: found by their looks in whatever pieces they come, and nothing else is touched."""

from __future__ import annotations

import json
import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.engines.keys import EVERY, made
from turnkeeper.engines.veil import Veil, hidden

ORDINARY = (
    *(
        "task-manager-with-20-characters-A1",
        "disk-0123456789abcdef0123456789ABCDEF",
        "risk-ABCDEF0123456789ABCDEF0",
    ),
    *(
        "sk-navigation-menu-item-large-and-wide",
        "sk-",
        "sk-short1",
        "desk_live_0123456789abcdefgh",
        "npm_config_yes",
    ),
    *(
        "ghp_short",
        "AKIA",
        "AKIAlowercase0123456789",
        "xMAKIA0123456789ABCDEF",
        "AIza",
        "xoxo-hugs",
        "hf_hub_download",
    ),
    *(
        "tk_inter",
        "tk_internal_representation_of_x",
        "gtk_calendar_representation_of_dates",
        "_tk_abcdefgh_abcdefghijklmnopqrstuvwxyz",
        "tkl_",
        "tkl_some_settings_of_the_dialog",
        "sk-learn-0-24-cheat-sheet-x",
        "/sk-bratislava-2024-vysledky-volieb",
        "sk-SK_some_translation_file",
        "sk-loading-spinner-Dot1",
        "sk-proj-plan-for-the-whole-year-2024",
        "ghs_count_of_all_the_things",
        "github_pat_token_for_the_release",
        "-----BEGIN CERTIFICATE-----",
        "-----BEGIN PUBLIC KEY-----",
        "-----BEGIN ",
        "------",
    ),
    *(
        "the word sk- alone",
        "glpat-",
        "github_pat_",
        "s",
        "-",
        "A",
        "\\",
        "\\n",
        "\n",
        '"',
        "é",
        "\u2028",
        " ",
    ),
)
BETWEEN = (
    " ",
    "\n",
    '"',
    "\\n",
    "\\r\\n",
    "\\u001b[32m",
    "\x1b[0m",
    "%20",
    "=",
    ": ",
    ",",
    "(",
    "'",
    "é",
    "</",
    "\\t",
)


def shown(*chunks: bytes) -> bytes:
    veil = Veil()
    return b"".join([*map(veil.hide, chunks), veil.close()])


def cut(data: bytes, borders: list[int]) -> list[bytes]:
    places = sorted({0, len(data), *(border % (len(data) + 1) for border in borders)})
    return [data[start:end] for start, end in pairwise(places)]


@st.composite
def planted(draw: st.DrawFn) -> tuple[str, list[str]]:
    parts, keys = [], []
    for _ in range(draw(st.integers(0, 5))):
        parts.append(draw(st.sampled_from((*ORDINARY, ""))))
        key = made(draw(st.sampled_from(EVERY)), draw(st.integers(0, 50)))
        if draw(st.booleans()):
            key = json.dumps(key)[1:-1]
        keys.append(key)
        parts += [draw(st.sampled_from(BETWEEN)), key, draw(st.sampled_from(BETWEEN))]
    return "".join(parts), keys


@given(planted(), st.lists(st.integers(0, 5000), max_size=12))
def test_pieces_do_not_matter_and_no_key_is_left(text: tuple[str, list[str]], borders: list[int]) -> None:
    data = text[0].encode()
    whole = shown(data)
    assert shown(*cut(data, borders)) == whole
    assert len(whole) == len(data)
    for key in text[1]:
        for line in key.replace("\\n", "\n").split("\n"):
            if not line.startswith("-----"):
                assert line.encode() not in whole
                assert line[-12:].encode() not in whole


@given(st.lists(st.sampled_from(ORDINARY)), st.lists(st.integers(0, 5000), max_size=12))
def test_what_is_no_key_is_not_touched(words: list[str], borders: list[int]) -> None:
    """Each word for itself: two of them without anything between could be a key."""
    data = " ".join(words).encode()
    assert shown(*cut(data, borders)) == data


@given(st.text(), st.lists(st.integers(0, 5000), max_size=12))
def test_any_text(text: str, borders: list[int]) -> None:
    data = text.encode("utf-8", "surrogatepass")
    assert shown(*cut(data, borders)) == shown(data)
    assert len(shown(data)) == len(data)


@pytest.mark.parametrize("shape", EVERY)
def test_every_border_of_every_key(shape: str) -> None:
    key = made(shape)
    for text in (f"the key: {key} is it\n", json.dumps({"key": f"line\n{key}\nline"}) + "\n"):
        data = text.encode()
        whole = shown(data)
        assert key.encode() not in whole
        assert key[-20:].encode() not in whole
        for border in range(len(data) + 1):
            assert shown(data[:border], data[border:]) == whole
        assert shown(*(data[at : at + 1] for at in range(len(data)))) == whole


@pytest.mark.parametrize("shape", EVERY)
@pytest.mark.parametrize("depth", [1, 2, 3])
def test_json_stays_json(shape: str, depth: int) -> None:
    told: object = {"a": ["before", f"x {made(shape)}\nnext\tword é", made(shape)], made(shape): 1}
    for _ in range(depth):
        told = json.dumps(told)
    assert isinstance(told, str)
    masked: object = shown(told.encode()).decode()
    for _ in range(depth):
        assert isinstance(masked, str)
        masked = json.loads(masked)
    assert isinstance(masked, dict)
    assert list(masked) == ["a", "*" * len(made(shape))] or shape == "pem"
    assert masked["a"][0] == "before"
    assert masked["a"][1].endswith("next\tword é") or shape == "pem"


def test_a_private_key_with_headers_and_indented() -> None:
    pick = random.Random(4)
    body = "".join(pick.choices("ABCDEFGHabcdefgh0123+/", k=64))
    text = (
        f"key: |\n    -----BEGIN RSA PRIVATE KEY-----\n    Proc-Type: 4,ENCRYPTED\n    DEK-Info: AES-128-CBC,00FF\n\n"
        f"    {body}\n    {body}\n    -----END RSA PRIVATE KEY-----\nnext: line\n"
    )
    whole = shown(text.encode())
    assert body[:20].encode() not in whole
    assert whole.count(b"\n") == text.count("\n")
    assert whole.endswith(b"\nnext: line\n")
    for data in (text.encode(), json.dumps({"key": text}).encode()):
        whole = shown(data)
        assert body[:20].encode() not in whole
        for border in range(len(data)):
            assert shown(data[:border], data[border:]) == whole


def test_a_mention_of_a_private_key_is_not_the_end_of_all_words() -> None:
    text = b"It begins with -----BEGIN PRIVATE KEY----- and then comes the key."
    assert shown(text) == text


PAPERS = (
    "if '-----BEGIN PRIVATE KEY-----' in text: return",
    "PEM: -----BEGIN PRIVATE KEY-----\nNote: this paragraph explains how the key is used.\nSecond: also there",
    '{"text": "-----BEGIN RSA PRIVATE KEY-----\\n...\\n-----END RSA PRIVATE KEY-----"}',
)


@pytest.mark.parametrize("text", PAPERS)
def test_a_text_about_private_keys_is_none_wherever_it_is_cut(text: str) -> None:
    data = text.encode()
    for border in range(len(data) + 1):
        assert shown(data[:border], data[border:]) == data


def test_values_of_json_with_the_places_of_what_was_hidden() -> None:
    key, other = made("github"), made("aws")
    masked: list[str] = []
    told = {"a": {"b/c": ["x", f"use {key}"]}, other: True, "n": 1, "none": None}
    assert hidden(told, Veil(), masked) == {
        "a": {"b/c": ["x", "use " + "*" * 40]},
        "*" * 20: True,
        "n": 1,
        "none": None,
    }
    assert sorted(masked) == ["/" + "*" * 20, "/a/b~1c/1"]
    assert told["a"] == {"b/c": ["x", f"use {key}"]}, "what was given is not changed"


def test_names_that_look_alike_when_hidden_do_not_swallow_each_other() -> None:
    told = {made("aws", 1): 1, made("aws", 2): 2}
    assert sorted(hidden(told, Veil()).values()) == [1, 2]


def test_names_that_look_alike_are_numbered_and_not_made_longer_and_longer() -> None:
    told = {made("aws", number): number for number in range(3000)} | {"*" * 20 + "2": "taken"}
    masked: list[str] = []
    shown = hidden(told, Veil(), masked)
    assert list(shown.values()) == list(told.values())
    assert shown["*" * 20 + "2"] == "taken"
    assert max(map(len, shown)) == 24
    assert len(masked) == len(set(masked)) == 3000


class Counting(Veil):
    """How often it is asked, and for how much."""

    looks, size = 0, 0

    def whole(self, data: bytes) -> bytes:
        self.looks, self.size = self.looks + 1, self.size + len(data)
        return super().whole(data)


@pytest.mark.parametrize("key", ["none", made("aws")])
def test_a_value_is_looked_at_once_however_many_parts_it_has(key: str) -> None:
    told = {"numbers": list(range(-100_000, 100_000)), "more": [{"a": True, "b": None, "c": [1.5, key]}]}
    veil = Counting()
    shown = hidden(told, veil)
    assert (shown == told) is (key == "none")
    assert shown["numbers"] == told["numbers"]
    assert (veil.looks, veil.size < 100) == (1, True)


TREES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text()
    | st.sampled_from(["AKIA", "\0", made("aws")]),
    lambda inner: (
        st.lists(inner) | st.dictionaries(st.text() | st.sampled_from([made("aws"), made("aws", 1)]), inner)
    ),
)


@given(TREES)
def test_a_value_keeps_its_shape(told: object) -> None:
    def compared(before: object, after: object) -> None:
        if isinstance(before, dict) and isinstance(after, dict):
            assert len(before) == len(after)
            for one, other in zip(before.items(), after.items(), strict=True):
                compared(one[1], other[1])
        elif isinstance(before, list) and isinstance(after, list):
            for one, other in zip(before, after, strict=True):
                compared(one, other)
        elif isinstance(before, str):
            assert after == shown(before.encode("utf-8", "surrogatepass")).decode("utf-8", "surrogatepass")
        else:
            assert after == before

    compared(told, hidden(told, Veil()))


def test_a_value_as_deep_as_any() -> None:
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    found = hidden(deep, Veil())
    while found:
        (found,) = found


def test_a_number_that_is_a_secret() -> None:
    assert hidden({"pin": 123456789, "n": 12}, Veil(["123456789"])) == {"pin": "*********", "n": 12}
