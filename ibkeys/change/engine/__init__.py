"""The engine that makes all planned Sets: read, journal, Set, verify, on many ports at once. One port is a batch of
one.

Each port passes these steps in its own task, and no port waits for another:

1. each attribute is read right before its Set, and the Set is built from the bytes that were read;
2. a new M_Key goes into the key store, then the bytes to be overwritten go into the journal; both are on disk;
3. the Set is sent once;
4. the edit proves the Set by reading the attribute again. A missing reply to a Set proves nothing: only the read
   counts.

One sync covers all ports that reached step 2 or the end of step 4 since the last one; other ports continue in the
meantime. If a sync fails, no further Set is begun, and Sets already sent are still verified.

A Set is sent again only if it provably never arrived and the edit allows it (``Edit.max_sends``), or if the agent
refused it, applied nothing, and the edit has a fallback form. A Set that was not sent because its node missed a Get is
sent when the node answers again.

SMPs: two Gets for each Set; a look at the links of the route where M_Keys go over them; one NodeInfo for each port,
where the arrival is checked; PortInfo of port 0, which has the M_Key, for an external port whose PortInfo is set. A
read that is older than a second when its Set is handed to the scheduler is repeated.
"""

from ibkeys.change.engine.engine import Engine as Engine
from ibkeys.change.engine.engine import EngineHooks as EngineHooks
