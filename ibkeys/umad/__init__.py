"""Sending MADs from this host.

`port` is the interface of a port, `libibumad` implements it on the real stack, `simulated` on a simulated subnet.
`requests`: a batch of MADs in the form for C. `descriptor` and `devices`: the descriptors and devices of libibumad.
`tap` passes each MAD of a port to a trace and to the capture file of `pcap`. `probe` checks which parts of the real
stack exist.
"""
