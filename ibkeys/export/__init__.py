"""Metrics of a fabric's keys for Prometheus: what a snapshot and the report of an audit say, as numbers with labels."""
