"""A person who is typing, and what comes in between: at a real terminal, in a process of its own."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pexpect  # type: ignore[import-untyped]
import pytest

from tests.cli.test_serve import environment
from tests.harness import PATIENCE

ROUNDS = 100
RINGS = f"""
import random, threading
from turnkeeper.cli.desk import Desk, Interrupted
desk = Desk()
chance = random.Random(7)
with desk.open():
    for number in range({ROUNDS}):
        # Now before the terminal is read, now after, now in between.
        timer = threading.Timer(chance.random() / 200, desk.put, [number])
        timer.start()
        try:
            desk.ask("> ")
        except Interrupted:
            pass
        assert desk.take(10) == number
        timer.join()
print("all heard")
"""
STOPS = f"""
import os, random, signal, threading
from turnkeeper.cli.desk import Desk, Interrupted
desk = Desk()
chance = random.Random(7)
with desk.open():
    for number in range({ROUNDS}):
        timer = threading.Timer(chance.random() / 200, os.kill, [os.getpid(), signal.SIGINT])
        timer.start()
        try:
            desk.ask("> ")
        except Interrupted:
            desk.take(10)
        except KeyboardInterrupt:
            pass
        timer.join()
print("all heard")
"""
KEEPS = """
import readline, threading, time
from turnkeeper.cli.desk import Desk, Interrupted
desk = Desk()
def interrupt():
    while readline.get_line_buffer() != "half": time.sleep(0.01)
    desk.put("news")
with desk.open():
    threading.Thread(target=interrupt).start()
    try:
        desk.ask("first> ")
    except Interrupted as interrupted:
        print("\\nheard", desk.take(1))
        print("answer", repr(desk.ask("second> ", interrupted.typed)))
"""
CTRL_C = """
import time
from turnkeeper.cli.desk import CtrlC, Desk
desk = Desk()
with desk.open():
    try:
        desk.ask("> ")
    except KeyboardInterrupt:
        print("at the prompt")
    print("go", flush=True)
    print("as mail", isinstance(desk.take(20), CtrlC))
    print("and then", flush=True)
    try:
        while desk.is_clear: time.sleep(0.01)
        print("not heard yet", flush=True)
        while True: time.sleep(0.01)
    except KeyboardInterrupt:
        print("the second one")
"""


@pytest.fixture
def play(tmp_path: Path) -> Iterator[object]:
    children = []

    def start(code: str) -> pexpect.spawn:
        child = pexpect.spawn(
            sys.executable,
            ["-c", code],
            env=environment(tmp_path, TERM="xterm"),
            encoding="utf-8",
            timeout=PATIENCE,
        )
        child.delaybeforesend = None
        children.append(child)
        return child

    yield start
    for child in children:
        child.close(force=True)


@pytest.mark.parametrize("code", [RINGS, STOPS], ids=["mail", "ctrl-c"])
def test_no_ring_is_missed(play: pexpect.spawn, code: str) -> None:
    child = play(code)
    child.expect_exact("all heard")


def test_what_was_typed_is_kept(play: pexpect.spawn) -> None:
    child = play(KEEPS)
    child.expect_exact("first> ")
    child.send("half")
    child.expect_exact("heard news")
    child.expect_exact("second> half")
    child.sendline(" and half")
    child.expect_exact("answer 'half and half'")


def test_ctrl_c(play: pexpect.spawn) -> None:
    child = play(CTRL_C)
    child.expect_exact("> ")
    child.sendintr()
    child.expect_exact("at the prompt")
    child.expect_exact("go")
    child.sendintr()
    child.expect_exact("as mail True")
    child.expect_exact("and then")
    child.sendintr()
    child.expect_exact("not heard yet")
    child.sendintr()
    child.expect_exact("the second one")
