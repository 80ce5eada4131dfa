"""Unpacking archives from strangers: the good ones whole, the others not at all, in bounded memory either way."""

from __future__ import annotations

import io
import os
import shutil
import stat
import subprocess
import tempfile
import tracemalloc
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import BinaryIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.skills.archives import DESCRIBED_LATER, STORED, Member, build, deflated, descriptor, zipped
from tests.skills.hostile import BLANKS, BOMB, BOMBS, GOOD, KINDS, MIB, NAMES, ROTTEN, TWICE, Hostile
from turnkeeper.core.errors import ArchiveRefused
from turnkeeper.skills.archive import Limits, extract
from turnkeeper.skills.ziptable import contents, entries

MOST_MEMORY = 64 * MIB


def hostile() -> Iterator[object]:
    groups = {"A01": NAMES, "A02": KINDS, "A03": BOMBS, "A04": ROTTEN, "A05": TWICE}
    for failure, group in groups.items():
        for name, case in group.items():
            yield pytest.param(case, id=name, marks=pytest.mark.failure(failure))


def tree(root: Path) -> dict[str, bytes | None]:
    """Paths and contents; a folder has none."""
    return {
        path.relative_to(root).as_posix(): path.read_bytes() if path.is_file() else None
        for path in sorted(root.rglob("*"))
    }


def unpacked(data: bytes, root: Path) -> dict[str, bytes | None]:
    extract(io.BytesIO(data), root / "out")
    return tree(root / "out")


@pytest.mark.parametrize("case", list(hostile()))
def test_refused_whole(case: Hostile, tmp_path: Path) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(ArchiveRefused) as refusal:
            extract(io.BytesIO(case.data), tmp_path / "out")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < MOST_MEMORY
    assert case.words in refusal.value.message
    assert refusal.value.facts == ({} if case.entry is None else {"entry": case.entry})
    assert case.entry is None or f"'{case.entry}'" in refusal.value.message
    assert refusal.value.message.isprintable()
    assert not list(tmp_path.iterdir())


def test_no_more_comes_out_than_was_announced() -> None:
    file = io.BytesIO(BOMBS["larger than it says"].data)
    (bomb,) = entries(file, 1)
    out: list[bytes] = []
    with pytest.raises(ArchiveRefused):
        out.extend(contents(file, bomb))
    assert len(b"".join(out)) <= bomb.size


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        (Limits(total_bytes=699), "'b/c.txt' is where the archive grows beyond 699 bytes"),
        (Limits(count=1), "has 2 entries; at most 1 are taken"),
        (Limits(depth=1), "'b/c.txt' is deeper than 1 folders"),
        (Limits(part_bytes=4), "'a.txt' has a name that is too long"),
        (Limits(path_bytes=6), "'b/c.txt' has a name that is too long"),
    ],
)
def test_limits_are_the_callers(limits: Limits, words: str, tmp_path: Path) -> None:
    data = build(Member("a.txt", bytes(300)), Member("b/c.txt", bytes(400)))
    with pytest.raises(ArchiveRefused, match=words):
        extract(io.BytesIO(data), tmp_path / "out", limits)
    just = Limits(total_bytes=700, count=2, depth=2, part_bytes=5, path_bytes=7)
    assert extract(io.BytesIO(data), tmp_path / "out", just) == ["a.txt", "b/c.txt"]


def test_ratio_counts_beyond_the_first_mebibyte_only(tmp_path: Path) -> None:
    small = build(Member("blanks", BLANKS[:MIB], packed=deflated(BLANKS[:MIB])))
    assert unpacked(small, tmp_path) == {"blanks": BLANKS[:MIB]}
    large = build(Member("blanks", BLANKS, packed=BOMB))
    assert extract(io.BytesIO(large), tmp_path / "large", Limits(ratio=2000)) == ["blanks"]


def test_files_and_folders_come_out_as_they_went_in(tmp_path: Path) -> None:
    files: dict[str, bytes] = {
        "SKILL.md": b"Do it.",
        "empty.txt": b"",
        "assets/": b"",
        "assets/runner.json": b"{}",
        "deep/er/and/deeper.bin": os.urandom(3 * MIB),
        "Größe/日本語 🙂.txt": "ü".encode(),
        ".hidden": b"x",
        "a b..c": b"y",
    }
    assert extract(io.BytesIO(zipped(files)), tmp_path / "out") == [name for name in files if name[-1] != "/"]
    found = tree(tmp_path / "out")
    assert {name: data for name, data in found.items() if data is not None} == {
        name: data for name, data in files.items() if name[-1] != "/"
    }
    assert {name for name, data in found.items() if data is None} == {
        "assets",
        "deep",
        "deep/er",
        "deep/er/and",
        "Größe",
    }


