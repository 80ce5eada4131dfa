"""Files of strangers and of agents, end to end: nothing leads out of its root, hangs, or says more than it is."""

from __future__ import annotations

import asyncio
import io
import json
import os
import socket
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from tests.fuzz import seeds
from tests.harness import PATIENCE, Client, Json, Place
from tests.skills.archives import zipped
from tests.spec.scripts import Latch, script
from turnkeeper.core.errors import Code
from turnkeeper.skills import artifacts

DONE: Json = {"result": {"answer": "done"}}
OUTSIDE = b"this is not yours"


def file(path: str, text: str = "mine") -> Json:
    return {"write_file": {"path": path, "text": text}}


@pytest.fixture
def latch(tmp_path: Path) -> Latch:
    return Latch(tmp_path)


async def finished(client: Client, *steps: Json, skill: str = "answer") -> str:
    run_id = await client.create(skill, script([*steps, DONE]))
    assert (await client.ended(run_id))["status"] == "succeeded"
    return run_id


def workspace(place: Place, run_id: str) -> Path:
    return place.house.stage.folder(run_id).workspace


async def listed(client: Client, run_id: str) -> list[str]:
    """Links are listed as links, see tests/skills/test_artifacts.py; these are the files."""
    answer = await client.http.get(f"/v1/jobs/{run_id}/artifacts")
    return [each["path"] for each in answer.json()["artifacts"] if each["kind"] == "file"]


async def bundled(client: Client, run_id: str) -> dict[str, bytes]:
    answer = await client.http.get(f"/v1/jobs/{run_id}/bundle")
    assert answer.status_code == 200, answer.text
    with zipfile.ZipFile(io.BytesIO(answer.content)) as files:
        return {name: files.read(name) for name in files.namelist()}


# Links that come and go


SWAP = """
import os, sys, time
path, other = sys.argv[1:]
print("begun", flush=True)
while os.getppid() == PARENT:
    os.rename(path, path + ".aside")
    os.symlink(other, path)
    time.sleep(0.0002)
    os.unlink(path)
    os.rename(path + ".aside", path)
    time.sleep(0.0001)
"""


@contextmanager
def swapping(path: Path, other: Path) -> Iterator[None]:
    """A process that makes the folder a link, and a folder again, as fast as it can."""
    code = SWAP.replace("PARENT", str(os.getpid()))
    agent = subprocess.Popen([sys.executable, "-c", code, str(path), str(other)], stdout=subprocess.PIPE)
    try:
        assert agent.stdout is not None
        assert agent.stdout.readline() == b"begun\n"
        yield
    finally:
        agent.kill()
        agent.communicate()


@pytest.mark.failure("A07")
async def test_a_folder_that_is_swapped_for_a_link_shows_nothing_of_the_other_side(
    place: Place, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "same.txt").write_bytes(OUTSIDE)
    (outside / "other.txt").write_bytes(OUTSIDE)
    client = place.client
    run_id = await finished(client, file("sub/same.txt"))
    seen: set[str] = set()
    with swapping(workspace(place, run_id) / "sub", outside):
        for _ in range(3000):  # a window of microseconds: once in fifty times it is met
            seen.update(each.path for each in artifacts.find(workspace(place, run_id), ()))
        for _ in range(50):
            answer = await client.http.get(f"/v1/jobs/{run_id}/artifacts/sub/same.txt")
            assert (answer.status_code, answer.content) == (200, b"mine") or answer.status_code == 404
            assert (await client.http.get(f"/v1/jobs/{run_id}/artifacts/sub/other.txt")).status_code == 404
            seen.update(await listed(client, run_id))
        bundles = [await bundled(client, run_id) for _ in range(10)]
    assert seen <= {"sub", "sub/same.txt", "sub.aside/same.txt"}, "the link itself, and nothing behind it"
    assert not [each for each in bundles if OUTSIDE in each.values()]


@pytest.mark.failure("A07")
async def test_a_file_that_is_swapped_during_its_download_is_sent_as_it_was(place: Place) -> None:
    client = place.client
    run_id = await finished(client, file("large.bin"))
    path = workspace(place, run_id) / "large.bin"
    path.write_bytes(b"x" * 8_000_000)
    async with client.http.stream("GET", f"/v1/jobs/{run_id}/artifacts/large.bin") as answer:
        path.unlink()
        path.symlink_to("/etc/passwd")
        assert await answer.aread() == b"x" * 8_000_000
    assert (await client.http.get(f"/v1/jobs/{run_id}/artifacts/large.bin")).status_code == 404
    assert await listed(client, run_id) == []
    assert "artifacts/large.bin" not in await bundled(client, run_id)


# Names


ODD = [
    "two\nlines",
    "\x1b]0;title\x07\x1b[31mred",
    "<img src=x onerror=alert(1)>",
    "\u202egpj.exe",
    "é" * 127,
    "back\\slash",
]


