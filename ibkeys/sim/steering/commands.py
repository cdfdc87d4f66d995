"""Steering a simulated subnet in words: one line in, what came of it out. And scripts of such lines with times.

Each line is a command of `GRAMMAR`. A line is read as a whole before anything happens, so one with a mistake changes
nothing. Answers never show an M_Key.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, Self

from ibkeys.errors import AddressError, FileFormatError, UsageError
from ibkeys.mad.const import (
    PORT_PHYSICAL_STATE_NAMES,
    PORT_STATE_NAMES,
    CapabilityMask,
    PortPhysicalState,
    PortState,
    SMState,
)
from ibkeys.sim.agents import mkey_check
from ibkeys.sim.agents.notices import Packet
from ibkeys.sim.history import Event
from ibkeys.sim.nodes import Node, Port
from ibkeys.sim.subnet import Subnet

GRAMMAR: Final = """\
link NODE[PORT] up|down           put the cable of a port back in, or pull it out: both ends fall to Down
link NODE[PORT] NODE[PORT]        put a cable between two free ports
silent NODE on|off [--dead]       let a node answer nothing; with --dead nothing passes through it either
reset NODE                        switch a node off and on: what is not in NV-RAM is lost, its links train again
nvram NODE mkey|pkey on|off       IsMKeyNVRAM, IsPKeyNVRAM: what survives a reset
describe NODE TEXT                change NodeDescription (trap 144)
sm NODE on|off                    let a node answer SMInfo as master SM, and be MasterSMLID of all ports; or not
drop PERCENT                      lose this share of all exchanges, request or reply
delay PERCENT [SECONDS]           hold back this share of all replies, each for up to SECONDS (2)
duplicate PERCENT                 deliver this share of all replies twice
corrupt PERCENT                   flip one bit in this share of all replies
seed N                            let chance begin anew
time +SECONDS                     let time pass at once: leases run out
packet A B [pkey=P_KEY] [qkey=Q_KEY expects=Q_KEY]
                                  send a data packet from A to B (each NODE[PORT], or NODE for its attached port):
                                  enforcement, tables and the Q_Key that B's QP expects decide, counters move,
                                  traps go out; without pkey= with the first P_Key of A's table
show NODE[PORT]                   the state of a node with its ports, or of one port
events [N]                        the last N events (20)
help                              this list

