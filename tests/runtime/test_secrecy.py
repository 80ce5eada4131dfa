"""What is logged while the service runs, by whomever: without secrets, and never an error for who logs it."""

from __future__ import annotations

import logging

import pytest

from turnkeeper.runtime.secrecy import Secrecy

VALUE = "my-secret-value-1"


class Broken:
    def __str__(self) -> str:
        raise RuntimeError(VALUE)


@pytest.mark.parametrize(
    ("words", "args", "told"),
    [
        ("it is %s", (VALUE,), f"it is {'*' * len(VALUE)}"),
        ("%d of them", (VALUE,), "%d of them (cannot be formatted)"),
        ("%(a)s", ({"b": VALUE},), "%(a)s (cannot be formatted)"),
        ("%s", (Broken(),), "%s (cannot be formatted)"),
        (f"{VALUE} %d", ("x",), f"{'*' * len(VALUE)} %d (cannot be formatted)"),
    ],
)
def test_words_that_cannot_be_formatted_are_not_repeated(
    caplog: pytest.LogCaptureFixture, words: str, args: tuple[object, ...], told: str
) -> None:
    secrecy = Secrecy()
    secrecy.learn([VALUE])
    with secrecy.over_logs():
        logging.getLogger("some.library").error(words, *args)
    assert [record.getMessage() for record in caplog.records] == [told]


def test_what_is_no_text_and_cannot_be_one(caplog: pytest.LogCaptureFixture) -> None:
    with Secrecy().over_logs():
        logging.getLogger("some.library").error(Broken())
    assert "cannot be formatted" in caplog.text
    assert VALUE not in caplog.text
