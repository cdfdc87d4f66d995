"""The interlocks of M_Keys: ``mkey-under-sm``, ``lease-0``, ``weak-key``, ``sm-wipes-keys``, ``links-initialize``."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

from ibkeys.arguments import given
from ibkeys.change.consent import Objection, Question
from ibkeys.change.writer import ChangeWriter
from ibkeys.errors import IbkeysError
from ibkeys.fabric.handle import PortHandle
from ibkeys.fabric.live import LiveFabric
from ibkeys.keys.guessable import SHELL_RANDOM, TRAIT_TEXT, guessable_traits
from ibkeys.keys.key_setting import SWEEPS_OF_A_LEASE, KeySetting, least_lease
from ibkeys.keys.mkey import MKey
from ibkeys.mad.attributes import PortInfo
from ibkeys.mad.const import PortState
from ibkeys.managers.opensm.m_key_lines import KeyLines, key_changes_at_start, read_conf
from ibkeys.managers.opensm.on_this_host import configs_here
from ibkeys.managers.opensm.process import read_opensm_config
from ibkeys.topology.nodes import Port
from ibkeys.topology.subnet_manager import SubnetManager

LEVEL_BESIDE_SM = "at every sweep OpenSM sets ProtectBits and lease from its own configuration"
_LET_OPENSM = "let OpenSM give all ports one key (`ibkeys mkey-deploy --via opensm`)"
_ONLY_AT_START = "OpenSM reads its key files only when it starts."


def objections_to_key_under_sm(writer: ChangeWriter, port: PortHandle) -> list[Objection]:
    """Return the objection of ``mkey-under-sm`` to a new key for one port, as a list of none or one."""
    return _under_sm(
        writer.ask_subnet_manager(),
        f"an SM that does not know the new M_Key loses {port} and all ports behind it: {_LET_OPENSM}",
        _ONLY_AT_START,
        "That edits its opensm.conf; if the ports have a key already, use mkey-rotate. Or stop every SM first.",
    )


def objections_to_keys_under_sm(writer: ChangeWriter, managers: Sequence[Port]) -> list[Objection]:
    """Return the objection of ``mkey-under-sm`` to new keys for a fabric. *managers*: the ports with IsSM."""
    return _under_sm(
        writer.ask_subnet_manager(),
        f"{_is_sm_on(managers)}; an SM that does not know the new M_Keys loses those ports and all behind them: let "
        f"OpenSM set the key ({_through_opensm()})",
        _ONLY_AT_START,
        "Or stop every SM first (ibkeys-mkey-rotate(1)).",
    )


def objections_to_removal_under_sm(writer: ChangeWriter, managers: Sequence[Port]) -> list[Objection]:
    """Return the objection of ``mkey-under-sm`` to removing the keys of a fabric. *managers*: the ports with IsSM."""
    return _under_sm(
        writer.ask_subnet_manager(),
        f"{_is_sm_on(managers)}; OpenSM sets its own m_key, level and lease on every port at each sweep, so the keys "
        f"come back: let OpenSM remove them ({_through_opensm()})",
        "Or stop every SM first (ibkeys-mkey-remove(1)).",
    )


def _through_opensm() -> str:
    return given("--via opensm")


def _is_sm_on(managers: Sequence[Port]) -> str:
    seen = ", ".join(f"{port} (LID {port.lid})" for port in managers)
    return f"IsSM is set on {seen or 'no port that could be read'}"


def objections_to_leases_under_sm(writer: ChangeWriter, managers: Sequence[Port]) -> list[Objection]:
    """Return the objection of ``mkey-under-sm`` to waiting for leases. *managers*: the ports with IsSM."""
    names = ", ".join(map(str, managers))
    return _under_sm(
        writer.ask_subnet_manager(),
        f"{f'IsSM is set on {names}; ' if names else ''}an SM that knows an M_Key stops the lease of its port with "
        "every SMP, so the port would never open: read the keys from that SM, or stop every SM first",
        "The keys of that SM: `ibkeys keystore import` of its guid2mkey, or its m_key option.",
    )


def objections_to_key_files_under_sm(manager: SubnetManager) -> list[Objection]:
    """Return the objection of ``mkey-under-sm`` to key files that are written for an OpenSM that has not started yet.
    *manager*: the facts about the master."""
    return _under_sm(
        manager,
        "a running SM sets its own keys while these files are made, so they would not match: stop every SM first, "
        "standbys too",
        "A port that counts a violation reports it to the SM.",
    )


def _under_sm(manager: SubnetManager, consequence: str, *more: str) -> list[Objection]:
    if not manager.may_be_master:
        return []
    return [Objection("mkey-under-sm", f"{manager.evidence}; {consequence}", "\n".join(more))]


def objections_to_lease(who: str, wanted: KeySetting, sweep_interval: int | None) -> list[Objection]:
    """Return the objections of ``lease-0`` to *wanted*. *who*: a port, or the number of ports, in words.
    *sweep_interval*: the SM's, in seconds, None if it is not known."""
    if wanted.key.is_zero:
        return []  # without a key no level has an effect, and no lease runs
    texts = []
    if wanted.protect >= 2 and wanted.lease == 0:
        texts.append(
            f"{who} at level {wanted.protect} with lease 0 never opens by itself: if the key is lost, only "
            "a reset helps"
        )
    if wanted.lease and sweep_interval is not None and wanted.lease <= sweep_interval:
        texts.append(
            f"lease {wanted.lease} s is not above the SM's sweep interval of {sweep_interval} s: "
            f"the port can open between sweeps; {least_lease(sweep_interval)} s are {SWEEPS_OF_A_LEASE} sweeps"
        )
    return [Objection("lease-0", text) for text in texts]


