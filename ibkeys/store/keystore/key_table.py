"""A table of the key store that has a key in each row, with the states of keys and the names that the journal uses."""

from __future__ import annotations

import secrets
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Literal

from ibkeys.errors import KeyGone, StoreError
from ibkeys.store.sqlite import Store

KeyState = Literal["current", "pending", "former", "imported"]


@dataclass(frozen=True, slots=True)
class KeyTable:
    """One table of ``store``, called ``name``, with a key in each row.

    ``what``: a row in messages. ``owner``: the column with the owner of a key; an owner has at most one ``current`` and
    one ``pending`` key in each subnet; "" for a table without states. ``others``: the names of the rows of other
    subnets, which `give_up` leaves as they are. All methods raise StoreError.
    """

    store: Store
    name: str
    what: str = "key"
    owner: str = ""
    others: Collection[str] = ()

    def select(self, columns: str, clauses: str = "", *parameters: object) -> list[tuple[Any, ...]]:
        """Return *columns* of the rows that *clauses* select. *clauses*: the part of a SELECT after FROM, with its
        *parameters*."""
        return self.store.database.query(f"SELECT {columns} FROM {self.name} {clauses}", parameters, of=self.name)

    def row(self, columns: str, ref: int) -> tuple[Any, ...]:
        """Return *columns* of the row with the number *ref*. Raises StoreError if there is no such row."""
        rows = self.select(columns, "WHERE id = ?", ref)
        if not rows:
            raise StoreError(f"the key store has no {self.what} {ref}")
        return rows[0]

    def insert(self, **values: object) -> int:
        """Insert a row with *values*, by column, the present time, and a new random name, and return its number."""
        return self.store.database.insert(self.name, **values, since=self.store.now(), name=secrets.token_hex(16))

    # --- states ------------------------------------------------------------------------------------------------------

    def give_up(self, owner: str, state: KeyState, note: str) -> None:
        """Change the keys of *owner* in *state* to ``former``, with *note* as the reason."""
        are_others = f"name IN ({', '.join('?' * len(self.others))})"
        self.store.database.execute(
            f"UPDATE {self.name} SET state = 'former', since = ?, note = ? WHERE {self.owner} = ? AND state = ? "
            f"AND NOT {are_others}",
            (self.store.now(), note, owner, state, *self.others),
        )

    def set_state(self, ref: int, state: KeyState, note: str) -> None:
        """Set the state of the row *ref*, the time of the change, and *note*, the reason."""
        self.store.database.execute(
            f"UPDATE {self.name} SET state = ?, since = ?, note = ? WHERE id = ?",
            (state, self.store.now(), note, ref),
        )

    def promote(self, ref: int) -> None:
        """Make the row *ref* the ``current`` key of its owner, from any state. The key that was current becomes
        ``former``."""
        with self.store.in_one_transaction():
            owner, state, *_ = self.row(f"{self.owner}, state, *", ref)  # all columns, so that their values are checked
            if state != "current":
                self.give_up(owner, "current", "")
                self.set_state(ref, "current", "")

    # --- names: see `ibkeys.store.keystore.schema` --------------------------------------------------------------------

    def ref_of(self, name: str) -> int:
        """Return the number of the row that a journal calls *name*: the row's name of 32 digits, or its number, as
        earlier versions of ibkeys wrote. Raises KeyGone if this key store never had that row.
        """
        if len(name) == 32:
            rows = self.select("id", "WHERE name = ?", name)
        else:
            of_earlier = "id <= (SELECT most FROM numbered WHERE table_name = ?)"
            rows = self.select("id", f"WHERE id = ? AND {of_earlier}", int(name), self.name)
        if not rows:
            raise KeyGone(
                f"{self.store.path or 'memory'}: a key that the journal refers to is not in this key store: the key "
                "store was lost or replaced since then; `ibkeys keystore restore FILE` restores a backup of both"
            )
        return int(rows[0][0])

    def name_of(self, ref: int) -> str:
        """Return the name of the row with the number *ref*. Raises StoreError if there is no such row."""
        return str(self.row("name", ref)[0])

    def names(self) -> dict[int, str]:
        """Return the name of each row by its number."""
        return dict(self.select("id, name"))