def test_nobody_else_can_read_and_scripts_stay_executable(tmp_path: Path) -> None:
    data = build(
        Member("run.sh", b"#!", mode=stat.S_IFREG | 0o4755),
        Member("open.txt", b"x", mode=stat.S_IFREG | 0o666),
        Member("closed.txt", b"x", mode=stat.S_IFREG),
        Member("windows.txt", b"x", mode=0),
        Member("others.sh", b"x", mode=stat.S_IFREG | 0o655),
        Member("d/", mode=stat.S_IFDIR | 0o777),
        Member("d/e/x", b"x"),
    )
    unpacked(data, tmp_path)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "out").rglob("*")}
    executable = {"run.sh", "d", "e"}
    assert modes == {name: 0o700 if name in executable else 0o600 for name in modes}
    assert len(modes) == 8
    assert stat.S_IMODE((tmp_path / "out").stat().st_mode) == 0o700


def streamed(files: Mapping[str, bytes]) -> bytes:
    """As written into a pipe: sizes are known only after the data."""

    class Pipe(io.RawIOBase):
        data = b""

        def writable(self) -> bool:
            return True

        def write(self, data: object) -> int:
            self.data += bytes(data)  # type: ignore[call-overload]  # any buffer
            return len(bytes(data))  # type: ignore[call-overload]

    pipe = Pipe()
    with zipfile.ZipFile(pipe, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return pipe.data


def test_written_as_a_stream(tmp_path: Path) -> None:
    data = streamed({"a.txt": b"abc", "b/c": b"x" * 1000})
    assert unpacked(data, tmp_path) == {"a.txt": b"abc", "b": None, "b/c": b"x" * 1000}


@pytest.mark.parametrize("width", ["<3L", "<L2Q"])
@pytest.mark.parametrize("mark", [b"", b"PK\x07\x08"])
def test_descriptor_in_each_of_its_forms(mark: bytes, width: str, tmp_path: Path) -> None:
    whole = descriptor(b"abc", deflated(b"abc"))
    numbers = [int.from_bytes(whole[at : at + 4], "little") for at in (4, 8, 12)]
    after = mark + b"".join(
        number.to_bytes(8 if width == "<L2Q" and place else 4, "little")
        for place, number in enumerate(numbers)
    )
    later = {"crc": 0, "packed": 0, "size": 0}
    members = [Member(name, b"abc", flags=DESCRIBED_LATER, own=later, after=after) for name in "ab"]
    assert unpacked(build(*members), tmp_path) == {"a": b"abc", "b": b"abc"}


@pytest.mark.parametrize(
    ("data", "files"),
    [
        pytest.param(build(), {}, id="no entries"),
        pytest.param(build(Member("a", b"x", method=STORED)), {"a": b"x"}, id="stored"),
        pytest.param(build(Member("d/", packed=deflated(b""), mode=0)), {"d": None}, id="deflated folder"),
        pytest.param(
            build(Member("d/x", b"x"), Member("d/", mode=0)), {"d": None, "d/x": b"x"}, id="folder last"
        ),
        pytest.param(build(Member("a", b"x"), comment=b"made by hand"), {"a": b"x"}, id="comment"),
        pytest.param(
            build(Member("a", b"x"), comment=b"PK\x05\x06" * 9000), {"a": b"x"}, id="comment of marks"
        ),
        pytest.param(build(Member("a", b"x"), comment=b"c" * 0xFFFF), {"a": b"x"}, id="longest comment"),
        pytest.param(
            build(Member("n.zip", GOOD, method=STORED)), {"n.zip": GOOD}, id="archive in an archive"
        ),
        pytest.param(build(Member("ü", b"x", flags=0)), {"ü": b"x"}, id="utf-8 and does not say so"),
        pytest.param(build(Member(b"\x81ber", b"x", flags=0)), {"über": b"x"}, id="old code page"),
        pytest.param(
            build(Member("a", b"x", listed={"extra": b"UT\x05\0\3abcd"}, own={"extra": b"any extra"})),
            {"a": b"x"},
            id="extra fields",
        ),
        pytest.param(
            build(Member("a", b"x"), Member("b", b"y", flags=0x0806)), {"a": b"x", "b": b"y"}, id="flags"
        ),
    ],
)
def test_unusual_but_sound(data: bytes, files: Mapping[str, bytes | None], tmp_path: Path) -> None:
    assert unpacked(data, tmp_path) == files


def test_entries_in_another_order_than_the_table(tmp_path: Path) -> None:
    first, second = Member("a", b"1"), Member("b", b"2")
    blocks = first.block() + second.block()
    table = second.record(len(first.block())) + first.record(0)
    end = build(here=2, count=2, length=len(table), start=len(blocks))
    assert extract(io.BytesIO(blocks + table + end), tmp_path / "out") == ["b", "a"]


@pytest.mark.skipif(shutil.which("zip") is None, reason="Info-ZIP is not installed")
@pytest.mark.parametrize("options", [["-r"], ["-rD"], ["-r0"], ["-r9"]], ids="".join)
@pytest.mark.parametrize("is_streamed", [True, False], ids=["streamed", "file"])
def test_as_the_zip_command_writes_it(tmp_path: Path, options: list[str], is_streamed: bool) -> None:
    source = tmp_path / "source"
    (source / "assets").mkdir(parents=True)
    (source / "SKILL.md").write_text("Do it. " * 100)
    (source / "assets" / "größe.json").write_text("{}")
    command = ["zip", "-q", *options, "-" if is_streamed else str(tmp_path / "a.zip"), "."]
    said = subprocess.run(command, cwd=source, stdout=subprocess.PIPE, check=True).stdout
    data = said if is_streamed else (tmp_path / "a.zip").read_bytes()
    assert unpacked(data, tmp_path) == tree(source)


def test_folder_that_exists_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").write_text("mine")
    with pytest.raises(FileExistsError):
        extract(io.BytesIO(GOOD), tmp_path / "out")
    assert tree(tmp_path) == {"out": None, "out/mine": b"mine"}


class Unreadable(io.BytesIO):
    """A disk that fails in the middle of the data, once all has been checked."""

    def read(self, size: int | None = -1, /) -> bytes:
        data = super().read(size)
        if data == deflated(b"second " * 50):
            raise OSError("the disk is gone")
        return data


def test_failing_disk_is_told_as_it_is_and_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="the disk is gone"):
        extract(Unreadable(GOOD), tmp_path / "out")
    assert not list(tmp_path.iterdir())


