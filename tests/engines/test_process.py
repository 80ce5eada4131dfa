"""One process: real children that misbehave in every way we know, and nothing of them left behind."""

from __future__ import annotations

import asyncio
import errno
import hashlib
import os
import resource
import select
import signal
import time
import tracemalloc
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.descriptors import few_descriptors
from tests.engines.processes import MIB, PATIENCE_SEC, Engine, engine, open_files, python, sh, soon
from turnkeeper.engines import census
from turnkeeper.engines.census import Found
from turnkeeper.engines.lines import KEPT, Line
from turnkeeper.engines.process import Exit, OutputNotKept, Process
from turnkeeper.engines.spawn import Command, SpawnFailed, digests, replaced_files

# Spawn


async def test_a_pipe_holds_more_than_a_large_answer(tmp_path: Path) -> None:
    """Some CLIs print all of it and exit, without waiting for whoever reads."""
    code = "os.set_blocking(1, False); sys.stderr.write(str(os.write(1, b'x' * 900_000)))"
    async with engine(tmp_path, *python(code)) as it:
        os.waitid(os.P_PID, it.process.pid, os.WEXITED | os.WNOWAIT)  # noqa: ASYNC222 (nothing is read meanwhile)
        await it.exits()
        assert it.said("stderr") == [b"900000"]


def refuse(tmp_path: Path, argv: tuple[str, ...], cwd: Path | None = None, **env: str) -> SpawnFailed:
    mark = uuid.uuid4().hex
    before = open_files()
    with pytest.raises(SpawnFailed) as caught:
        Process.spawn(
            Command(argv, {"PATH": os.environ["PATH"], **env}, cwd or tmp_path),
            mark=mark,
            stdout=tmp_path / "stdout",
            stderr=tmp_path / "stderr",
            on_line=lambda *_: None,
        )
    assert open_files() == before
    assert census.find(mark) == []
    return caught.value


@pytest.mark.failure("S01")
@pytest.mark.parametrize(
    ("content", "mode", "reason", "words"),
    [
        (None, 0, "ENOENT", "was not found"),
        (b"#!/bin/sh\n", 0o644, "EACCES", "not executable"),
        # A 64-bit ELF program of a machine that nobody has.
        (
            b"\x7fELF\x02\x01\x01" + b"\0" * 9 + b"\x02\0\xfe\xfe" + b"\0" * 64,
            0o755,
            "ENOEXEC",
            "architecture",
        ),
        (b"no first line\n", 0o755, "ENOEXEC", "#! line"),
        (b"#!/no/such/interpreter\n", 0o755, "ENOENT", "interpreter"),
    ],
)
async def test_program_that_cannot_start(
    tmp_path: Path, content: bytes | None, mode: int, reason: str, words: str
) -> None:
    program = tmp_path / "engine"
    if content is not None:
        program.write_bytes(content)
        program.chmod(mode)
    failed = refuse(tmp_path, (str(program),))
    assert (failed.reason, failed.subject, failed.is_passing) == (reason, "program", False)
    assert str(program) in str(failed)
    assert words in str(failed)


@pytest.mark.failure("S01")
async def test_program_is_looked_up_on_the_path_of_the_command(tmp_path: Path) -> None:
    assert refuse(tmp_path, ("sh", "-c", "exit"), PATH=str(tmp_path)).reason == "ENOENT"
    (tmp_path / "sh").symlink_to("/bin/sh")
    assert refuse(tmp_path, ("sh-not-there",), PATH=str(tmp_path)).reason == "ENOENT"


@pytest.mark.failure("S03")
async def test_arguments_that_are_too_long(tmp_path: Path) -> None:
    failed = refuse(tmp_path, ("true", "x" * 5 * MIB))
    assert (failed.reason, failed.subject) == ("E2BIG", "program")


async def test_nul_byte_in_an_argument(tmp_path: Path) -> None:
    assert refuse(tmp_path, ("true", "a\0b")).reason == "EINVAL"


@pytest.mark.failure("S05")
async def test_directory_that_vanished(tmp_path: Path) -> None:
    failed = refuse(tmp_path, ("true",), cwd=tmp_path / "gone")
    assert (failed.reason, failed.subject) == ("ENOENT", "cwd")
    assert "gone" in str(failed)


