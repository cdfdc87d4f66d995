"""The texts of ibkeys itself: messages, exit codes, audit rules, interlocks.

Each message is in `ibkeys.errors` or in the module that raises it; a test holds the patterns against real output.
"""

from __future__ import annotations

from typing import Final

from ibkeys.audit.catalogue import CATALOGUE
from ibkeys.audit.rule import Rule
from ibkeys.change.consent import INTERLOCKS
from ibkeys.symptoms.causes import (
    AGENT_TAKEN,
    M_KEY_PROTECTED,
    NO_RIGHTS,
    NO_UMAD,
    NODE_GONE,
    SA_KEY_WRONG,
    SA_UNREACHED,
    VIRTUAL_FUNCTION,
)
from ibkeys.symptoms.row import Cause, Symptom

SUBJECT: Final = "ibkeys"

_OPEN_OPERATION: Final = Cause(
    "operation-open",
    "A change was interrupted, or waits for its confirmation.",
    ("journal",),
    "an operation that is open, and the command that goes on with it",
    "ibkeys resume, undo or confirm.",
)
_SM_IS_THERE: Final = Cause(
    "sm-runs",
    "A subnet manager runs, and would overwrite the change.",
    ("sm-show",),
    "the master subnet manager",
    "Make the change through it: --via opensm. --force overrides active-sm alone.",
)

REFUSED: Final = Symptom(
    name="ibkeys-refused",
    title="ibkeys: refused by an interlock",
    patterns=(r"refused by (?:an )?interlock",),
    example="refused by interlock: a subnet manager is master",
    meaning="The change could do harm, and nothing was changed. ibkeys-interlocks(7) says what each one prevents.",
    causes=(_SM_IS_THERE, _OPEN_OPERATION),
    source="ibkeys/change/consent.py",
    rank=1,
)
"""Left out where the interlock is named: it has a row of its own."""
ROWS: Final = (
    Symptom(
        name="ibkeys-no-reply",
        title="ibkeys: no reply after N attempts",
        patterns=(r"no reply after \d+ attempts?", r"nothing answers behind it", r"the result is partial"),
        example="SubnGet(NodeInfo) to LID 9: no reply after 3 attempts of 1000 ms",
        meaning="Nothing came back. Agents drop requests with a wrong M_Key without an answer.",
        causes=(NODE_GONE, M_KEY_PROTECTED),
        source="ibkeys/errors.py: NoReply",
    ),
    Symptom(
        name="ibkeys-m-key-needed",
        title="ibkeys: the port hides its M_Key",
        patterns=(r"hides its M_?Key", r"no M_Key is known"),
        example="node02 mlx4_0 port 1: it hides its M_Key, and none is known",
        meaning="Without the key a Set would count a violation, so ibkeys did not try it.",
        causes=(
            Cause(
                "m-key-unknown",
                "ibkeys does not have this port's M_Key.",
                ("mkey-show -G {guid}", "mkey-show {lid}", "mkey-show --all"),
                "hidden or unreadable",
                "Give it: --security-keys DIR, -y @FILE or ibkeys keystore import; lost: ibkeys mkey-recover.",
            ),
        ),
        source="ibkeys/errors.py: MKeyNeeded",
    ),
    Symptom(
        name="ibkeys-umad",
        title="ibkeys: the local port cannot be opened",
        patterns=(
            r"no permission to open its umad device",
            r"(?:module|kernel module) ib_umad is not loaded",
            r"no RDMA device",
            r"has no QP0",
            r"an agent for class 0x[0-9a-f]+ .{0,60}registered",
        ),
        example="mlx5_0 port 1: no permission to open its umad device (Permission denied): run as root",
        meaning="ibkeys cannot send from this host.",
        causes=(NO_RIGHTS, NO_UMAD, VIRTUAL_FUNCTION, AGENT_TAKEN),
        source="ibkeys/errors.py: TransportError",
    ),
    REFUSED,
    Symptom(
        name="ibkeys-sm-silent",
        title="ibkeys: LID N does not answer as a subnet manager",
        patterns=(r"does not answer as a subnet manager", r"no port of the fabric says that a subnet manager runs"),
        example="LID 1 does not answer as a subnet manager",
        meaning="The port that was the subnet manager's does not answer SMInfo.",
        causes=(SA_UNREACHED, M_KEY_PROTECTED),
        source="ibkeys/doctor/local_port.py",
    ),
    Symptom(
        name="ibkeys-sa",
        title="ibkeys: the SA does not answer",
        patterns=(r"\bSubnAdm\w*\([^)]{0,80}\).{0,60}no reply",),
        example="SubnAdmGetTable(NodeRecord) to LID 1: no reply after 3 attempts of 1000 ms",
        meaning="OpenSM does not answer a request with a wrong --smkey.",
        causes=(SA_KEY_WRONG, SA_UNREACHED),
        source="ibkeys/client/sa.py",
    ),
    Symptom(
        name="ibkeys-store",
        title="ibkeys: key store, journal or lock",
        patterns=(
            r"key store is (?:encrypted|locked|damaged)",
            r"another (?:changing command|ibkeys)\b.{0,60}(?:runs|is running|holds)",
            r"operation \d+ is open",
        ),
        example="the key store is encrypted, and there is no terminal to ask for its passphrase",
        meaning="Another command has the lock, an operation is open, or a passphrase is missing.",
        causes=(_OPEN_OPERATION,),
        source="ibkeys/errors.py: StoreError",
    ),
)

