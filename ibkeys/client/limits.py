"""Limits on one sweep, one node and one answer of the SA.

A fabric may have no end (each port leads to a new switch) and a node may be slow (each answer comes just before its
timeout). Every limit is far above the needs of the largest real fabric, and a limit that is reached is named in the
result, with the option that raises it, if it can be raised.

The scheduler checks the limits of one node, and the time and SMPs of a sweep. `ibkeys.client.sa` checks those of one
answer. The others are checked when a sweep finds a node or port (`ibkeys.discovery.bounds`).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Self

from ibkeys.arguments import given
from ibkeys.errors import UsageError
from ibkeys.mad.const import MAX_HOPS

_MAX_DIGITS: Final = 12
"""The most digits of the number in ``NAME=N``."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits. Times are in seconds of the local port's clock. Raises UsageError for a value that is not above 0,
    and for ``hops`` above 63.

    Of one sweep: ``nodes``; ``ports`` of switches; ``hops``; ``same_guid``: nodes with one NodeGUID; ``smps``;
    ``time``. Of one node in one run: ``node_smps``, and ``node_time`` during which an SMP to it was in flight. Of one
    answer of the SA: ``sa_time``, and ``sa_size`` in millions of bytes.

    A subnet has 49,151 unicast LIDs, so ``nodes`` is more than a subnet manager can bring up. A fat tree with that many
    LIDs has about 250,000 switch ports, and a sweep of it sends 1.7 million SMPs if each port has 128 P_Keys.
    """

    nodes: int = 50_000
    ports: int = 400_000
    hops: int = MAX_HOPS
    same_guid: int = 64
    smps: int = 4_000_000
    time: float = 1800.0
    node_smps: int = 8192
    node_time: float = 60.0
    sa_size: int = 100
    sa_time: float = 300.0

    def __post_init__(self) -> None:
        for each in dataclasses.fields(self):
            value = getattr(self, each.name)
            if type(value) is not int and not (each.type == "float" and type(value) is float):
                raise UsageError(
                    f"limit {_option_name(each.name)}={value!r}: it must be a number, of times also a fraction"
                )
            if not value > 0:  # nan is not either
                raise UsageError(f"limit {_option_name(each.name)}={value}: it must be above 0")
        if self.hops > MAX_HOPS:
            raise UsageError(f"limit hops={self.hops}: a directed route has at most {MAX_HOPS} hops")

    @classmethod
    def parse(cls, words: Iterable[str]) -> Self:
        """Return the default limits with the changes in *words*, each like ``nodes=100000``.

        Raises UsageError for a name that is not a limit, for a value that is not a decimal number above 0 of at most 12
        digits, and for ``hops`` above 63.
        """
        fields = {_option_name(each.name): each for each in dataclasses.fields(cls)}
        values: dict[str, float] = {}
        for word in words:
            name, equals, text = word.partition("=")
            field = fields.get(name)
            if field is None or not equals:
                raise UsageError(f"limit {word!r}: write NAME=N; the limits are {', '.join(fields)}")
            if not (text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS):
                raise UsageError(f"limit {word!r}: {text!r} is not a decimal number of at most {_MAX_DIGITS} digits")
            values[field.name] = int(text)
        return cls(**values)  # type: ignore[arg-type]

    def words(self) -> list[str]:
        """Return the words from which `parse` makes these limits again, without those that have their default.

        A fraction is rounded up. A value of more than 12 digits becomes the largest number of 12 digits.
        """
        values = {each.name: getattr(self, each.name) for each in dataclasses.fields(self)}
        changed = {name: value for name, value in values.items() if value != getattr(NORMAL_LIMITS, name)}
        highest = 10**_MAX_DIGITS - 1
        return [f"{_option_name(name)}={math.ceil(min(value, highest))}" for name, value in changed.items()]

    def describe_reached(self, name: str) -> str:
        """Return the message that the limit *name* was reached, with the option that raises it, if it can be raised.
        *name*: the name of a field."""
        option = given(f"--limit {_option_name(name)}=N", f"Limits({name}=N)")
        advice = f"at most {MAX_HOPS}" if name == "hops" else "raises it"
        if name == "hops" and self.hops == MAX_HOPS:
            return f"no directed route reaches it, more than {MAX_HOPS} hops away"
        return f"{_WORDS[name].format(getattr(self, name))} ({option} {advice})"


NORMAL_LIMITS: Final = Limits()
"""The limits unless the user sets others."""
_WORDS: Final = {
    "nodes": "the sweep found {} nodes, its limit",
    "ports": "the sweep read {} switch ports, its limit",
    "hops": "it is more than {} hops away, the limit of the sweep",
    "same_guid": "{} nodes with its NodeGUID were found before, the limit",
    "smps": "the sweep sent {} SMPs, its limit",
    "time": "the sweep took {:g} s, its limit",
    "node_smps": "this node was sent {} SMPs, the limit for one node",
    "node_time": "{:g} s were spent waiting for this node, the limit for one node",
    "sa_size": "it is longer than {} million bytes, the limit for one answer of the SA",
    "sa_time": "it took longer than {:g} s, the limit for one answer of the SA",
}


def _option_name(name: str) -> str:
    return name.replace("_", "-")
