"""Links and diagrams of pages in docs, as the site needs them.

In the repository they lead to files. The site has pages for some of the files outside docs; of other links to them it
has the text. A diagram becomes a part of its page, so its text can be selected and takes the colours of the page.
"""

from __future__ import annotations

import posixpath
import re
from typing import Final

_LINK: Final = re.compile(r"(?<!!)\[(?P<text>[^\]]+)\]\((?P<target>[\w./-]+)\)")
_DIAGRAM: Final = re.compile(r"^!\[[^\]]+\]\((?P<file>[\w./-]+\.svg)\)$", re.M)
_RULE: Final = re.compile(r"[A-Z]{2}\d{3}")
_MADE_FROM: Final = {
    "man": "man/index",
    "ibkeys/audit/catalogue.py": "rules",
    "ibkeys/symptoms/table.py": "symptoms",
    "docs/published/schemas": "documents",
    "ibkeys/mad/decode.py": "fields",
    "ibkeys/__init__.py": "python",
}
"""File or folder → the page of docs/reference that is made from it."""


def for_the_site(page: str, text: str) -> str:
    """Return the text of a page in docs with its links to pages of the site and its diagrams.

    *page* is its path in docs, without ``.md``. The identifier of an audit rule leads to the rule on the page of the
    rules; in the repository, to its man page.
    """

    def link(found: re.Match[str]) -> str:
        file = posixpath.normpath(posixpath.join("docs", posixpath.dirname(page), found["target"]))
        if _RULE.fullmatch(found["text"]):
            return f"[{found['text']}](#{found['text'].lower()})"
        if file.startswith("man/"):
            return f"[{found['text']}](/reference/{file}.md)"
        if file in _MADE_FROM:
            return f"[{found['text']}](/reference/{_MADE_FROM[file]}.md)"
        return found[0] if file.startswith("docs/") else found["text"]

    return _DIAGRAM.sub(r"```{raw} html\n:file: \g<file>\n```", _LINK.sub(link, text))
