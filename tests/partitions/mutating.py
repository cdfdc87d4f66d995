"""Policies with a byte changed."""

from __future__ import annotations

import random

NASTY = (";", ":", ",", "=", "#", "\n", "\r", "\0", "0x", "09", "ALL", "mgid=", "mgid", "ff12::", " ", "\t", "-", "é")


def mutate(text: str, rng: random.Random) -> str:
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(text) + 1)
        text = text[:at] + rng.choice((*NASTY, "")) + text[at + rng.randint(0, 8) :]
    return text
