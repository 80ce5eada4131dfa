"""The resident voice: an agent that speaks the Agent Client Protocol (version 1) over stdin and stdout.

Two threads. One reads stdin and answers at once, so that `session/cancel` is heard while a step sleeps; the
main thread plays the prompts, one after the other.
"""

# pathlib would cost more than the rest of the start.
# ruff: noqa: PTH109, PTH112, PTH117

from __future__ import annotations

import os
import sys
import threading
import time

from .jsontext import line, loads
from .player import Beginning, Turn, Voice
from .script import TurnFailed
from .session import Session

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .permission import Permission
    from .script import Job

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
RESOURCE_NOT_FOUND = -32002

GRACE_SEC = 1.0
"""How long a turn may take to notice that stdin was closed, even while nobody reads what it writes."""

LONG_SEC = 3600.0
"""The longest single wait: a lock takes no endless number of seconds."""


class Refused(Exception):
    """A request that gets a JSON-RPC error."""

    def __init__(self, code: int, message: str, data: object = None) -> None:
        super().__init__(message)
        self.error = {"code": code, "message": message} | ({"data": data} if data is not None else {})


class Canceled(Exception):
    """The client canceled the prompt that is being played."""


class Closed(Exception):
    """The client has closed our stdin: it is time to go."""


class Prompt:
    def __init__(self, request_id: object, session: Session, cwd: str, text: str) -> None:
        self.request_id = request_id
        self.session = session
        self.cwd = cwd
        self.text = text
        self.canceled = False


