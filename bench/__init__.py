"""Benchmarks: each figure is a ratio to a floor or peer measured in the same run."""
