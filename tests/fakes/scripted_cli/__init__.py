"""A program that speaks like one of the CLIs: `python -I -S scripted_cli/__main__.py codex …`.

What it plays is chosen by `[[words]]` in its prompt (`words.py`), what it prints has the shapes of the recorded
CLIs (one file for each), and anything it was not told to expect ends it loudly (`surroundings.py`, `arguments.py`).
It is started for each turn, so it uses the standard library alone, and little of that.
"""
