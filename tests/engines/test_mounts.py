"""What is inside: the system, the program with all that belongs to it, the run's own folders; and nothing else."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.walls import GENEROUS, room_in
from turnkeeper.engines.mounts import Mounts, Places, Room, mounts
from turnkeeper.engines.sandbox import Tools, counts_inside, words

TOOLS = Tools("/usr/bin/bwrap", "/usr/bin/prlimit")


class Machine:
    """A home, a data directory and a run on a disk of their own."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.home = root / "home" / "operator"
        self.home.mkdir(parents=True)
        self.places = Places(data_dir=root / "data", home=self.home)
        self.room = room_in(root / "data" / "runs" / "one")

    def program(self, path: Path, text: str = "") -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)
        return path

    def seen(self, *programs: Path | str, reads: tuple[str, ...] = (), **env: str) -> Mounts:
        return mounts(self.places, self.room, map(str, programs), reads, {"PATH": "/usr/bin:/bin", **env})

    def own(self, there: Mounts) -> set[str]:
        """What is read below this disk, without the system."""
        return {path for path in there.read if path.startswith(f"{self.root}/")}


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_the_system_is_read_and_nothing_else(machine: Machine) -> None:
    there = machine.seen("sh")
    assert {"/usr", "/etc"} <= there.read
    assert not {"/", "/home", "/root", "/run", "/var", "/tmp", str(machine.home)} & there.read
    assert machine.own(there) == set()
    for name in ("bin", "lib"):
        assert f"/{name}" in there.read or there.links[f"/{name}"] == str(Path(f"/{name}").readlink())


def test_a_program_by_itself_is_one_file(machine: Machine) -> None:
    program = machine.program(machine.home / "tool")
    assert machine.own(machine.seen(program)) == {str(program)}


def test_a_program_of_npm_has_its_packages(machine: Machine) -> None:
    modules = machine.home / "lib" / "node_modules"
    script = machine.program(modules / "@maker" / "cli" / "node_modules" / "deep" / "cli.js")
    assert machine.own(machine.seen(script)) == {str(modules)}


def test_a_program_with_a_prefix_has_all_of_it(machine: Machine) -> None:
    program = machine.program(machine.home / "versions" / "3.11" / "bin" / "python")
    (machine.home / "versions" / "3.11" / "lib").mkdir()
    assert machine.own(machine.seen(program)) == {str(machine.home / "versions" / "3.11")}


@pytest.mark.parametrize("prefix", ["home/operator", "home", "home/operator/.local", "."])
def test_a_home_is_no_prefix(machine: Machine, prefix: str) -> None:
    """Nor is what is above one, or above the data, whatever lies beside the program there."""
    folder = machine.root / prefix
    program = machine.program(folder / "bin" / "tool")
    (folder / "lib").mkdir()
    assert machine.own(machine.seen(program)) == {str(program)}


def test_links_are_links_inside_too(machine: Machine) -> None:
    """A program finds its own files from where it really is."""
    real = machine.program(machine.home / "share" / "versions" / "2" / "tool")
    (machine.home / "share" / "now").symlink_to("versions/2")
    link = machine.home / ".local" / "bin" / "tool"
    link.parent.mkdir(parents=True)
    link.symlink_to(machine.home / "share" / "now" / "tool")
    there = machine.seen(link)
    assert machine.own(there) == {str(real)}
    assert there.links[str(link)] == str(machine.home / "share" / "now" / "tool")
    assert there.links[str(machine.home / "share" / "now")] == "versions/2"


@pytest.mark.parametrize(
    "first", ["#!{} -x", "#! {}", "#!/usr/bin/env {name}", "#!/usr/bin/env -S A=1 {name} -x"]
)
def test_what_a_script_is_run_by_is_there(machine: Machine, first: str) -> None:
    interpreter = machine.program(machine.home / "tools" / "mine")
    script = machine.program(machine.home / "script", first.format(interpreter, name="mine") + "\nthe rest\n")
    there = machine.seen(script, PATH=f"{interpreter.parent}:/usr/bin")
    assert machine.own(there) == {str(script), str(interpreter)}