@pytest.mark.failure("A08")
async def test_odd_names_of_an_agent_are_told_the_same_everywhere_and_obeyed_nowhere(place: Place) -> None:
    client = place.client
    run_id = await finished(client, *(file(name, name) for name in ODD))
    assert sorted(await listed(client, run_id)) == sorted(ODD)
    files = await bundled(client, run_id)
    assert {name.removeprefix("artifacts/") for name in files if name.startswith("artifacts/")} == set(ODD)
    printed = await asyncio.to_thread(_typed, place, "artifacts", run_id)
    assert not [char for char in printed if not char.isprintable() and char != "\n"], printed
    assert len(printed.splitlines()) <= len(ODD) + 2, "a name with a line feed is one line"


def _typed(place: Place, *words: str) -> str:
    env = os.environ | {
        "TURNKEEPER_URL": place.service.url,
        "TURNKEEPER_TOKEN": str(place.settings.token),
        "COLUMNS": "300",
    }
    ended = subprocess.run(
        [sys.executable, "-m", "turnkeeper", *words],
        env=env,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


# Sizes


@pytest.mark.failure("A09")
async def test_a_pipe_in_the_place_of_a_required_file_is_no_file_and_stops_nobody(
    place: Place, latch: Latch
) -> None:
    client = place.client
    run_id = await client.create("papers", script([*latch.steps, DONE]))
    await latch.reached()
    os.mkfifo(workspace(place, run_id) / "report.md")
    latch.open()
    run = await client.ended(run_id)
    assert (run["status"], run["error"]["code"]) == ("failed", "OUTPUT_INVALID")
    assert "report.md" in run["error"]["message"]


@pytest.mark.failure("A09")
async def test_a_run_with_huge_and_growing_files_ends_and_hands_them_out_bit_by_bit(
    place: Place, latch: Latch
) -> None:
    client = place.client
    run_id = await client.create("plain", script([*latch.steps, {"say": "done"}]))
    await latch.reached()
    folder = workspace(place, run_id)
    with (folder / "huge.bin").open("wb") as huge:
        huge.truncate(20 * 1024**3)
    (folder / "log.txt").write_bytes(b"x" * 1000)
    latch.open()
    assert (await client.ended(run_id))["status"] == "succeeded"
    assert (await client.result(run_id))["artifacts"] == ["huge.bin", "log.txt"]
    async with client.http.stream("GET", f"/v1/jobs/{run_id}/bundle") as bundle:
        assert bundle.status_code == 200
        assert await anext(bundle.aiter_bytes())
        # Whoever hangs up ends it; meanwhile everybody else is served.
        assert (await client.get(run_id))["status"] == "succeeded"
    (folder / "huge.bin").unlink()
    assert (await bundled(client, run_id))["artifacts/log.txt"] == b"x" * 1000


# Schemas and front matter


def skill(schema: Any, front: str = "name: x\ndescription: y\n") -> bytes:
    runner = {"id": "stranger", "version": "1", "schemas": {"output": "assets/output.json"}}
    return zipped(
        {
            "SKILL.md": f"---\n{front}---\nDo it.\n",
            "assets/runner.json": json.dumps(runner),
            "assets/output.json": json.dumps(schema),
        }
    )


async def post(client: Client, data: bytes) -> httpx.Response:
    return await client.http.post("/v1/skills", files={"file": ("skill.zip", data, "application/zip")})


@pytest.mark.failure("A10")
async def test_a_schema_that_refers_elsewhere_is_refused_and_nobody_is_asked(place: Place) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        other.setblocking(False)
        address = f"http://127.0.0.1:{other.getsockname()[1]}/schema.json"
        for schema in ({"$ref": address}, {"properties": {"a": {"$ref": address}}}, {"$dynamicRef": address}):
            answer = await post(place.client, skill({"type": "object", **schema}))
            assert answer.status_code == 400, answer.text
            assert answer.json()["code"] == Code.SKILL_BROKEN
        with pytest.raises(BlockingIOError):
            other.accept()
    assert "stranger" not in [
        each["id"] for each in (await place.client.http.get("/v1/skills")).json()["skills"]
    ]


@pytest.mark.failure("A10")
@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"a": {"type": "string", "pattern": "^(a+)+$"}}},
        {"patternProperties": {"(x|x)*y": {}}},
        {"$ref": "#"},
        {"allOf": [{"$ref": "#/$defs/a"}], "$defs": {"a": {"anyOf": [{"$ref": "#/$defs/a"}]}}},
    ],
    ids=["regex", "regex of keys", "itself", "round about"],
)
async def test_a_schema_that_could_take_for_ever_never_does(place: Place, schema: Json) -> None:
    """Refused at the door; or taken, and then a run on it comes to its end."""
    client = place.client
    answer = await asyncio.wait_for(post(client, skill({"type": "object", **schema})), PATIENCE)
    if answer.status_code == 400:
        assert answer.json()["code"] == Code.SKILL_BROKEN
        return
    result = {"result": {"a": "a" * 50 + "!", "x" * 50: 1}}
    run_id = await client.create("stranger", script([result]))
    assert (await client.ended(run_id))["status"] in ("succeeded", "failed")


