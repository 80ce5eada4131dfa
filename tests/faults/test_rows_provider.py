"""What goes wrong between an engine and its model: each has its name, and nothing is tried again behind our back."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.fakes.puppets import REPLAYED, played, replayed, replaying, run, warned
from tests.faults.test_rows_tools import agent
from tests.harness import Json, Place

INTERACTIVE: Json = {"execution_mode": "interactive"}
MODES = pytest.mark.parametrize("job", [{}, INTERACTIVE], ids=["auto", "interactive"])
RATE, QUOTA, AUTH = "ENGINE_RATE_LIMITED", "ENGINE_QUOTA_EXHAUSTED", "ENGINE_AUTH_REQUIRED"
MODEL, CONTEXT, FAILED = "ENGINE_MODEL_UNKNOWN", "ENGINE_CONTEXT_EXHAUSTED", "ENGINE_FAILED"

RECORDED: list[tuple[str, str, str, str, float | None]] = [
    # A pause, told or not.
    ("Q01", "codex", "http429", RATE, None),
    ("Q01", "codex", "http429_stream", RATE, 1.5),
    ("Q01", "claude", "http429", RATE, None),
    ("Q01", "gemini", "http429", RATE, 34.074824224),
    ("Q01", "opencode", "http429", RATE, 1.5),
    ("Q01", "qwen", "http429", RATE, 1.5),
    # A plan or a credit that is used up.
    ("Q01", "codex", "quota", QUOTA, None),
    ("Q01", "codex", "quota_stream", QUOTA, None),
    ("Q01", "codex", "usage_limit", QUOTA, None),
    ("Q01", "claude", "quota", QUOTA, None),
    ("Q01", "claude", "usage_limit", QUOTA, 3596.813),
    ("Q01", "qwen", "quota", QUOTA, None),
    # What is free for a day.
    ("Q01", "gemini", "quota", QUOTA, None),
    ("Q01", "gemini", "usage_limit", QUOTA, None),
    # A login that is missing, wrong or too old at the start.
    *(("Q04", engine, "no_login", AUTH, None) for engine in ("codex", "claude", "gemini", "qwen")),
    *(("Q04", engine, "bad_key", AUTH, None) for engine in ("codex", "claude", "gemini", "qwen")),
    ("Q04", "opencode", "bad_key", AUTH, None),
    ("Q04", "opencode", "no_login_disabled", AUTH, None),
    ("Q04", "claude", "oauth_expired", AUTH, None),
    ("Q04", "gemini", "login_expired", AUTH, None),
    ("Q04", "opencode", "login_expired", AUTH, None),
    # One that is known and not enough.
    ("Q07", "codex", "http403", MODEL, None),
    ("Q07", "claude", "http403", AUTH, None),
    ("Q07", "gemini", "http403", AUTH, None),
    ("Q07", "opencode", "http403", MODEL, None),
    ("Q07", "qwen", "http403", MODEL, None),
    ("Q07", "qwen", "no_login_oauth", AUTH, None),
    *(("Q08", engine, "model_unknown", MODEL, None) for engine in ("codex", "claude", "gemini", "opencode", "qwen")),
    *(("Q11", engine, "context", CONTEXT, None) for engine in ("codex", "claude", "gemini", "opencode", "qwen")),
    ("Q11", "codex", "context_stream", CONTEXT, None),
    # The network, as far as the engine gives up by itself.
    *(("Q09", engine, "refused", FAILED, None) for engine in ("claude", "gemini", "opencode", "qwen")),
    *(("Q09", engine, "drop", FAILED, None) for engine in ("codex", "claude", "gemini", "qwen")),
]  # fmt: skip


@pytest.fixture(scope="module")
async def recordings(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Place]:
    async with replaying(tmp_path_factory.mktemp("recordings")) as place:
        yield place


def turns_played(place: Place, run_id: str) -> int:
    return len((place.settings.data_dir / "runs" / run_id / "home" / "played").read_text())


@MODES
@pytest.mark.parametrize(
    ("engine", "case", "code", "pause"),
    [
        pytest.param(engine, case, code, pause, marks=pytest.mark.failure(row), id=f"{row}-{engine}-{case}")
        for row, engine, case, code, pause in RECORDED
    ],
)
async def test_recorded_failure_has_its_code_its_words_and_no_second_try(
    recordings: Place, engine: str, case: str, code: str, pause: float | None, job: Json
) -> None:
    failed = await replayed(recordings, engine, case, **job)
    error = failed["error"]
    assert (failed["status"], error["code"], error["retry_after"]) == ("failed", code, pause), error
    assert error["message"].strip()
    assert failed["attempt_number"] == turns_played(recordings, failed["run_id"]) == 1


@pytest.mark.failure("Q04")
@pytest.mark.parametrize("engine", ["codex", "claude", "gemini", "opencode", "qwen"])
async def test_login_that_ran_out_while_a_person_thought_is_not_taken_for_a_lost_session(
    recordings: Place, engine: str
) -> None:
    client = recordings.client
    asked = await replayed(recordings, engine, "ask", **INTERACTIVE)
    assert asked["status"] == "waiting_user"
    await client.reply(asked["run_id"], "blue [case:http401]")
    failed = await client.settled(asked["run_id"])
    assert (failed["status"], failed["error"]["code"]) == ("failed", AUTH), failed["error"]
    assert failed["attempt_number"] == 2


# Retries


THREAD = {"type": "thread.started", "thread_id": "01-thread"}
RETRIES = {
    "codex": (THREAD, {"type": "error", "message": "Reconnecting... 2/5 (stream disconnected: 503)"}),
    "claude": (
        {"type": "system", "subtype": "init", "session_id": "3cdeef59-8f2d-4945-bb2f-c7a643b69ea6"},
        {"type": "system", "subtype": "api_retry", "attempt": 3, "max_retries": 10, "error_status": 529},
    ),
}


@pytest.mark.failure("Q02")
@pytest.mark.parametrize(("engine", "why"), [("codex", "stream disconnected: 503"), ("claude", "HTTP 529")])
async def test_engine_that_tries_for_ever_is_counted_cut_off_and_named(
    tmp_path: Path, engine: str, why: str
) -> None:
    """Each try is a sign of life, so only the length of the turn ends it."""
    opens, retry = RETRIES[engine]
    tries = f"say({opens!r})\nfor _ in range(7): say({retry!r})\nwhile True: out('\\n'); time.sleep(0.02)"
    async with played(tmp_path, engine, tries) as place:
        failed = await run(place, engine, timeouts={"turn_sec": 3, "step_sec": 0.5})
        assert (failed["status"], failed["error"]["code"]) == ("failed", "TURN_TIMEOUT")
        assert "it had tried its model again 7 times, last because: " in failed["error"]["message"]
        assert why in failed["error"]["message"]
        assert warned(failed) == ["ENGINE_RETRYING"]


# Another model


@pytest.mark.failure("Q03")
@pytest.mark.parametrize("engine", ["claude", "qwen"])
@pytest.mark.parametrize(
    ("later", "model", "warnings"),
    [
        ("small-1", "small-1", ["ENGINE_MODEL_CHANGED"]),
        ("large-1-20261001", "large-1", []),
        ("<synthetic>", "large-1", []),
    ],
)
async def test_model_that_answers_instead_of_another_is_recorded_and_warned_of(
    tmp_path: Path, engine: str, later: str, model: str, warnings: list[str]
) -> None:
    """It shows in the message alone; that the same one is told with its date is no change."""
    session = {"session_id": "3cdeef59-8f2d-4945-bb2f-c7a643b69ea6"}
    text = {"type": "text", "text": "Which colour?"}
    events: list[Json] = [
        {"type": "system", "subtype": "init", "model": "large-1"},
        {"type": "assistant", "message": {"id": "1", "model": later, "content": [text]}},
        {"type": "result", "subtype": "success", "is_error": False, "result": "Which colour?"},
    ]
    async with played(tmp_path, engine, f"say(*{[event | session for event in events]!r})") as place:
        asked = await run(place, engine, **INTERACTIVE)
        assert (asked["status"], warned(asked)) == ("waiting_user", warnings)
        (attempt,) = await place.house.store.attempts(asked["run_id"])
        assert attempt.model == model


# Logins


@pytest.mark.failure("Q06", "Q05")
async def test_login_that_was_half_written_is_not_returned(tmp_path: Path) -> None:
    """The engine is killed while it renews its login: the operator's own stays whole, and it is told."""
    owner = tmp_path / "operator" / ".codex" / "auth.json"
    owner.parent.mkdir(parents=True)
    owner.write_text(json.dumps({"tokens": {"access": "a-token-of-the-operator-0123456789"}}))
    before = owner.read_text()
    torn = '{"tokens": {"acc'
    code = f"say({THREAD!r})\n(home / '.codex' / 'auth.json').write_text({torn!r})\nos.kill(os.getpid(), 9)"
    async with played(tmp_path, "codex", code, own={"login_home": tmp_path / "operator"}) as place:
        failed = await run(place, "codex")
        assert (failed["status"], failed["error"]["code"]) == ("failed", "ENGINE_CRASHED")
        assert "LOGIN_NOT_RETURNED" in warned(failed)
    assert owner.read_text() == before