def test_more_is_read_if_somebody_says_so(machine: Machine) -> None:
    own, certificates = machine.home / "notes", machine.home / "ca.pem"
    own.mkdir()
    certificates.touch()
    machine.places = replace(machine.places, read=(own, machine.home / "not-there"))
    assert machine.own(machine.seen(NODE_EXTRA_CA_CERTS=str(certificates))) == {str(own), str(certificates)}
    assert str(own / "a") not in machine.own(machine.seen(reads=(str(own / "a"),)))


def test_what_is_above_a_secret_hides_it(machine: Machine) -> None:
    """The data directory, the home and the settings, wherever they are, and by whatever way they are reached."""
    config = machine.root / "settings.toml"
    config.touch()
    elsewhere = machine.root / "elsewhere"
    elsewhere.mkdir()
    machine.places.data_dir.rename(elsewhere / "data")
    machine.places.data_dir.symlink_to(elsewhere / "data")
    machine.places = replace(machine.places, read=(machine.root,), secret=(config,))
    there = machine.seen("sh")
    assert {str(machine.home), str(elsewhere / "data")} <= there.hidden
    assert str(config) in there.blank
    assert "/etc/ssh" in there.hidden or not Path("/etc/ssh").exists()


def test_what_is_named_below_a_secret_is_read(machine: Machine) -> None:
    notes = machine.home / "notes"
    notes.mkdir()
    machine.places = replace(machine.places, read=(machine.root, notes))
    there = machine.seen("sh")
    assert str(machine.home) in there.hidden
    assert str(notes) in there.read
    laid = words(TOOLS, there, GENEROUS)
    assert laid.index(str(machine.root)) < laid.index(str(machine.home)) < laid.index(str(notes))


def test_a_home_that_is_named_is_meant_and_the_data_never(machine: Machine) -> None:
    machine.places = replace(machine.places, read=(machine.home, machine.places.data_dir))
    there = machine.seen("sh")
    assert str(machine.home) in there.read
    assert str(machine.places.data_dir) not in there.read
    assert str(machine.places.data_dir) in there.hidden


def test_the_home_of_an_account_that_nobody_lives_in_hides_nothing(machine: Machine) -> None:
    machine.places = replace(machine.places, home=Path("/usr/sbin"))
    assert "/usr/sbin" not in machine.seen("sh").hidden


def test_a_home_in_the_middle_of_the_system_is_hidden(machine: Machine) -> None:
    """Somebody lives there, whatever folder it is in: `/opt`, `/usr/local`."""
    machine.places = replace(machine.places, home=Path("/usr/share/doc"), read=(Path("/usr"),))
    assert Path("/usr/share/doc").is_dir()
    assert "/usr/share/doc" in machine.seen("sh").hidden


def test_what_is_hidden_is_hidden_where_it_really_is(machine: Machine) -> None:
    """Nothing can be laid on a link: the walls could not be built."""
    shared, real = machine.root / "shared", machine.root / "shared" / "real"
    real.mkdir(parents=True)
    (real / "settings.toml").touch()
    (shared / "folder").symlink_to(real)
    (shared / "settings.toml").symlink_to(real / "settings.toml")
    (shared / "away").symlink_to(machine.home)
    secret = (shared / "settings.toml", shared / "folder" / "settings.toml", shared / "away")
    machine.places = replace(machine.places, read=(shared,), secret=secret)
    there = machine.seen("sh")
    assert {path for path in there.blank | there.hidden if path.startswith(str(machine.root))} == {
        str(real / "settings.toml")
    }


def test_a_run_behind_a_link_is_at_its_real_path_and_found_by_the_link(machine: Machine) -> None:
    link = machine.root / "link"
    link.symlink_to("data")
    run = link / "runs" / "one"
    skill = run / "home" / ".agent"
    skill.mkdir()
    machine.room = Room(
        workspace=run / "workspace", home=run / "home", scratch=run / "home" / ".scratch", skill_dir=skill
    )
    there = machine.seen("sh")
    real = machine.root / "data" / "runs" / "one"
    assert (there.room.workspace, there.room.home) == (real / "workspace", real / "home")
    assert (there.room.scratch, there.room.skill_dir) == (
        real / "home" / ".scratch",
        real / "home" / ".agent",
    )
    assert there.links[str(link)] == "data"


