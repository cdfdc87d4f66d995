"""A simulated subnet: SMAs that enforce M_Keys, switches that route, faults, and a clock of its own.

Begin with `ibkeys.sim.subnet.Subnet`. Nothing here uses `ibkeys.umad` or a command line; only `server` and `hosted` use
sockets.
"""
