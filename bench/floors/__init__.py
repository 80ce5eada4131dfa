"""The work itself, done bare: what nobody can do without."""
