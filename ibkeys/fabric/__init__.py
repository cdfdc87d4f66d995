"""Talking to many nodes: addresses, the request scheduler, the SMP client, discovery and the model of a fabric."""
