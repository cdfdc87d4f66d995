"""The commands `pkey-check`, `pkey-explain` and `qkey-explain`: the meaning of values, without a fabric."""

from __future__ import annotations

from typing import Final

import click

from ibkeys.cli import exits, options
from ibkeys.cli.documents.explained import PKEY_CHECK, PKEY_EXPLAIN, QKEY_EXPLAIN
from ibkeys.cli.documents.field import Document
from ibkeys.cli.exits import write
from ibkeys.cli.help.command import command
from ibkeys.cli.render import write_document
from ibkeys.cli.types import PKEY, NumberType
from ibkeys.keys.pkey import PKey, explain, explain_match
from ibkeys.keys.qkey import RULES, classify
from ibkeys.keys.traffic import TRAFFIC

_TITLES: Final = {"receiver": "when received", "set_by": "who sets it", "difference": "unlike a P_Key"}


@command("pkey-check")
@click.argument("a", type=PKEY, metavar="PKEY")
@click.argument("b", type=PKEY, metavar="PKEY")
@options.format
@options.common
def pkey_check(a: PKey, b: PKey, format: str) -> int:
    """Show whether ports with these P_Keys can talk, and why.

    A P_Key is 0x8001, 0x1:full or 0x1:limited. Exits 1 when the answer is no.
    """
    reason = explain_match(a, b)
    values = {"a": str(a), "b": str(b), "can_talk": a.matches(b), "reason": reason}
    _write(PKEY_CHECK, values, reason, format)
    return exits.DONE if a.matches(b) else exits.SAYS_NO


@command("pkey-explain")
@click.argument("value", type=PKEY)
@options.format
@options.common
def pkey_explain(value: PKey, format: str) -> int:
    """Explain a P_Key.

    VALUE is 0x8001, 0x1:full or 0x1:limited. Also says how a P_Key affects each kind of packet: SMPs, GMPs, queue
    pairs, raw packets.
    """
    text = explain(value)
    values = {
        "pkey": str(value),
        "partition": f"0x{value.partition:04x}",
        "membership": value.membership,
        "valid": value.is_valid,
        "default": value.is_default,
        "meaning": text,
        **{each.key: each.rule for each in TRAFFIC},
    }
    lines = [f"{value}: {text}", *(f"  {each.name}: {each.rule}" for each in TRAFFIC)]
    _write(PKEY_EXPLAIN, values, "\n".join(lines), format)
    return exits.DONE


@command("qkey-explain")
@click.argument("value", type=NumberType(0, 0xFFFFFFFF))
@options.format
@options.common
def qkey_explain(value: int, format: str) -> int:
    """Explain what a Q_Key can be used for.

    Also says what happens when it is received, who sets it, and how it differs from a P_Key.

    VALUE is 0x... or decimal, 32 bits.
    """
    meaning = classify(value)
    values = {
        **{"q_key": f"0x{value:08x}", "kind": meaning.kind, "privileged": meaning.privileged, "meaning": meaning.text},
        **dict(RULES),
    }
    lines = [f"0x{value:08x}: {meaning.kind}: {meaning.text}", *(f"  {_TITLES[name]}: {text}" for name, text in RULES)]
    _write(QKEY_EXPLAIN, values, "\n".join(lines), format)
    return exits.DONE


def _write(document: Document, values: dict[str, object], text: str, format: str) -> None:
    if not write_document(format, document, lambda: values, [values]):
        write(text)