async def test_raw_file_that_is_a_symlink(tmp_path: Path) -> None:
    (tmp_path / "stderr").symlink_to(tmp_path / "elsewhere")
    failed = refuse(tmp_path, ("true",))
    assert (failed.reason, failed.subject) == ("ELOOP", "output")
    assert not (tmp_path / "elsewhere").exists()


@contextmanager
def files_left(count: int) -> Iterator[None]:
    """All file descriptors but `count` are taken."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(int(path.name) for path in Path("/proc/self/fd").iterdir())
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 32, hard))
    taken = []
    try:
        with suppress(OSError):
            while True:
                taken.append(os.dup(0))
        for _ in range(count):
            os.close(taken.pop())
        yield
    finally:
        for fd in taken:
            os.close(fd)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.failure("S04")
async def test_no_file_descriptors_left(tmp_path: Path) -> None:
    """At whatever step they run out: a typed error that may pass, nothing leaked, nothing left running."""
    command = Command(("sleep", "60"), dict(os.environ), tmp_path)
    out, err = tmp_path / "stdout", tmp_path / "stderr"
    home = uuid.uuid4().hex
    before = open_files()
    for count in range(20):
        mark = f"{home}/run/{count}.1"
        with files_left(count):
            try:
                process = Process.spawn(command, mark=mark, stdout=out, stderr=err, on_line=lambda *_: None)
                break
            except SpawnFailed as error:
                failed = error
        assert (failed.reason, failed.is_passing) == ("EMFILE", True)
        assert open_files() == before
    else:
        pytest.fail("twenty are enough")
    assert await process.end(step_sec=PATIENCE_SEC) == []
    process.close()
    assert await census.end_all(home, step_sec=PATIENCE_SEC) == []
    assert open_files() == before


class FullLoop(asyncio.SelectorEventLoop):
    """The kernel has no room for one more watch."""

    def add_reader(self, *_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.failure("S04")
def test_process_that_cannot_be_watched_is_killed(tmp_path: Path) -> None:
    mark = uuid.uuid4().hex
    before = open_files()

    async def spawn() -> Process:
        command = Command(("sleep", "60"), dict(os.environ), tmp_path)
        out, err = tmp_path / "stdout", tmp_path / "stderr"
        return Process.spawn(command, mark=mark, stdout=out, stderr=err, on_line=lambda *_: None)

    with (
        asyncio.Runner(loop_factory=FullLoop) as runner,
        pytest.raises(SpawnFailed, match="watched") as caught,
    ):
        runner.run(spawn())
    assert caught.value.reason == "ENOSPC"
    assert open_files() == before
    for found in census.find(mark):  # may take a moment to die
        pidfd = os.pidfd_open(found.pid)
        assert select.select([pidfd], [], [], PATIENCE_SEC)[0]
        os.close(pidfd)


@pytest.mark.failure("S06")
async def test_exit_before_anybody_looks(tmp_path: Path) -> None:
    async with engine(tmp_path, *sh("echo out; echo err >&2; exit 3")) as it:
        # Blocks the loop, so that nothing can have been read.
        os.waitid(os.P_PID, it.process.pid, os.WEXITED | os.WNOWAIT)  # noqa: ASYNC222
        assert it.lines == []
        assert await it.exits() == Exit(code=3, signal=None)
        assert (it.said(), it.said("stderr")) == ([b"out"], [b"err"])


async def test_environment_directory_and_session(tmp_path: Path) -> None:
    async with engine(
        tmp_path, *python("print(os.environ['TURNKEEPER_RUN'], os.getcwd(), os.getsid(0))")
    ) as it:
        await it.exits()
        assert it.said() == [f"{it.mark} {tmp_path} {it.process.pid}".encode()]
        assert it.stdout.stat().st_mode & 0o777 == it.stderr.stat().st_mode & 0o777 == 0o600


# Input


@pytest.mark.failure("S03", "G01")
async def test_prompt_of_five_megabytes(tmp_path: Path) -> None:
    prompt = os.urandom(5 * MIB)
    code = "import hashlib; print(hashlib.sha256(sys.stdin.buffer.read()).hexdigest())"
    async with engine(tmp_path, *python(code)) as it:
        for start in range(0, len(prompt), MIB):
            it.process.write(prompt[start : start + MIB])
        it.process.close_stdin()
        assert await it.exits() == Exit(code=0, signal=None)
        assert it.said() == [hashlib.sha256(prompt).hexdigest().encode()]
        with pytest.raises(RuntimeError):
            it.process.write(b"more")


async def test_nobody_reads_the_prompt(tmp_path: Path) -> None:
    async with engine(tmp_path, *python("os.close(0); print('closed'); time.sleep(60)")) as it:
        it.process.write(b"x" * MIB)
        await it.says(b"closed")
        it.process.write(b"x" * MIB)
        it.process.write(b"x" * MIB)
        it.process.close_stdin()
        await it.process.end(step_sec=PATIENCE_SEC)
        assert (await it.exits()).signal == signal.SIGINT
        assert it.process.error is None


async def test_conversation(tmp_path: Path) -> None:
    async with engine(tmp_path, "cat") as it:
        for word in (b"one", b"two", b"three"):
            it.process.write(word + b"\n")
            await it.says(word)
        it.process.close_stdin()
        assert await it.exits() == Exit(code=0, signal=None)
        it.process.close_stdin()


# Output


@pytest.mark.failure("B03", "B07")
async def test_raw_bytes_are_kept_and_lines_found_in_them(tmp_path: Path) -> None:
    data = b"one\r\n\n\xff\xfe\0\xe2\x80\xa8 two\nno newline"
    async with engine(tmp_path, *python(f"os.write(1, {data!r}); os.write(2, b'last words')")) as it:
        await it.exits()
        it.process.sync()
        assert it.stdout.read_bytes() == data
        assert it.stderr.read_bytes() == b"last words"
        assert it.said() == [b"one", b"", b"\xff\xfe\0\xe2\x80\xa8 two", b"no newline"]
        assert (
            b"".join(data[line.offset :][: line.length] for name, line in it.lines if name == "stdout")
            == data
        )


async def test_second_try_appends(tmp_path: Path) -> None:
    (tmp_path / "stdout").write_bytes(b"first try\n")
    async with engine(tmp_path, "echo", "second") as it:
        await it.exits()
        assert it.lines == [("stdout", Line(b"second", 10, 7, truncated=False))]
    assert (tmp_path / "stdout").read_bytes() == b"first try\nsecond\n"


async def most_in_a_turn(until: asyncio.Future[Exit], stdout: Path) -> int:
    """The most bytes taken before the loop let others in again: so a busy machine is no failure."""
    most = size = 0
    async with asyncio.timeout(PATIENCE_SEC):
        while not until.done():
            await asyncio.sleep(0)
            before, size = size, stdout.stat().st_size
            most = max(most, size - before)
    return most


@pytest.mark.failure("B05")
async def test_line_of_a_hundred_megabytes(tmp_path: Path) -> None:
    async with engine(
        tmp_path, *python("for _ in range(100): os.write(1, b'x' * 2**20)\nos.write(1, b'\\nok')")
    ) as it:
        tracemalloc.start()
        most = await most_in_a_turn(it.process.exited, it.stdout)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        (_, long), (_, ok) = it.lines
        assert (long.length, long.truncated, len(long.data)) == (100 * MIB + 1, True, KEPT)
        assert ok == Line(b"ok", 100 * MIB + 1, 2, truncated=False)
        assert it.stdout.stat().st_size == 100 * MIB + 3
        assert peak < 30 * MIB
        assert most <= MIB
    it.stdout.unlink()


@pytest.mark.failure("B06")
async def test_a_flood_of_empty_lines(tmp_path: Path) -> None:
    count = 0

    def on_line(_stream: str, _line: Line) -> None:
        nonlocal count
        count += 1

    flood = python("for _ in range(3): os.write(1, b'\\n' * 100_000)")
    async with engine(tmp_path, *flood, on_line=on_line) as it:
        assert await most_in_a_turn(it.process.exited, it.stdout) <= MIB
        assert count == 300_000


async def test_a_reader_that_rests_misses_nothing(tmp_path: Path) -> None:
    """Also of an engine that is gone meanwhile, and of the other pipe."""
    heard: list[str] = []

    def on_line(stream: str, _line: Line) -> None:
        heard.append(stream)
        it.process.rest()

    code = "os.write(2, b'y' * 80 + b'\\n'); os.write(1, (b'x' * 80 + b'\\n') * 500)"
    it: Engine
    async with engine(tmp_path, *python(code), on_line=on_line) as it:
        assert (await it.exits()).code == 0
        assert sorted(heard) == ["stderr"] + ["stdout"] * 500
        assert it.stdout.stat().st_size == 500 * 81


@pytest.mark.failure("B14")
async def test_stderr_floods_while_stdout_is_quiet(tmp_path: Path) -> None:
    code = "for _ in range(100): os.write(2, (b'noise' * 400 + b'\\n') * 500)\nprint('done')"
    async with engine(tmp_path, *python(code), keep=MIB) as it:
        await it.says(b"done")
        assert (await it.exits()).code == 0
        assert len(it.said("stderr")) == 100 * 500
        assert it.stderr.stat().st_size < MIB + 100
        assert it.stderr.read_bytes().endswith(b"was not kept]\n")
        assert it.stdout.read_bytes() == b"done\n"


@pytest.mark.failure("B15")
async def test_nobody_asks_for_the_output(tmp_path: Path) -> None:
    code = "for _ in range(20): os.write(1, b'x' * 2**20); os.write(2, b'x' * 2**20)"
    async with engine(tmp_path, *python(code)) as it:
        assert (await it.exits()).code == 0
        assert it.stdout.stat().st_size == it.stderr.stat().st_size == 20 * MIB


@pytest.mark.failure("B16")
async def test_stdout_closed_early(tmp_path: Path) -> None:
    code = "os.write(1, b'bye'); os.close(1); sys.stdin.readline(); os.write(2, b'late\\n'); os._exit(7)"
    async with engine(tmp_path, *python(code)) as it:
        await it.says(b"bye")  # without a newline: told at the end of the pipe
        assert not it.process.exited.done()
        it.process.write(b"go on\n")
        assert (await it.exits()).code == 7
        assert it.said("stderr") == [b"late"]


@pytest.mark.failure("B17", "X05")
async def test_grandchild_holds_the_pipes(tmp_path: Path) -> None:
    async with engine(tmp_path, *sh("setsid sleep 60 & echo done")) as it:
        assert (await it.exits()).code == 0
        assert it.said() == [b"done"]
        assert it.alive() == 1
        assert await it.process.end(step_sec=PATIENCE_SEC) == []
        assert it.alive() == 0


@pytest.mark.failure("X04", "X11")
async def test_leftovers_can_tidy_up(tmp_path: Path) -> None:
    """They get TERM, and may still print: nobody wants to know, but a broken pipe would kill them half-way."""
    tool = """
