"""The same as tiny.c, for machines without a compiler. Its start takes a hundred times as long."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable

SESSION = "0199aaaa-bbbb-7ccc-8ddd-eeeeffff0000"
QUESTION = "Which colour should I use?"
RESULT = r"{\"colour\": \"blue\", \"__SKILL_DONE__\": true}"
LAST = 10**9
OUT = sys.stdout


def main() -> None:
    if "--version" in sys.argv:
        OUT.write("codex-cli 0.166.0\n")
        return
    note("S")
    OUT.write(f'{{"type":"thread.started","thread_id":"{SESSION}"}}\n{{"type":"turn.started"}}\n')
    follow(sys.stdin.read(), is_resumed="resume" in sys.argv)
    OUT.write(
        '{"type":"turn.completed","usage":{"input_tokens":10,"cached_input_tokens":0,"output_tokens":5}}\n'
    )
    OUT.flush()
    note("E")


def note(what: str) -> None:
    if path := os.environ.get("TINY_LOG"):
        line = f"{what} {os.environ.get('TURNKEEPER_RUN', '-')} {time.monotonic_ns()}\n"
        log = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.write(log, line.encode())
        os.close(log)


def follow(prompt: str, *, is_resumed: bool) -> None:
    if order := re.search(r"\[\[say (\d+) (\d+)", prompt):
        many(order, say)
    if order := re.search(r"\[\[tool (\d+) (\d+)", prompt):
        many(order, show)
    if order := re.search(r"\[\[pace (\d+) ([\d.]+)", prompt):
        pace(int(order[1]), float(order[2]))
    if order := re.search(r"\[\[sleep (\d+)", prompt):
        OUT.flush()
        time.sleep(int(order[1]) / 1000)
    say(LAST, RESULT if is_resumed or "[[done]]" in prompt else QUESTION)


def many(order: re.Match[str], tell: Callable[[int, str], None]) -> None:
    text = "x" * int(order[2])
    for number in range(int(order[1])):
        tell(number, text)


def pace(count: int, rate: float) -> None:
    began = time.monotonic()
    for number in range(count):
        time.sleep(max(0.0, began + number / rate - time.monotonic()))
        say(number, str(time.monotonic_ns()))
        OUT.flush()


def say(number: int, text: str) -> None:
    OUT.write(
        f'{{"type":"item.completed","item":{{"id":"item_{number}","type":"agent_message","text":"{text}"}}}}\n'
    )


def show(number: int, text: str) -> None:
    OUT.write(
        f'{{"type":"item.completed","item":{{"id":"item_{number}","type":"command_execution","command":"ls",'
        f'"aggregated_output":"{text}","exit_code":0,"status":"completed"}}}}\n'
    )


if __name__ == "__main__":
    main()
