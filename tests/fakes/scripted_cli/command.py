"""The command itself: everything around it is checked first, then the prompt is played in the voice of its dialect."""

from __future__ import annotations

import os
import signal

from . import sessions, surroundings, words
from .arguments import Call
from .claude import Claude
from .codex import Codex
from .gemini import Gemini
from .iflow import Iflow
from .opencode import OpenCode
from .qwen import Qwen
from .sessions import Session
from .surroundings import Unexpected

VOICES: dict[str, type[Voice]] = {
    "codex": Codex,
    "claude": Claude,
    "gemini": Gemini,
    "opencode": OpenCode,
    "qwen": Qwen,
    "iflow": Iflow,
}
VERSIONS = {
    "codex": "codex-cli 0.166.0",
    "claude": "2.1.325 (Claude Code)",
    "gemini": "0.61.0",
    "opencode": "1.18.33",
    "qwen": "0.24.4",
    "iflow": "0.5.19",
}
LEAVES: dict[str, dict[int, int]] = {
    "gemini": {signal.SIGINT: 0, signal.SIGTERM: 0},
    "claude": {signal.SIGINT: 0, signal.SIGTERM: 143},
    "qwen": {signal.SIGINT: 130, signal.SIGTERM: 130},
}
"""Exit codes of those that leave by themselves when they are told to; iflow does not listen, the others die."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType

    from .voice import Voice


def main(arguments: list[str]) -> None:
    dialect, *rest = arguments
    if rest == ["--version"]:
        os.write(1, f"{VERSIONS[dialect]}\n".encode())
        os._exit(0)
    spoken: list[Voice] = []
    _react_to_signals(dialect, spoken)
    try:
        code = _run(dialect, rest, spoken)
    except Unexpected as why:
        code = surroundings.refuse(why)
    # Whatever is not said by now stays unsaid; nothing needs tidying.
    os._exit(code)


def _run(dialect: str, arguments: list[str], spoken: list[Voice]) -> int:
    home = surroundings.check(dialect)
    call = Call(dialect, arguments)
    prompt = surroundings.prompt()
    voice = VOICES[dialect](call)
    spoken.append(voice)
    stopped_at = voice.gate()
    if stopped_at is not None:
        return stopped_at
    session = _session(call, voice, home)
    sessions.note(
        home,
        argv=arguments,
        env=sorted(os.environ),
        pid=os.getpid(),
        prompt=prompt,
        session=session and session.id,
        skills=sessions.skills(home),
    )
    if session is None:
        assert call.session is not None
        return voice.lose(call.session)
    return words.play(prompt, voice, session)


def _session(call: Call, voice: Voice, home: str) -> Session | None:
    if call.session is not None:
        found = Session.find(home, call.session)
        if found is not None or not voice.lost_session_is_new:
            return found
    return Session(home, voice.new_session())


def _react_to_signals(dialect: str, spoken: list[Voice]) -> None:
    """As each was seen to."""

    def leave(number: int, frame: FrameType | None) -> None:
        for voice in spoken:
            voice.interrupted()
        os._exit(LEAVES[dialect][number])

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN if dialect == "iflow" else signal.SIG_DFL)
        if dialect in LEAVES:
            signal.signal(number, leave)
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
