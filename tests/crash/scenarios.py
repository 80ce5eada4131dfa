"""Short stories that a service is killed in: each is told by its client, who goes on when there is a service again.

A script may find its session a turn further than the service knows: an engine that is left alone finishes what it is
at. So each ends with a turn that can be played at any time.
"""

from __future__ import annotations

import io
import json
import sys
import zipfile
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

from tests.crash.armed import Kill
from tests.crash.guest import Guest, Stay
from tests.crash.restarts import ANSWERS, ASKS, RECORD, WORKS
from tests.harm import Harm, require
from tests.harness import Json
from turnkeeper.failpoints import Deed, When

INTERACTIVE: Json = {"execution_mode": "interactive"}
RESIDENT: Json = {"execution_mode": "interactive", "interactive_profile": "sticky_process"}
PERMITTED: Json = {"execution_mode": "interactive", "permissions": "ask"}
SOON: Json = {"session_timeout_sec": 0.2}
TALK: Json = {"repeat_last": True, "turns": [ASKS, ANSWERS]}
DONE: Json = {"repeat_last": True, "turns": [[{"record": RECORD}, {"result": {"answer": "42"}}]]}
LONG: Json = {"repeat_last": True, "turns": [[*WORKS, {"result": {"answer": "42"}}]]}
ORPHANED: Json = {
    "repeat_last": True,
    "turns": [[{"setsid_child": {"seconds": 600, "pid_file": "child.pid"}}, *LONG["turns"][0]]],
}
PERMISSION: Json = {
    "repeat_last": True,
    "turns": [
        [
            {"record": RECORD},
            {"permission": {"tool": "shell", "title": "touch note.txt"}},
            {"result": {"answer": "{{permission}}"}},
        ]
    ],
}
FILED: Json = {
    "repeat_last": True,
    "turns": [[{"record": RECORD}, {"result": {"answer": "{{input.document}}"}}]],
}

