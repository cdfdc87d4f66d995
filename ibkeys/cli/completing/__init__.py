"""Shell completion: the values of each parameter, from this program and from files of this host.

Nothing here opens a fabric. What may come from others (names of nodes, of partitions) is offered only where no shell
takes any of it for more than a word. Errors end a completion in `Commands.main`: a shell has no place for them.
"""
