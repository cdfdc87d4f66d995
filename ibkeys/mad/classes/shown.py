"""The fields of a MAD of the classes with keys of their own, for output."""

from __future__ import annotations

from typing import Any

from ibkeys.mad.classes.gmp import KEY_CLASS_OF
from ibkeys.mad.classes.notices import details_of
from ibkeys.mad.fields import Layout
from ibkeys.mad.notice import DETAILS_AT, Notice


def fields_of(payload: Layout, mgmt_class: int, show_keys: bool = False) -> dict[str, Any]:
    """Return the fields of the attribute in a MAD of *mgmt_class*.

    The details of a Notice depend on the class; those of an unknown trap are shown only with keys.
    """
    document = payload.to_json(show_keys)
    if isinstance(payload, Notice) and mgmt_class in KEY_CLASS_OF:
        details = details_of(payload, mgmt_class)
        hidden = {"raw": payload.raw[DETAILS_AT:].hex() if show_keys else None}
        document["data_details"] = details.to_json(show_keys) if details is not None else hidden
    return document
