"""The type `Machine`: a host on which files can be replaced, and OpenSMs be signalled, stopped and started.

`open_machine` (`ibkeys.managers.machines.opening`) returns this host or another one. Both have the same methods, which
`ThisHost` documents; all paths are those of the host. The attribute ``files`` only reads.

Every method of another host raises HostNotReached if that host does not answer. Then it is not known whether the change
was made: read the file again through a new connection.
"""

from __future__ import annotations

from ibkeys.host.host_lock import LocalLock
from ibkeys.managers.machines.other_host import OtherHost
from ibkeys.managers.machines.remote_lock import RemoteLock
from ibkeys.managers.machines.this_host import ThisHost

Machine = ThisHost | OtherHost
TakenLock = LocalLock | RemoteLock
"""A lock beside a file, held by this process or, on another host, by the program that this process started there."""
