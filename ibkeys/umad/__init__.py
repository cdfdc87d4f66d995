"""How a MAD leaves this host.

`port` says what a port can do, `libibumad` does it on the real stack, `simulated` on a simulated subnet. `requests`: a
batch of MADs as C takes it. `descriptor` and `devices`: what libibumad opens and lists. `tap` shows what passes a port
to a trace and to the capture file of `pcap`. `probe` looks at what of the real stack is there.
"""
