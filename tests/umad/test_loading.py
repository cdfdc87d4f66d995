"""Which libibumad the extension loads: none, one that lacks a function, an old one, a new one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

LOAD = """
from ibkeys.errors import LibraryMissing
from ibkeys.umad import devices
try:
    ffi, lib = devices.binding()
except LibraryMissing as error:
    print(error)
else:
    name = ffi.new("char[]", lib.IBKEYS_NAME_LEN + 1)
    print([(lib.ibkeys_gsi_of(smi, name), ffi.string(name)) for smi in (b"smi0", b"mlx5_7")])
"""
OLD = "".join(
    f"int umad_{name}(void) {{ return 0; }}\n"
    for name in (
        *("get_ca", "release_ca", "get_port", "release_port", "open_port", "close_port", "register", "unregister"),
        *("send", "recv", "get_fd", "status", "get_mad", "get_mad_addr", "set_addr", "set_grh", "set_pkey"),
    )
)
NEW = (
    OLD
    + """
#include <string.h>
struct pair { char smi[20]; unsigned smi_port; char gsi[20]; unsigned gsi_port; };
int umad_get_smi_gsi_pairs(struct pair *pairs, unsigned long max)
{
\tif (max < 2)
\t\treturn -1;
\tstrcpy(pairs[0].smi, "mlx5_6"), strcpy(pairs[0].gsi, "mlx5_6");
\tstrcpy(pairs[1].smi, "smi0"), strcpy(pairs[1].gsi, "mlx5_1");
\treturn 2;
}
"""
)


def loading(folder: Path) -> str:
    """Return what a new process says that finds its libibumad in *folder*."""
    environment = {**os.environ, "LD_LIBRARY_PATH": str(folder)}
    done = subprocess.run([sys.executable, "-c", LOAD], env=environment, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def compiled(source: str, folder: Path, version: str = "IBUMAD_1.0") -> Path:
    (folder / "libibumad.c").write_text(source)
    (folder / "libibumad.map").write_text(f"{version} {{ umad_*; }};\n")
    command = ["cc", "-shared", "-fPIC", "-Wl,--version-script=libibumad.map", "-o", "libibumad.so.3", "libibumad.c"]
    subprocess.run(command, cwd=folder, check=True)
    return folder


def test_libibumad_that_cannot_be_loaded(tmp_path: Path) -> None:
    (tmp_path / "libibumad.so.3").touch()
    said = loading(tmp_path)
    assert said.startswith(f"libibumad cannot be loaded ({tmp_path}/libibumad.so.3: file too short): apt-get install ")
    assert "libibumad3" in said


def test_libibumad_without_a_function_that_is_needed(tmp_path: Path) -> None:
    said = loading(compiled(OLD.replace("umad_set_pkey", "umad_set_no_pkey"), tmp_path))
    assert "undefined symbol: umad_set_pkey, version IBUMAD_1.0" in said


def test_another_library_of_that_name(tmp_path: Path) -> None:
    said = loading(compiled(OLD, tmp_path, version="OTHER_1.0"))
    assert said.startswith(f"libibumad cannot be loaded ({tmp_path}/libibumad.so.3: undefined symbol: umad_get_ca, ver")


def test_a_library_in_the_current_folder_is_not_loaded(tmp_path: Path) -> None:
    folder = compiled("#include <stdlib.h>\n__attribute__((constructor)) void loaded(void) { abort(); }\n", tmp_path)
    subprocess.run([sys.executable, "-c", LOAD], cwd=folder, check=True, capture_output=True)


@pytest.mark.parametrize(
    ("source", "pairs"),
    [(OLD, "[(-38, b''), (-38, b'')]"), (NEW, "[(0, b'mlx5_1'), (-19, b'mlx5_1')]")],
    ids=["no pairs", "pairs"],
)
def test_pairs_of_devices_are_asked_for_where_libibumad_knows_them(tmp_path: Path, source: str, pairs: str) -> None:
    assert loading(compiled(source, tmp_path)) == pairs
