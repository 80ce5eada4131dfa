"""How people reach it: parse, call, render."""
