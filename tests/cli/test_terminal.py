"""What the commands share, without a command around it."""

from __future__ import annotations

import signal

import pytest

from turnkeeper.cli.terminal import whole


class TestWhole:
    def test_undisturbed(self) -> None:
        before = signal.getsignal(signal.SIGINT)
        with whole():
            pass
        assert signal.getsignal(signal.SIGINT) is before

    def test_ctrl_c_comes_when_it_is_over(self) -> None:
        before, done = signal.getsignal(signal.SIGINT), []
        with pytest.raises(KeyboardInterrupt), whole():
            signal.raise_signal(signal.SIGINT)
            done.append("all of it")
        assert done == ["all of it"]
        assert signal.getsignal(signal.SIGINT) is before

    def test_the_second_breaks_it_off(self) -> None:
        done = []
        with pytest.raises(KeyboardInterrupt), whole():
            signal.raise_signal(signal.SIGINT)
            done.append("a part")
            signal.raise_signal(signal.SIGINT)
            done.append("the rest")
        assert done == ["a part"]

    def test_what_goes_wrong_in_it_is_told_first(self) -> None:
        with pytest.raises(ValueError, match="wrong"), whole():
            signal.raise_signal(signal.SIGINT)
            raise ValueError("wrong")
