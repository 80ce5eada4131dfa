"""What Turnkeeper costs, held against the cost of the work itself. `python -m bench --help` shows how to run it.

There is a file for each subject in `measures`, and for each thing that is done bare, as a floor, in `floors`.
"""
