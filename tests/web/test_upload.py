"""A job that needs files waits for them, takes them once and whole, and starts."""

from __future__ import annotations

import asyncio
import io
import shutil
import zipfile
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.harness import Client, Json, Place, opened, states
from tests.skills.folders import OBJECT, skill_at
from tests.spec.scripts import Notebook, script
from tests.web.problems import assert_problem
from turnkeeper.core.errors import Code

TITLE = {"title": "Bees"}
DONE: Json = {"result": {"answer": "read"}}


def zipped(**files: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, data in files.items():
            archive.writestr(name.replace("__", "/").replace("_dot_", "."), data)
    return out.getvalue()


PAPER = zipped(document_dot_txt=b"All about bees.")


async def held(client: Client, *steps: Json, **given: Any) -> str:
    """A run that waits for its upload."""
    run_id = await client.create("filed", script([*steps, DONE]), input={**TITLE, **given})
    run = await client.get(run_id)
    assert (run["status"], run["waiting_for"], run["files"]) == ("queued", "upload", {})
    assert run["upload_deadline_at"] > run["created_at"]
    return run_id


async def post(client: Client, run_id: str, **parts: Any) -> httpx.Response:
    return await client.http.post(f"/v1/jobs/{run_id}/upload", files=parts)


def workspace(place: Place, run_id: str) -> Path:
    return place.house.stage.folder(run_id).workspace


async def assert_untouched(place: Place, run_id: str) -> None:
    """Still waiting for its files, and nothing of the refused ones is left."""
    run = await place.client.get(run_id)
    assert (run["status"], run["waiting_for"], run["files"], run["last_seq"]) == ("queued", "upload", {}, 1)
    left = place.house.stage.folder(run_id).root
    assert not [path for path in left.rglob("*") if path.is_file()]
    assert not (left / "uploads.new").exists()


class TestTaken:
    async def test_a_zip_starts_the_run_and_its_files_are_input(
        self, place: Place, client: Client, notebook: Notebook
    ) -> None:
        run_id = await held(client, notebook.step)
        archive = zipped(
            document_dot_txt=b"All about bees.", pictures__a_dot_png=b"1", pictures__b_dot_png=b"2", extra=b""
        )
        answer = await post(client, run_id, file=("files.zip", archive))
        assert answer.status_code == 200, answer.text
        files = {
            "document": "uploads/document.txt",
            "pictures": ["uploads/pictures/a.png", "uploads/pictures/b.png"],
        }
        assert answer.json()["files"] == files
        run = await client.settled(run_id)
        assert (run["status"], run["files"], run["upload_deadline_at"]) == ("succeeded", files, None)
        assert states(await client.events(run_id)) == ["queued", "running", "succeeded"]
        assert (workspace(place, run_id) / "uploads/document.txt").read_bytes() == b"All about bees."
        assert '"document": "uploads/document.txt"' in notebook.prompts[0]

    async def test_a_part_for_each_input_needs_no_zip(self, place: Place, client: Client) -> None:
        run_id = await held(client)
        answer = await post(client, run_id, document=("Über Bienen.md", b"Bienen"), notes=("n", b"hm"))
        assert answer.status_code == 200, answer.text
        assert (await client.settled(run_id))["files"] == {
            "document": "uploads/Über Bienen.md",
            "notes": "uploads/n",
        }

    async def test_the_agent_is_told_where_its_files_are(self, place: Place, client: Client) -> None:
        words = {"say": "I read {{input.document}} called {{input.title}}."}
        run_id = await held(client, words)
        await post(client, run_id, file=("files.zip", PAPER))
        await client.settled(run_id)
        said = [event["data"]["text"] for event in await client.events(run_id) if "final" in event["type"]]
        assert said[0] == "I read uploads/document.txt called Bees."

    async def test_a_file_may_have_any_name_that_the_job_gives_it(self, client: Client) -> None:
        run_id = await held(client, document="in/Report.txt")
        answer = await post(client, run_id, file=("z", zipped(in__Report_dot_txt=b"x")))
        assert answer.json()["files"] == {"document": "uploads/in/Report.txt"}
        assert (await client.settled(run_id))["status"] == "succeeded"

    async def test_what_was_uploaded_is_no_artifact(self, client: Client) -> None:
        run_id = await held(client, {"write_file": {"path": "out/r.txt", "text": "r"}})
        await post(client, run_id, file=("z", zipped(document_dot_txt=b"", out__x_dot_txt=b"")))
        await client.settled(run_id)
        listed = (await client.http.get(f"/v1/jobs/{run_id}/artifacts")).json()["artifacts"]
        assert [each["path"] for each in listed] == ["out/r.txt"]


class TestRefused:
    @pytest.mark.parametrize(
        ("parts", "code"),
        [
            ({"file": ("a.zip", b"PK not really")}, Code.ARCHIVE_REFUSED),
            ({"file": ("a.zip", zipped(document_dot_txt=b"x", **{"..__evil": b"x"}))}, Code.ARCHIVE_REFUSED),
            ({"file": ("a.zip", zipped(document_dot_pdf=b"x"))}, Code.INPUT_INVALID),
            ({"file": ("a.zip", zipped(other=b"x"))}, Code.INPUT_INVALID),
            (
                {
                    "file": (
                        "a.zip",
                        zipped(document_dot_txt=b"", pictures__1=b"", pictures__2=b"", pictures__3=b""),
                    )
                },
                Code.INPUT_INVALID,
            ),
            ({"notes": ("n", b"x")}, Code.INPUT_INVALID),
            ({"document": ("..", b"x")}, Code.ARCHIVE_REFUSED),
            ({"wrong": ("n", b"x")}, Code.INVALID_REQUEST),
            ({"document": ("d.txt", b"x"), "file": ("a.zip", PAPER)}, Code.INVALID_REQUEST),
        ],
    )
    async def test_nothing_changes(self, place: Place, client: Client, parts: Any, code: Code) -> None:
        run_id = await held(client)
        assert_problem(await post(client, run_id, **parts), 400, code)
        await assert_untouched(place, run_id)
        assert (await post(client, run_id, file=("ok.zip", PAPER))).status_code == 200
        assert (await client.settled(run_id))["status"] == "succeeded"

    async def test_a_body_that_is_no_form(self, place: Place, client: Client) -> None:
        run_id = await held(client)
        url = f"/v1/jobs/{run_id}/upload"
        text = {"Content-Type": "multipart/form-data; boundary=x"}
        for answer in (
            await client.http.post(url, content=PAPER, headers={"Content-Type": "application/zip"}),
            await client.http.post(url, data={"document": "words"}),
            await client.http.post(url, content=b"--y\r\nnonsense", headers=text),
            await client.http.post(url, content=b"", headers={"Content-Type": "multipart/form-data"}),
            await client.http.post(url),
            await client.http.post(url, data={"document": "a text"}, files={"file": ("z", PAPER)}),
        ):
            assert_problem(answer, 400, Code.INVALID_REQUEST)
        await assert_untouched(place, run_id)
        await client.cancel(run_id)

    @pytest.mark.parametrize(
        "end", [b"", b"\r\n--x", b"\r\n--x\r\n", b"\r\n--x\r\nContent-Disposition: form-data"]
    )
    async def test_a_body_that_breaks_off(self, place: Place, client: Client, end: bytes) -> None:
        """Even between two files: what did not come must not be taken for what is not there."""
        run_id = await held(client)
        head = b'--x\r\nContent-Disposition: form-data; name="document"; filename="d.txt"\r\n\r\n'
        for size in (5, 2_000_000):
            answer = await client.http.post(
                f"/v1/jobs/{run_id}/upload",
                content=head + b"x" * size + end,
                headers={"Content-Type": "multipart/form-data; boundary=x"},
            )
            assert_problem(answer, 400, Code.INVALID_REQUEST)
        await assert_untouched(place, run_id)
        await client.cancel(run_id)

    async def test_only_a_run_that_waits_for_files_takes_any(self, client: Client) -> None:
        ready = await client.create("answer")
        assert_problem(await post(client, "nobody", file=("z", PAPER)), 404, Code.RUN_NOT_FOUND)
        problem = assert_problem(await post(client, ready, file=("z", PAPER)), 409, Code.UPLOAD_NOT_EXPECTED)
        assert problem["state"] in ("queued", "running", "succeeded")
        run_id = await held(client)
        assert (await post(client, run_id, file=("z", PAPER))).status_code == 200
        assert_problem(await post(client, run_id, file=("z", PAPER)), 409, Code.UPLOAD_NOT_EXPECTED)
        canceled = await held(client)
        await client.cancel(canceled)
        assert_problem(await post(client, canceled, file=("z", PAPER)), 409, Code.UPLOAD_NOT_EXPECTED)

    async def test_rivals_do_not_mix(self, place: Place, client: Client) -> None:
        run_id = await held(client)
        answers = await asyncio.gather(
            *(post(client, run_id, document=(f"{n}.txt", b"%d" % n)) for n in range(8))
        )
        (won,) = [answer for answer in answers if answer.status_code == 200]
        for answer in answers:
            if answer is not won:
                assert_problem(answer, 409, Code.UPLOAD_NOT_EXPECTED)
        path = won.json()["files"]["document"]
        assert [each.name for each in (workspace(place, run_id) / "uploads").iterdir()] == [Path(path).name]

    async def test_one_that_is_refused_does_not_keep_others_out(self, client: Client) -> None:
        """Whoever lost the answer to a first try sends it again while that is still looked at."""
        run_id = await held(client)
        bad = [post(client, run_id, another=(f"{n}.txt", b"no such input")) for n in range(7)]
        *refused, taken = await asyncio.gather(*bad, post(client, run_id, document=("a.txt", b"good")))
        assert taken.status_code == 200, taken.text
        assert {answer.status_code for answer in refused} <= {400, 409}

    async def test_the_job_names_files_and_brings_values(self, client: Client) -> None:
        for given in (
            {"title": 1},
            {},
            {"title": "x", "document": {"text": "words"}},
            {"title": "x", "more": 1},
        ):
            answer = await client.post_job("filed", input=given)
            assert_problem(answer, 400, Code.INPUT_INVALID)


EITHER: Json = {
    "type": "object",
    "minProperties": 1,
    "properties": {"url": {"type": "string"}, "paper": {"type": "string", "x-input-source": "file"}},
    "anyOf": [{"required": ["url"]}, {"required": ["paper"]}],
}


async def test_a_schema_may_want_one_or_the_other(tmp_path: Path) -> None:
    skill_at(
        tmp_path / "skills/either",
        runner={"schemas": {"input": "in.json", "output": "out.json"}},
        files={"in.json": EITHER, "out.json": OBJECT},
    )
    async with opened(tmp_path / "data", skills_dir=(tmp_path / "skills",)) as place:
        client = place.client
        by_url = await client.create("either", script([DONE]), input={"url": "http://x"})
        assert (await client.settled(by_url))["status"] == "succeeded"
        by_file = await client.create("either", script([DONE]), input={"paper": "a.pdf"})
        assert (await client.get(by_file))["waiting_for"] == "upload"
        assert (await post(client, by_file, file=("z", zipped(a_dot_pdf=b"")))).status_code == 200
        assert (await client.settled(by_file))["files"] == {"paper": "uploads/a.pdf"}
        assert_problem(await client.post_job("either"), 400, Code.INPUT_INVALID)


async def test_an_upload_is_held_to_what_the_job_was_accepted_for(tmp_path: Path) -> None:
    """The skill may have changed, or gone; then the run says so, and does not wait for files that are there."""
    runner = {"version": "1", "schemas": {"input": "in.json", "output": "out.json"}}
    root = skill_at(tmp_path / "skills/either", runner=runner, files={"in.json": EITHER, "out.json": OBJECT})
    async with opened(tmp_path / "data", skills_dir=(tmp_path / "skills",)) as place:
        client = place.client
        first, second = [await client.create("either", input={"paper": "a"}) for _ in range(2)]
        skill_at(
            root, runner={**runner, "version": "2"}, files={"in.json": {"type": "object", "maxProperties": 0}}
        )
        assert (await post(client, first, paper=("a", b""))).status_code == 200
        assert (await client.settled(first))["error"]["code"] == "SKILL_CHANGED"
        shutil.rmtree(root)
        assert (await post(client, second, paper=("a", b""))).status_code == 200
        assert (await client.settled(second))["error"]["code"] == "SKILL_NOT_FOUND"


async def test_files_that_never_come(tmp_path: Path) -> None:
    async with opened(tmp_path / "data", upload_timeout_sec=60) as other:
        run_id = await held(other.client)
        await other.pass_time(59)
        assert (await other.client.get(run_id))["status"] == "queued"
        await other.pass_time(2)
        run = await other.client.get(run_id)
        assert (run["status"], run["error"]["code"]) == ("failed", "UPLOAD_MISSING")


async def test_a_held_run_is_not_in_anybodys_way(tmp_path: Path) -> None:
    """It holds no slot and no place in the queue, and one that has its files is never turned away."""
    async with opened(tmp_path / "data", slots=1, max_queued=1) as place:
        client = place.client
        waiting = [await held(client) for _ in range(5)]
        assert place.house.dispatcher.waiting == 0
        assert (await client.settled(await client.create("answer")))["status"] == "succeeded"
        for run_id in waiting:
            assert (await post(client, run_id, file=("z", PAPER))).status_code == 200
        for run_id in waiting:
            assert (await client.settled(run_id))["status"] == "succeeded"


async def test_too_much_is_refused_before_it_is_read(tmp_path: Path) -> None:
    async with opened(tmp_path / "data", max_upload_mb=1) as place:
        run_id = await held(place.client)
        answer = await post(place.client, run_id, document=("d.txt", b"x" * 1_100_000))
        assert_problem(answer, 413, Code.BODY_TOO_LARGE)
        await assert_untouched(place, run_id)
