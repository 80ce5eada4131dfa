"""Turnkeeper runs agent skills on agent CLIs and keeps whose turn it is: the engine's or the person's."""

__version__ = "0.1.0"
