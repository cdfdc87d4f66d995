"""The extension that native/ builds: namespaces, mounts, capabilities and Landlock, in cffi's API mode."""

from typing import Any

from cffi import FFI

ffi: FFI
lib: Any
