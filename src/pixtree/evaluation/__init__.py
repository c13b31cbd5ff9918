"""How good a result is, by definitions that are written down: superpixel measures, benchmark runs, reports."""
