"""Shows which test holds which scenario of the specification, by running the tests that carry a scenario id.

A scenario passes when at least one test carries its id and all that carry it passed. The exit code is 1 when
a landed scenario does not pass, when any test with an id failed, and when a test carries an unknown id.
"""

import argparse
import contextlib
import io
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

from tools import id_table
from tools.id_table import FINE, Tests

IDS = Path(__file__).with_name("spec_ids.toml")


@dataclass(frozen=True)
class Spec:
    titles: dict[str, str]
    landed: frozenset[str]

    @classmethod
    def read(cls, path: Path) -> "Spec":
        data = tomllib.loads(path.read_text(encoding="utf-8"))
        spec = cls(titles=data["scenarios"], landed=frozenset(data["landed"]))
        if strangers := spec.landed - spec.titles.keys():
            raise SystemExit(f"{path}: landed, but not a scenario: {', '.join(sorted(strangers))}")
        return spec


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, epilog="Other arguments go to pytest.")
    parser.add_argument("--ids", type=Path, default=IDS, help="the list of scenarios")
    options, pytest_args = parser.parse_known_args()

    spec, tests = Spec.read(options.ids), Tests("spec")
    # What pytest says is kept in case something goes wrong.
    with contextlib.redirect_stdout(io.StringIO()) as said:
        exit_code = id_table.run(tests, ["-q", "--no-header", *pytest_args])

    for scenario, title in spec.titles.items():
        id_table.show(id_table.rows(scenario, title, tests.of(scenario)))
    passing = {scenario for scenario in spec.titles if id_table.is_held(tests.of(scenario))}
    troubles = [
        f"{scenario} has landed, but does not pass: {title}"
        for scenario, title in spec.titles.items()
        if scenario in spec.landed - passing
    ] + tests.troubles(spec.titles, exit_code)
    if exit_code not in FINE:
        print(f"\n{said.getvalue().rstrip()}")
    for trouble in troubles:
        print(trouble)
    print(f"\n{len(passing)} of {len(spec.titles)}")
    return 1 if troubles else 0


if __name__ == "__main__":
    sys.exit(main())
