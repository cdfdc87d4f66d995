"""Shell completion: the values of each parameter, from this program and from files of this host.

Nothing here opens a fabric. Names that other people choose (of nodes, of partitions) are offered only if no shell gives
one of their characters a meaning. Errors end a completion in `Commands.main`: a shell cannot show them.
"""
