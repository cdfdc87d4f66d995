"""The hosts of OpenSMs on which files may be replaced, and OpenSMs may be signalled, stopped and started.

`open_machine` (`ibkeys.managers.machines.opening`) opens this host or another one. Reading goes through ``files``,
which change nothing. Both kinds have the same methods, which `ThisHost` describes; paths are those of that host.

Every method of another host raises HostNotReached if that host does not answer. Whether the change was made is then
unknown: check through a new connection.
"""

from __future__ import annotations

from ibkeys.host.host_lock import LockHere
from ibkeys.managers.machines.lock_there import LockThere
from ibkeys.managers.machines.other_host import OtherHost
from ibkeys.managers.machines.this_host import ThisHost

Machine = ThisHost | OtherHost
TakenLock = LockHere | LockThere
"""The lock beside a file, held by this process, or by the program of its connection to another host."""
