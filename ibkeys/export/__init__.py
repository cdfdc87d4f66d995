"""Metrics of a fabric's keys for Prometheus: a snapshot and the report of an audit, as numbers with labels."""
