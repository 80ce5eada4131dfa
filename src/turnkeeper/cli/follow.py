"""Follows a run as it happens: shows it, asks the person, and leaves when the person, a clock or the run says so.

One thread reads the log and only passes it on; the main thread does everything else, one thing after the other.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import Enum, auto
from typing import TYPE_CHECKING, Any

import typer

from turnkeeper.cli.conversation import Asked, Conversation, Note, Tone
from turnkeeper.cli.desk import CtrlC, Desk, Interrupted, drop_typed
from turnkeeper.cli.questions import Form, form_of, understand
from turnkeeper.cli.reach import SHOWN, TO_BLAME, Service
from turnkeeper.cli.screen import Progress, Screen
from turnkeeper.core.fcmp import Type

if TYPE_CHECKING:
    from turnkeeper.client import Event, Run

LOOK_EVERY_SEC = 1.0
"""At what the log does not tell: the place in line, and whether the service is still there."""
MOST_RESTARTS = 3
GRACE_SEC = 5.0
"""For an operator who starts the service anew: whoever is quicker gets the data directory."""
MENU = "cancel the run [c], detach and let it go on [d], or go on watching [Enter]? "
CANCELS, DETACHES = frozenset({"c", "cancel"}), frozenset({"d", "detach"})


class Left(Enum):
    """Why there is nothing more to show."""

    OVER = auto()
    WAITING = auto()
    DETACHED = auto()
    INTERRUPTED = auto()
    """Ctrl-C, and nobody to ask what is meant by it."""
    TIMEOUT = auto()


@dataclass(frozen=True, slots=True)
class Manner:
    """How a run is followed."""

    has_person: bool
    """There is somebody who can be asked."""
    waits: bool = True
    """If there is not: an answer from elsewhere is waited for."""
    timeout: float | None = None
    verbose: bool = False
    after: int = 0
    """The number of the last event that need not be told any more."""


@dataclass(frozen=True, slots=True)
class Closed:
    """The log has no more to tell."""


@dataclass(frozen=True, slots=True)
class Lost:
    """The log cannot be read any more."""

    error: Exception


@dataclass(frozen=True, slots=True)
class TimeUp:
    pass


class Follower:
    def __init__(self, service: Service, run: Run, screen: Screen, manner: Manner) -> None:
        self._service = service
        self._run = run
        self._screen = screen
        self._manner = manner
        self._desk = Desk()
        self._conversation = Conversation(verbose=manner.verbose, after=manner.after)
        now = time.monotonic()
        self._progress = Progress(began=now, heard=now)
        self._history_ends = 0
        self._open_before: int | None = None
        """The question that was open when the following began."""
        self._told_question = 0
        self._lines: list[str] = []
        self._draft = ""
        self._restarts = 0
        self._gone_since: float | None = None
        self._moving: ExitStack | None = None

    def follow(self) -> Left:
        """To the end, or until it is left."""
        info = self._run.info()
        # A question in the past of the log was answered since, but for one.
        self._history_ends, self._open_before = info.last_seq, info.pending_interaction_id
        self._progress.began -= max(0.0, (datetime.now(UTC) - info.created_at).total_seconds())
        with self._desk.open(), self._clock():
            self._listen()
            try:
                return self._loop()
            except KeyboardInterrupt:  # for the second time, and the first was not even heard
                return Left.DETACHED if self._manner.has_person else Left.INTERRUPTED
            finally:
                self._still()

    def _loop(self) -> Left:
        left: Left | None = None
        while left is None:
            if self._is_asked() and self._manner.has_person:
                left = self._ask()
            elif self._is_asked() and not self._manner.waits:
                left = Left.WAITING
            else:
                self._move()
                left = self._deal_with(self._desk.take(LOOK_EVERY_SEC))
        return left

    def _deal_with(self, item: Any) -> Left | None:
        match item:
            case None:
                self._look()
            case CtrlC():
                return self._menu()
            case Closed():
                return Left.OVER
            case TimeUp():
                return Left.TIMEOUT
            case Lost(error):
                self._mend(error)
            case _:
                self._hear(item)
        return None

    # The log

    def _listen(self) -> None:
        threading.Thread(target=self._read_log, args=(self._conversation.last_seq,), daemon=True).start()

    def _read_log(self, after: int) -> None:
        """In a thread of its own. Whatever ends it is told: who waits for the next event would wait for ever."""
        try:
            for event in self._run.events(after=after):
                self._desk.put(event)
            self._desk.put(Closed())
        except Exception as error:  # noqa: BLE001 (the main thread raises it)
            self._desk.put(Lost(error))

    def _hear(self, event: Event) -> None:
        shown = self._conversation.hear(event)
        now = self._conversation
        self._progress.state, self._progress.attempt = now.state, now.attempt
        self._progress.streaming = now.streaming
        self._progress.heard = time.monotonic()
        is_past = event.seq <= self._history_ends and event.data.get("interaction_id") != self._open_before
        for item in shown:
            self._screen.show(replace(item, is_open=False) if is_past and isinstance(item, Asked) else item)
        if not is_past:
            self._tell_more(event)

    def _tell_more(self, event: Event) -> None:
        """What only matters to who is asked, or is not."""
        number = event.data.get("interaction_id")
        if event.type == Type.REPLY_ACCEPTED and number == self._told_question:
            if number not in self._conversation.answered_here:
                self._screen.show(Note("this was answered elsewhere, and the run goes on"))
        elif event.type == Type.INPUT_REQUIRED and not self._manner.has_person and self._manner.waits:
            self._screen.show(Note(f'answer it: turnkeeper reply {self._run.id[:SHOWN]} "…"'))

    def _look(self) -> None:
        if self._service.is_gone:
            self._miss()
        elif self._progress.state == "queued":
            self._look_at_the_line()

    def _look_at_the_line(self) -> None:
        from turnkeeper.client import ServiceUnreachable

        with suppress(ServiceUnreachable):  # who reads the log waits for it, and has more patience
            info = self._run.info()
            self._progress.queue_position, self._progress.waiting_for = info.queue_position, info.waiting_for

    def _miss(self) -> None:
        """One that somebody else started may be about to come back; ours will not."""
        self._gone_since = self._gone_since or time.monotonic()
        if self._service.is_ours or time.monotonic() - self._gone_since > GRACE_SEC:
            self._restart()

    def _mend(self, error: Exception) -> None:
        """The client has given up; that the service can be started again is more than it knows."""
        from turnkeeper.client import ServiceUnreachable

        if not isinstance(error, ServiceUnreachable) or not self._service.is_gone:
            raise error
        self._restart()
        self._listen()

    def _restart(self) -> None:
        from turnkeeper.cli.embedded import NotStarted

        self._restarts, self._gone_since = self._restarts + 1, None
        if self._restarts > MOST_RESTARTS:
            raise NotStarted(
                "the service ended again and again; its log tells why: service.log in the data directory"
            )
        self._still()
        self._screen.show(Note("the service is gone; it is started again", Tone.WARNING))
        self._service.ensure()

    # The person

    def _is_asked(self) -> bool:
        now = self._conversation
        return now.pending is not None and now.last_seq >= self._history_ends and self._desk.is_clear

    def _ask(self) -> Left | None:
        assert self._conversation.pending is not None
        form = form_of(self._conversation.pending)
        self._still()
        if form.interaction_id != self._told_question:
            # The rest of a paste belonged to the question before: it must not answer this one, or allow something.
            if self._told_question and drop_typed():
                self._screen.show(Note("lines typed before this question were dropped", Tone.WARNING))
            self._told_question, self._lines, self._draft = form.interaction_id, [], ""
        try:
            line = self._desk.ask("… " if self._lines else "> ", self._draft)
        except Interrupted as interrupted:
            self._draft = interrupted.typed
            typer.echo(err=True)
            return None
        except KeyboardInterrupt:
            typer.echo(err=True)
            return self._menu()
        except EOFError:
            typer.echo(err=True)
            return Left.WAITING
        except UnicodeDecodeError:
            line = ""  # no text, and so no answer
        self._typed(form, line)
        return None

    def _typed(self, form: Form, line: str) -> None:
        """A line that ends with a backslash goes on in the next."""
        self._draft = ""
        if line.endswith("\\"):
            self._lines.append(line[:-1])
            return
        lines, self._lines = [*self._lines, line], []
        reply = understand(form, "\n".join(lines))
        if reply is None:
            self._screen.show(Note("please type an answer; Ctrl-C offers to leave"))
        elif not self._is_sent(form, reply):
            *self._lines, self._draft = lines

    def _is_sent(self, form: Form, reply: str) -> bool:
        """False: the service was not reached, and the same words are to be had again."""
        from turnkeeper.client import ApiError, ServiceUnreachable

        if self._service.is_gone:
            self._restart()
        try:
            self._conversation.answered_here.add(form.interaction_id)
            self._run.reply(reply, interaction_id=form.interaction_id)
        except ServiceUnreachable as error:
            # It may have arrived all the same; then the same words again get the same receipt.
            self._screen.show(Note(f"not sent, try it again: {error}", Tone.WARNING))
            return False
        except ApiError as error:
            self._conversation.answered_here.discard(form.interaction_id)
            self._screen.show(Note(f"not taken: {error.message} [{error.code}]", Tone.WARNING))
            if error.status in TO_BLAME:
                return True  # it was the text; another one may do
        # Answered one way or the other; what follows from it, the log will tell.
        self._conversation.pending, self._progress.state = None, "queued"
        return True

    def _menu(self) -> Left | None:
        self._still()
        if not self._manner.has_person:
            return Left.INTERRUPTED
        try:
            said = self._desk.ask(MENU, until=_is_end).strip().casefold()
        except Interrupted:
            typer.echo(err=True)
            return None
        except (KeyboardInterrupt, EOFError):
            typer.echo(err=True)
            return Left.DETACHED
        if said in DETACHES:
            return Left.DETACHED
        if said in CANCELS:
            self._cancel()
        return None

    def _cancel(self) -> None:
        from turnkeeper.client import ServiceUnreachable

        if self._service.is_gone:
            self._restart()
        try:
            self._run.cancel()
        except ServiceUnreachable as error:
            self._screen.show(Note(f"not canceled: {error}", Tone.WARNING))
            return
        self._conversation.pending = None
        self._screen.show(Note("the run is being canceled"))

    # What moves

    def _move(self) -> None:
        if self._moving is None:
            self._moving = ExitStack()
            self._moving.enter_context(self._screen.moving(self._progress))

    def _still(self) -> None:
        moving, self._moving = self._moving, None
        if moving is not None:
            moving.close()

    @contextmanager
    def _clock(self) -> Iterator[None]:
        if self._manner.timeout is None:
            yield
            return
        seconds = min(self._manner.timeout, threading.TIMEOUT_MAX)
        timer = threading.Timer(seconds, self._desk.put, [TimeUp()])
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()


def _is_end(item: Any) -> bool:
    """Worth an interruption of who is just deciding whether to leave."""
    return isinstance(item, Closed | TimeUp | Lost)


def has_person() -> bool:
    """Somebody who sees what is said, and can type."""
    return sys.stdin.isatty() and sys.stderr.isatty()