def note(number, _):
    os.write(1, b"x" * 2**20)
    with open("got", "a") as got: print(signal.Signals(number).name, file=got)
    if number == signal.SIGTERM: sys.exit()
for number in (signal.SIGINT, signal.SIGTERM): signal.signal(number, note)
os.setsid()
print("ready")
while True: time.sleep(0.05)
"""
    async with engine(tmp_path, *python(f"if os.fork(): sys.stdin.readline(); os._exit(0)\n{tool}")) as it:
        await it.says(b"ready")
        it.process.write(b"go\n")
        await it.exits()
        assert await it.process.end(step_sec=PATIENCE_SEC) == []
        assert it.stdout.read_bytes() == b"ready\n"
    assert (tmp_path / "got").read_text() == "SIGTERM\n"


@pytest.mark.failure("B17")
async def test_grandchild_floods_the_pipe(tmp_path: Path) -> None:
    flood = """
if not os.fork():
    while True: os.write(1, b"x" * 999 + b"\\n")
sys.stdin.readline()
os.write(2, b"over")
os._exit(0)
"""

    def on_line(stream: str, line: Line) -> None:
        time.sleep(0.001)  # slow enough for the pipe to be filled again and again while it is drained
        it.hear(stream, line)

    async with engine(tmp_path, *python(flood), keep=MIB, on_line=on_line) as it:
        await it.says(b"x" * 999)
        it.process.write(b"go\n")
        assert (await it.exits()).code == 0
        assert it.said("stderr") == [b"over"]


@pytest.mark.failure("B18")
async def test_reader_that_raises(tmp_path: Path) -> None:
    read = []

    def on_line(_stream: str, line: Line) -> None:
        read.append(line.data)
        if line.data == b"bad":
            raise ValueError("cannot read that")

    code = "print('good'); print('bad'); print('after'); os.write(1, b'x' * 2**20); print('end')"
    async with engine(tmp_path, *python(code), on_line=on_line) as it:
        error = await soon(it.process.broken)
        assert str(error) == "cannot read that"
        assert (await it.exits()).code == 0  # was not blocked by us
        assert it.process.error is error
        assert read == [b"good", b"bad"]
        assert it.stdout.read_bytes().endswith(b"end\n")


async def test_disk_that_is_full(tmp_path: Path) -> None:
    async with engine(tmp_path, "cat") as it:
        it.process.redirect(Path("/dev/full"), tmp_path / "stderr")
        it.process.write(b"x" * MIB)
        it.process.close_stdin()
        assert (await it.exits()).code == 0
        assert isinstance(it.process.error, OutputNotKept)
        assert os.strerror(errno.ENOSPC) in str(it.process.error)


async def test_redirect(tmp_path: Path) -> None:
    """A resident process gets new files for each turn, and no line is torn between two of them."""
    async with engine(tmp_path, "cat") as it:
        it.process.write(b"one\n")
        await it.says(b"one")
        it.process.redirect(tmp_path / "stdout2", tmp_path / "stderr2")
        it.process.write(b"two\nthr")
        await it.says(b"two")
        (tmp_path / "stdout3").write_bytes(b"there before\n")
        it.process.redirect(tmp_path / "stdout3", tmp_path / "stderr3")
        it.process.write(b"ee\n")
        await it.says(b"three")
        it.process.sync()
        assert [(line.offset, line.length) for _, line in it.lines] == [(0, 4), (0, 4), (13, 6)]
        it.process.close_stdin()
        await it.exits()
        with pytest.raises(FileNotFoundError):
            it.process.redirect(tmp_path / "stdout4", tmp_path / "no" / "stderr4")
    assert [(tmp_path / f"stdout{n}").read_bytes() for n in ("", 2, 3)] == [
        b"one\n",
        b"two\nthr",
        b"there before\nthree\n",
    ]
    with pytest.raises(RuntimeError):
        it.process.redirect(tmp_path / "stdout5", tmp_path / "stderr5")


# Exit


@pytest.mark.failure("X01")
async def test_exit_codes(tmp_path: Path) -> None:
    codes = [0, 1, 2, 42, 52, 53, 55, 124, 126, 127, 130, 137, 141, 143, 255]
    for code in codes:
        async with engine(tmp_path, *sh(f"exit {code}")) as it:
            assert await it.exits() == Exit(code=code, signal=None)
    assert str(Exit(code=42, signal=None)) == "exit code 42"


@pytest.mark.failure("X01", "X09")
@pytest.mark.parametrize(
    "number", [signal.SIGTERM, signal.SIGKILL, signal.SIGSEGV, signal.SIGPIPE, signal.SIGRTMIN]
)
async def test_exit_by_signal(tmp_path: Path, number: signal.Signals) -> None:
    async with engine(tmp_path, *sh(f"ulimit -c 0; kill -{int(number)} $$")) as it:
        ended = await it.exits()
        assert ended == Exit(code=None, signal=number)
        assert str(ended) == number.name


@pytest.mark.failure("X02")
async def test_the_whole_ladder(tmp_path: Path) -> None:
    code = """
