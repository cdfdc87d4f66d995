"""Keeping secrets out of the logs of httpx and httpcore.

At the level DEBUG httpcore logs the headers of each answer. A redirect may repeat the token in them, and the cookie of
a session gives the same access as a token. Source: httpcore `_trace.py`, `_sync/http11.py`.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

_LIBRARIES: Final = ("httpx", "httpcore")
_LOGGERS: Final = tuple(f"httpcore.{name}" for name in ("connection", "http11", "http2", "proxy", "socks"))
"""The loggers of httpcore, which may not exist before they are first used."""
_HEADERS: Final = re.compile(r"(response_headers\.complete return_value=\([^\[]*)\[.*", re.DOTALL)


@contextmanager
def masked_logs(mask: Callable[[str], str]) -> Iterator[None]:
    """Within the block, leave out the headers of answers from the logs of httpx and httpcore, and change each message
    by *mask*, which removes secrets."""

    def mask_record(record: logging.LogRecord) -> bool:
        record.msg, record.args = mask(_HEADERS.sub(r"\1<headers not shown>)", record.getMessage())), ()
        return True  # a filter that returns False would drop the record

    # The filter of a logger does not apply to records of its child loggers, so every logger gets the filter.
    existing = [name for name in tuple(logging.root.manager.loggerDict) if name.partition(".")[0] in _LIBRARIES]
    loggers = [logging.getLogger(name) for name in {*existing, *_LIBRARIES, *_LOGGERS}]
    for logger in loggers:
        logger.addFilter(mask_record)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(mask_record)
