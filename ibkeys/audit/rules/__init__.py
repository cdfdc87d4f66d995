"""The rules of the audit: each function with ``@rule`` is one. `counters` and `forbidden` are helpers."""
