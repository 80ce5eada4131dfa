"""What the commands share, without a command around it."""

from __future__ import annotations

import signal

import pytest

from turnkeeper.cli.terminal import whole


def work(done: list[str], *, presses: int) -> None:
    """With so many Ctrl-C in its middle."""
    with whole():
        done.append("one half")
        for _ in range(presses):
            signal.raise_signal(signal.SIGINT)
        done.append("the other")


class TestWhole:
    def test_undisturbed(self) -> None:
        before = signal.getsignal(signal.SIGINT)
        work([], presses=0)
        assert signal.getsignal(signal.SIGINT) is before

    def test_ctrl_c_comes_when_it_is_over(self) -> None:
        before, done = signal.getsignal(signal.SIGINT), list[str]()
        with pytest.raises(KeyboardInterrupt):
            work(done, presses=1)
        assert done == ["one half", "the other"]
        assert signal.getsignal(signal.SIGINT) is before

    def test_the_second_breaks_it_off(self) -> None:
        done = list[str]()
        with pytest.raises(KeyboardInterrupt):
            work(done, presses=2)
        assert done == ["one half"]
