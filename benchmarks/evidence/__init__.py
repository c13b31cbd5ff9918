"""Evidence: records of the benchmarks, whether they still hold, and the pages of results; it needs a checkout and does not ship."""
