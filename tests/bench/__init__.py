"""Benchmarks: ratios measured in one run. `make bench` prints them; nothing here passes or fails."""
