"""The wire: MAD and SMP headers and attribute layouts. Bytes in, objects out, no I/O."""
