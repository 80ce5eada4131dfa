"""Makes new inputs out of old ones, and a small one out of one that fails."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

LONGEST = 64 * 1024
TIMES = (2, 3, 9, 100, 5000)


def mutate(data: bytes, others: Sequence[bytes], words: Sequence[bytes], chance: Random) -> bytes:
    """A few edits at random places."""
    for _ in range(chance.randint(1, 5)):
        data = chance.choice(_EDITS)(data, others, words, chance)[:LONGEST]
    return data


def _flip(data: bytes, _: Sequence[bytes], __: Sequence[bytes], chance: Random) -> bytes:
    if not data:
        return data
    at = chance.randrange(len(data))
    return data[:at] + bytes([data[at] ^ 1 << chance.randrange(8)]) + data[at + 1 :]


def _set(data: bytes, _: Sequence[bytes], __: Sequence[bytes], chance: Random) -> bytes:
    start, end = _slice(data, chance, longest=4)
    value = chance.choice((b"\0", b"\xff", b"\x80", b"\x7f", b"\n", b'"', chance.randbytes(1)))
    return data[:start] + value * (end - start) + data[end:]


def _cut(data: bytes, _: Sequence[bytes], __: Sequence[bytes], chance: Random) -> bytes:
    start, end = _slice(data, chance)
    return data[:start] + data[end:]


def _add(data: bytes, _: Sequence[bytes], words: Sequence[bytes], chance: Random) -> bytes:
    at = chance.randint(0, len(data))
    word = chance.choice(words) if words and chance.random() < 0.8 else chance.randbytes(chance.randint(1, 4))
    return data[:at] + word + data[at:]


def _repeat(data: bytes, _: Sequence[bytes], __: Sequence[bytes], chance: Random) -> bytes:
    """What starts over at every opening stands still on many of them."""
    start, end = _slice(data, chance)
    return data[:start] + data[start:end] * chance.choice(TIMES) + data[end:]


def _move(data: bytes, _: Sequence[bytes], __: Sequence[bytes], chance: Random) -> bytes:
    start, end = _slice(data, chance)
    rest = data[:start] + data[end:]
    at = chance.randint(0, len(rest))
    return rest[:at] + data[start:end] + rest[at:]


def _splice(data: bytes, others: Sequence[bytes], _: Sequence[bytes], chance: Random) -> bytes:
    other = chance.choice(others) if others else b""
    start, end = _slice(other, chance)
    at = chance.randint(0, len(data))
    return data[:at] + other[start:end] + data[at:]


_EDITS = (_flip, _set, _cut, _add, _repeat, _move, _splice)


def _slice(data: bytes, chance: Random, longest: int = LONGEST) -> tuple[int, int]:
    start = chance.randint(0, len(data))
    length = min(longest, int(chance.expovariate(1 / 12)) + 1)
    return start, min(len(data), start + length)


def minimized(data: bytes, fails: Callable[[bytes], bool]) -> bytes:
    """The same failure with as many bytes taken out as one pass after the other can."""
    size = len(data) // 2
    while size:
        at = 0
        while at < len(data):
            smaller = data[:at] + data[at + size :]
            if fails(smaller):
                data = smaller
            else:
                at += size
        size //= 2
    return data
