"""Benchmarks: measures with written definitions, runs of several methods, records and reports."""
