#!/usr/bin/env python3
"""Print the version, which stands in ibkeys/version.py and nowhere else; meson.build calls this."""

import runpy
from pathlib import Path

print(runpy.run_path(str(Path(__file__).parents[1] / "ibkeys" / "version.py"))["__version__"])
