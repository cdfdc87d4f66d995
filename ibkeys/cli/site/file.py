"""Reading a site file, and checking its owner and mode, the names of its settings, and the files that its values name.

The file decides through which subnet manager a cluster is changed. So it must belong to the user or root, and no other
user may be able to write or replace it, or a file that it names. No message repeats a value that may be a key, a
password or a token.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from ibkeys import files
from ibkeys.cli.site.settings import MOST_TEXTS, SETTINGS, SUBNET, SiteSetting, why_never
from ibkeys.errors import EncodeError, FileFormatError, UsageError
from ibkeys.host.file_access import read_file_fact
from ibkeys.host.trusted_toml import parse_trusted, refuse_writable_by_others
from ibkeys.keys.guid import parse_guid
from ibkeys.keys.number import quoted
from ibkeys.similar_names import did_you_mean

DEFAULT_SITE: Final = Path("/etc/ibkeys/ibkeys.toml")
MOST_BYTES: Final = 64 * files.KIB


@dataclass(frozen=True, slots=True)
class SiteFile:
    """The contents of a site file. ``values``: the values by name, as TOML has them.

    ``subnet``: the GUIDs of the local ports on the subnet for which its policy and stores are; empty if it has neither.
    """

    path: Path
    values: Mapping[str, Any]
    subnet: frozenset[int]

    def typed_form(self, name: str) -> Any:
        """Return the value of *name* as if it were typed: a text, a list of texts, or True or False for a flag.

        Raises FileFormatError if other users can change a file that the value names.
        """
        value = self.values[name]
        for text in _texts(value):
            file = SETTINGS[name].form(text)
            if file is not None:
                self._refuse_untrusted(name, Path(file))
        return str(value) if type(value) is int else value

    def missing_files(self, name: str) -> list[str]:
        """Return the files that the value of *name* names and that do not exist.

        Files that ibkeys creates itself are left out.
        """
        setting = SETTINGS[name]
        named = [] if setting.is_created else [setting.form(text) for text in _texts(self.values[name])]
        return [file for file in named if file is not None and not os.path.exists(file)]

    def error(self, message: str) -> FileFormatError:
        """Return the error for a mistake in this file."""
        return FileFormatError(message, str(self.path))

    def _refuse_untrusted(self, name: str, file: Path) -> None:
        try:
            _refuse_links(file)
            is_there = read_file_fact(file) is not None
            refuse_writable_by_others(file if is_there else file.parent)
            if is_there:
                files.refuse_what_is_no_file(file)  # ssh would wait for a writer of a FIFO
        except OSError as error:
            raise self.error(f"{name}: {file}: {error.strerror}") from None
        except UsageError as error:
            raise self.error(f"{name}: {file}: {error}") from None


def read_site(path: Path) -> SiteFile:
    """Return the contents of the site file *path*.

    Raises FileFormatError if it cannot be read, if other users can change it, or if it has a mistake.
    """
    path = Path(os.path.abspath(path))
    try:
        _refuse_links(path)
        with files.os_errors_as(partial(FileFormatError, path=str(path)), "cannot read the site file"):
            data, status = files.read_to_replace(path, MOST_BYTES)
        document = parse_trusted(path, data, status)
        subnet = _subnet(document.pop(SUBNET, None))
        for name, value in document.items():
            _check(name, value)
            if SETTINGS[name].is_of_subnet and not subnet:
                raise UsageError(
                    f"{name} is for one subnet, so this file needs {SUBNET} too: the GUIDs of this host's ports on it"
                )
        return SiteFile(path, document, subnet)
    except (UsageError, EncodeError) as error:
        raise FileFormatError(str(error), str(path)) from None


def _refuse_links(path: Path) -> None:
    """Raise UsageError if *path* leads through a symbolic link: the owner of the link may point it elsewhere."""
    real = os.path.realpath(path)
    if real != os.path.abspath(path):
        raise UsageError(f"a symbolic link leads to this file, so it is not used: name {real} itself")


def _subnet(value: Any) -> frozenset[int]:
    if value is None:
        return frozenset()
    if type(value) is not list or not value or not all(type(each) is str for each in value):
        raise UsageError(f'{SUBNET} has to be a list of port GUIDs, such as ["0x0002c903000a1031"]')
    try:
        return frozenset(map(parse_guid, value))
    except EncodeError as error:
        raise UsageError(f"{SUBNET}: {error}") from None


def _check(name: str, value: Any) -> None:
    why = why_never(name)
    if why is not None:
        raise UsageError(f"{name} {why}")
    setting = SETTINGS.get(name)
    if setting is None:
        hint = did_you_mean(name, (*SETTINGS, SUBNET))
        raise UsageError(f"{quoted(name)} is not known{hint or '; see ibkeys.toml(5)'}")
    if not _is_of_kind(value, setting):
        raise UsageError(f"{name} has to be {_KIND_WORDS[setting.kind]}")
    if len(_texts(value)) > MOST_TEXTS:
        raise UsageError(f"{name} has more than {MOST_TEXTS} texts")
    if value in ("", []) or "" in _texts(value):
        raise UsageError(f"{name} is empty: leave it out")  # else another source of the value would be used silently
    for text in _texts(value):
        if "\0" in text:
            raise UsageError(f"{name} must not hold a NUL")
        try:
            setting.form(text)
        except (UsageError, EncodeError) as error:
            raise UsageError(f"{name}: {error}") from None


def _is_of_kind(value: Any, setting: SiteSetting) -> bool:
    is_list_of_others = isinstance(value, list) and not all(type(each) is str for each in value)
    return type(value) is setting.kind and not is_list_of_others


def _texts(value: Any) -> list[str]:
    return [value] if isinstance(value, str) else value if isinstance(value, list) else []


_KIND_WORDS: Final = {str: "a text", int: "a whole number", bool: "true or false", list: "a list of texts"}