@pytest.mark.failure("V03")
def test_full_disk_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []

    def full(handle: int) -> None:
        synced.append(handle)
        if len(synced) == 2:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        extract(io.BytesIO(GOOD), tmp_path / "out")
    assert not list(tmp_path.iterdir())


@pytest.mark.failure("V02")
def test_every_file_and_folder_is_on_disk_before_it_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[Path] = []
    monkeypatch.setattr(os, "fsync", lambda handle: synced.append(Path(f"/proc/self/fd/{handle}").readlink()))
    extract(io.BytesIO(GOOD), tmp_path / "out")
    names = ("out/a.txt", "out/b/c.txt", "out/b", "out", ".")
    assert synced == [(tmp_path / name).resolve() for name in names]


FILES = {"SKILL.md": b"Do it. " * 20, "assets/runner.json": b"{}", "e": b"", "d/": b""}
SEED = zipped(FILES)
LATER = streamed(FILES)


@given(
    data=st.sampled_from([SEED, LATER]),
    edits=st.lists(
        st.tuples(
            st.floats(0, 1, exclude_max=True), st.sampled_from(["set", "cut", "add"]), st.binary(max_size=4)
        ),
        min_size=1,
        max_size=4,
    ),
)
def test_rotten_bytes_are_refused_or_harmless(data: bytes, edits: list[tuple[float, str, bytes]]) -> None:
    for place, how, given_bytes in edits:
        at = int(place * len(data))
        removed = 0 if how == "add" else len(given_bytes)
        data = data[:at] + (b"" if how == "cut" else given_bytes) + data[at + removed :]
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        try:
            names = extract(io.BytesIO(data), root / "out")
        except ArchiveRefused:
            assert not list(root.iterdir())
        else:
            assert [path.name for path in root.iterdir()] == ["out"]
            found = {name: content for name, content in tree(root / "out").items() if content is not None}
            assert set(names) == set(found)
            # A checksum covers every file: what survives is what was packed, whatever it is called now.
            assert set(found.values()) <= set(FILES.values())


@given(st.binary(max_size=200), st.sampled_from([b"", b"PK\x05\x06" + bytes(18), GOOD[-22:]]))
def test_noise_is_refused(noise: bytes, end: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        try:
            extract(io.BytesIO(noise + end), Path(folder) / "out")
        except ArchiveRefused:
            assert not list(Path(folder).iterdir())
        else:
            assert not noise


def test_reads_from_a_spooled_file_as_an_upload_gives_it(tmp_path: Path) -> None:
    with tempfile.SpooledTemporaryFile(max_size=10) as spooled:
        spooled.write(GOOD)
        file: BinaryIO = spooled  # type: ignore[assignment]  # it has all of its methods
        assert extract(file, tmp_path / "out") == ["a.txt", "b/c.txt"]
