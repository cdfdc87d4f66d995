"""Evidence for a link, read by GMPs: LinkDownedCounter of its near port, and its LinkRecord at the SA.

Neither needs an M_Key, and nothing is sent to the far end of the link.
"""

from __future__ import annotations

from ibkeys.client.gmp import GmpPath, gmp_path
from ibkeys.client.smp import SmpClient, SmpOutcome, Task
from ibkeys.discovery.port_counters import ask_port_counters
from ibkeys.errors import IbkeysError, MadStatusError, NoReply
from ibkeys.mad.const import Method, MgmtClass, NodeType
from ibkeys.mad.records import LinkRecord, NodeRecord, SaRecord, query_of
from ibkeys.mad.sa import SA_CLASS_VERSION, SA_HEADER_SIZE, build_sa
from ibkeys.topology.nodes import LinkEnd, Port


class LinkGmps:
    """The GMP queries about links of one sweep, or of one check of links."""

    def __init__(self, client: SmpClient) -> None:
        self._client = client
        self._path: GmpPath | None = None
        self._sa_lid = 0
        self._sa_answers = False
        self._ends: dict[int, LinkEnd | None] = {}

    def start(self, local_port: Port) -> None:
        """Prepare the GMP queries if *local_port* can send GMPs: if it is Active (port 0 of a switch always counts as
        Active) and in the default partition, and no other program has the classes.

        Otherwise the queries return None without sending anything.
        """
        if not local_port.is_active and not local_port.node.is_switch:
            return
        umad = self._client.port
        try:
            local = umad.attributes()
            path = gmp_path(local)
            umad.register(MgmtClass.PERF_MGMT)
            umad.register(MgmtClass.SUBN_ADM, SA_CLASS_VERSION)
        except IbkeysError:
            return  # The port cannot send GMPs, so they prove nothing.
        self._path = path
        self._sa_lid = local.sm_lid

    def read_counter(self, near: Port, insists: bool = False) -> Task:
        """Task: read LinkDownedCounter of *near* into ``near.link_downed``, and return it; None if it cannot be read.

        *insists*: query the agent even if it was silent before.
        """
        near.link_downed = None
        if self._path is not None:
            node = object() if insists else ("PMA", near.lid)
            counters = yield from ask_port_counters(self._path, self._client.timing, near, node)
            if not isinstance(counters, IbkeysError):
                near.link_downed = counters.link_downed_counter
        return near.link_downed

    def far_end_by_sa(self, near: Port) -> Task:
        """Task: return the far end of *near* by the LinkRecord of the SA, and its LID; (None, 0) if the SA shows
        none."""
        lid = near.lid
        if not lid:
            return None, 0
        record = yield from self._get_record(LinkRecord, from_lid=lid, from_port=near.num)
        if record is None:
            return None, 0
        if record.to_lid not in self._ends:
            self._ends[record.to_lid] = yield from self._port_with(record.to_lid)
        end = self._ends[record.to_lid]
        return (None, 0) if end is None else ((end[0], record.to_port), record.to_lid)

    def _port_with(self, lid: int) -> Task:
        record = yield from self._get_record(NodeRecord, lid=lid)
        if record is None:
            return None
        info = record.node_info
        return (info.node_guid if info.node_type == NodeType.SWITCH else info.port_guid, info.local_port_num)

    def _get_record(self, record: type[SaRecord], **components: int) -> Task:
        """Task: get one record with a single MAD; None if the SA has none, shows none, or does not answer."""
        if self._path is None or not self._sa_lid:
            return None
        mask, data = query_of(record, components)
        mad = build_sa(Method.GET, record.attribute_id, data=data, component_mask=mask)
        timing, lid = self._client.timing, self._sa_lid
        # A different *node* for each query: a sweep of a large subnet needs more queries to the SA than the limit of
        # one node.
        name = ("SA", record.attribute_id, *components.values())
        outcomes: list[SmpOutcome] = yield [self._path.request(mad, lid, timing.timeout, timing.retries, name)]
        answer = outcomes[0]
        if isinstance(answer, NoReply) and not self._sa_answers:
            self._sa_lid = 0  # No SA answers there, so later queries are not sent.
        self._sa_answers = self._sa_answers or isinstance(answer, bytes | MadStatusError)
        if isinstance(answer, IbkeysError) or len(answer) < SA_HEADER_SIZE + record.size:
            return None
        return record(answer[SA_HEADER_SIZE : SA_HEADER_SIZE + record.size])
