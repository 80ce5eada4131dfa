"""Where the program starts; `command.py` does the work. `-I -S` hides our folder, so it is made a package by hand."""

import sys

if __name__ == "__main__":
    package = type(sys)("scripted_cli")
    package.__path__ = [__file__.rpartition("/")[0] or "."]
    sys.modules["scripted_cli"] = package
    __import__("scripted_cli.command").command.main(sys.argv[1:])
