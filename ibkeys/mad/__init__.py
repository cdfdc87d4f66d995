"""MADs as bytes: their headers, the layouts of attributes and records, decoding and building. There is no I/O here."""