def note(number, _): print(signal.Signals(number).name)
for number in (signal.SIGINT, signal.SIGTERM): signal.signal(number, note)
print("ready")
while True: time.sleep(0.05)
"""
    async with engine(tmp_path, *python(code)) as it:
        await it.says(b"ready")
        assert await it.process.end(step_sec=0.3) == []
        assert await it.exits() == Exit(code=None, signal=signal.SIGKILL)
        assert it.said() == [b"ready", b"SIGINT", b"SIGTERM"]


async def test_ladder_stops_at_the_first_signal_that_works(tmp_path: Path) -> None:
    code = (
        "signal.signal(signal.SIGINT, lambda *_: sys.exit(5)); print('ready')\nwhile True: time.sleep(0.05)"
    )
    async with engine(tmp_path, *python(code)) as it:
        await it.says(b"ready")
        assert await it.process.end(step_sec=PATIENCE_SEC) == []
        assert it.process.exited.result() == Exit(code=5, signal=None)


@pytest.mark.failure("X04", "X05")
async def test_tools_outlive_the_engine(tmp_path: Path) -> None:
    """Own session, double fork, scrubbed environment, deaf: all gone, and the engine goes before its tools."""
    script = """
trap 'exit 0' INT
setsid sleep 61 &
(setsid sh -c 'trap "" INT TERM; sleep 62' &)
setsid env -i sh -c 'trap "" INT; echo ready; sleep 63' &
wait
"""
    async with engine(tmp_path, *sh(script)) as it:
        await it.says(b"ready")
        there = census.find(it.mark)
        assert await it.process.end(step_sec=0.3) == []
        assert await it.exits() == Exit(code=0, signal=None)
        assert census.find(it.mark, roots=there) == []


@pytest.mark.failure("X04")
async def test_leftover_without_mark_and_parent(tmp_path: Path) -> None:
    """Its session is the proof: our zombie keeps the number of it from being used again."""
    async with engine(tmp_path, *sh("env -i sh -c 'echo ready; exec sleep 60' & read go")) as it:
        await it.says(b"ready")
        it.process.write(b"go\n")
        await it.exits()
        assert it.alive() == 0
        (sleep,) = census.find(it.mark, roots=(Found(it.process.pid, it.process.start_time, None, ""),))
        assert await it.process.end(step_sec=PATIENCE_SEC) == []
        assert census.find(it.mark, roots=(sleep,)) == []


@pytest.mark.failure("X12")
async def test_two_ends_at_once(tmp_path: Path) -> None:
    async with engine(
        tmp_path, *python("signal.signal(signal.SIGINT, signal.SIG_IGN); print('ready'); time.sleep(60)")
    ) as it:
        await it.says(b"ready")
        one, other = await asyncio.gather(
            it.process.end(step_sec=0.3), it.process.end(step_sec=PATIENCE_SEC, first=signal.SIGTERM)
        )
        assert one == other == []
        assert (await it.exits()).signal == signal.SIGTERM


async def test_close_of_a_living_process(tmp_path: Path) -> None:
    """Nothing is watched any more, but the child is still reaped, when the next one is started."""
    before = open_files()
    it = Engine(tmp_path, *python("print('ready'); time.sleep(60)"))
    await it.says(b"ready")
    it.process.close()
    assert it.process.exited.cancelled()
    assert open_files() == before
    assert await it.process.end(step_sec=PATIENCE_SEC) == []
    assert census.identify(it.process.pid) is not None
    async with engine(tmp_path, "true") as other:
        await other.exits()
    assert census.identify(it.process.pid) is None


async def test_close_from_within_a_line(tmp_path: Path) -> None:
    code = "os.write(1, (b'x' * 10_000 + b'\\n') * 6)"
    async with engine(tmp_path, *python(code), on_line=lambda *_: it.process.close()) as it:
        # Blocks the loop until all is in the pipe, which is then more than one read.
        os.waitid(os.P_PID, it.process.pid, os.WEXITED | os.WNOWAIT)  # noqa: ASYNC222
        await asyncio.wait((it.process.exited,), timeout=PATIENCE_SEC)
        assert it.process.exited.cancelled()


# The program, known again


@pytest.mark.failure("S12")
def test_files_of_a_program_are_known_again(tmp_path: Path) -> None:
    script, pipe = tmp_path / "cli.js", tmp_path / "pipe"
    script.write_text("one")
    os.mkfifo(pipe)
    words = ("sh", "--flag", str(script), str(pipe), str(tmp_path), str(tmp_path / "gone"), "relative")
    noted = digests(words, {"PATH": "/bin"})
    assert set(noted) == {"/bin/sh", str(script)}
    assert noted[str(script)] == hashlib.sha256(b"one").hexdigest()
    assert replaced_files(noted) == []

    script.touch()
    assert replaced_files(noted) == []  # the same bytes, whatever else is new about it
    script.write_text("two")
    assert replaced_files(noted) == [str(script)]
    script.unlink()
    assert replaced_files(noted) == [str(script)]
    assert digests((), {}) == {}


@pytest.mark.failure("S12", "V09")
def test_a_program_that_cannot_be_read_now_is_not_called_replaced(tmp_path: Path) -> None:
    script = tmp_path / "cli.js"
    script.write_text("one")
    noted = digests(("sh", str(script)), {"PATH": "/bin"})
    script.touch()  # so that it has to be read
    with few_descriptors():
        assert replaced_files(noted) == []
        assert digests((str(script),), {}) == {}
    script.unlink()
    script.mkdir()
    assert replaced_files(noted) == [str(script)]
