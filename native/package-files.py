"""Print the files under a folder that belong into the package; meson.build calls this."""

import sys
from pathlib import Path

for path in sorted(Path(sys.argv[1]).rglob("*")):
    built = "__pycache__" in path.parts or path.suffix == ".pyc" or ".so" in path.suffixes or path.name.startswith(".")
    if path.is_file() and not built:
        print(path.as_posix())
