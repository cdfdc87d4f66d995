"""The secret that fingerprints of M_Keys are made with: 32 random bytes in a file of mode 0600, created on first
use."""

from __future__ import annotations

import os
import secrets
import stat
from pathlib import Path

from ibkeys.errors import StoreError
from ibkeys.files import SECRET, create_beside, read_bytes, sync_directory, trusted_users
from ibkeys.keys.fingerprint import SECRET_BYTES, Fingerprints
from ibkeys.store.private_files import make_directory, named_errors
from ibkeys.store.strict import check_folders

_WHAT = "secret of fingerprints"


def load_fingerprints(path: Path | None, create: bool = True) -> Fingerprints | None:
    """Return the `Fingerprints` with the secret in the file *path*; for None, with a new secret that is not stored.

    A missing file is created; with *create* false the result is then None. Raises StoreError if the file cannot be read
    or created, if it or its folder belongs to another user, if others may read it or replace it, or if it does not have
    32 bytes.
    """
    if path is None:
        return Fingerprints.generate()
    with named_errors(path, _WHAT):
        if not path.exists():
            if not create:
                return None
            _make(path)
        check_folders(path, _WHAT)
        status = path.stat()
        if status.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise StoreError(f"{path}: other users may read or write this {_WHAT}; chmod 600 it, or remove it")
        if status.st_uid not in trusted_users():
            raise StoreError(f"{path}: this {_WHAT} belongs to another user (UID {status.st_uid}); remove it")
        secret = read_bytes(path, SECRET)
    if len(secret) != SECRET_BYTES:
        raise StoreError(f"{path}: is not a {_WHAT} ({len(secret)} bytes instead of {SECRET_BYTES}); move it elsewhere")
    return Fingerprints(secret)


def _make(path: Path) -> None:
    """Create *path* with a new secret, atomically. If another process creates it first, the secret of that one
    stays."""
    check_folders(path, _WHAT)
    make_directory(path.parent)
    file, name = create_beside(path)
    try:
        with file:
            file.write(secrets.token_bytes(SECRET_BYTES))
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(name, path)
        except FileExistsError:
            return
        sync_directory(path.parent)
    finally:
        os.unlink(name)
