"""The SMPs to one port, as tasks. They return the result or raise; the engine decides what follows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ibkeys.change.consent import Objection
from ibkeys.change.pending_set import PendingSet, SetProof
from ibkeys.change.target import PortTarget
from ibkeys.change.writer import ChangeWriter
from ibkeys.client.request import Request
from ibkeys.client.smp import Task
from ibkeys.errors import IbkeysError, MadStatusError, NoReply, SendRefused, Unreachable
from ibkeys.mad.attributes import Attribute, NodeInfo, PortInfo
from ibkeys.mad.const import Method
from ibkeys.port_text import at_port

MAX_READ_AGE: Final = 1.0
"""Most seconds from a read until the Set that is built on it is handed to the scheduler."""


class PortSteps:
    """The steps of one port. *checks_arrival*: `read` gets NodeInfo too, and checks that the same node answers as
    before."""

    def __init__(self, writer: ChangeWriter, checks_arrival: bool) -> None:
        self._writer = writer
        self._client = writer.fabric.client
        self._checks_arrival = checks_arrival

    def read(self, group: Sequence[PendingSet]) -> Task:
        """Task: read the attributes of one port that are to be set, and build the bytes to send.

        Raises the errors of `check_links`, of the requests and of the edits, and Unreachable if another node answers.
        """
        target = group[0].target
        yield from self.check_links(target)
        if self._checks_arrival:
            arrival = yield self._request(group[0], NodeInfo, 0)
            target.handle.judge_arrival(NodeInfo(arrival))
        if target.port.is_external and any(each.edit.attribute is PortInfo for each in group):
            target.port.end_port.info = yield self._request(group[0], PortInfo, 0)  # only this PortInfo has the M_Key
        for each in group:
            each.before = yield self._get(each)
            each.read_at = self._now()
            each.after = each.edit.build(each.before)

    def check_links(self, target: PortTarget) -> Task:
        """Task: verify the links of the route to a port again, because M_Keys go over them, unless they were verified
        within the last second. If no M_Key is known or is to be set, nothing is sent.

        Raises Unreachable if a link changed, NoReply if a link could not be examined.
        """
        writer = self._writer
        reason = (yield from writer.fabric.look_at_way(target.port)) if writer.checks_links else ""
        if reason:
            text = at_port(target.port, f"the route to it changed since it was read ({reason}); nothing was sent to it")
            raise Unreachable(text) if writer.fabric.has_changed(target.port) else NoReply(text)

    def refresh(self, pending: PendingSet) -> Task:
        """Task: read the attribute again if the last read is older than `MAX_READ_AGE`. Raises Refused (``stale``) if
        it changed, and the errors of `check_links` and of the Get."""
        if self._now() - pending.read_at <= MAX_READ_AGE:
            return
        yield from self.check_links(pending.target)
        now: bytes = yield self._get(pending)
        pending.read_at = self._now()
        if pending.edit.changed_meanwhile(pending.before, now):
            text = f"{pending.edit.name} changed since it was read; another program is writing this port"
            raise Objection("stale", at_port(pending.target.port, text)).refusal()

    def set_and_prove(self, pending: PendingSet) -> Task:
        """Task: set and prove; set again only where a read proved that the Set never arrived, and the edit allows it.

        Return the `SetProof`; None if the Set was not sent. ``each.set_error``: the error that answered the Set, or
        None.
        """
        proof = SetProof()
        for _ in range(pending.edit.max_sends):
            pending.set_error = yield from self._set(pending)
            if isinstance(pending.set_error, NoReply) and not pending.set_error.attempts:
                return None  # nothing was sent, because the node had not answered another SMP
            pending.sent += 1
            proof = yield from pending.edit.prove(self._client, pending)
            if not proof.never_arrived:
                break
            pending.read_at = self._now()  # the proof has read the attribute, which is still as before
        return proof

    def _set(self, pending: PendingSet) -> Task:
        """Task: send the Set once; return the error that answered it, or None. An agent may apply a Set and still
        return an error: the proof decides.
        """
        edit, target = pending.edit, pending.target
        route, node, key = target.handle.route, _node_for_scheduler(pending), target.m_key
        try:
            yield self._client.request(
                Method.SET, edit.attribute, edit.modifier, route, node=node, m_key=key, data=pending.after, retries=0
            )
        except (NoReply, MadStatusError, SendRefused) as error:
            return error
        return None

    def _get(self, pending: PendingSet) -> Request:
        return self._request(pending, pending.edit.attribute, pending.edit.modifier)

    def _request(self, pending: PendingSet, attribute: type[Attribute], modifier: int) -> Request:
        target, node = pending.target, _node_for_scheduler(pending)
        route = target.handle.route
        return self._client.request(Method.GET, attribute, modifier, route, node=node, m_key=target.m_key)

    def _now(self) -> float:
        return self._writer.fabric.umad.now()


def was_not_asked(error: IbkeysError | None, pending: PendingSet) -> bool:
    """Return whether an SMP was not sent because its node did not answer another one before; False for an edit that is
    alone (`Edit.is_alone`)."""
    return isinstance(error, NoReply) and not error.attempts and not pending.edit.is_alone


def _node_for_scheduler(pending: PendingSet) -> object:
    """Return the object by which the scheduler tells nodes apart; it sends nothing more to a node that missed an SMP.
    An edit with ``is_alone`` gets an object of its own, so that an unanswered SMP of another edit does not hold it
    back."""
    return object() if pending.edit.is_alone else pending.target.port.node
