"""Text commands for a simulated subnet. `GRAMMAR` lists them.

A line is parsed completely before anything happens, so a line with a mistake changes nothing. Answers never show a
secret key: an M_Key, an SM_Key, or a key of another management class.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from ibkeys.errors import UsageError
from ibkeys.keys.pkey import DEFAULT_FULL, DEFAULT_LIMITED
from ibkeys.mad.const import CapabilityMask, SMState
from ibkeys.printable import shortened
from ibkeys.sim.agents import mkey_check
from ibkeys.sim.agents.class_keys import expire as expire_class_lease
from ibkeys.sim.nodes import SimPort
from ibkeys.sim.notices import Packet
from ibkeys.sim.steering import class_keys, virtual_ports
from ibkeys.sim.steering.show import event_line, node_line, node_lines, port_lines
from ibkeys.sim.steering.words import (
    LineError,
    Token,
    find,
    find_end_port,
    find_node,
    find_port,
    is_first,
    one_of,
    split_line,
    to_number,
    to_seconds,
    to_share,
    unquoted,
)
from ibkeys.sim.subnet import Subnet

GRAMMAR: Final = """\
link NODE[PORT] up|down           put the cable of a port back in, or pull it out: both ends fall to Down
link NODE[PORT] NODE[PORT]        put a cable between two free ports
silent NODE on|off [--dead]       let a node answer nothing; with --dead nothing passes through it either
reset NODE [0xffff|0x7fff]        switch a node off and on: what is not in NV-RAM is lost, its links train again;
                                  the P_Key at index 0 then
nvram NODE mkey|pkey on|off       IsMKeyNVRAM, IsPKeyNVRAM: what survives a reset
describe NODE TEXT                change NodeDescription (trap 144)
sm NODE on|off                    let a node answer SMInfo as master SM, and be MasterSMLID of all ports; or not
sa NODE wildcards accepted|refused
                                  let the SA of the master SM on NODE take subscriptions to all traps without an
                                  SM_Key, as OpenSM does, or refuse them
classkey NODE[PORT] CLASS on|off [key=KEY] [protect=0|1] [lease=SECONDS] [violations=N]
                                  give a port, or all of a node, a management class with a key: cc, vs, n2n or b
classrule CLASS RULE VALUE        choose what is only guessed of a class: absent silence|status, version and others
                                  status|silence, gets answers|drops, portinfo open|checked, violations
                                  cleared|kept, lease stops|runs, traps sent|none
vports NODE[PORT] on|off|none [possible=N] [top=N]
                                  let a CA port, or all of a CA, have virtual ports, switched on or off; or none
drop PERCENT                      lose this share of all exchanges, request or reply
delay PERCENT [SECONDS]           hold back this share of all replies, each for up to SECONDS (2)
duplicate PERCENT                 deliver this share of all replies twice
corrupt PERCENT                   flip one bit in this share of all replies
seed N                            restart the random numbers
time +SECONDS                     let time pass at once: leases run out
packet A B [pkey=P_KEY] [qkey=Q_KEY expects=Q_KEY]
                                  send a data packet from A to B (each NODE[PORT], or NODE for its attached port):
                                  enforcement, tables and the Q_Key that B's QP expects decide, counters move,
                                  traps go out; without pkey= with the first P_Key of A's table
show [NODE[PORT]]                 the state of a node with its ports, or of one port; without NODE: all nodes
events [N]                        the last N events (20)
help                              this list