class Agent(Voice):
    def __init__(self, job: Job, folder: str, version: str) -> None:
        self.job = job
        self.folder = folder
        self.version = version
        self.sessions: dict[str, tuple[Session, str]] = {}  # with the working directory the client named
        self.prompts: list[Prompt] = []  # not answered yet; the first one is being played
        self.asked = 0  # requests of ours so far
        self.answers: dict[str, dict[str, Any]] = {}  # to those requests, in the order in which they came
        self.closed = False
        self.linger = 0.0
        self.changed = threading.Condition()  # guards the prompts, the answers and `closed`
        self.writing = threading.Lock()

    # Speaking

    def send(self, **message: Any) -> None:
        self.noise(line({"jsonrpc": "2.0", **message})[:-1] + self.line_end)

    def noise(self, data: bytes) -> None:
        with self.writing:
            self.put(data)

    def update(self, kind: str, /, *, session_id: str = "", **fields: Any) -> None:
        session_id = session_id or self.prompts[0].session.id
        self.send(
            method="session/update",
            params={"sessionId": session_id, "update": {"sessionUpdate": kind, **fields}},
        )

    def delta(self, message_id: str, text: str) -> None:
        self.update("agent_message_chunk", messageId=message_id, content=_text(text))

    def message(self, message_id: str, text: str, *, streamed: bool) -> None:
        if not streamed:
            self.delta(message_id, text)

    def reasoning(self, text: str) -> None:
        self.update("agent_thought_chunk", content=_text(text))

    def tool(self, call_id: str, name: str, arguments: dict[str, Any], output: str, status: str) -> None:
        self.update("tool_call", **_call(call_id, name, name, arguments), status="in_progress")
        if status == "in_progress":
            return
        self.update(
            "tool_call_update",
            toolCallId=call_id,
            status=status,
            content=_content(output),
            rawOutput={"output": output},
        )

    # Playing: the main thread

    def wait(self, seconds: float) -> None:
        self._wait_for(lambda: None, seconds)

    def _wait_for(self, found: Callable[[], Any], seconds: float) -> Any:
        """What is found within that time, if anything is. Before the first prompt nothing can be canceled."""
        prompt = self.prompts[0] if self.prompts else None

        def is_canceled() -> bool:
            return prompt is not None and prompt.canceled

        with self.changed:
            result = self.changed.wait_for(lambda: self._must_go() or is_canceled() or found(), seconds)
            if self._must_go():
                raise Closed
            if is_canceled():
                raise Canceled
            return result

    def _must_go(self) -> bool:
        return self.closed and not self.stubborn

    def permissions(self, requests: list[Permission]) -> None:
        waiting = {self._ask(request): request for request in requests}
        gives_up_at = {call: time.monotonic() + waiting[call].allowed_for_sec for call in waiting}
        while waiting:
            impatient = min(waiting, key=gives_up_at.__getitem__)
            left = min(max(gives_up_at[impatient] - time.monotonic(), 0), LONG_SEC)
            answered = self._wait_for(lambda: next(filter(waiting.__contains__, self.answers), None), left)
            if answered is not None:
                self._tell(waiting.pop(answered), self.answers[answered])
            elif gives_up_at[impatient] <= time.monotonic():
                self._tell(waiting.pop(impatient), None)

    def _ask(self, request: Permission) -> str:
        """Sends the request and returns its id."""
        self.asked += 1
        call = _call(request.call_id, request.tool, request.title, request.input) | {"status": "pending"}
        self.update("tool_call", **call)
        self.send(
            id=f"p{self.asked}",
            method="session/request_permission",
            params={"sessionId": self.prompts[0].session.id, "toolCall": call, "options": request.options},
        )
        return f"p{self.asked}"

    def _tell(self, request: Permission, answer: dict[str, Any] | None) -> None:
        if answer is not None:
            request.hear(answer)
        update: dict[str, Any] = {"toolCallId": request.call_id, "status": request.status}
        if not request.is_allowed:
            update["content"] = _content(request.output)
        self.update("tool_call_update", **update)

    def play_prompts(self) -> None:
        """Until stdin is closed."""
        while True:
            with self.changed:
                self.changed.wait_for(lambda: self.prompts or self.closed)
                if not self.prompts:
                    return
            try:
                answer = self._play(self.prompts[0])
            except Closed:
                return
            with self.changed:
                prompt = self.prompts.pop(0)
            self.send(id=prompt.request_id, **answer)

    def _play(self, prompt: Prompt) -> dict[str, Any]:
        turn = Turn(self.job, prompt.session, prompt.text, self, prompt.cwd)
        try:
            turn.play()
        except Canceled:
            return {"result": {"stopReason": "cancelled"}}
        except TurnFailed as failure:
            return {"error": Refused(INTERNAL_ERROR, failure.message, {"code": failure.code}).error}
        finally:
            self.linger = max(self.linger, turn.linger)
        if not turn.terminal:
            raise SystemExit(0)
        prompt.session.complete(turn.said)
        tokens = turn.usage()
        usage = {"inputTokens": tokens["input_tokens"], "outputTokens": tokens["output_tokens"]}
        return {"result": {"stopReason": "end_turn", "usage": usage | {"totalTokens": sum(tokens.values())}}}

    # Listening: the other thread

    def listen(self) -> None:
        try:
            for request in sys.stdin.buffer:
                if request.strip():
                    self._hear(request)
            with self.changed:
                self.closed = True
                self.changed.notify_all()
            time.sleep(GRACE_SEC + self.linger)
            if not self.stubborn:
                os._exit(0)
        except BaseException as error:  # noqa: BLE001  (an agent that no longer listens must not look alive)
            sys.excepthook(type(error), error, error.__traceback__)
            os._exit(1)

    def _hear(self, request: bytes) -> None:
        try:
            message = loads(request.decode())
        except (ValueError, RecursionError) as error:
            self.send(id=None, error=Refused(PARSE_ERROR, f"not JSON: {error}").error)
            return
        match message:
            case {"method": str()}:
                self._obey(message)
            case {"id": str(call), "result": _} | {"id": str(call), "error": _}:
                self._take(call, message)
            case _:
                self.send(id=None, error=Refused(INVALID_REQUEST, "not a JSON-RPC request").error)

    def _obey(self, message: dict[str, Any]) -> None:
        method, params = message["method"], message.get("params")
        params = params if isinstance(params, dict) else {}
        if "id" not in message:
            if method == "session/cancel":
                self._cancel(params.get("sessionId"))
            return
        try:
            answer = self._answer(method, params, message["id"])
        except Refused as refusal:
            self.send(id=message["id"], error=refusal.error)
        else:
            if answer is not None:
                self.send(id=message["id"], result=answer)

    def _take(self, call: str, answer: dict[str, Any]) -> None:
        """An answer that comes too late, or twice, is kept too; nobody waits for it."""
        with self.changed:
            self.answers.setdefault(call, answer)
            self.changed.notify_all()

    def _cancel(self, session_id: object) -> None:
        with self.changed:
            for prompt in self.prompts:
                if prompt.session.id == session_id:
                    prompt.canceled = True
            self.changed.notify_all()

    def _answer(self, method: str, params: dict[str, Any], request_id: object) -> dict[str, Any] | None:
        """The result of a request; None when it comes later."""
        match method:
            case "initialize":
                return {
                    "protocolVersion": 1,
                    "agentInfo": {"name": "demo", "version": self.version},
                    "agentCapabilities": {"loadSession": self.job.loadable},
                    "authMethods": [],
                }
            case "session/new":
                cwd = _directory(params)
                session = Session.new(self.folder)
                session.save()
                self.sessions[session.id] = (session, cwd)
                return {"sessionId": session.id}
            case "session/load" if self.job.loadable:
                return self._load(params)
            case "session/set_mode":
                self._session(params)
                return {}
            case "session/prompt":
                session, cwd = self._session(params)
                prompt = Prompt(request_id, session, cwd, _words(params))
                with self.changed:
                    self.prompts.append(prompt)
                    self.changed.notify_all()
                return None
        raise Refused(METHOD_NOT_FOUND, f"no such method: {method}", {"method": method})

    def _session(self, params: dict[str, Any]) -> tuple[Session, str]:
        session_id = params.get("sessionId")
        if not isinstance(session_id, str) or session_id not in self.sessions:
            raise Refused(RESOURCE_NOT_FOUND, f"session not found: {session_id}")
        return self.sessions[session_id]

    def _load(self, params: dict[str, Any]) -> dict[str, Any]:
        session_id = params.get("sessionId")
        session = Session.find(self.folder, session_id) if isinstance(session_id, str) else None
        if session is None:
            raise Refused(RESOURCE_NOT_FOUND, f"session not found: {session_id}")
        self.sessions[session.id] = (session, _directory(params))
        for number, turn in enumerate(session.turns[: session.completed], 1):
            self.update(
                "user_message_chunk",
                session_id=session.id,
                messageId=f"u{number}",
                content=_text(turn["reply"]),
            )
            for message in turn["said"]:
                self.update(
                    "agent_message_chunk",
                    session_id=session.id,
                    messageId=message["id"],
                    content=_text(message["text"]),
                )
        return {}


