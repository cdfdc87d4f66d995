"""The configuration of infiniband-diags, ibdiag.conf: defaults that its tools and ibkeys share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

from ibkeys import files
from ibkeys.errors import EncodeError, FileFormatError
from ibkeys.keys.mkey import MKey
from ibkeys.keys.number import parse_number, parse_secret_number
from ibkeys.keys.secret import Secret64
from ibkeys.keys.smkey import SMKey

_K = TypeVar("_K", bound=Secret64)

DEFAULT_CONFIG: Final = Path("/etc/infiniband-diags/ibdiag.conf")
DEFAULT_NAME_MAP: Final = Path("/etc/rdma/ib-node-name-map")


@dataclass(frozen=True, slots=True)
class Config:
    """The values of ibdiag.conf; None for a value that the file does not set.

    ``timeout`` is in milliseconds. A timeout or key of 0 counts as not set.
    """

    ca: str | None = None
    port: int | None = None
    timeout: int | None = None
    m_key: MKey | None = None
    sa_key: SMKey | None = None


def read_config(path: Path) -> Config:
    """Return the configuration in a file of ``name=value`` lines.

    Comment lines (``#``), and names that ibkeys does not use (MLX_EPI), are ignored. Raises FileFormatError for a file
    that cannot be read, and for an invalid value, with its line and column. No message repeats a key.
    """
    with files.os_errors_as(partial(FileFormatError, path=str(path)), "cannot read the configuration"):
        lines = files.read_text(path, files.SETTINGS, "replace").splitlines()
    values: dict[str, Any] = {}
    for number, line in enumerate(lines, 1):
        name, equals, value = line.partition("=")
        name, value = name.strip(), value.strip()
        if not equals or name not in _READERS or not value:
            continue
        try:
            values[name.lower()] = _READERS[name](value)
        except EncodeError as error:
            raise FileFormatError(str(error), str(path), number, line.index("=") + 2) from None
    return Config(**values)


def _none_if_zero(key: _K) -> _K | None:
    return None if key.is_zero else key


_READERS: Final[Mapping[str, Callable[[str], Any]]] = {
    "CA": str,
    "Port": lambda value: parse_number(value, "Port", 8),
    "timeout": lambda value: parse_number(value, "timeout", 31) or None,
    "m_key": lambda value: _none_if_zero(MKey(parse_secret_number(value, "m_key", 64))),
    "sa_key": lambda value: _none_if_zero(SMKey(parse_secret_number(value, "sa_key", 64))),
}
"""The function that reads the value of each name; the name in small letters is the field of `Config`."""
