"""Says a turn as iflow does: plain words on stdout; session and usage on stderr, after the last of them."""

from __future__ import annotations

import json
import os

from .voice import REASON, Voice, uuid, write


class Iflow(Voice):
    """Words on stdout; session and usage on stderr, after the last word."""

    lost_session_is_new = True

    def new_session(self) -> str:
        return f"session-{uuid()}"

    def _notice(self) -> None:
        write(1, f"Model {self.model or 'glm-4.6'} does not support thinking mode\n")

    def open(self, session: str, prompt: str, *, earlier: int) -> None:
        self.session = session
        write(2, f"(node:{os.getpid()}) [DEP0040] DeprecationWarning: The `punycode` module is deprecated. ")
        write(2, "Please use a userland alternative instead.\n")
        write(2, "(Use `node --trace-deprecation ...` to show where the warning was created)\n")
        if earlier:
            write(2, f"\nℹ️  Resuming session {session} ({earlier} messages loaded)\n")  # noqa: RUF001
        self._notice()

    def say(self, text: str) -> None:
        write(1, f"\x1b[32m{text}\x1b[0m\r\n" if self.noisy else f"{text}\n")

    def tool(self, command: str, output: str) -> None:
        super().tool(command, output)
        self._notice()

    def close(self) -> None:
        info = {
            "session-id": self.session,
            "conversation-id": uuid(),
            "assistantRounds": self.calls,
            "executionTimeMs": 590,
            "tokenUsage": {"input": 1234, "output": 17, "total": 1251},
        }
        write(2, f"\n<Execution Info>\n{json.dumps(info, indent=2)}\n</Execution Info>\n")
        write(2, "Error shutting down SDK: TypeError [ERR_VM_DYNAMIC_IMPORT_CALLBACK_MISSING]: A dynamic ")
        write(2, "import callback was not specified.\n    at new Promise (<anonymous>)\n")

    def fail(self, status: int) -> int:
        """Not recorded: the fork that could be run never failed."""
        write(2, f"Error: scripted failure {status} ({status} {REASON[status]})\n")
        return 1
