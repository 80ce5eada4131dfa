"""How a lost service is come back to, and how the log of a run is followed across that: rules, without any I/O.

Time is an argument. The loops that wait and read are in `sync.py` and `aio.py`.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator

import msgspec

from turnkeeper.client.errors import (
    ClientError,
    RunCanceled,
    RunFailed,
    ServiceUnreachable,
    WaitingForPerson,
)
from turnkeeper.client.records import Event, RunInfo, decoded
from turnkeeper.client.sse import Frame, Parser

FIRST_SEC, LONGEST_SEC = 0.1, 5.0
"""The pause after the first loss, which doubles up to the longest."""
LONGEST_ASKED_SEC = 60.0
"""No service may make us wait longer than this by `Retry-After`."""


class Loss(Exception):
    """A try that came to nothing, and might come to something later; never seen outside of this package."""

    def __init__(
        self, error: ClientError, *, was_sent: bool = True, retry_after: float | None = None
    ) -> None:
        super().__init__(str(error))
        self.error = error
        """What to raise when patience is over."""
        self.was_sent = was_sent
        """The service may have got the request, and acted."""
        self.retry_after = retry_after


class Backoff:
    """Pauses between tries: longer and longer, never in step with others, and only while there is patience.

    `since` is when the wait began; without it, that is the first loss after anything was heard.
    """

    def __init__(
        self,
        patience: float | None,
        since: float | None = None,
        draw: Callable[[], float] = random.random,
    ) -> None:
        self._patience = patience
        self._since = since
        self._draw = draw
        self._tries = 0

    def progress(self) -> None:
        self._since, self._tries = None, 0

    def pause(self, loss: Loss, now: float) -> float:
        """Seconds to wait before the next try; raises the loss if there is no patience left for it."""
        self._since = now if self._since is None else self._since
        asked = min(loss.retry_after or 0.0, LONGEST_ASKED_SEC)
        pause = max(asked, self._drawn())
        if self._patience is None:
            return pause
        left = self._since + self._patience - now
        if left <= asked:
            raise loss.error from loss.__cause__
        return min(pause, left)  # the last try is at the end of patience, not before it

    def _drawn(self) -> float:
        longest = min(FIRST_SEC * 2.0**self._tries, LONGEST_SEC)
        self._tries = min(self._tries + 1, 16)
        return longest * (0.5 + self._draw() / 2)


class Waiting:
    """For the end of a run, no longer than somebody said."""

    def __init__(self, timeout: float | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._timeout = timeout
        self._clock = clock
        self._end = None if timeout is None else clock() + timeout

    def share(self, most: float | None) -> float | None:
        """What of these seconds there is still time for."""
        if self._end is None:
            return most
        left = max(0.0, self._end - self._clock())
        return left if most is None else min(left, most)

    def check(self, info: RunInfo) -> None:
        """Raises why there is no point in waiting on."""
        match info.status:
            case "failed":
                raise RunFailed(info)
            case "canceled":
                raise RunCanceled(info)
            case "waiting_user" if info.pending is not None:  # else it was answered in this moment
                raise WaitingForPerson(info)
            case _ if self.share(None) == 0:
                raise TimeoutError(
                    f"run {info.run_id} is {info.status} after {self._timeout:g} s; it goes on"
                )
            case _:
                pass


class Following:
    """Where we are in a log. Every event is told once, in order, over any number of connections."""

    def __init__(self, after: int, backoff: Backoff) -> None:
        self.cursor = after
        self.is_over = False
        self.backoff = backoff
        self._parser = Parser()

    def connect(self) -> None:
        """What the last connection left unfinished comes again."""
        self._parser = Parser()

    def feed(self, chunk: bytes) -> Iterator[Event]:
        for frame in self._parser.feed(chunk):
            yield from self._take(frame)
            if self.is_over:
                return

    def cut_off(self) -> Loss:
        """The stream has ended, and the run has not."""
        return Loss(
            ServiceUnreachable("the stream of events was cut off again and again; does a proxy do that?")
        )

    def _take(self, frame: Frame) -> Iterator[Event]:
        match frame.event:
            case "chat_event":
                event = decoded(frame.data, Event)
                if event.seq > self.cursor:
                    self.cursor, self.is_over = event.seq, event.is_last
                    self.backoff.progress()
                    yield event
            case "snapshot":
                # One who is always cut off before the next event makes no progress; one who waits for it does.
                if decoded(frame.data, _Told).last_seq <= self.cursor:
                    self.backoff.progress()
            case "heartbeat":
                self.backoff.progress()
            case "end":
                self.is_over = True
            case _:
                pass  # of a newer service


class _Told(msgspec.Struct):
    last_seq: int
