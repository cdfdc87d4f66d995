"""Rules about subnet managers, and about the data that their SA discloses to untrusted requesters."""

from __future__ import annotations

from typing import Final

from ibkeys.arguments import given
from ibkeys.audit.inputs import AuditInput
from ibkeys.audit.rule import Evidence, RuleVerdict, rule
from ibkeys.fabric.probes import BULK, WILDCARD, WITH_DEFAULT_KEY, WITHOUT_KEY
from ibkeys.mad.attributes import SMInfo
from ibkeys.mad.const import SMState
from ibkeys.topology.nodes import Port
from ibkeys.topology.subnet_manager import sm_state_name

_NOT_ASKED: Final = "the SA was not queried (`ibkeys audit --probe-sa` queries it)"


@rule(
    id="SM001",
    title="subnet manager not on the list, or two masters",
    severity="critical",
    evidence="SMInfo of every port whose IsSM bit is set: GUID and state, against the list of those that may run",
    why="A rogue SM controls the subnet: it sets LIDs, routes, P_Keys and M_Keys.",
    sources=("NICO",),
    remedy="Stop it; list the GUIDs of those that may run.",
    false_positives="A standby that was just added.",
    if_empty="no port says that a subnet manager runs there",
)
def masters(data: AuditInput, verdict: RuleVerdict) -> None:
    """Fail subnet managers that are not on the list, and several masters (SM001)."""
    found: list[tuple[Port, SMInfo]] = []
    for port in verdict.with_port_info(data.end_ports):
        if not port.is_sm:
            continue
        if port.sm_info is None:
            verdict.unread(port, SMInfo.name)
        else:
            found.append((port, SMInfo(port.sm_info)))
    count = sum(info.sm_state == SMState.MASTER for _, info in found)
    for port, info in found:
        evidence = {SMInfo.name: {"guid": f"0x{info.guid:016x}", "sm_state": info.sm_state, "priority": info.priority}}
        state = sm_state_name(info.sm_state)
        if data.sm_guids is not None and info.guid not in data.sm_guids:
            verdict.fail(port, f"a subnet manager ({state}) that is not on the list of {given('--sm-guids')}", evidence)
        elif count > 1 and info.sm_state == SMState.MASTER:
            verdict.fail(port, f"one of {count} subnet managers that say they are master", evidence)
        elif data.sm_guids is None:
            verdict.lacks = "--sm-guids"
            verdict.unknown(
                port,
                f"a subnet manager ({state}); {given('--sm-guids')} would show whether it should be there",
                evidence,
            )
        else:
            verdict.passed += 1


@rule(
    id="SM002",
    title="default SM_Key or SA_Key",
    severity="critical",
    evidence="Get(PortInfoRecord) with SM_Key 1 to the SA, where it is queried; the configuration of an OpenSM that "
    "runs here; what UFM gives its SM",
    why="With the right SM_Key the SA gives M_Keys and P_Key tables; OpenSM's and UFM's default is 1.",
    sources=("OSM", "UFMSM"),
    remedy=(
        "`ibkeys harden`, or only `ibkeys smkey-rotate --via opensm`: sm_key and sa_key become two different random "
        "numbers on all hosts."
    ),
    false_positives="OpenSM does not answer a wrong key: if SM_Key 0 is answered and 1 is not, the rule passes.",
    over_fabric=False,
)
def default_keys(data: AuditInput, verdict: RuleVerdict) -> RuleVerdict:
    """Fail an SM with the default SM_Key or SA_Key (SM002)."""
    for config in data.running_configs or ():
        defaults = ["sm_key"] if config.sm_key_default else []
        defaults += ["sa_key"] if config.sa_key_default else []
        evidence: Evidence = {"file": {"path": str(config.file.path), "defaults": defaults}}
        if defaults:
            text = f"{config.file.path}: {' and '.join(defaults)} at OpenSM's default, which everybody knows"
            verdict.fail(None, text, evidence, labels=(str(config.file.path),))
        else:
            verdict.passed += 1
    _judge_ufm(verdict)
    asked = data.snapshot.sa_probes.get(WITH_DEFAULT_KEY)
    if asked is None:
        return verdict if verdict.findings or verdict.passed else RuleVerdict.without(data, _NOT_ASKED, "--probe-sa")
    plain = data.snapshot.sa_probes.get(WITHOUT_KEY)
    unkeyed = plain.answer if plain is not None else None
    answers: Evidence = {"SA": {WITH_DEFAULT_KEY: asked.answer, WITHOUT_KEY: unkeyed}}
    if asked.answer == "answered":
        message = (
            f"the SA accepts SM_Key 1, the default: it gives M_Keys and tables to anyone who sends it ({asked.detail})"
        )
        verdict.fail(data.master, message, answers)
    elif asked.answer == "refused" or (asked.answer == "silent" and unkeyed == "answered"):
        verdict.passed += 1
    else:
        verdict.unknown(
            data.master,
            f"the SA gave no clear answer to a query with SM_Key 1: {asked.answer} ({asked.detail})",
            answers,
        )
    return verdict


