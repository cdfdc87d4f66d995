"""The frame of every HTML page of ibkeys: one file that loads nothing, and that no text from the fabric can break.

Styles and scripts are in the page, and its content security policy allows exactly these by their hash and nothing else,
so a page that was tampered with, or a name that got past the escaping, runs nothing.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final, TypeVar

from ibkeys.lazily import import_optional
from ibkeys.printable import clean

T = TypeVar("T")

_TEMPLATES: Final = Path(__file__).parent / "templates"


def render_page(template: str, *, extra_style: str = "", script: str = "", **values: Any) -> str:
    """Return the page of a template in ``templates``, with *extra_style* below the common one, and the file *script* of
    ``templates`` after the common one.

    Raises UsageError if jinja2 is not installed.
    """
    jinja2 = _jinja2()
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        # invisible characters are made visible before anything is escaped
        finalize=lambda value: clean(value) if type(value) is str else value,
    )
    style = (_TEMPLATES / "page.css").read_text(encoding="utf-8") + extra_style
    files = ["page.js", *([script] if script else [])]
    scripts = "".join((_TEMPLATES / name).read_text(encoding="utf-8") for name in files)
    policy = (
        f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(scripts)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    text: str = environment.get_template(template).render(
        style=markup(style), script=markup(scripts), policy=policy, **values
    )
    return text


def limit_listed_ports(
    things: Iterable[T], most: int, shown: Callable[[T, int], dict[str, Any]]
) -> list[dict[str, Any]]:
    """Return the results of *shown* for *things*, which together list at most *most* ports one by one.

    *shown*: called with a thing and with the number of ports that it may list. It returns the values of an entry for
    the template; ``each`` among them has the ports that the entry lists one by one.
    """
    rows = []
    for thing in things:
        rows.append(shown(thing, most))
        most -= len(rows[-1]["each"])
    return rows


def markup(text: str) -> Any:
    """Return *text* marked as HTML that needs no escaping. Use it only for text that ibkeys made and escaped itself."""
    return _jinja2().utils.markupsafe.Markup(text)


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _jinja2() -> Any:
    return import_optional("jinja2", "an HTML page needs")
