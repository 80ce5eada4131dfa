"""What we remember: one protocol, held by every driver to the same suite."""
