"""The extension that native/ builds: libibumad and the batch engine, in cffi's API mode."""

from typing import Any

from cffi import FFI

ffi: FFI
lib: Any
