"""A service in which secrets are planted wherever one can be, and a search of everything that it stores or shows."""

from __future__ import annotations

import io
import json
import shutil
import sqlite3
import sys
import zipfile
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, closing
from pathlib import Path
from urllib.parse import quote

from tests.engines.keys import made
from tests.harness import SKILLS, Client, Place, opened
from turnkeeper.runtime.secrets import FILE
from turnkeeper.wiring import DATABASE

PLANTER = Path(__file__).parents[1] / "fakes" / "planter.py"
NAME = "PLANTED_TOKEN"
VALUE = "Wxy\"zq\\vutsr-é/<&>\nGhijk-lmnöp+'=/x"
"""It looks different in each way that JSON can be written."""
KEY = made("github-fine", 7)
"""Nobody tells the service of this one."""
OF_A_RUN = (
    *(
        "",
        "/attempts",
        "/events/history",
        "/interaction/history",
        "/interaction/pending",
        "/request",
        "/logs",
    ),
    *("/result", "/artifacts", "/bundle"),
)
OF_THE_SERVICE = (
    *(
        "/v1/jobs",
        "/v1/secrets",
        "/v1/skills",
        "/v1/skills/planted",
        "/v1/skills/planted/schemas",
        "/v1/engines",
    ),
    *("/v1/skills/planted/lint", "/v1/status", "/v1/journal", "/v1/keys", "/metrics"),
)


def needles() -> list[bytes]:
    """Every form in which one could read them, and parts that are found nowhere else."""
    once = {json.dumps(VALUE, ensure_ascii=is_ascii)[1:-1] for is_ascii in (True, False)}
    twice = {json.dumps(text, ensure_ascii=is_ascii)[1:-1] for text in once for is_ascii in (True, False)}
    slashed = {text.replace("/", "\\/") for text in (*once, *twice)}
    return [
        text.encode() for text in (VALUE, quote(VALUE), quote(VALUE, safe=""), *once, *twice, *slashed, KEY)
    ]


PARTS = [part.encode() for part in ("vutsr", "Ghijk-lm", KEY[12:30], KEY[-20:])]
"""Also of a secret that only its middle is left of. Not where pieces of a stream stand as they came."""


@asynccontextmanager
async def planted(folder: Path, **more: object) -> AsyncIterator[Place]:
    skills = folder / "skills"
    shutil.copytree(SKILLS / "answer", skills / "planted")
    runner = skills / "planted" / "assets" / "runner.json"
    told = json.loads(runner.read_text())
    runner.write_text(json.dumps({**told, "id": "planted", "secrets": [NAME]}))
    (folder / "key").write_text(KEY)
    command = [sys.executable, str(PLANTER), str(folder / "key")]
    codex = {
        "command": command,
        "env": ["OPENAI_API_KEY=an-engine-key-of-tests"],
        "login_home": folder / "none",
    }
    engines = {
        "codex": codex,
        "parrot": {"command": [*command, "acp"]},
        "asker": {"command": [*command, "acp", "asks"], "asks": True},
        "failer": {"command": [*command, "acp", "fails"]},
    }
    given = {"engines": engines, "skills_dir": (skills, SKILLS), **more}
    async with opened(folder / "data", **given) as place:
        http = place.client.http
        assert (await http.put(f"/v1/secrets/{NAME}", json={"value": VALUE})).status_code == 200
        assert (await http.put(f"/v1/secrets/{NAME}/grants/planted")).status_code == 200
        yield place


async def _has_failed(client: Client, run_id: str) -> bool:
    return bool((await client.get(run_id))["status"] == "failed")


async def told(client: Client, run_id: str) -> dict[str, bytes]:
    """Everything that the API tells about a run and about itself, by its address."""
    found = {}
    logs = (await client.http.get(f"/v1/jobs/{run_id}/logs")).json()["logs"]
    files = (await client.http.get(f"/v1/jobs/{run_id}/artifacts")).json()["artifacts"]
    more = [f"/logs/{log['attempt']}/{log['try']}/{log['stream']}" for log in logs]
    more += [f"/artifacts/{quote(each['path'])}" for each in files if each["kind"] == "file"]
    missing = {"/result"} if await _has_failed(client, run_id) else set()
    for path in (*OF_A_RUN, *more):
        if path in missing:
            continue
        answer = await client.http.get(f"/v1/jobs/{run_id}{path}")
        assert answer.status_code == 200, f"{path}: {answer.text}"
        found[path] = answer.content + str(answer.headers).encode()
        if path.startswith("/artifacts/"):
            assert len(answer.content) == int(answer.headers["content-length"])
        if path == "/bundle":
            with zipfile.ZipFile(io.BytesIO(answer.content)) as packed:
                assert packed.testzip() is None
                found |= {f"{path}/{name}": packed.read(name) + name.encode() for name in packed.namelist()}
    events = [frame async for frame in client.frames(run_id)]
    found["/events"] = json.dumps(events, ensure_ascii=False).encode()
    for path in OF_THE_SERVICE:
        answer = await client.http.get(path)
        assert answer.status_code == 200, f"{path}: {answer.text}"
        found[path] = answer.content
    return found


def stored(data_dir: Path) -> dict[str, bytes]:
    """The database, row by row and byte by byte, and all else that the service writes; not what agents do."""
    inside = {path: path.relative_to(data_dir).parts for path in data_dir.rglob("*") if path.is_file()}
    found = {
        "/".join(parts): path.read_bytes() + "/".join(parts).encode("utf-8", "surrogateescape")
        for path, parts in inside.items()
        if parts != (FILE,) and not (parts[0] == "runs" and parts[2] in ("workspace", "home"))
    }
    assert any(where.startswith("runs/") for where in found)
    with closing(sqlite3.connect(f"file:{data_dir / DATABASE}?mode=ro", uri=True)) as store:
        tables = [name for (name,) in store.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        for table in tables:
            rows = store.execute(f'SELECT * FROM "{table}"').fetchall()
            found[f"table {table}"] = "\n".join(map(repr, rows)).encode("utf-8", "replace")
    assert len(tables) > 3
    return found


def assert_nowhere(texts: dict[str, bytes], forms: Iterable[bytes]) -> None:
    leaks = [(where, form) for where, text in texts.items() for form in forms if form in text]
    assert not leaks, leaks[:10]
