"""Querying ports for the keys of their classes, many at a time, at the least cost that is known.

A Get without the key costs nothing in class 0x05: that agent is known. The others are not known; assume one violation,
one trap to the subnet manager, and a lease that starts, after which everybody can read the key. So such a port is
queried without its key only if the user requests it, with one MAD and no retry; a second one follows only after an
answer. A known key is sent only to the port that is proven to be its own, or that the user trusts (``trust_topology``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ibkeys.classkeys.reading import NO_KEY_KNOWN, ClassKeyReading, ClassKeyState, NotAsked
from ibkeys.client.gmp import GmpPath, gmp_path
from ibkeys.client.smp import SmpClient, Task
from ibkeys.errors import EncodeError, IbkeysError, MadStatusError, NoReply, SendRefused, Unreachable
from ibkeys.keys.classkey import NO_CLASS_KEY, ClassKey
from ibkeys.keys.pkey import PKey, match_in_table
from ibkeys.mad.attributes import ClassPortInfo
from ibkeys.mad.classes.gmp import CLASS_PORT_INFO, ClassName, KeyClass, build_class_mad
from ibkeys.mad.classes.key_info import KeyInfo, KeySettings
from ibkeys.mad.const import MadStatus, Method
from ibkeys.topology.nodes import Port
from ibkeys.umad.port import LocalPort

FREE_WITHOUT_KEY: Final = frozenset({"b"})
"""The classes in which a Get without the key is known to cost nothing."""
ASKED_FIRST: Final = frozenset({"vs", "n2n"})
"""The classes in which ClassPortInfo is read before KeyInfo.

