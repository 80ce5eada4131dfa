"""The built-in `demo` engine: a real program that plays a script, run as `python -I -S demo_agent`.

Nothing in the service imports it. It uses the standard library alone, and little of that, because it is
started for each turn: modules that cost milliseconds (`json`, `signal`, `pathlib`, `typing`) are left out, or
imported by the step that needs them.
"""
