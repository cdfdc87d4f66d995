"""Names of nodes: patterns over them, many of them in one short list, and the node name map."""
