"""The logs of httpx and httpcore of an exchange, without their secrets.

At DEBUG httpcore logs the headers of each answer: a redirect may repeat the token there, and the cookie of a session is
as good as a token. Source: httpcore `_trace.py`, `_sync/http11.py`.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

_LIBRARIES: Final = ("httpx", "httpcore")
_LOGGERS: Final = tuple(f"httpcore.{name}" for name in ("connection", "http11", "http2", "proxy", "socks"))
"""Loggers of httpcore that may be made only when they are first needed."""
_HEADERS: Final = re.compile(r"(response_headers\.complete return_value=\([^\[]*)\[.*", re.DOTALL)


@contextmanager
def scrubbed(hidden: Callable[[str], str]) -> Iterator[None]:
    """Keep the headers of answers out of the libraries' logs in this block, and the texts that *hidden* removes."""

    def scrub(record: logging.LogRecord) -> bool:
        record.msg, record.args = hidden(_HEADERS.sub(r"\1<headers not shown>)", record.getMessage())), ()
        return True  # it is logged in any case

    # A filter of a logger does not apply to the logs of its children, so each one gets it.
    made = [name for name in tuple(logging.root.manager.loggerDict) if name.partition(".")[0] in _LIBRARIES]
    loggers = [logging.getLogger(name) for name in {*made, *_LIBRARIES, *_LOGGERS}]
    for logger in loggers:
        logger.addFilter(scrub)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(scrub)