EXIT_CODES: Final = {
    0: "done. Commands that show values exit 0 whatever the values are",
    1: "a check says no: an audit finding, a difference, a plan with changes, two ports that cannot talk",
    2: "wrong usage: the line on standard error says what",
    3: "could not be completed, or something that should be known could not be read; it outranks 1",
    4: "refused: an interlock, or a change without --yes and without a terminal, or answered no",
    130: "interrupted (Ctrl-C); ibkeys journal shows whether an operation is open",
}
"""Exit status → its meaning. Source: ibkeys(1)."""

_COMMANDS: Final = {
    "active-sm": "sm-show",
    "mkey-under-sm": "sm-show",
    "default-pkey": "audit --check PK001,PK003",
    "index-0": "audit --check PK008",
    "index-move": "audit --check PK010",
    "enforce-blind": "audit --check SE001,SE002",
    "sm-wipes-keys": "sm-show",
    "weak-key": "audit --explain MK007",
    "lease-0": "audit --check MK005",
    "open-operation": "journal",
    "stale": "journal",
    "standby-differs": "sm-show",
    "self-takeover": "sm-show",
    "drift": "compare --policy opensm",
    "default-sa-key": "audit --check SM002",
    "unknown-sm": "sm-show",
    "lost-keys": "keystore list",
    "file-managed": "sm-show",
    "container-layer": "sm-show",
    "stale-lock": "journal",
    "sm-prints-keys": "sm-show",
    "not-rehearsed": "journal",
    "links-initialize": "discover",
    "replaced-adapter": "discover",
}
"""Interlock → the command that shows why it refuses."""


def interlock_row(name: str) -> Symptom:
    """Return the row of an interlock."""
    what = INTERLOCKS[name]
    how = "--force" if name == "active-sm" else f"--override {name}"
    commands = (_COMMANDS[name],) if name in _COMMANDS else ()
    cause = Cause(name, what[0].upper() + what[1:] + ".", commands, "what stands in the way" if commands else "")
    return Symptom(
        name=f"interlock-{name}",
        title=f"interlock {name}",
        example=name,
        meaning=f"ibkeys refuses this change unless {how} is given (exit status 4). ibkeys-interlocks(7) says why.",
        causes=(cause,),
        source="ibkeys/change/consent.py",
    )


def rule_row(rule: Rule) -> Symptom:
    """Return the row of an audit rule."""
    cause = Cause(rule.id, rule.title + ".", (f"audit --check {rule.id}",), "the ports that fail it", rule.remedy)
    return Symptom(
        name=f"rule-{rule.id}",
        title=f"audit rule {rule.id}: {rule.title}",
        example=rule.id,
        meaning=rule.why,
        causes=(cause,),
        unknown=rule.false_positives,
        source="ibkeys/audit/catalogue.py",
    )


def exit_code_row(code: int) -> Symptom:
    """Return the row of an exit status."""
    return Symptom(
        name=f"exit-{code}",
        title=f"exit status {code} of ibkeys",
        example=f"exit status {code}",
        meaning=EXIT_CODES[code] + ".",
        causes=(_OPEN_OPERATION,) if code in (3, 4, 130) else (),
        source="ibkeys(1)",
    )


RULES: Final = {rule.id: rule for rule in CATALOGUE}