Play = Callable[[Guest], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Scenario:
    name: str
    play: Play
    deeds: tuple[Deed, ...] = ()
    """What it is here for: the sweep strikes before and after each of them."""
    first: Kill | None = None
    """Strikes before the swept start: then that start is a recovery."""
    start: int = 0
    """Which start of the service is swept."""
    env: dict[str, str] = field(default_factory=dict)
    makes_token: bool = False
    prepare: Callable[[Path], dict[str, str]] = lambda _: {}
    """What the machine has, for a folder of it, and what the service is told about that."""


async def talk(guest: Guest) -> None:
    stay = await guest.create("talk", script=TALK, **INTERACTIVE)
    await guest.converse(stay)


async def resident(guest: Guest) -> None:
    stay = await guest.create("resident", script=TALK, **RESIDENT)
    await guest.converse(stay)


async def queue(guest: Guest) -> None:
    """One slot: whoever holds it is felt by the others."""
    stays = [await guest.create(f"queued {number}", script=DONE) for number in range(3)]
    for stay in stays:
        await guest.ended(stay)


async def filed(guest: Guest) -> None:
    stay = await guest.create("filed", "filed", FILED, input={"title": "Bees"})
    files = {"document": ("bees.txt", b"All about bees.")}
    answer = await guest.insist(
        lambda client: client.http.post(f"/v1/jobs/{stay.run_id}/upload", files=files)
    )
    # An upload that was taken before the kill is not taken again, and the run says that it has it.
    assert answer.status_code in (200, 409), answer.text
    run = await guest.ended(stay)
    require(run["files"] == {"document": "uploads/bees.txt"}, Harm.LOST, run)
    found = {path.name: path.read_bytes() for path in uploads(guest, stay).iterdir()}
    require(found == {"bees.txt": b"All about bees."}, Harm.WRONG, found)


def uploads(guest: Guest, stay: Stay) -> Path:
    return guest.service.workspace(stay.run_id) / "uploads"


async def canceled_at_work(guest: Guest) -> None:
    stay = await guest.create("at work", script=ORPHANED)
    await guest.hears(stay, "assistant.reasoning")
    await guest.cancel(stay)
    await guest.ended(stay)


async def canceled_waiting(guest: Guest) -> None:
    stays = [await guest.create(f"waiting {kind}", script=TALK, **kind) for kind in (INTERACTIVE, RESIDENT)]
    for stay in stays:
        await guest.settled(stay)
        await guest.cancel(stay)
        await guest.ended(stay)


async def decided(guest: Guest) -> None:
    """Nobody answers, and it goes on without."""
    stay = await guest.create(
        "decided", script=TALK, **INTERACTIVE, **SOON, interactive_require_user_reply=False
    )
    await guest.ended(stay)
    history = await guest.insist(lambda client: client.history(stay.run_id))
    require(all(e["resolution_mode"] == "auto_decide_timeout" for e in history), Harm.WRONG, history)


async def expired(guest: Guest) -> None:
    """Nobody answers, and it ends."""
    stay = await guest.create("expired", script=TALK, **RESIDENT, **SOON)
    stay.expected = ("failed", "INTERACTION_WAIT_TIMEOUT")
    if (await guest.ended(stay))["status"] == "succeeded":  # resumed by an engine that was a turn ahead
        require(not stay.asked, Harm.LOST, "its question was forgotten")
        stay.expected = ("succeeded", None)


async def permitted(guest: Guest) -> None:
    stay = await guest.create("permitted", script=PERMISSION, **PERMITTED)
    stay.echoes = False
    await guest.converse(stay, "allow")


async def stopped(guest: Guest) -> None:
    """A stop on purpose while one waits and one works; both go on afterwards."""
    waiting = await guest.create("waiting", script=TALK, **RESIDENT)
    working = await guest.create("working", script=LONG)
    await guest.settled(waiting)
    await guest.hears(working, "assistant.reasoning")
    await guest.leave()
    guest.service.start()
    for stay in (waiting, working):
        guest.follow(stay)
    go_on(guest, working)
    await guest.converse(waiting)
    await guest.ended(working)


async def crashed(guest: Guest) -> None:
    """Killed from outside in the middle of everything: the next start has something to do about each of them."""
    working = await guest.create("working", script=ORPHANED)
    waiting = await guest.create("waiting", script=TALK, **RESIDENT)
    tied = await guest.create("tied", script=TALK | {"loadable": False}, **RESIDENT)
    lent = await guest.create("lent", engine="codex")
    await guest.hears(working, "assistant.reasoning")
    await guest.hears(lent, "assistant.reasoning")
    for stay in (waiting, tied):
        await guest.settled(stay)
    await guest.strike()
    for stay in (working, lent):
        go_on(guest, stay)
        await guest.ended(stay)
    for stay in (waiting, tied):
        await guest.converse(stay)
    require_login(guest)


def go_on(guest: Guest, stay: Stay) -> None:
    guest.service.go_on(stay.run_id)


# A login that is lent

LOGIN = {"tokens": {"access": "a-token-that-is-long-enough"}, "renewed": 0}
AUTH = ".codex/auth.json"
CLI = f"""
import json, os, pathlib, sys, time
if "--version" in sys.argv: sys.exit("an unknown version")
prompt = sys.stdin.read()
if not prompt: sys.exit("no prompt")
with open({RECORD!r}, "a") as out: out.write(json.dumps({{"prompt": prompt}}) + "\\n")
def say(**said): print(json.dumps(said), flush=True)
def item(**said): say(type="item.completed", item={{"id": "1", **said}})
say(type="thread.started", thread_id="01-thread")
login = pathlib.Path(os.environ["HOME"], {AUTH!r})
known = json.loads(login.read_text())
known["renewed"] += 1
fresh = login.with_name("fresh")
fresh.write_text(json.dumps(known))
fresh.rename(login)
item(type="reasoning", text="hm")
while not os.path.exists("go"): time.sleep(0.005)
item(type="agent_message", text='{{"answer": "42"}}')
say(type="turn.completed", usage={{}})
"""


def with_login(folder: Path) -> dict[str, str]:
    """A person who is logged in to codex, and a CLI that renews the login in each turn."""
    login = folder / "operator" / AUTH
    login.parent.mkdir(parents=True)
    login.write_text(json.dumps(LOGIN))
    (folder / "cli.py").write_text(CLI)
    return {
        "TURNKEEPER_ENGINES__CODEX__COMMAND": f"{sys.executable} -I -S {folder / 'cli.py'}",
        "TURNKEEPER_ENGINES__CODEX__LOGIN_HOME": str(folder / "operator"),
    }


async def lent(guest: Guest) -> None:
    stay = await guest.create("lent", engine="codex")
    await guest.hears(stay, "assistant.reasoning")
    go_on(guest, stay)
    await guest.ended(stay)
    require_login(guest)


def require_login(guest: Guest) -> None:
    """The operator has it, as new as it was told by the last turn that ended; nobody else has."""
    folder = guest.service.data_dir.parent
    login = json.loads((folder / "operator" / AUTH).read_text())
    renewed, turns = login.pop("renewed"), sum(len(guest.service.turns(run_id)) for run_id in guest.stays)
    require(login == {"tokens": LOGIN["tokens"]} and renewed <= turns, Harm.LOST, f"{login}, {renewed}")
    copies = list(guest.service.data_dir.rglob("auth.json*"))
    require(not copies, Harm.LEFTOVER, f"still lent: {copies}")
    secret = str(LOGIN["tokens"]).encode()
    told = [
        path for path in guest.service.data_dir.rglob("*") if path.is_file() and secret in path.read_bytes()
    ]
    require(not told, Harm.LEFTOVER, f"the token is in {told}")


# Skills that come and go


def package(version: str) -> dict[str, str]:
    runner = {"id": "fresh", "version": version, "schemas": {"output": "assets/output.json"}}
    script = {"repeat_last": True, "turns": [[{"record": RECORD}, {"result": {"answer": version}}]]}
    return {
        "SKILL.md": f"---\nname: Fresh\ndescription: Version {version}.\n---\nDo it.\n",
        "assets/runner.json": json.dumps(runner),
        "assets/output.json": json.dumps({"type": "object", "required": ["answer"]}),
        "assets/demo.json": json.dumps(script),
    }


async def install(guest: Guest, version: str) -> None:
    """Sent again after a kill it may be there already, and is then refused as not higher."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, text in package(version).items():
            archive.writestr(name, text)
    files = {"file": ("fresh.zip", packed.getvalue(), "application/zip")}
    answer = await guest.insist(lambda client: client.http.post("/v1/skills", files=files))
    assert answer.status_code == 200 or answer.json()["code"] == "SKILL_VERSION_NOT_HIGHER", answer.text
    await require_installed(guest, version)


async def require_installed(guest: Guest, version: str | None) -> None:
    """The API says so, and on the disk it is that version and no other, whole."""
    answer = await guest.insist(lambda client: client.http.get("/v1/skills/fresh"))
    told = answer.json()["version"] if answer.status_code == 200 else None
    require(told == version, Harm.LOST, f"installed is {told}, not {version}")
    root = guest.service.data_dir / "skills" / "fresh"
    found = {str(path.relative_to(root)): path.read_text() for path in root.rglob("*") if path.is_file()}
    require(found == (package(version) if version else {}), Harm.WRONG, found)


async def skills(guest: Guest) -> None:
    await install(guest, "1")
    stay = await guest.create("fresh", "fresh")
    await guest.ended(stay)
    await install(guest, "2")
    answer = await guest.insist(lambda client: client.http.delete("/v1/skills/fresh"))
    assert answer.status_code in (200, 404), answer.text
    await require_installed(guest, None)


# Secrets


async def secrets(guest: Guest) -> None:
    """What was answered is kept, in a file that is whole; what was not is as it was, or as it was to be."""
    for value in ("the-first-of-its-values", "the-second-of-its-values"):
        answer = await guest.insist(
            lambda client, value=value: client.http.put("/v1/secrets/A_TOKEN", json={"value": value})  # type: ignore[misc]
        )
        assert answer.status_code == 200, answer.text
        require_kept(guest, {"A_TOKEN": value})
    answer = await guest.insist(lambda client: client.http.put("/v1/secrets/A_TOKEN/grants/answer"))
    assert answer.status_code == 200, answer.text
    told = (await guest.insist(lambda client: client.http.get("/v1/secrets"))).json()["secrets"]
    require([each["grants"] for each in told] == [["answer"]], Harm.LOST, told)
    answer = await guest.insist(lambda client: client.http.delete("/v1/secrets/A_TOKEN"))
    assert answer.status_code in (200, 404), answer.text
    require_kept(guest, {})
    await guest.ended(await guest.create("after secrets", script=DONE))


def require_kept(guest: Guest, wanted: dict[str, str]) -> None:
    path = guest.service.data_dir / "secrets.json"
    found = {name: each["value"] for name, each in json.loads(path.read_text())["secrets"].items()}
    require(found == wanted, Harm.LOST, found)
    require(path.stat().st_mode & 0o077 == 0, Harm.WRONG, oct(path.stat().st_mode))


ASIDE = Kill((When.AFTER, Deed.SET_SKILL_ASIDE))
ONE, TWO, FOUR = ({"TURNKEEPER_SLOTS": slots, "TURNKEEPER_STICKY_SLOTS": slots} for slots in ("1", "2", "4"))

SCENARIOS = {
    scenario.name: scenario
    for scenario in (
        Scenario("talk", talk, (Deed.COMMIT, Deed.DELIVER, Deed.FINISH, Deed.SPEAK, Deed.SYNC_LOGS)),
        Scenario("resident", resident, (Deed.MAKE_LOGS, Deed.SPAWN, Deed.LET_GO)),
        Scenario("queue", queue, (Deed.TAKE_SLOT, Deed.RELEASE_SLOT, Deed.CLAIM, Deed.PUBLISH), env=ONE),
        Scenario(
            "filed",
            filed,
            (Deed.LOCK, Deed.MIGRATE, Deed.KEEP_TOKEN, Deed.LIGHT_BEACON, Deed.PLACE_UPLOAD),
            makes_token=True,
        ),
        Scenario("secrets", secrets, (Deed.KEEP_SECRETS,)),
        Scenario("canceled at work", canceled_at_work, (Deed.PLACE_SKILL, Deed.WRITE_HOME)),
        Scenario("canceled waiting", canceled_waiting, env=TWO),
        Scenario("decided", decided, (Deed.MEET_DEADLINE,)),
        Scenario("expired", expired, (Deed.MEET_DEADLINE,)),
        Scenario("permitted", permitted, (Deed.PAUSE,)),
        Scenario("stopped", stopped, (Deed.LET_GO,), env=TWO),
        Scenario(
            "lent",
            lent,
            (Deed.NOTE_LOAN, Deed.LEND, Deed.RENEW_LOGIN, Deed.FORGET_LOAN),
            prepare=with_login,
        ),
        Scenario("skills", skills, (Deed.SET_SKILL_ASIDE, Deed.PUT_SKILL, Deed.REMOVE_SKILL)),
        Scenario(
            "crashed",
            crashed,
            (Deed.END_LEFTOVERS, Deed.TAKE_LOGIN_BACK, Deed.RECOVER_RUN, Deed.KEEP_WAITING),
            start=1,
            env=FOUR,
            prepare=with_login,
        ),
        Scenario("half replaced", skills, (Deed.BRING_SKILL_BACK,), start=1, first=ASIDE),
    )
}
