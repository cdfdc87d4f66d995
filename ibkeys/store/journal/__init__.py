"""The journal. It stores the values that a command will overwrite, synced to disk before the Set is sent.

The stored values, before and after the change, are called images. There are two kinds: whole attributes of 64 bytes,
and files, as which partitions of UFM count too. The M_Key in an image of PortInfo is zeroed, and ``key_name`` names its
row in the key store instead.
"""

from ibkeys.store.journal.entries import FileEntry as FileEntry
from ibkeys.store.journal.entries import JournalEntry as JournalEntry
from ibkeys.store.journal.journal import Journal as Journal
from ibkeys.store.journal.journal import RunningOperation as RunningOperation
from ibkeys.store.journal.records import KEY_COMMANDS as KEY_COMMANDS
from ibkeys.store.journal.records import PLAN_COMMANDS as PLAN_COMMANDS
from ibkeys.store.journal.records import FileImage as FileImage
from ibkeys.store.journal.records import Image as Image
from ibkeys.store.journal.records import OperationRecord as OperationRecord
from ibkeys.store.journal.records import OperationState as OperationState
from ibkeys.store.journal.records import PlanRecord as PlanRecord
from ibkeys.store.journal.records import RehearsalRecord as RehearsalRecord
from ibkeys.store.journal.records import Rollback as Rollback
from ibkeys.store.journal.records import Stage as Stage
from ibkeys.store.journal.records import Start as Start
from ibkeys.store.journal.records import WantedValue as WantedValue
from ibkeys.store.journal.wanted_values import values_to_keep as values_to_keep
