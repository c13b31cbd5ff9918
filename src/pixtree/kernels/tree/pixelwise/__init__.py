"""The cut by the rule of the authors' release: every pixel takes its best region among all levels."""
