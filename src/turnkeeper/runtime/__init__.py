"""Who does it, and when: moves things, decides nothing."""
