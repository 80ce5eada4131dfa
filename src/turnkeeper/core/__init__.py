"""The rules: tables and small functions over plain values. No I/O, no clock; `now` is an argument."""
