"""`python -m turnkeeper` and the console script."""

from __future__ import annotations

from turnkeeper.cli import app


def main() -> None:
    app(prog_name="turnkeeper")


if __name__ == "__main__":
    main()