def _judge_ufm(verdict: RuleVerdict) -> None:
    """Record whether UFM gives its SM default keys: fail, pass or unknown. Record nothing if UFM was not queried."""
    ufm = verdict.data.ufm
    if ufm is None:
        return
    states = {"sm_key": ufm.sm_key, "sa_key": ufm.sa_key}
    per_port = {None: "unknown", True: "yes", False: "no"}[ufm.m_key_per_port]
    evidence: Evidence = {"UFM": {"url": ufm.url, **states, "m_key": ufm.m_key, "m_key_per_port": per_port}}
    labels = (ufm.url,)
    defaults = [name for name, state in states.items() if state == "default"]
    unsure = [f"{name} is {state}" for name, state in states.items() if state in ("unset", "unknown")]
    if defaults:
        text = f"{ufm.url}: {' and '.join(defaults)} of UFM's SM at the default, which everybody knows"
        verdict.fail(None, text, evidence, labels=labels)
    elif unsure:
        verdict.unknown(None, f"{ufm.url}: of UFM's SM {', '.join(unsure)}", evidence, labels=labels)
    else:
        verdict.passed += 1


@rule(
    id="SM003",
    title="SA answers bulk queries of untrusted requesters",
    severity="medium",
    evidence="GetTable(NodeRecord) with SM_Key 0 to the SA, where it is queried",
    why="Every host can read the topology and the GUIDs of all others.",
    sources=("UFMSEC",),
    remedy="sa_enhanced_trust_model TRUE in NVIDIA's SM.",
    false_positives="Old tools that need it.",
    lower_in_cloud=True,
)
def bulk(data: AuditInput, verdict: RuleVerdict) -> RuleVerdict:
    """Fail an SA that answers bulk queries of untrusted requesters (SM003)."""
    return _stranger_gets(verdict, BULK, "the SA gives the list of all nodes to anyone, without an SM_Key")


@rule(
    id="SM004",
    title="SA accepts wildcard subscriptions of untrusted requesters",
    severity="high",
    evidence=(
        "Set(InformInfo) with SM_Key 0, TrapNumber 0xFFFF and Type security to the SA, where it is queried; ended at "
        "once"
    ),
    why=(
        "The notice of a wrong M_Key shows the key that was offered: often the right key of another port, or the next "
        "key of this one. OpenSM requires an SM_Key for traps 256 to 259 only if the subscription names them by number."
    ),
    sources=("OSM",),
    remedy=(
        "OpenSM has no option for it. If hosts are limited members of the default partition, they do not "
        "get notices about other hosts. A tool that sends a key only to ports that have it causes no such notice."
    ),
    false_positives="An SM that accepts the subscription and sends such a subscriber no security notice.",
)
def wildcard(data: AuditInput, verdict: RuleVerdict) -> RuleVerdict:
    """Fail an SA that accepts wildcard subscriptions of untrusted requesters (SM004)."""
    return _stranger_gets(
        verdict,
        WILDCARD,
        "the SA accepts a subscription to all traps from anyone, without an SM_Key: the subscriber gets the traps of "
        "refused keys, with the offered M_Keys in them",
    )


def _stranger_gets(verdict: RuleVerdict, question: str, what: str) -> RuleVerdict:
    """Record a failure with the message *what* if the SA answered the query *question* from a requester without an
    SM_Key.
    """
    data = verdict.data
    asked = data.snapshot.sa_probes.get(question)
    if asked is None:
        return RuleVerdict.without(data, _NOT_ASKED, "--probe-sa")
    evidence = {"SA": {question: asked.answer}}
    if asked.answer == "answered":
        verdict.fail(data.master, f"{what} ({asked.detail})", evidence)
    elif asked.answer == "refused":
        verdict.passed = 1
    else:
        verdict.unknown(data.master, f"the SA gave no clear answer: {asked.answer} ({asked.detail})", evidence)
    return verdict