# Models


@pytest.mark.failure("Q08")
async def test_model_that_the_catalogue_does_not_know_is_refused_at_once(tmp_path: Path) -> None:
    async with replaying(tmp_path) as place:
        refused = await place.client.post_job(script="done", model="gpt-nope")
        assert (refused.status_code, refused.json()["code"]) == (400, MODEL)
        assert await place.client.runs() == []


# A network that says nothing


def _listening(backlog: int = 8) -> socket.socket:
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(backlog)
    return listener


@contextmanager
def silent_peer() -> Iterator[int]:
    """Takes the call, and never answers: as a connection looks whose other end is gone."""
    with _listening() as listener:
        yield listener.getsockname()[1]


@contextmanager
def deaf_peer() -> Iterator[int]:
    """Does not even take the call: its line is full."""
    with _listening(0) as listener:
        callers = [socket.socket() for _ in range(4)]
        for caller in callers:
            caller.setblocking(False)
            with suppress(BlockingIOError):
                caller.connect(listener.getsockname())
        yield listener.getsockname()[1]
        for caller in callers:
            caller.close()


BEGINS = "peer = socket.socket()\npeer.setblocking(False)\n"
CONNECTS = "peer = socket.socket()\npeer.connect(('127.0.0.1', PORT))\n"
FILLS = "try:\n    while True: peer.send(bytes(65536))\nexcept BlockingIOError: pass\n"
STATES = {
    "no bytes": (silent_peer, CONNECTS, "an open TCP connection to {}, and no bytes came"),
    "not taken": (
        silent_peer,
        f"{CONNECTS}peer.setblocking(False)\n{FILLS}",
        "an open TCP connection to {}, which does not take what is sent",
    ),
    "nobody answers": (
        deaf_peer,
        f"{BEGINS}try: peer.connect(('127.0.0.1', PORT))\nexcept BlockingIOError: pass\n",
        "asked for a TCP connection to {}, and nobody answered",
    ),
}  # fmt: skip