NODE is a node id, a NodeDescription or a GUID (0x...), in double quotes when it holds blanks: "cn01 HCA-1"[1].
NODE:PORT is the same as NODE[PORT]. Numbers are decimal or 0x. After # a line is a comment.
"""

_TOKEN: Final = re.compile(r'(?:"[^"]*"|[^\s"#]|(?<!\s)#)+')
_PLACE: Final = re.compile(
    r'(?:"(?P<quoted>[^"]*)"|(?P<plain>.*?))(?:\[(?P<port>\d{1,3})\]|:(?P<colon>\d{1,3}))?', re.DOTALL
)
_DEFAULT_EVENTS: Final = 20
_MOST_SECONDS: Final = 1e9

Action = Callable[[Subnet], str]


class Token(NamedTuple):
    """A word of a line, and the column where it begins, from 1."""

    text: str
    column: int


class _Mistake(UsageError):
    """A line that is written wrong, with the column of the word that is."""

    def __init__(self, message: str, column: int = 1) -> None:
        self.column = column
        super().__init__(message)


def execute(subnet: Subnet, line: str) -> str:
    """Do what one line says and return the answer: no, one or several lines, without a newline at the end.

    Raises UsageError for a line that is written wrong or cannot be done, AddressError for a node or port that is not
    there.
    """
    action = _read(line)
    return action(subnet) if action is not None else ""


def _read(line: str) -> Action | None:
    """Return what *line* wants; None for a blank line or a comment. Raises _Mistake."""
    tokens = _tokens(line)
    if not tokens:
        return None
    verb, *words = tokens
    known = _VERBS.get(verb.text)
    if known is None:
        raise _Mistake(f"unknown command {_short(verb.text)}; there are {', '.join(_VERBS)}", verb.column)
    usage, fewest, most, reader = known
    if not fewest <= len(words) <= most:
        at = words[most] if len(words) > most else verb
        raise _Mistake(f"{'too many' if len(words) > most else 'too few'} words; write: {usage}", at.column)
    return reader(words)


def _tokens(line: str) -> list[Token]:
    if line.count('"') % 2:
        raise _Mistake("a double quote is not closed", line.rindex('"') + 1)
    tokens, at = [], 0
    while at < len(line):
        if line[at].isspace():
            at += 1
            continue
        if line[at] == "#":
            break
        found = _TOKEN.match(line, at)
        if found is None:
            raise _Mistake(f"{_short(line[at:])} is no word", at + 1)
        tokens.append(Token(found[0], at + 1))
        at = found.end()
    return tokens


def _short(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:57] + "...")


# Words


def _choice(token: Token, first: str, second: str) -> bool:
    """Return whether the word is *first*; it is one of the two."""
    if token.text not in (first, second):
        raise _Mistake(f"{_short(token.text)}: write {first} or {second}", token.column)
    return token.text == first


def _number(token: Token, text: str, what: str, most: int) -> int:
    try:
        value = int(text, 16) if text[:2].lower() == "0x" else int(text)
    except ValueError:
        value = -1
    if not text.isascii() or not 0 <= value <= most:
        raise _Mistake(f"{_short(text)} is no {what} (0 to {most if most < 0x10000 else hex(most)})", token.column)
    return value


def _share(token: Token) -> float:
    try:
        value = float(token.text.removesuffix("%"))
    except ValueError:
        value = -1.0
    if not 0 <= value <= 100:
        raise _Mistake(f"{_short(token.text)} is no percentage from 0 to 100", token.column)
    return value / 100


def _seconds(token: Token, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= _MOST_SECONDS:
        raise _Mistake(f"{_short(token.text)} is no number of seconds", token.column)
    return value


def _unquoted(token: Token) -> str:
    return token.text.replace('"', "")


def _find(subnet: Subnet, token: Token) -> tuple[Node, int | None]:
    """Return the node, and the port number when the word names one."""
    found = _PLACE.fullmatch(token.text)
    if found is None:
        raise _Mistake(f'{_short(token.text)}: write NODE[PORT] or "NODE"[PORT]', token.column)
    if found["quoted"] is None and found["colon"] is not None:
        try:
            return subnet.node(token.text), None  # a node whose name ends in a colon and a number
        except AddressError:
            pass
    name = found["quoted"] if found["quoted"] is not None else found["plain"]
    number = found["port"] or found["colon"]
    return subnet.node(name), int(number) if number is not None else None


def _node(subnet: Subnet, token: Token) -> Node:
    node, number = _find(subnet, token)
    if number is not None:
        raise UsageError(f"{token.text}: this command is about a whole node; leave the port number out")
    return node


def _port(subnet: Subnet, token: Token) -> Port:
    node, number = _find(subnet, token)
    if number is None:
        raise UsageError(f"{token.text}: which port? Write {token.text}[1]")
    return subnet.port(node, number)


def _end_port(subnet: Subnet, token: Token) -> Port:
    node, number = _find(subnet, token)
    port = subnet.attach_port(node) if number is None else subnet.port(node, number)
    if not port.is_end_port:
        raise UsageError(f"{port} is no end port: packets begin and end at CA and router ports and at switch port 0")
    return port


# Commands


def _link(words: Sequence[Token]) -> Action:
    where, what = words
    if what.text in ("up", "down"):
        return lambda subnet: _cable(subnet, _port(subnet, where), what.text == "up")
    if not what.text.endswith("]") and ":" not in what.text:
        raise _Mistake(f"{_short(what.text)}: write up, down, or the NODE[PORT] at the other end", what.column)

    def connect(subnet: Subnet) -> str:
        port, peer = _port(subnet, where), _port(subnet, what)
        subnet.plug(port.node, port.number, peer.node, peer.number)
        return f"{port} is linked to {peer}"

    return connect


def _cable(subnet: Subnet, port: Port, up: bool) -> str:
    if not up:
        peer = subnet.unplug(port.node, port.number)
        return f"{port}: the cable to {peer} is out" if peer is not None else f"{port} has no cable"
    if port.peer is not None:
        return f"{port} has its cable, to {port.peer}"
    peer = subnet.unplugged.get(port, port.first_peer)
    if peer is None:
        raise UsageError(f"{port} never had a cable; write link NODE[PORT] NODE[PORT]")
    subnet.plug(port.node, port.number, peer.node, peer.number)
    return f"{port}: the cable to {peer} is back"


def _silent(words: Sequence[Token]) -> Action:
    on = _choice(words[1], "on", "off")
    dead = len(words) == 3
    if dead and (words[2].text != "--dead" or not on):
        raise _Mistake(f"{_short(words[2].text)}: only --dead may follow, after on", words[2].column)

    def silence(subnet: Subnet) -> str:
        node = _node(subnet, words[0])
        subnet.silence(node, on, forwards=not dead)
        what = "answers" if not on else "is dead: nothing passes through it" if dead else "is silent"
        return f"{node.description} {what}"

    return silence


def _reset(words: Sequence[Token]) -> Action:
    def reset(subnet: Subnet) -> str:
        node = _node(subnet, words[0])
        subnet.reset(node)
        return f"{node.description} was reset"

    return reset


def _nv_ram(words: Sequence[Token]) -> Action:
    m_key, on = _choice(words[1], "mkey", "pkey"), _choice(words[2], "on", "off")
    bit = CapabilityMask.IS_M_KEY_NVRAM if m_key else CapabilityMask.IS_P_KEY_NVRAM

    def set_capability(subnet: Subnet) -> str:
        node = _node(subnet, words[0])
        for port in node.end_ports:
            subnet.set_capability(port, int(bit), on)
        what = "M_Keys" if m_key else "P_Keys"
        return f"{node.description}: {what} {'survive' if on else 'are lost in'} a reset"

    return set_capability


def _describe(words: Sequence[Token]) -> Action:
    text = " ".join(_unquoted(word) for word in words[1:])
    if len(text.encode()) > 64:
        raise _Mistake("a NodeDescription has at most 64 bytes", words[1].column)

    def describe(subnet: Subnet) -> str:
        node = _node(subnet, words[0])
        before = node.description
        subnet.set_description(node, text)
        return f"{before} is now {text}"

    return describe


def _sm(words: Sequence[Token]) -> Action:
    on = _choice(words[1], "on", "off")

    def set_sm(subnet: Subnet) -> str:
        node = _node(subnet, words[0])
        subnet.set_sm(node, int(SMState.MASTER) if on else None)
        return f"{node.description} {'is master SM' if on else 'runs no SM'}"

    return set_sm


def _fault(name: str) -> Callable[[Sequence[Token]], Action]:
    def read(words: Sequence[Token]) -> Action:
        share = _share(words[0])
        longest = _seconds(words[1], words[1].text) if len(words) > 1 else None

        def set_fault(subnet: Subnet) -> str:
            setattr(subnet.faults, name, share)
            if longest is not None:
                subnet.faults.delay_seconds = longest
            return f"{name} {100 * share:g}%" + (f" up to {longest:g} s" if longest is not None else "")

        return set_fault

    return read


def _seed(words: Sequence[Token]) -> Action:
    seed = _number(words[0], words[0].text, "seed", (1 << 64) - 1)

    def plant(subnet: Subnet) -> str:
        subnet.faults.random.seed(seed)
        return f"seed {seed}"

    return plant


def _time(words: Sequence[Token]) -> Action:
    if not words[0].text.startswith("+"):
        raise _Mistake("write time +SECONDS: time only goes on", words[0].column)
    seconds = _seconds(words[0], words[0].text[1:])

    def pass_time(subnet: Subnet) -> str:
        subnet.advance(seconds)
        for node in subnet.nodes:
            for port in node.end_ports:
                if port.lease_deadline is not None:
                    mkey_check.expire(port)
        return f"time {subnet.now:.3f}"

    return pass_time


def _packet(words: Sequence[Token]) -> Action:
    values: dict[str, int] = {}
    for word in words[2:]:
        name, equals, text = word.text.partition("=")
        if name not in ("pkey", "qkey", "expects") or not equals:
            raise _Mistake(f"{_short(word.text)}: write pkey=, qkey= or expects=", word.column)
        if name in values:
            raise _Mistake(f"{name}= is given twice", word.column)
        what, most = ("P_Key", 0xFFFF) if name == "pkey" else ("Q_Key", 0xFFFF_FFFF)
        values[name] = _number(word, text, what, most)
    if ("qkey" in values) != ("expects" in values):
        raise _Mistake("qkey= (of the packet) and expects= (of the receiving QP) go together", words[0].column)

    def send(subnet: Subnet) -> str:
        source, destination = _end_port(subnet, words[0]), _end_port(subnet, words[1])
        for port in (source, destination):
            if not port.lid:
                raise UsageError(f"{port} has no LID: no packet comes from or to it")
        p_key = values.get("pkey", source.p_keys[0] if source.p_key_capacity else 0)
        return subnet.packet(Packet(source, destination, p_key, values.get("qkey")), values.get("expects"))

    return send


def _show(words: Sequence[Token]) -> Action:
    def show(subnet: Subnet) -> str:
        node, number = _find(subnet, words[0])
        if number is not None:
            return "\n".join(_port_lines(subnet.port(node, number)))
        kind = "switch" if node.is_switch else "router" if node.node_type == 3 else "ca"
        state = ("", ", silent", ", dead")[node.silent] + (", runs an SM" if node.sm is not None else "")
        head = f"{node.node_id} {node.description!r}: {kind} of {node.num_ports} ports, GUID 0x{node.guid:016x}{state}"
        return "\n".join((head, *(f"  {port.number}: {_summary(port)}" for port in node.all_ports)))

    return show


def _summary(port: Port) -> str:
    parts = [PORT_STATE_NAMES[PortState(port.state)]]
    if port.is_end_port:
        parts.append(f"LID {port.lid}")
    if port.peer is not None:
        parts.append(f"to {port.peer}")
    return ", ".join(parts)


def _port_lines(port: Port) -> list[str]:
    mkey_check.expire(port)
    physical = PORT_PHYSICAL_STATE_NAMES[PortPhysicalState(port.physical_state)]
    lines = [f"{port}: {_summary(port)}", f"  PortPhysicalState: {physical}"]
    if port.is_end_port:
        left = None if port.lease_deadline is None else max(0.0, port.lease_deadline - port.node.history.now)
        timer = "stopped" if left is None else f"{left:.3f} s left"
        m_key = "set (not shown)" if port.m_key else "none"
        m_key_nv, p_key_nv = (
            "yes" if port.capability_mask & bit else "no"
            for bit in (CapabilityMask.IS_M_KEY_NVRAM, CapabilityMask.IS_P_KEY_NVRAM)
        )
        counts = f"M_Key {port.m_key_violations}, P_Key {port.p_key_violations}, Q_Key {port.q_key_violations}"
        lines += [
            f"  LMC: {port.lmc}, MasterSMLID: {port.sm_lid}, port GUID: 0x{port.guid:016x}",
            f"  M_Key: {m_key}, ProtectBits: {port.protect_bits}, lease: {port.lease_period} s, timer {timer}",
            f"  NV-RAM: M_Key {m_key_nv}, P_Keys {p_key_nv}",
            f"  violations: {counts}",
        ]
    else:
        inbound, outbound = ("on" if bit else "off" for bit in (port.inbound_enforcement, port.outbound_enforcement))
        received, sent = (port.counter(f"port_{way}_constraint_errors") for way in ("rcv", "xmit"))
        lines.append(f"  enforcement: inbound {inbound}, outbound {outbound}")
        lines.append(f"  constraint errors: received {received}, sent {sent}")
    keys = [f"0x{key:04x}" for key in port.p_keys if key]
    lines.append(f"  P_Keys: {' '.join(keys) or 'none'} (capacity {port.p_key_capacity})")
    return lines


def _events(words: Sequence[Token]) -> Action:
    count = _number(words[0], words[0].text, "number of events", 1_000_000) if words else _DEFAULT_EVENTS
    return lambda subnet: "\n".join(event_line(event) for event in subnet.events[-count:]) if count else ""


def event_line(event: Event) -> str:
    """Return an event as a line: time, kind, place, and the rest as name=value."""
    words = [f"{event.time:.3f} {event.kind} {event.node} port {event.port}"]
    for name, value in event.detail.items():
        words.append(f"{name}={value:.3f}" if isinstance(value, float) else f"{name}={value}")
    return " ".join(words)


def _help(words: Sequence[Token]) -> Action:
    return lambda subnet: GRAMMAR.rstrip("\n")


#                  verb -> how it is written, fewest and most words after it, what reads them
_VERBS: Final[dict[str, tuple[str, int, int, Callable[[Sequence[Token]], Action]]]] = {
    "link": ("link NODE[PORT] up|down, or link NODE[PORT] NODE[PORT]", 2, 2, _link),
    "silent": ("silent NODE on|off [--dead]", 2, 3, _silent),
    "reset": ("reset NODE", 1, 1, _reset),
    "nvram": ("nvram NODE mkey|pkey on|off", 3, 3, _nv_ram),
    "describe": ("describe NODE TEXT", 2, 64, _describe),
    "sm": ("sm NODE on|off", 2, 2, _sm),
    "drop": ("drop PERCENT", 1, 1, _fault("drop")),
    "delay": ("delay PERCENT [SECONDS]", 1, 2, _fault("delay")),
    "duplicate": ("duplicate PERCENT", 1, 1, _fault("duplicate")),
    "corrupt": ("corrupt PERCENT", 1, 1, _fault("corrupt")),
    "seed": ("seed N", 1, 1, _seed),
    "time": ("time +SECONDS", 1, 1, _time),
    "packet": ("packet A B [pkey=P_KEY] [qkey=Q_KEY expects=Q_KEY]", 2, 5, _packet),
    "show": ("show NODE[PORT]", 1, 1, _show),
    "events": ("events [N]", 0, 1, _events),
    "help": ("help", 0, 0, _help),
}


# Scripts


class Line(NamedTuple):
    """A line of a script: the time after its start, the number of the line in the text, the command."""

    at: float
    number: int
    text: str


class Script:
    """Lines to be executed, each at its time after the start; ``@SECONDS`` before a command gives the time.

    A line without a time comes right after the one before it; lines of equal time keep their order.
    """

    def __init__(self, lines: Sequence[Line] = ()) -> None:
        self.lines = sorted(lines, key=lambda line: line.at)
        self._next = 0

    @classmethod
    def parse(cls, text: str, path: str = "") -> Self:
        """Read a script; every line is checked as far as it can be without a subnet. Raises FileFormatError."""
        lines: list[Line] = []
        at = 0.0
        for number, raw in enumerate(text.splitlines(), 1):
            try:
                tokens = _tokens(raw)
                start = 0
                if tokens and tokens[0].text.startswith("@"):
                    at = _seconds(tokens[0], tokens[0].text[1:])
                    start = len(raw) if len(tokens) == 1 else tokens[1].column - 1
                    if len(tokens) == 1:
                        raise _Mistake("a time without a command", tokens[0].column)
                command = raw[start:].strip()
                if _read(" " * start + raw[start:]) is not None:
                    lines.append(Line(at, number, command))
            except _Mistake as error:
                raise FileFormatError(str(error), path, number, error.column) from None
        return cls(lines)

    def due(self, now: float) -> list[str]:
        """Return the commands whose time has come *now* seconds after the start, each once, in order."""
        return [line.text for line in self.due_lines(now)]

    def due_lines(self, now: float) -> list[Line]:
        """As `due`, with the times and line numbers."""
        first = self._next
        while self._next < len(self.lines) and self.lines[self._next].at <= now:
            self._next += 1
        return self.lines[first : self._next]

    @property
    def next_time(self) -> float | None:
        """Seconds after the start at which the next line is due, None when all are done."""
        return self.lines[self._next].at if self._next < len(self.lines) else None
