"""What people hand in: archives, front matter, the runner of a skill and its schemas."""

from __future__ import annotations

import io
import json
import os
import tempfile
import zipfile
from pathlib import Path, PurePosixPath

from turnkeeper.core.errors import ArchiveRefused
from turnkeeper.skills.archive import Limits, extract
from turnkeeper.skills.package import Package, read
from turnkeeper.skills.yamltext import load_yaml

YAML = (
    b"---\n", b"name: x\n", b"description: y\n", b"version: 1.10\n", b"metadata:\n  version: 2\n", b"&a ",
    b"*a", b"<<: *a", b"!!python/object:os.system", b"!!binary ", b"!!set {a}", b"!!omap", b"!!float ",
    b"!!int ", b"!!timestamp ", b"? ", b"- ", b": ", b"{", b"}", b"[", b"]", b"|\n", b">-\n", b"'", b'"',
    b"\\ud800", b"\\x00", b"\t", b"#", b"%YAML 1.2\n", b"0x", b"1:1", b".inf", b"=", b"~", b"\xef\xbb\xbf",
    b"\xc2\x85", b"\xe2\x80\xa8", b"\xff", b"2001-02-30",
)  # fmt: skip
RUNNER = (
    b'"id":', b'"version":', b'"engines":', b'"execution_modes":', b'"max_attempt":', b'"schemas":',
    b'"output":', b'"artifacts":', b'"pattern":', b'"../x"', b'"/etc/passwd"', b'"entrypoint":', b'"timeouts":',
    b'"\\u0000"', b'"\\ud800"', b"1e999", b"null", b"true", b"-1", b"[]", b"{}", b"[", b"{", b"}", b"]", b",",
    b":", b'"$ref":', b'"pattern": "(a+)+$"', b'"type": "object"', b"\x1e", b'"properties":', b'"default":',
    b'"x-input-source": "file"', b'"$ref": "#"', b'"$dynamicRef":', b'"multipleOf": 0.01',
)  # fmt: skip
ZIP = (
    b"PK\x03\x04", b"PK\x01\x02", b"PK\x05\x06", b"PK\x06\x06", b"PK\x06\x07", b"PK\x07\x08", b"../", b"/",
    b"\\", b"..", b"\0", b"\xff\xff", b"\xff\xff\xff\xff", b"\x00\x00\x00\x00", b"\x08\x00", b"\x00\x08",
    b"\xa1\xff", b"SKILL.md", b"con", b"\x01\x00",
)  # fmt: skip
LIMITS = Limits(total_bytes=100_000, count=20, depth=4)
MOST_FINDINGS = 200


def check_yaml(data: bytes) -> None:
    """A value, or a ValueError of one line."""
    said = ""
    try:
        load_yaml(data.decode("utf-8", "replace"))
    except ValueError as refusal:
        said = str(refusal)
    assert "\n" not in said


def check_front(data: bytes) -> None:
    """A `SKILL.md` of any kind is a skill with findings, never a traceback."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "skill"
        root.mkdir()
        (root / "SKILL.md").write_bytes(data)
        _check_package(read(root))


def check_runner(data: bytes) -> None:
    """The same for its runner and a schema, which follows behind a separator."""
    runner, _, schema = data.partition(b"\x1e")
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "skill"
        (root / "assets").mkdir(parents=True)
        (root / "SKILL.md").write_text("---\nname: x\ndescription: y\n---\nDo it.\n")
        (root / "assets" / "runner.json").write_bytes(runner)
        (root / "assets" / "output.json").write_bytes(schema)
        package = read(root)
        _check_package(package)
        assert all(path.resolve().is_relative_to(root.resolve()) for path in package.stamps)


def _check_package(package: Package) -> None:
    skill = package.skill
    assert len(package.findings) < MOST_FINDINGS
    words = [skill.id, skill.version, skill.name, skill.description, package.shown_id, *package.problems]
    for text in words:
        assert isinstance(text, str)
        text.encode()
    schemas = (skill.input_schema, skill.parameter_schema, skill.output_schema)
    json.dumps([*schemas, skill.prompts, skill.timeouts], allow_nan=False, ensure_ascii=False).encode()
    assert skill.max_attempt is None or skill.max_attempt > 0
    for rule in skill.artifacts:
        assert not {"/", ".."} & set(PurePosixPath(rule.pattern).parts)


def check_archive(data: bytes) -> None:
    """All of it inside the folder, as another reader sees it too, or nothing at all; and never a byte elsewhere."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        (root / "beside").write_bytes(b"mine")
        (root / "below").mkdir()
        out = root / "below" / "out"
        said = "unpacked"
        try:
            names = extract(io.BytesIO(data), out, LIMITS)
        except ArchiveRefused as refusal:
            said = refusal.message
        else:
            _check_unpacked(data, out, names)
        assert out.exists() == (said == "unpacked")
        assert said.isprintable()
        assert len(said) < 1000
        assert sorted(os.listdir(root)) == ["below", "beside"]  # noqa: PTH208 (names are all that is needed)
        assert {path.name for path in (root / "below").iterdir()} <= {"out"}
        assert (root / "beside").read_bytes() == b"mine"


def _check_unpacked(data: bytes, out: Path, names: list[str]) -> None:
    found = sorted(out.rglob("*"))
    files = [path for path in found if not path.is_dir()]
    assert not [path for path in found if path.is_symlink()]
    assert all(path.is_file() for path in files)
    assert sorted(path.relative_to(out).as_posix() for path in files) == sorted(names)
    assert len(found) <= LIMITS.count * LIMITS.depth
    assert sum(path.stat().st_size for path in files) <= LIMITS.total_bytes
    # What macOS adds is left out by us; whatever else we read, another reader reads as well, or nothing.
    theirs = _otherwise_read(data)
    assert theirs is None or not [path for path in files if path.read_bytes() not in theirs]


def _otherwise_read(data: bytes) -> list[bytes] | None:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            return [archive.read(entry) for entry in archive.infolist() if not entry.is_dir()]
    except (zipfile.BadZipFile, NotImplementedError, UnicodeDecodeError):
        return None
