"""The rule by which ibkeys chooses the method of a change of many ports if the user leaves it open (``--via auto``).

Values that are written beside a subnet manager do not last, and an SM loses ports whose M_Keys it does not know. So
ibkeys sends Sets itself only if nothing shows an SM, goes through OpenSM only if the one master is an OpenSM of a host
that may be examined, and refuses every other state: `STATES` is the whole rule. `ibkeys.change.choosing` gathers the
facts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Literal, get_args

from ibkeys.arguments import given
from ibkeys.errors import Refused
from ibkeys.mad.const import SMState
from ibkeys.printable import counted, named
from ibkeys.topology.subnet_manager import sm_state_name

MethodName = Literal["direct", "opensm"]
"""``direct``: by Sets of ibkeys; ``opensm``: through the files of the master OpenSM."""
AUTO: Final = "auto"
"""The value of ``--via`` that leaves the method to ibkeys."""
METHOD: Final = "method"
"""``Refused.interlock`` when no method is chosen, or the user has to type one; nothing overrides it."""
_MASTER, _DISCOVERING, _STANDBY, _NOT_ACTIVE = map(
    sm_state_name, (SMState.MASTER, SMState.DISCOVERING, SMState.STANDBY, SMState.NOT_ACTIVE)
)


@dataclass(frozen=True, slots=True)
class SmFact:
    """A port with a subnet manager. ``port``: in words; ``state``: the state in its SMInfo, None without an answer;
    ``is_sm``: its IsSM bit is set; ``hosts``: the examined hosts that have its OpenSM, "" for this host."""

    port: str
    state: str | None
    is_sm: bool = True
    hosts: tuple[str, ...] = ()

    @property
    def place(self) -> str:
        """The hosts that have its OpenSM, in words."""
        return " and ".join(each or "this host" for each in self.hosts)

    def __str__(self) -> str:
        return f"{self.port} ({self.state or 'IsSM is set, SMInfo not answered'})"


@dataclass(frozen=True, slots=True)
class SubnetFacts:
    """The facts that decide the method. ``sms``: the SMs of the fabric; ``opensms``: the processes on the hosts that
    were examined, in words; ``unreached``: the hosts that could not be examined, with the reason; ``unread``: the
    number of places of the fabric that could not be read."""

    sms: tuple[SmFact, ...] = ()
    opensms: tuple[str, ...] = ()
    unreached: tuple[str, ...] = ()
    unread: int = 0

    def in_state(self, state: str) -> list[SmFact]:
        """Return the SMs whose SMInfo says *state*."""
        return [each for each in self.sms if each.state == state]

    @property
    def masters(self) -> list[SmFact]:
        """The SMs that say that they are master."""
        return self.in_state(_MASTER)

    @property
    def sms_that_may_run(self) -> list[SmFact]:
        """All SMs but those that say "not active" on a port without the IsSM bit: these are switched off."""
        return [each for each in self.sms if each.is_sm or each.state != _NOT_ACTIVE]


@dataclass(frozen=True, slots=True)
class MethodState:
    """A row of `STATES`. ``words``: the state, as in ibkeys-apply(1); ``method``: None if a change is refused;
    ``fits``: returns whether the facts fit the row; ``describe``: returns the facts in words; ``advice``: returns
    advice for the user."""

    words: str
    method: MethodName | None
    fits: Callable[[SubnetFacts], bool]
    describe: Callable[[SubnetFacts], str]
    advice: Callable[[], str] = lambda: ""


def _advise_waiting() -> str:
    return given("type the command again", "try again") + " when one SM is master (`ibkeys sm-show`)"


def _advise_direct() -> str:
    return f"{given('`--via direct`', 'via=Direct()')} sends Sets all the same, as far as the interlocks let it"


STATES: Final = (
    MethodState(
        "a host cannot be examined",
        None,
        lambda facts: bool(facts.unreached),
        lambda facts: f"not every host with an OpenSM could be examined: {named(facts.unreached)}",
        lambda: (
            f"make it reachable, or {given('type `--via opensm`', 'give via=ThroughOpenSM()')} and leave that host "
            f"out; {_advise_direct()}"
        ),
    ),
    MethodState(
        "two SMs are master",
        None,
        lambda facts: len(facts.masters) > 1,
        lambda facts: f"more than one SM is master: {_named(facts.masters)}",
        lambda: f"{_advise_waiting()}; {_advise_direct()}",
    ),
    MethodState(
        "an SM is discovering: it starts, or a failover is under way",
        None,
        lambda facts: bool(facts.in_state(_DISCOVERING)),
        lambda facts: f"an SM has just started, or takes over: {_named(facts.in_state(_DISCOVERING))}",
        lambda: f"{_advise_waiting()}; {_advise_direct()}",
    ),
    MethodState(
        "one master, and its OpenSM is found on several hosts",
        None,
        lambda facts: any(len(each.hosts) > 1 for each in facts.masters),
        lambda facts: f"the OpenSM of the master {facts.masters[0].port} is found on {facts.masters[0].place}",
        lambda: (
            "if these are one and the same host, name it only once, and do not name this host: it is examined anyway; "
            + _advise_direct()
        ),
    ),
    MethodState(
        "one master, an OpenSM on this host or on one that was named",
        "opensm",
        lambda facts: any(each.hosts for each in facts.masters),
        lambda facts: f"through OpenSM (master {facts.masters[0].port} on {facts.masters[0].place})",
    ),
    MethodState(
        "one master, on no host that was named",
        None,
        lambda facts: bool(facts.masters),
        lambda facts: (
            f"the master is the SM at {facts.masters[0].port}, and it is not known to be an OpenSM of this host or of "
            f"one that was named (OpenSMs found: {named(facts.opensms) if facts.opensms else 'none'})"
        ),
        lambda: (
            given(
                "type `--via opensm --sm-host HOST` where OpenSM on HOST is that master, or `--via ufm:URL`",
                "give via=ThroughOpenSM([HOST]) where OpenSM on HOST is that master, or via=ThroughUFM(URL)",
            )
            + f" where UFM runs it (partitions only); {_advise_direct()}"
        ),
    ),
    MethodState(
        "no master, and a standby",
        None,
        lambda facts: bool(facts.in_state(_STANDBY)),
        lambda facts: f"no SM is master, and a standby may take over: {_named(facts.in_state(_STANDBY))}",
        lambda: f"{_advise_waiting()}; {_advise_direct()}",
    ),
    MethodState(
        "no master, and another SM, or one that does not answer",
        None,
        lambda facts: bool(facts.sms_that_may_run),
        lambda facts: f"no SM answers as master, and one may run: {_named(facts.sms_that_may_run)}",
        lambda: f"{_advise_waiting()}, or stop that SM; {_advise_direct()}",
    ),
    MethodState(
        "no SM on the fabric, and an OpenSM runs on a host",
        None,
        lambda facts: bool(facts.opensms),
        lambda facts: f"no port shows an SM, and an OpenSM runs: {named(facts.opensms)}",
        lambda: f"{_advise_waiting()}, or stop that OpenSM; {_advise_direct()}",
    ),
    MethodState(
        "no SM", "direct", lambda facts: True, lambda facts: f"direct (no subnet manager was found{_unread(facts)})"
    ),
)
"""State of the subnet → method. The first row that fits the facts decides; the last row always fits."""


def _unread(facts: SubnetFacts) -> str:
    return f"; {counted(facts.unread, 'place')} of the fabric could not be read" if facts.unread else ""


def _named(sms: Sequence[SmFact]) -> str:
    return named([str(each) for each in sms])


@dataclass(frozen=True, slots=True)
class MethodChoice:
    """The method that was chosen, or None. ``reason``: the method and its reason, or the reason why none is chosen, in
    words; ``advice``: the options to type if none was chosen."""

    method: MethodName | None
    reason: str
    advice: str = ""

    def __str__(self) -> str:
        return self.reason if self.method is not None else f"none is chosen: {self.reason}; {self.advice}"

    def require(self) -> MethodName:
        """Return the method. Raises Refused (`METHOD`) if none was chosen."""
        if self.method is None:
            raise Refused(f"no method is chosen for this change: {self.reason}", METHOD).unchanged(self.advice)
        return self.method

    def untyped_refusal(self) -> Refused:
        """Return the refusal for a command that has no typed method and no terminal to ask whether to use this one.
        Raises Refused (`METHOD`) if none was chosen."""
        text = (
            "there is no terminal to confirm the method: type it, or set via in the site file; here it would be "
            f"{given(f'`--via {self.require()}`', f'through {self.require()}')}: {self.reason}"
        )
        return Refused(text, METHOD).unchanged()


def fixed_by_site(via: str) -> MethodChoice | None:
    """Return the choice that a site file fixes. *via*: the value of ``via`` in the site file; None is returned if that
    is no `MethodName`, as for UFM."""
    method = next((each for each in get_args(MethodName) if each == via), None)
    return None if method is None else MethodChoice(method, f"{via} (site file)")


def method_for(facts: SubnetFacts) -> MethodChoice:
    """Return the choice of the method by `STATES`."""
    state = next(each for each in STATES if each.fits(facts))
    return MethodChoice(state.method, state.describe(facts), state.advice())
