"""The rules of the audit: each file's ``RULES`` are in the catalogue; `counters` and `forbidden` help them."""
