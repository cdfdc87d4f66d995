"""Simulated subnets that are made of files about a fabric."""