@pytest.mark.failure("Q09")
@pytest.mark.parametrize("limit", ["first_byte_sec", "idle_sec"])
@pytest.mark.parametrize("state", STATES)
async def test_stall_on_a_connection_names_it_as_evidence(tmp_path: Path, state: str, limit: str) -> None:
    peer, code, words = STATES[state]
    with peer() as port:
        speaks = f"say({THREAD!r})\n" if limit == "idle_sec" else ""
        async with played(tmp_path, "codex", f"{speaks}PORT = {port}\n{code}sleep()") as place:
            stalled = await run(place, "codex", timeouts={limit: 1.5, "step_sec": 0.5})
            assert (stalled["status"], stalled["error"]["code"]) == ("failed", "ENGINE_STALLED")
            assert words.format(f"127.0.0.1:{port}") in stalled["error"]["message"], stalled["error"]
            (attempt,) = await place.house.store.attempts(stalled["run_id"])
            assert attempt.evidence is not None
            assert words.format(f"127.0.0.1:{port}") in attempt.evidence["timeout"]["message"]


@pytest.mark.failure("Q09")
async def test_connection_of_a_tool_below_the_engine_is_seen_and_one_inside_the_tree_is_not(
    tmp_path: Path,
) -> None:
    inside = (
        "own = socket.socket(); own.bind(('127.0.0.1', 0)); own.listen()\n"
        "near = socket.socket(); near.connect(own.getsockname()); far, _ = own.accept()\n"
    )
    below = f"if os.fork() == 0:\n    os.setsid()\n    {CONNECTS.strip().replace(chr(10), '; ')}; sleep()\n"
    with silent_peer() as port:
        code = f"say({THREAD!r})\nPORT = {port}\n{inside}{below}sleep()"
        async with played(tmp_path, "codex", code) as place:
            stalled = await run(place, "codex", timeouts={"idle_sec": 1.5, "step_sec": 0.5})
            message = stalled["error"]["message"]
            assert message.count("TCP connection") == 1
            assert f"127.0.0.1:{port}, and no bytes came" in message


