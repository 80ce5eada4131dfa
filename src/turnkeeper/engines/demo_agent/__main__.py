"""Where `python -I -S demo_agent` starts; `command.py` does the work.

`-I -S` keeps installed packages out of reach, so this folder is made a package by hand: its modules can then
import each other. `python -I -S demo_agent/__main__.py` is the same program and starts faster (without runpy).
"""

import sys

if __name__ == "__main__":
    package = type(sys)("demo_agent")
    package.__path__ = [__file__.rpartition("/")[0] or "."]
    sys.modules["demo_agent"] = package
    __import__("demo_agent.command").command.main(sys.argv[1:])
