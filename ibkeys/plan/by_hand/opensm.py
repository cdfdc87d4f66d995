"""Writing the script for a person who replaces OpenSM's policy on its host, with the steps of `apply --via opensm`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ibkeys.errors import UsageError
from ibkeys.partitions.model import Policy
from ibkeys.partitions.reader import parse_policy
from ibkeys.plan.by_hand.script import refuse_cycles, script_lines
from ibkeys.plan.digest import plan_digest
from ibkeys.plan.model import PartitionPlan, SmOptions
from ibkeys.plan.sm_policies import policies_between

_END: Final = "END-OF-POLICY"


def opensm_script(plan: PartitionPlan, present: Policy | None, sm_port_guid: int | None, gaps: bool) -> Iterator[str]:
    """Return the lines of the script for *plan*, which has the tables of all ports (``--full``).

    *present*: a copy of the policy that OpenSM uses now, None if there is no copy. *sm_port_guid*: the port GUID of the
    subnet manager, None if not known. *gaps*: allow that pairs temporarily lose connectivity. Raises UsageError if
    *sm_port_guid* is None, if intermediate policies are needed but *present* is None, or if a pair would be cut without
    *gaps*; FileFormatError if the plan has no text of its policy; and the errors of `policies_between`.
    """
    if sm_port_guid is None:
        raise UsageError("the subnet manager's port is not known: `ibkeys plan --script opensm --sm-guid GUID`")
    new = parse_policy(plan.policy.require_text(), plan.policy.file)
    options = plan.sm_options or SmOptions.of(plan.options)
    policies = policies_between(present, new, plan.tables, sm_port_guid, options, plan_digest(plan), gaps=gaps)
    refuse_cycles(policies.cycles, gaps)
    if len(policies.texts) > 1 and present is None:
        raise UsageError(
            f"{len(policies.texts) - 1} intermediate policies are needed, and they keep the groups of "
            "OpenSM's present policy: give a copy of that policy with `ibkeys plan --script opensm --present FILE`"
        )
    titles = [*(["an intermediate policy"] * (len(policies.texts) - 1)), "the policy of the plan"]
    stages = list(zip(titles, (tuple(_put(text)) for text in policies.texts), policies.states, strict=True))
    return script_lines(plan, stages, _HEAD, _BACK)


_HEAD: Final = (
    "# On the host of the master OpenSM, as root. POLICY: the file that it really reads (its option -P, or",
    "# partition_config_file in its options file, else /etc/opensm/partitions.conf); give every standby the same file.",
    ': "${POLICY:=/etc/opensm/partitions.conf}" "${OPENSM:=$(pidof opensm)}"',
    'cp -p "$POLICY" "$POLICY.before"',
)
_BACK: Final = (
    "# in one step, which may briefly disconnect or connect pairs; `ibkeys plan` from the former policy makes "
    "better steps:",
    '#   cp -p "$POLICY.before" "$POLICY.ibkeys" && mv "$POLICY.ibkeys" "$POLICY" && kill -HUP "$OPENSM"',
)


def _put(text: bytes) -> Iterator[str]:
    """Yield the shell lines that replace the policy file atomically, with the mode and owner of the present file, and
    signal OpenSM.
    """
    lines = text.decode("utf-8", "surrogateescape").split("\n")
    end = _END
    while end in lines:
        end += "-"
    yield f'cp -p "$POLICY" "$POLICY.ibkeys" && cat > "$POLICY.ibkeys" << \'{end}\''
    yield from lines[:-1] if lines and not lines[-1] else lines
    yield end
    yield 'sync "$POLICY.ibkeys" && mv "$POLICY.ibkeys" "$POLICY" && kill -HUP "$OPENSM"'
