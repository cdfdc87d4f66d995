"""The rules of the audit: each function below ``@rule`` is one of the catalogue; `counters` and `forbidden` help them."""