# Words


REFUSAL = "I am sorry, but I cannot help with that."
PORTAL = (
    "Please log in to the portal at https://portal.example/login, then run login again: 401 Unauthorized."
)


@MODES
@pytest.mark.parametrize("engine", REPLAYED)
@pytest.mark.parametrize(
    "words",
    [
        pytest.param(REFUSAL, marks=pytest.mark.failure("Q10"), id="refusal"),
        pytest.param(PORTAL, marks=pytest.mark.failure("Q12"), id="login"),
    ],
)
async def test_words_of_the_assistant_are_words(
    recordings: Place, engine: str, words: str, job: Json
) -> None:
    """Neither a refusal nor a login of somebody else's is a failure of the engine: the gate decides."""
    ended = await replayed(recordings, engine, "ask", words, **job)
    if job:
        assert (ended["status"], ended["error"]) == ("waiting_user", None)
        assert (await recordings.client.pending(ended["run_id"]))["prompt"] == words
    else:
        assert (ended["status"], ended["error"]["code"]) == ("failed", "OUTPUT_INVALID")


@MODES
@pytest.mark.failure("Q10")
async def test_answer_that_a_filter_cut_short_is_judged_like_any_other(tmp_path: Path, job: Json) -> None:
    part = {"messageID": "msg_1", "sessionID": "ses_1"}
    events = [
        {"type": "step_start", "sessionID": "ses_1", "part": {"id": "prt_1", **part}},
        {"type": "text", "sessionID": "ses_1", "part": {"id": "prt_2", "text": REFUSAL, **part}},
        {
            "type": "step_finish",
            "sessionID": "ses_1",
            "part": {"id": "prt_3", "reason": "content-filter", **part},
        },
    ]
    async with played(tmp_path, "opencode", f"say(*{events!r})") as place:
        ended = await run(place, "opencode", **job)
        assert ended["status"] == ("waiting_user" if job else "failed"), ended["error"]
        assert ended["error"] is None or ended["error"]["code"] == "OUTPUT_INVALID"


@pytest.mark.failure("Q10")
async def test_resident_that_refuses_waits_for_the_next_word(tmp_path: Path) -> None:
    async with agent(tmp_path / "data", f"say {REFUSAL}", "end refusal") as place:
        ended = await run(place, "agent", **INTERACTIVE)
        assert (ended["status"], ended["error"]) == ("waiting_user", None)
        assert (await place.client.pending(ended["run_id"]))["prompt"] == REFUSAL
        await place.client.cancel(ended["run_id"])
        async with asyncio.timeout(30):
            assert (await place.client.ended(ended["run_id"]))["status"] == "canceled"