@pytest.mark.failure("A11")
@pytest.mark.parametrize(
    "front",
    [
        "a: &a [x, x, x, x, x, x, x, x]\n"
        + "".join(
            f"{n}: &{n} [{', '.join(['*' + p] * 8)}]\n" for p, n in zip("abcdefgh", "bcdefghi", strict=True)
        ),
        "name: " + "[" * 5000 + "\n",
        "name: x\nmore: |\n" + "  x\n" * 100_000,
        "x: &x {x: *x}\n",
        "name: !!python/object/apply:os.system [id]\n",
    ],
    ids=["bomb", "depth", "length", "loop", "code"],
)
async def test_front_matter_that_blows_up_is_read_within_limits(place: Place, front: str) -> None:
    answer = await asyncio.wait_for(post(place.client, skill({"type": "object"}, front)), PATIENCE)
    assert answer.status_code in (200, 400)
    assert len(answer.content) < 20_000
    found = (await place.client.http.get("/v1/skills/stranger/lint")).json().get("findings", [])
    told = json.dumps(found) + answer.text
    assert any(code in told for code in ("FRONT_MATTER_INVALID", "FRONT_MATTER_TOO_LONG", "front matter"))


# Everything that has a path in it, at once


def tree(folder: Path, without: Path) -> dict[str, tuple[int, bytes]]:
    return {
        str(path): (path.lstat().st_mtime_ns, path.read_bytes() if path.is_file() else b"")
        for path in sorted(folder.rglob("*"))
        if path != without and not path.is_relative_to(without)
    }


PATHS = [
    "../outside.txt",
    "/etc/passwd",
    "a/../../outside.txt",
    "..\\outside.txt",
    "%2e%2e/outside.txt",
    "\0",
    "link/outside.txt",
]


@pytest.mark.failure("A01", "A02", "A04", "A07")
async def test_no_archive_and_no_name_touches_a_path_outside_its_root(place: Place, tmp_path: Path) -> None:
    """Skills, uploads, outputs of agents and downloads, with every hostile archive and name that we know."""
    data_dir, client = place.settings.data_dir, place.client
    (tmp_path / "outside.txt").write_bytes(OUTSIDE)
    (data_dir / "outside.txt").write_bytes(OUTSIDE)
    archives = seeds.of("archive")
    archives |= {
        f"made {path!r}": zipped({path: b"evil", "SKILL.md": b"x"}) for path in PATHS if "\0" not in path
    }
    before = tree(tmp_path, data_dir)
    held = await client.create("filed", input={"title": "Bees"})
    done = await finished(client, file("here.txt"))
    (workspace(place, done) / "link").symlink_to(tmp_path)
    roots = {path.name for path in data_dir.iterdir()}
    for data in archives.values():
        for address in ("/v1/skills", f"/v1/jobs/{held}/upload"):
            answer = await client.http.post(address, files={"file": ("a.zip", data)})
            assert answer.status_code in (200, 400, 409), answer.text
            assert OUTSIDE not in answer.content
    for path in PATHS:
        upload = await client.http.post(
            f"/v1/jobs/{held}/upload", files={path.replace("\0", "0"): ("a", b"evil")}
        )
        assert upload.status_code in (400, 409), upload.text
        answer = await client.http.get(f"/v1/jobs/{done}/artifacts/{quote(path, safe='')}")
        assert answer.status_code in (400, 404), answer.text
        written = await client.create(script=script([file(path, "evil"), DONE]))
        assert (await client.ended(written))["status"] in ("succeeded", "failed")
    assert OUTSIDE not in b"".join((await bundled(client, done)).values())
    assert tree(tmp_path, data_dir) == before
    assert {path.name for path in data_dir.iterdir()} - roots <= {"skills"}
    assert (data_dir / "outside.txt").read_bytes() == OUTSIDE
    # What an agent wrote is in its own workspace, under whatever name.
    kept = [path for path in data_dir.rglob("*") if path.is_file() and path.stat().st_size < 10_000]
    evil = [path.relative_to(data_dir) for path in kept if path.read_bytes() == b"evil"]
    assert all(path.parts[0] == "runs" and path.parts[2] == "workspace" for path in evil)
    assert not [path for path in evil if path.parts[1] in (held, done)]
    await client.cancel(held)
