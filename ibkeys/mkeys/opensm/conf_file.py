"""The options file of an OpenSM that gets an M_Key: replaced by an edited copy that only its owner can read."""

from __future__ import annotations

from dataclasses import dataclass

from ibkeys.errors import FileFormatError
from ibkeys.host.opensm_conf import KeyLines, with_lines
from ibkeys.keys.key_setting import KeySetting
from ibkeys.sm.confs.conf_file import ConfFile
from ibkeys.store.journal import FileEntry, Operation
from ibkeys.store.keys.keystore import KeyStore


@dataclass(slots=True)
class KeyConf(ConfFile):
    """One options file that gets an M_Key."""

    def put(self, setting: KeySetting, operation: Operation, store: KeyStore) -> FileEntry | None:
        """Write *setting* into it as explicit lines and leave every other byte; None when it already says so.

        The journal gets references to the key store in place of keys. Raises FileChanged if somebody else changed it,
        FileFormatError, FileError, HostNotReached, StoreError.
        """
        try:
            new = with_lines(self.data, KeyLines(setting.key, setting.protect, setting.lease))
        except FileFormatError as error:
            raise FileFormatError(str(error), self.name) from None
        return self.write(new, operation, store)
