"""Training: seeded, resumable, visible."""