def objections_to_key(writer: ChangeWriter, key: MKey, guids: Collection[int]) -> list[Objection]:
    """Return the objection of ``weak-key`` to a key that the user gave, by audit rule MK007. *guids*: the known GUIDs
    of the fabric's nodes and ports.
    """
    found = guessable_traits(key, frozenset(guids), writer.ask_subnet_manager().sm_key)
    # One random key in 16 looks by chance as if a shell's $RANDOM had made it, so this trait of one key proves nothing.
    reasons = [TRAIT_TEXT[trait] for trait in found if trait != SHELL_RANDOM]
    paths = [] if writer.fabric.is_simulated else configs_here()
    configs = [config for path in paths if (config := read_opensm_config(path)) is not None]
    reasons += [f"is also the SM_Key or SA_Key of {c.file.path}" for c in configs if c.is_sm_or_sa_key(key)]
    if not reasons:
        return []
    text = (
        f"the new M_Key {', and '.join(reasons)}: others may guess it (audit rule MK007); `ibkeys keystore generate` "
        "makes one"
    )
    return [Objection("weak-key", text)]


def known_guids(fabric: LiveFabric) -> set[int]:
    """Return the GUIDs of nodes and ports that the key store and key files name, and that of the local port."""
    ring = fabric.ring
    ends = {guid for near, far in ring.neighbors.items() for guid in (near[0], far[0])}
    return ends | ring.by_guid.keys() | ring.lids.keys() | {fabric.own_guid}


def objections_to_opensm(fabric: LiveFabric, key: MKey | None, named: Path | None, generated: bool) -> list[Objection]:
    """Return the objections of ``sm-wipes-keys``: an opensm.conf, *named* by the user or found on this host, lacks the
    new key. On a simulated fabric only the *named* file counts. *key*: None if each port gets a key of its own.
    *generated*: ibkeys made the key, so no administrator knows it yet.

    A file that was found but cannot be read gets an objection too. Raises FileFormatError, StoreError if the *named*
    file cannot be read.
    """
    paths = [named] if named is not None else []
    paths += [] if fabric.is_simulated else [path for path in configs_here() if path != named]
    found = []
    for path in paths:
        try:
            data = read_conf(path)
        except IbkeysError as error:
            if path == named:
                raise
            found.append(Objection("sm-wipes-keys", f"{error}; it is not known whether this file has the new M_Keys"))
            continue
        wrong = key_changes_at_start(data, None if key is None else KeyLines(key))
        if wrong:
            advice, more = _advice(key, generated)
            found.append(Objection("sm-wipes-keys", f"{path}: {'; '.join(wrong)}; {advice}", more))
    return found


