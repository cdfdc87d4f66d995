"""How Sphinx builds the documentation site; `make docs` runs it. Nothing is downloaded, neither now nor by a reader."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from docs import made
from docs.made import links
from ibkeys.version import __version__

project = "ibkeys"
author = "the ibkeys authors"
version = release = __version__
html_title = f"ibkeys {__version__}"

extensions = ["myst_parser", "sphinx.ext.autodoc"]
myst_enable_extensions = ["deflist"]
myst_heading_anchors = 3
# A docstring puts names in single backticks.
default_role = "literal"
autodoc_typehints = "signature"
autodoc_member_order = "bysource"

# Two hyphens stay two: options begin with them.
smartquotes = False

html_theme = "furo"
html_copy_source = False
html_show_sphinx = False
# Stands in the site as it is.
html_extra_path = ["published"]
exclude_patterns = ["diagrams", "pictures", "published"]

made.write()


def setup(app: Any) -> None:
    """Let links to files of the repository lead to pages of the site, and show diagrams within their page."""
    app.connect("source-read", _for_the_site)


def _for_the_site(app: Any, page: str, source: list[str]) -> None:
    if not page.startswith("reference/"):
        source[0] = links.for_the_site(page, source[0])