def _text(text: str) -> dict[str, str]:
    return {"type": "text", "text": text}


def _content(text: str) -> list[dict[str, Any]]:
    return [{"type": "content", "content": _text(text)}]


def _call(call_id: str, tool: str, title: str, arguments: dict[str, Any]) -> dict[str, Any]:
    kind = "execute" if tool == "shell" else "other"
    return {"toolCallId": call_id, "title": title, "kind": kind, "rawInput": arguments}


def _directory(params: dict[str, Any]) -> str:
    cwd = params.get("cwd")
    if not isinstance(cwd, str) or not os.path.isabs(cwd) or not os.path.isdir(cwd):
        raise Refused(INVALID_PARAMS, f"cwd is not an absolute path to a directory: {cwd}")
    return cwd


def _words(params: dict[str, Any]) -> str:
    """The text of a prompt. A link is given as its address; other kinds of content we did not announce."""
    words = []
    for block in params.get("prompt") or [{}]:
        match block:
            case {"type": "text", "text": str(text)} | {"type": "resource_link", "uri": str(text)}:
                words.append(text)
            case _:
                raise Refused(INVALID_PARAMS, "a prompt is a list of text blocks")
    return "\n".join(words)


def serve(job: Job, folder: str, version: str) -> int:
    agent = Agent(job, folder, version)
    try:
        Beginning(job, agent, os.getcwd()).begin()
    except TurnFailed as failure:
        os.write(2, f"{failure.message}\n".encode("utf-8", "backslashreplace"))
        return failure.exit_code
    threading.Thread(target=agent.listen, daemon=True).start()
    agent.play_prompts()
    time.sleep(agent.linger)
    return 0
