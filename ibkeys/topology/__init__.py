"""The model of a subnet: nodes, ports and links as they were read. Nothing here sends."""
