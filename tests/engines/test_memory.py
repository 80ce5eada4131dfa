"""Where the kernel counts those that it ended for want of memory, in the ways that machines show it."""

from __future__ import annotations

from pathlib import Path

import pytest

from turnkeeper.engines.memory import Kills, oom_kills

V1 = "9:pids:/\n4:cpu,memory:/a/b\n0::/\n"
V2 = "0::/a/b\n"
EVENTS = "low 0\noom 4\noom_kill {}\noom_group_kill 0\n"
CONTROL = "oom_kill_disable 0\nunder_oom 0\noom_kill {}\n"

pytestmark = pytest.mark.failure("X10")


class Machine:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.has("proc/vmstat", "pgfault 9\noom_kill 70\n")

    def has(self, name: str, text: str) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def runs(self, pid: int | str, group: str, state: str = "S (sleeping)") -> None:
        self.has(f"proc/{pid}/cgroup", group)
        self.has(f"proc/{pid}/status", f"Name:\tx\nState:\t{state}\n")


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


@pytest.mark.parametrize(
    ("group", "counter", "text"),
    [
        pytest.param(V1, "sys/fs/cgroup/memory/a/b/memory.oom_control", CONTROL, id="version 1"),
        pytest.param(V2, "sys/fs/cgroup/a/b/memory.events", EVENTS, id="version 2"),
        pytest.param(V1, "sys/fs/cgroup/memory/memory.oom_control", CONTROL, id="version 1, in a container"),
        pytest.param(V2, "sys/fs/cgroup/memory.events", EVENTS, id="version 2, in a container"),
    ],
)
def test_the_group_counts_and_not_the_machine(machine: Machine, group: str, counter: str, text: str) -> None:
    machine.runs("self", group)
    path = machine.has(counter, text.format(3))
    kills = oom_kills(root=machine.root)
    assert kills == Kills(path, 3)
    machine.has("proc/vmstat", "oom_kill 71\n")
    assert not kills.are_more, "a stranger's"
    machine.has(counter, text.format(4))
    assert kills.are_more
    path.unlink()
    assert not kills.are_more, "nobody counts any more"


def test_the_machine_counts_where_no_group_does(machine: Machine) -> None:
    assert oom_kills(root=machine.root) == Kills(machine.root / "proc/vmstat", 70)
    machine.runs("self", V2)
    assert oom_kills(root=machine.root) == Kills(machine.root / "proc/vmstat", 70)
    (machine.root / "proc/vmstat").unlink()
    assert oom_kills(root=machine.root) is None


def test_an_engine_in_a_group_of_its_own(machine: Machine) -> None:
    machine.runs("self", V2)
    machine.runs(7, "0::/a/b\n")
    machine.has("sys/fs/cgroup/a/b/memory.events", EVENTS.format(3))
    ours = oom_kills(root=machine.root)
    machine.has("sys/fs/cgroup/a/b/memory.events", EVENTS.format(4))
    assert oom_kills(7, ours, root=machine.root) == ours, "the count of before, and not of now"
    machine.runs(7, "0::/scope\n")
    scope = machine.has("sys/fs/cgroup/scope/memory.events", EVENTS.format(0))
    assert oom_kills(7, ours, root=machine.root) == Kills(scope, 0)


def test_of_a_dead_engine_no_group_is_believed(machine: Machine) -> None:
    machine.runs("self", V1)
    machine.has("sys/fs/cgroup/memory/a/b/memory.oom_control", CONTROL.format(3))
    machine.has("sys/fs/cgroup/memory/memory.oom_control", CONTROL.format(9))
    ours = oom_kills(root=machine.root)
    machine.runs(7, "4:memory:/\n", state="Z (zombie)")
    assert oom_kills(7, ours, root=machine.root) == ours
    assert oom_kills(8, ours, root=machine.root) == ours
