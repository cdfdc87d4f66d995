"""Sending MADs from this host.

`port`: the interface of a port, and a batch of MADs in the form for C. `libibumad` implements the interface on the real
stack, `simulated` on a simulated subnet that `sim_spec` describes. `descriptor` and `devices`: the descriptors and
devices of libibumad. `wrapped_port`: the base of ports around another port. `tap` is one that passes each MAD to a
trace and to the capture file of `pcap`. `probe` checks which parts of the real stack exist.
"""
