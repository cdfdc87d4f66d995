"""The rules of the audit: each function below ``@rule`` is one; `counters` and `forbidden` help them."""
