"""Queries: addresses, the request scheduler, and the clients for SMPs, GMPs and the SA."""
