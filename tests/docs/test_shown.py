"""The comparison itself: it lets pass what may differ, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.pages import How, steps
from tests.docs.shown import Reality

ID, OTHER, REAL = (
    "01a1e24c8f54b40a59f9612028622c7f",
    "01a1e24b770721b3a65edb362098fbf3",
    f"0{'a1b2c3d4' * 4}"[:32],
)


@pytest.fixture
def reality() -> Reality:
    return Reality("/tmp/copy", port="40001")


@pytest.mark.parametrize(
    ("shown", "printed"),
    [
        ("two words\nwrapped", "two words   wrapped\n"),
        ('{"a":1,…,"z":2}', '{"a":1,"z":2}'),
        ('{"a":1,…,"z":2}', '{"a":1,"b":0,"z":2}'),
        ("at 2026-11-16T22:07:37Z, 0.1 s", "at 2027-01-02T03:04:05.678901Z, 3 min 2 s"),
        ("http://127.0.0.1:9813/#code=abc-D_1", "http://127.0.0.1:40001/#code=xyz"),
        ("in /home/ada/turnkeeper/token", "in /tmp/copy/token"),
        ("pid 7236, tokens: input 9, output 10", "pid 1, tokens: input 100, output 2"),
    ],
)
def test_what_may_differ(reality: Reality, shown: str, printed: str) -> None:
    assert reality.difference(shown, printed) is None


@pytest.mark.parametrize(
    ("shown", "printed"),
    [
        ("succeeded", "failed"),
        ("succeeded", "succeeded, more or less"),
        ("one\ntwo", "one"),
        ("2 turns", "3 turns"),
        ("size 270", "size 271"),
        ("127.0.0.1:9813", "127.0.0.1:40002"),
        (f"{ID} {ID}", f"{REAL} {OTHER}"),
    ],
)
def test_what_may_not(reality: Reality, shown: str, printed: str) -> None:
    assert reality.difference(shown, printed)


def test_an_id_is_learned_and_typed(reality: Reality) -> None:
    assert reality.difference(f"run {ID}", f"run {REAL}") is None
    assert reality.command(f"RUN={ID}; show {ID[:12]}") == f"RUN={REAL}; show {REAL[:12]}"
    assert reality.difference(f"again {ID}", f"again {REAL}") is None
    assert reality.difference(f"again {ID}", f"again {OTHER}")


PAGE = """\
```sh
true
```

```text
nothing
```

Not the output of:

<!-- not run: it would take a day -->
```sh
sleep 86400
```

<!-- ends with 3 -->
```console
$ ask
What?
> that
done
```
"""


def test_a_page_is_read_as_steps(tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text(PAGE, encoding="utf-8")
    first, skipped, asked = steps(tmp_path / "page.md")
    assert (first.script, first.shown, first.how) == ("true\n", "nothing\n", How.RUN)
    assert (skipped.how, skipped.shown) == (How.SKIP, None)
    assert (asked.script, asked.shown, asked.typed, asked.code) == ("ask\n", "What?\n>\ndone\n", ("that",), 3)


@pytest.mark.parametrize("mark", ["not run", "stays opened", "not run: why -->\n\n<!-- else"])
def test_a_mark_that_does_nothing_is_found(tmp_path: Path, mark: str) -> None:
    (tmp_path / "page.md").write_text(f"<!-- {mark} -->\n```sh\ntrue\n```\n", encoding="utf-8")
    with pytest.raises(AssertionError):
        steps(tmp_path / "page.md")
