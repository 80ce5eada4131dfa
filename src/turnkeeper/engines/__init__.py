"""How we speak to each agent CLI: one file for each, one port for all."""