In the others KeyInfo is read first, and ClassPortInfo only if KeyInfo is all zeros: a port with the class answers
ClassPortInfo, and a port without it (ibsim's switches) does not. So a port gets one MAD less that it may count as a
violation.
"""


@dataclass(frozen=True, slots=True)
class PortQuestion:
    """The query for one port and class. ``of``: the class. ``key``: the key of the port, 0 if none is known or if it is
    not sent there. ``why_not``: why the query is not sent; None if it is sent.
    """

    port: Port
    of: KeyClass
    key: ClassKey = NO_CLASS_KEY
    why_not: NotAsked | None = None

    @property
    def may_cost(self) -> bool:
        """Whether the port may count the query as a violation, send a trap and start a lease."""
        return not self.why_not and self.key.is_zero and self.of.name not in FREE_WITHOUT_KEY


def questions_for(
    ports: Iterable[Port],
    classes: Iterable[KeyClass],
    keys: Mapping[ClassName, Mapping[int, ClassKey]],
    not_to_be_trusted: Mapping[Port, str],
    *,
    ask_unkeyed: bool,
) -> list[PortQuestion]:
    """Return the queries for the end ports among *ports*: one for each class, also those that are not to be sent.

    *keys*: class → port GUID → key. *not_to_be_trusted*: ports that get no key, each with the reason. *ask_unkeyed*:
    query without a key even if that may count a violation.
    """
    wanted = list(classes)
    questions = []
    for port in ports:
        if not port.is_end_port:
            continue
        for of in wanted:
            key = keys.get(of.name, {}).get(port.guid, NO_CLASS_KEY)
            why_not = None
            if not key.is_zero and port in not_to_be_trusted:
                why = f"not queried, because its key is not sent there: {not_to_be_trusted[port]}"
                key, why_not = NO_CLASS_KEY, NotAsked("withheld", why)
            elif key.is_zero and of.name not in FREE_WITHOUT_KEY and not ask_unkeyed:
                why_not = NO_KEY_KNOWN
            questions.append(PortQuestion(port, of, key, why_not))
    return questions


def ask_class_keys(
    client: SmpClient, local: LocalPort, questions: Sequence[PortQuestion], pkey_index: int | None = None
) -> list[ClassKeyReading]:
    """Send the queries, and return the readings in the order of *questions*. Agents for the classes must be registered.

    *pkey_index*: place in the local P_Key table; None: chosen for each port by `path_to`. A port that no local P_Key
    reaches is ``not-asked``. Raises UsageError for an index without a P_Key, TransportError.
    """
    readings: dict[int, ClassKeyReading] = {}

    def task(place: int, question: PortQuestion) -> Task:
        readings[place] = yield from _ask(client, local, question, pkey_index)

    with client.bounded():
        client.run([task(place, question) for place, question in enumerate(questions)])
    return [readings[place] for place in range(len(questions))]


def path_to(local: LocalPort, port: Port, pkey_index: int | None = None) -> GmpPath:
    """Return the path of a GMP to *port*, with the P_Key at *pkey_index* of the local table.

    *pkey_index* None: with a P_Key that the table of *port* matches, preferably of the default partition; if that table
    has no P_Key or was not read, with a P_Key of the default partition. The port drops a packet whose P_Key matches no
    entry of its table, and may count it. Raises Unreachable if there is no such local P_Key, UsageError if there is
    none at *pkey_index*.
    """
    table = [int(key) for _, key in port.occupied or ()]
    if pkey_index is not None or not table:
        return gmp_path(local, pkey_index)
    usual = [index for index, key in enumerate(local.pkeys) if PKey(key).is_default]
    for index in [*usual, *range(len(local.pkeys))]:
        if match_in_table(local.pkeys[index], table) is not None:
            return gmp_path(local, index)
    raise Unreachable(
        f"{port}: none of its P_Keys matches a P_Key of the local port, so no MAD of this class reaches it"
    )


def _ask(client: SmpClient, local: LocalPort, question: PortQuestion, pkey_index: int | None) -> Task:
    port, of = question.port, question.of
    if question.why_not:
        return ClassKeyReading(port, of.name, "not-asked", question.why_not.why, not_asked=question.why_not.kind)
    if not port.lid:
        return ClassKeyReading(port, of.name, "not-asked", "not queried: it has no LID, and these MADs need one")
    try:
        way = path_to(local, port, pkey_index)
    except Unreachable as error:
        return ClassKeyReading(port, of.name, "not-asked", f"not queried: {error}")
    asked = PortQueries(client, question, way)
    try:
        if of.name in ASKED_FIRST:
            missing = _why_absent(of, (yield from asked.class_port_info()))
            if missing:
                return asked.reading("absent", missing)
        info = yield from asked.key_info()
        confirmed = any(info.raw) or of.name in ASKED_FIRST or (yield from asked.is_confirmed())
    except IbkeysError as error:
        return asked.failed(error)
    return asked.answered(info, confirmed)


def _why_absent(of: KeyClass, info: ClassPortInfo) -> str:
    """Return why a port that answers ClassPortInfo has no key in the class nevertheless; "" if it may have one."""
    if not of.capability or info.capability_mask & of.capability:
        return ""
    return f"no {of.key_name}: ClassPortInfo.CapabilityMask 0x{info.capability_mask:04x} lacks 0x{of.capability:04x}"


class PortQueries:
    """The queries to one port for one class, by one path."""

    def __init__(self, client: SmpClient, question: PortQuestion, way: GmpPath) -> None:
        self._client = client
        self._question = question
        self._way = way
        self._retries = 0 if question.may_cost else client.timing.retries

    def key_info(self) -> Task:
        """Task: return KeyInfo."""
        layout = self._question.of.key_info
        return layout((yield from self._get(layout.attribute_id, layout.size, self._question.key)))

    def class_port_info(self) -> Task:
        """Task: return ClassPortInfo."""
        return ClassPortInfo((yield from self._get(CLASS_PORT_INFO, ClassPortInfo.size, self._question.key)))

    def is_confirmed(self) -> Task:
        """Task: return whether the port answers ClassPortInfo. Its key was read as 0, so nothing can be counted."""
        try:
            yield from self._get(CLASS_PORT_INFO, ClassPortInfo.size, NO_CLASS_KEY)
        except (MadStatusError, NoReply):
            return False
        return True

    def _get(self, attribute_id: int, size: int, key: ClassKey) -> Task:
        of, lid = self._question.of, self._question.port.lid
        assert lid is not None
        mad = build_class_mad(of, Method.GET, attribute_id, key=key.reveal())
        timeout = self._client.timing.timeout
        # One class of a port may be silent, and another one answer: for the scheduler they are different nodes.
        answer: bytes = yield self._way.request(mad, lid, timeout, self._retries, (of.name, lid))
        return answer[of.data_offset : of.data_offset + size]

    def reading(self, state: ClassKeyState, detail: str, info: KeyInfo | None = None) -> ClassKeyReading:
        """Return the reading."""
        question = self._question
        with_key = not question.key.is_zero
        is_known: bool | None = None
        if with_key and info is not None:
            is_known = info.settings.key == question.key.reveal()
        raw = info.raw if info is not None else None
        return ClassKeyReading(question.port, question.of.name, state, detail, raw, with_key, is_known)

    def failed(self, error: IbkeysError) -> ClassKeyReading:
        """Return the reading after an error. An error with a status, or because of a MAD that is not understood, is an
        answer; silence is no answer."""
        if isinstance(error, MadStatusError):
            if error.status == MadStatus.METHOD_ATTRIBUTE_NOT_SUPPORTED:
                return self.reading("absent", f"the port does not have this class: {error}")
            return self.reading("refused", str(error))
        if isinstance(error, NoReply) and error.attempts:
            return self.reading("silent", str(error))
        if isinstance(error, NoReply | SendRefused | EncodeError):
            return self.reading("not-asked", f"not queried: {error}")
        return self.reading("refused", str(error))

    def answered(self, info: KeyInfo, confirmed: bool) -> ClassKeyReading:
        """Return the reading of a KeyInfo."""
        if not confirmed:
            unsure = "all zeros, but no answer to ClassPortInfo: a port without this class may answer so too"
            return self.reading("unconfirmed", unsure, info)
        return self.reading(*_meaning(info.settings, self._question), info)


def _meaning(settings: KeySettings, question: PortQuestion) -> tuple[ClassKeyState, str]:
    name, known = question.of.key_name, not question.key.is_zero
    if settings.key:
        other = known and settings.key != question.key.reveal()
        return "set", f"{name} is set" + (", and is not the one that is known here" if other else "")
    wrong = "; the key that is known here is not the port's" if known else ""
    if settings.protect_bit:
        return "hidden", f"{name} is set and not shown{wrong}"
    return "zero", f"{name} is 0: not set{wrong}"