NODE is a node id, a NodeDescription or a GUID (0x...), in double quotes when it holds blanks: "cn01 HCA-1"[1].
NODE:PORT is the same as NODE[PORT]. Numbers are decimal or 0x. After # a line is a comment.
"""

_DEFAULT_EVENTS: Final = 20

Action = Callable[[Subnet], str]


def execute(subnet: Subnet, line: str) -> str:
    """Execute one line and return the answer, which may be empty or have several lines, without a newline at its end.

    Raises UsageError for a line whose syntax is wrong or that cannot be executed, AddressError for an unknown node or
    port.
    """
    action = read_line(line)
    return action(subnet) if action is not None else ""


def read_line(line: str) -> Action | None:
    """Return the action of *line*; None for a blank line or a comment. Raises LineError."""
    tokens = split_line(line)
    if not tokens:
        return None
    verb, *words = tokens
    command = _VERBS.get(verb.text)
    if command is None:
        raise LineError(f"unknown command {shortened(verb.text)}; the commands are {', '.join(_VERBS)}", verb.column)
    usage, fewest, most, reader = command
    if not fewest <= len(words) <= most:
        at = words[most] if len(words) > most else verb
        raise LineError(f"{'too many' if len(words) > most else 'too few'} words; write: {usage}", at.column)
    return reader(words)


def _link(words: Sequence[Token]) -> Action:
    place_word, target = words
    if target.text in ("up", "down"):
        return lambda subnet: _set_cable(subnet, find_port(subnet, place_word), target.text == "up")
    if not target.text.endswith("]") and ":" not in target.text:
        raise LineError(f"{shortened(target.text)}: write up, down, or the NODE[PORT] at the other end", target.column)

    def connect(subnet: Subnet) -> str:
        port, peer = find_port(subnet, place_word), find_port(subnet, target)
        subnet.plug(port.node, port.number, peer.node, peer.number)
        return f"{port} is linked to {peer}"

    return connect


def _set_cable(subnet: Subnet, port: SimPort, up: bool) -> str:
    if not up:
        peer = subnet.unplug(port.node, port.number)
        return f"{port}: the cable to {peer} is out" if peer is not None else f"{port} has no cable"
    if port.peer is not None:
        return f"{port} has its cable, to {port.peer}"
    peer = subnet.cables.unplugged.get(port, port.first_peer)
    if peer is None:
        raise UsageError(f"{port} never had a cable; write link NODE[PORT] NODE[PORT]")
    subnet.plug(port.node, port.number, peer.node, peer.number)
    return f"{port}: the cable to {peer} is back"


def _silent(words: Sequence[Token]) -> Action:
    on = is_first(words[1], "on", "off")
    dead = len(words) == 3
    if dead and (words[2].text != "--dead" or not on):
        raise LineError(f"{shortened(words[2].text)}: only --dead may follow, after on", words[2].column)

    def silence(subnet: Subnet) -> str:
        node = find_node(subnet, words[0])
        subnet.silence(node, on, forwards=not dead)
        state = "answers" if not on else "is dead: nothing passes through it" if dead else "is silent"
        return f"{node.description} {state}"

    return silence


def _reset(words: Sequence[Token]) -> Action:
    is_full = len(words) < 2 or is_first(words[1], "0xffff", "0x7fff")

    def reset(subnet: Subnet) -> str:
        node = find_node(subnet, words[0])
        subnet.reset(node, DEFAULT_FULL if is_full else DEFAULT_LIMITED)
        return f"{node.description} was reset"

    return reset


def _nv_ram(words: Sequence[Token]) -> Action:
    m_key, on = is_first(words[1], "mkey", "pkey"), is_first(words[2], "on", "off")
    bit = CapabilityMask.IS_M_KEY_NVRAM if m_key else CapabilityMask.IS_P_KEY_NVRAM

    def set_capability(subnet: Subnet) -> str:
        node = find_node(subnet, words[0])
        for port in node.end_ports:
            subnet.software.set_capability(port, int(bit), on)
        keys = "M_Keys" if m_key else "P_Keys"
        return f"{node.description}: {keys} {'survive' if on else 'are lost in'} a reset"

    return set_capability


def _describe(words: Sequence[Token]) -> Action:
    text = " ".join(unquoted(word) for word in words[1:])
    if len(text.encode()) > 64:
        raise LineError("a NodeDescription has at most 64 bytes", words[1].column)

    def describe(subnet: Subnet) -> str:
        node = find_node(subnet, words[0])
        before = node.description
        subnet.set_description(node, text)
        return f"{before} is now {text}"

    return describe


def _sm(words: Sequence[Token]) -> Action:
    on = is_first(words[1], "on", "off")

    def set_sm(subnet: Subnet) -> str:
        node = find_node(subnet, words[0])
        subnet.set_sm(node, int(SMState.MASTER) if on else None)
        return f"{node.description} {'is master SM' if on else 'runs no SM'}"

    return set_sm


def _sa(words: Sequence[Token]) -> Action:
    one_of(words[1], ["wildcards"])
    accepted = is_first(words[2], "accepted", "refused")

    def set_sa(subnet: Subnet) -> str:
        node = find_node(subnet, words[0])
        subnet.sa_of(node).subscriptions.refuses_wildcards = not accepted
        return f"{node.description}: wildcard subscriptions without an SM_Key are {words[2].text}"

    return set_sa


def _fault(name: str, words: Sequence[Token]) -> Action:
    share = to_share(words[0])
    longest = to_seconds(words[1], words[1].text) if len(words) > 1 else None

    def set_fault(subnet: Subnet) -> str:
        setattr(subnet.faults, name, share)
        if longest is not None:
            subnet.faults.delay_seconds = longest
        return f"{name} {100 * share:g}%" + (f" up to {longest:g} s" if longest is not None else "")

    return set_fault


def _seed(words: Sequence[Token]) -> Action:
    seed = to_number(words[0], words[0].text, "seed", (1 << 64) - 1)

    def set_seed(subnet: Subnet) -> str:
        subnet.faults.random.seed(seed)
        return f"seed {seed}"

    return set_seed


def _time(words: Sequence[Token]) -> Action:
    if not words[0].text.startswith("+"):
        raise LineError("write time +SECONDS: the clock cannot be set back", words[0].column)
    seconds = to_seconds(words[0], words[0].text[1:])

    def pass_time(subnet: Subnet) -> str:
        subnet.advance(seconds)
        for node in subnet.nodes:
            for port in node.end_ports:
                if port.lease_deadline is not None:
                    mkey_check.expire(port)
                for agent in (port.class_agents or {}).values():
                    expire_class_lease(port, agent)
        return f"time {subnet.now:.3f}"

    return pass_time


def _packet(words: Sequence[Token]) -> Action:
    values: dict[str, int] = {}
    for word in words[2:]:
        name, equals, text = word.text.partition("=")
        if name not in ("pkey", "qkey", "expects") or not equals:
            raise LineError(f"{shortened(word.text)}: write pkey=, qkey= or expects=", word.column)
        if name in values:
            raise LineError(f"{name}= is given twice", word.column)
        kind, most = ("P_Key", 0xFFFF) if name == "pkey" else ("Q_Key", 0xFFFF_FFFF)
        values[name] = to_number(word, text, kind, most)
    if ("qkey" in values) != ("expects" in values):
        raise LineError(
            "qkey= (of the packet) and expects= (of the receiving QP) must be given together", words[0].column
        )

    def send(subnet: Subnet) -> str:
        source, destination = find_end_port(subnet, words[0]), find_end_port(subnet, words[1])
        for port in (source, destination):
            if not port.lid:
                raise UsageError(f"{port} has no LID: no packet comes from or to it")
        p_key = values.get("pkey", source.p_keys[0] if source.p_key_capacity else 0)
        return subnet.packet(Packet(source, destination, p_key, values.get("qkey")), values.get("expects"))

    return send


def _show(words: Sequence[Token]) -> Action:
    if not words:
        return lambda subnet: "\n".join(map(node_line, subnet.nodes))

    def show(subnet: Subnet) -> str:
        node, number = find(subnet, words[0])
        return "\n".join(node_lines(node) if number is None else port_lines(subnet.port(node, number)))

    return show


def _events(words: Sequence[Token]) -> Action:
    count = to_number(words[0], words[0].text, "number of events", 1_000_000) if words else _DEFAULT_EVENTS
    return lambda subnet: "\n".join(event_line(event) for event in subnet.events[-count:]) if count else ""


def _help(words: Sequence[Token]) -> Action:
    return lambda subnet: GRAMMAR.rstrip("\n")


# The first word of a command -> its syntax, the fewest and most words after it, and the function that parses them.
_VERBS: Final[dict[str, tuple[str, int, int, Callable[[Sequence[Token]], Action]]]] = {
    "link": ("link NODE[PORT] up|down, or link NODE[PORT] NODE[PORT]", 2, 2, _link),
    "silent": ("silent NODE on|off [--dead]", 2, 3, _silent),
    "reset": ("reset NODE [0xffff|0x7fff]", 1, 2, _reset),
    "nvram": ("nvram NODE mkey|pkey on|off", 3, 3, _nv_ram),
    "describe": ("describe NODE TEXT", 2, 64, _describe),
    "sm": ("sm NODE on|off", 2, 2, _sm),
    "sa": ("sa NODE wildcards accepted|refused", 3, 3, _sa),
    "classkey": (class_keys.CLASSKEY_USAGE, 3, 7, class_keys.read_classkey),
    "classrule": (class_keys.CLASSRULE_USAGE, 3, 3, class_keys.read_classrule),
    "vports": (virtual_ports.VPORTS_USAGE, 2, 4, virtual_ports.read_vports),
    "drop": ("drop PERCENT", 1, 1, partial(_fault, "drop")),
    "delay": ("delay PERCENT [SECONDS]", 1, 2, partial(_fault, "delay")),
    "duplicate": ("duplicate PERCENT", 1, 1, partial(_fault, "duplicate")),
    "corrupt": ("corrupt PERCENT", 1, 1, partial(_fault, "corrupt")),
    "seed": ("seed N", 1, 1, _seed),
    "time": ("time +SECONDS", 1, 1, _time),
    "packet": ("packet A B [pkey=P_KEY] [qkey=Q_KEY expects=Q_KEY]", 2, 5, _packet),
    "show": ("show [NODE[PORT]]", 0, 1, _show),
    "events": ("events [N]", 0, 1, _events),
    "help": ("help", 0, 0, _help),
}