def _advice(key: MKey | None, generated: bool) -> tuple[str, str]:
    """Return the advice for ``sm-wipes-keys`` and its explanation."""
    if key is None:
        return f"with {given('--same')} all ports get one key, which this file can hold", ""
    made = given("ibkeys keystore generate, then --new-m-key @FILE", "ibkeys.MKey.generate(), then new_key=")
    put = f"make the key first ({made}) and put" if generated else "put"
    return (
        f"{put} it there as m_key, with level and lease, before an SM starts with the file",
        "`ibkeys keystore export DIR --write-opensm-conf FILE` does it when the ports have the key.",
    )


def objections_to_links(changes: Iterable[tuple[Port, KeySetting, KeySetting]], own_port_guid: int) -> list[Objection]:
    """Return the objection of ``links-initialize`` to levels 2 and 3, as a list of none or one. It is about ports that
    had no such level, and to which a link in the state Initialize leads, but no Active one; the local port is left out.
    *changes*: each port as a sweep found it, its old setting and the wanted one.
    """
    levels = [
        wanted.protect
        for port, old, wanted in changes
        if port.port_guid != own_port_guid
        and _newly_closes(old, wanted)
        and _is_unprovable([each.peer for each in _links(port) if each.peer is not None])
    ]
    if not levels:
        return []
    ports = f"{len(levels)} ports get" if len(levels) > 1 else "1 port gets"
    return [_about_links(f"{ports} level {max(levels)}")]


def objections_to_link_of(port: PortHandle, old: KeySetting, wanted: KeySetting) -> list[Objection]:
    """Return the objection of ``links-initialize`` for one port, as a list of none or one; it has none for the local
    port. If the port belongs to a switch, PortInfo of the switch's ports is read. Raises the errors of these Gets."""
    if not _newly_closes(old, wanted) or port.port.port_guid == port.fabric.own_guid:
        return []
    if not _is_unprovable(_ports_of_node(port)):
        return []
    return [_about_links(f"{port.port} gets level {wanted.protect}")]


def _ports_of_node(port: PortHandle) -> list[Port]:
    """Return the ports of a handle's node with their PortInfo. Of the ports of a switch, those after the first Active
    one are left out."""
    node = port.port.node
    if not node.is_switch:
        return [port.port]
    found = []
    for num in range(1, node.num_ports + 1):
        external = node.port(num)
        external.info = port.fabric.get(PortInfo, num, port.route, port.m_key)
        found.append(external)
        if _state(external) == PortState.ACTIVE:
            break
    return found


def _newly_closes(old: KeySetting, wanted: KeySetting) -> bool:
    is_closed = not old.key.is_zero and old.protect >= 2
    return not wanted.key.is_zero and wanted.protect >= 2 and not is_closed


def _links(port: Port) -> Sequence[Port]:
    return [port] if not port.node.is_switch else [each for each in port.node.ports.values() if each.num]


def _is_unprovable(ports: Iterable[Port]) -> bool:
    states = {_state(port) for port in ports}
    return PortState.INITIALIZE in states and PortState.ACTIVE not in states


def _state(port: Port) -> int:
    return PortInfo(port.info).port_state if port.info is not None else 0


def _about_links(change: str) -> Objection:
    return Objection(
        "links-initialize",
        f"{change} over links that no SM has brought up (Initialize): let an SM bring the subnet up first, or begin "
        + f"with {given('--protect 1')}",
        "Later commands cannot prove that these links still lead there, and do not query them without "
        + f"{given('--trust-topology')}.",
    )


def first_keys_at_level_0(who: str) -> Question:
    """Return the question about a first key at level 0, for a user who did not choose the level. *who*: the ports that
    get it, in words."""
    return Question(
        f"{who} at level 0: everyone who reads the port sees the new M_Key, and anyone who has the key "
        f"may change the port ({given('--protect 2 --lease 60')} closes it)",
        given("--protect 0"),
    )


def no_keys_left(who: str) -> Question:
    """Return the question about removing the M_Keys of a fabric. *who*: the ports in words."""
    return Question(
        f"{who}: afterwards every host of the fabric may change their P_Key tables, LIDs and routes, or set a key that "
        "is not known here",
        given("--leave-open"),
    )
