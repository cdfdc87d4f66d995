"""A simulated subnet: SMAs that enforce M_Keys, switches that route, faults, and a clock of its own.

`ibkeys.sim.subnet.Subnet` is the way in. Nothing here knows umad or a command line, and sockets only the server does.
"""
