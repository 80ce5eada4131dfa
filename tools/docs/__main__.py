"""`python -m tools.docs` writes the pages again. `--check` writes nothing and says which are behind."""

import argparse
import sys

from tools.docs import ROOT, fill, pages


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.docs", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if a page is behind")
    check = parser.parse_args().check
    behind = 0
    for page in pages():
        text = page.read_text(encoding="utf-8")
        if (filled := fill(text)) == text:
            continue
        behind += 1
        print(f"{page.relative_to(ROOT)} {'is behind: run make docs' if check else 'was written again'}")
        if not check:
            page.write_text(filled, encoding="utf-8")
    return 1 if check and behind else 0


if __name__ == "__main__":
    sys.exit(main())
