"""Giving every port of a subnet an M_Key: mkey-deploy and mkey-rotate."""