def test_a_program_is_not_hidden_with_the_logins_beside_it(machine: Machine) -> None:
    prefix = machine.root / "engine"
    program = machine.program(prefix / "bin" / "tool")
    (prefix / "lib").mkdir()
    machine.places = replace(machine.places, secret=(prefix,))
    assert machine.own(machine.seen(program)) == {str(program)}


def test_the_skill_is_read_and_the_rest_of_the_run_written(machine: Machine) -> None:
    skill = machine.room.home / ".agent" / "skills" / "mine"
    skill.mkdir(parents=True)
    machine.room = replace(machine.room, skill_dir=skill)
    laid = words(TOOLS, machine.seen("sh"), GENEROUS)
    home = str(machine.room.home)
    assert laid[laid.index(home) - 1 :][:3] == ("--bind", home, home)
    at = laid.index(str(skill))
    assert laid[at - 1] == "--ro-bind"
    assert at > laid.index(home)


@pytest.mark.parametrize("link", [".agent", ".agent/skills", ".agent/skills/mine"])
def test_a_skill_behind_a_link_is_not_laid_over(machine: Machine, link: str) -> None:
    """An agent put it there in an earlier turn: bound, it would be whatever folder of the machine it leads to."""
    secret = machine.home / "skills" / "mine"
    (secret / "skills" / "mine").mkdir(parents=True)
    (secret / "mine").mkdir()
    path = machine.room.home / link
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(secret)
    machine.room = replace(machine.room, skill_dir=machine.room.home / ".agent" / "skills" / "mine")
    there = machine.seen("sh")
    assert there.room.skill_dir is None
    assert not any(".agent" in word for word in words(TOOLS, there, GENEROUS))


def test_the_words(machine: Machine) -> None:
    room = Room(workspace=Path("/d/w"), home=Path("/d/h"), scratch=Path("/d/h/.scratch"))
    there = Mounts(
        room=room,
        read=frozenset({"/usr", "/usr/x/y"}),
        hidden=frozenset({"/usr/x"}),
        blank=frozenset({"/usr/f"}),
        links={"/bin": "usr/bin"},
    )
    laid = " ".join(words(TOOLS, there, GENEROUS))
    assert "--die-with-parent" not in laid
    assert "--unshare-net" not in laid
    assert laid == (
        "/usr/bin/bwrap --unshare-user --unshare-pid --unshare-ipc --unshare-uts --unshare-cgroup-try --cap-drop ALL "
        "--proc /proc --dev /dev --symlink usr/bin /bin --bind /d/h/.scratch /tmp --ro-bind /usr /usr --bind /d/h /d/h "
        "--bind /d/w /d/w --bind /d/h/.scratch /dev/shm --ro-bind /dev/null /usr/f --tmpfs /usr/x "
        "--bind /d/h/.scratch /var/tmp --ro-bind /usr/x/y /usr/x/y --remount-ro /usr/x --remount-ro /dev "
        "--remount-ro / --chdir /d/w -- /usr/bin/prlimit --core=0 --nofile=4096 --fsize=1073741824 --nproc=2048 --"
    )
    older = words(replace(TOOLS, counts_inside=False), there, GENEROUS)
    assert " ".join(older) == laid.replace("--nproc=2048 ", "")
    as_root = words(replace(TOOLS, is_root=True), there, GENEROUS)
    assert as_root[as_root.index("--uid") :][:4] == ("--uid", "65534", "--gid", "65534")
    at = as_root.index("--proc")
    assert as_root[at : at + 5] == ("--proc", "/proc", "--ro-bind-try", "/proc/sys", "/proc/sys")


@pytest.mark.parametrize(
    ("release", "is_so"),
    [
        *(("5.14.0", True), ("5.15.0-91-generic", True), ("6.1.0-13-amd64", True), ("10.0", True)),
        *(("5.13.19", False), ("5.4.0-150-generic", False), ("4.19.0-25-amd64", False), ("unknown", False)),
    ],
)
def test_which_kernels_count_for_each_sandbox(release: str, is_so: bool) -> None:
    assert counts_inside(release) == is_so
