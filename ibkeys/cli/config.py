"""The configuration of infiniband-diags, ibdiag.conf: defaults for all tools of the field."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

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
    """What the file says; None if it says nothing. ``timeout`` in milliseconds. A key of 0 says nothing."""

    ca: str | None = None
    port: int | None = None
    timeout: int | None = None
    m_key: MKey | None = None
    sa_key: SMKey | None = None


def read_config(path: Path) -> Config:
    """Read ``name=value`` lines; ``#`` begins a comment line; other names (MLX_EPI) are passed over.

    Raises FileFormatError, with line and column of a value that cannot be; no message repeats a key.
    """
    try:
        lines = files.read_text(path, files.SETTINGS, "replace").splitlines()
    except OSError as error:
        raise FileFormatError(f"cannot read the configuration: {error.strerror}", str(path)) from error
    values: dict[str, str | int | MKey | SMKey | None] = {}
    for number, line in enumerate(lines, 1):
        name, equals, value = line.partition("=")
        name, value = name.strip(), value.strip()
        if not equals or name.startswith("#") or not value:
            continue
        try:
            if name == "CA":
                values["ca"] = value
            elif name == "Port":
                values["port"] = parse_number(value, "Port", 8)
            elif name == "timeout":
                values["timeout"] = parse_number(value, "timeout", 31) or None
            elif name == "m_key":
                values["m_key"] = _or_none(MKey(parse_secret_number(value, "m_key", 64)))
            elif name == "sa_key":
                values["sa_key"] = _or_none(SMKey(parse_secret_number(value, "sa_key", 64)))
        except EncodeError as error:
            raise FileFormatError(str(error), str(path), number, line.index("=") + 2) from None
    return Config(**values)  # type: ignore[arg-type]


def _or_none(key: _K) -> _K | None:
    return None if key.is_zero else key
