"""A subnet with an OpenSM and two administrators with two stores: what they type, and what else happens there."""

from __future__ import annotations

import os
import re
import shutil
import time
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from ibkeys.mad.const import CapabilityMask
from ibkeys.store.journal import Journal
from ibkeys.store.keystore.keystore import KeyStore
from ibkeys.store.keystore.sm_keys import SmKeys
from tests.integration.crashes import start_to_a_point
from tests.integration.hosted import plan_for
from tests.integration.ibsim import RUN_TIMEOUT
from tests.integration.keyed_opensm import CONF, KeyedOpensm, stored_keys
from tests.integration.keyed_standbys import KeyedSite
from tests.integration.matrix_kinds import APPLY, BETWEEN, KINDS, OF_MANAGERS, THEIRS
from tests.integration.opensms import NodesOpensm
from tests.integration.strangers import NODES
from tests.integration.tenants import BY_GUID, BY_GUID_GREEN, GREEN, TENANTS

TAKE_OVER: Final = ("--override", "stale-lock")
NOTHING: Final = "nothing to change"
FINDINGS, USAGE, INCOMPLETE, REFUSED = 1, 2, 3, 4
AWAY: Final = "0x0002c903000a1050"
MOVED: Final = {
    "0x0002c903000a1030[1]": "0x0002c90200401040[3]",
    "0x0002c903000a1060[1]": "0x0002c90200401000[3]",
}
"""Two hosts, and the switch ports to which their cables go then."""
PUBLIC: Final = (1, 0x5E11A7C0FFEE)
"""OpenSM's default of sm_key and sa_key, and the sa_key that the options file has at first."""
HAND: Final = "Hand=0x70 : 0x2c903000a1061=full ;\n"
"""A partition that somebody writes by hand."""
FAULTY: Final = "Gr een=zz : foo=full ;\n"
"""A line for which OpenSM would refuse the whole policy, and open the fabric."""
LINES: Final = ("m_key", "m_key_protection_level", "m_key_lease_period", "sm_key", "sa_key", "part_enforce")
POLLS: Final = "sminfo_polling_timeout 500\npolling_retry_number 2\n"
"""Options of an OpenSM that notices soon that the master has gone."""
OTHER: Final = "node05 mlx4_0"
"""Where another SM sits."""
Facts = dict[tuple[object, ...], object]


class MatrixSite:
    """The subnet, its files, and who works on it."""

    def __init__(self, opensm: KeyedOpensm, preloaded: str, name: str) -> None:
        self.opensm, self.served, self.preloaded = opensm, opensm.served, preloaded
        self.kind_name, self.moment, self.since, self.way = name.split("/")
        self.kind = KINDS[self.kind_name]
        self.anna, self.bert = (self.served.folder / each for each in ("anna", "bert"))
        self.history: list[str] = []
        self.by_hand: set[int] = set()
        self.lost_stores: list[Path] = []
        self.is_away = False
        self.stack = ExitStack()
        self.other: NodesOpensm | None = None
        self.user = KeyedSite(self.served, ExitStack(), [], user=self.start_again)
        self.since_line = 0
        """Of the first OpenSM's log, when another took over."""
        self.former_options = self.former_policy = self.others_policy = ""
        self.tenants, self.green = (BY_GUID, BY_GUID_GREEN) if self.since in OF_MANAGERS else (TENANTS, GREEN)

    # --- what there is ----------------------------------------------------------------------------------------------

    def facts(self) -> Facts:
        """Return all that an operation may change: by what it is of, with its value."""
        facts: Facts = {}
        for port in self.opensm.end_ports():
            facts["key", port.guid] = (port.m_key, port.protect_bits, port.lease_period)
        if self.kind.conf != CONF:
            for key, (_, bits) in self.served.wire().items():
                facts["enforced", *key] = bits
        if self.kind.is_of_policy:
            for key, (table, _) in self.served.wire().items():
                facts["table", *key] = tuple(sorted(table.values()))
            facts["policy",] = self.opensm.running.policy.read_bytes()
        if self.other is not None:
            facts["policy of the other",] = self.other.policy.read_bytes()
            for name, values in _lines(self.other.conf).items():
                facts["conf of the other", name] = values
        for name, values in _lines(self.opensm.conf).items():
            facts["conf", name] = values
        return facts

    def in_confs(self, name: str) -> set[int]:
        """Return the values of the options *name* in the options files that OpenSMs read."""
        confs = [self.opensm.conf, *([self.other.conf] if self.other is not None else [])]
        return {int(value, 0) for conf in confs for value in _lines(conf)[name]}

    def assert_no_key_is_lost(self) -> None:
        """Every M_Key of a port or of the options file is in a key store."""
        folders = [each for each in (self.anna, self.bert) if (each / "keys.db").exists()]
        stored = set[int]().union({0}, self.by_hand, *(stored_keys(each) for each in [*folders, *self.lost_stores]))
        assert self.in_confs("m_key") | {port.m_key for port in self.opensm.end_ports()} <= stored, self.told()
        known = set[int]().union(self.by_hand, PUBLIC, *(_sm_keys(each) for each in [*folders, *self.lost_stores]))
        assert self.in_confs("sm_key") | self.in_confs("sa_key") <= known, self.told()

    def assert_nothing_is_open(self, is_new_run_made: bool = True) -> None:
        if self.since == "key store lost" and not is_new_run_made:
            return  # a run whose keys are gone ends with the next one
        with Journal(self.anna / "journal.db", create=False) as journal:
            unfinished = [each for each in journal.list_operations() if each.is_unfinished]
        assert not unfinished, f"open: {unfinished}\n{self.told()}"

    def told(self) -> str:
        return "\n".join(self.history)

    # --- commands ---------------------------------------------------------------------------------------------------

    def type(self, stores: Path, *words: str, mode: str = "off", point: int | str = 0) -> tuple[int, str]:
        """Run a command; no key may be lost by it, and "nothing to change" is true."""
        before = self.facts()
        process = start_to_a_point(self.served, self.preloaded, stores, words, mode, point)
        code, text = self.user.follow(process)
        self.history.append(f"{stores.name}: {' '.join(words)} -> {code} {text[-1500:]}")
        if NOTHING in text:
            assert self.facts() == before, f"{NOTHING!r} was said\n{self.told()}"
        self.assert_no_key_is_lost()
        return code, text

    def start_again(self, guid: int, command: str) -> None:
        """Start an OpenSM by the command that ibkeys says is to be typed."""
        known = self.other if guid == NODES[OTHER] else self.opensm.running
        node = next(node for node, each in NODES.items() if each == guid)
        process, log = self.user.shell(command, node)
        self.history.append(f"started {command}")
        if known is not None:
            known.process.wait(RUN_TIMEOUT)
            known.log.close()
            known.process, known.log, self.since_line = process, log, 0

    def yes(self, stores: Path, *words: str) -> tuple[int, str]:
        """Run a command that says yes and explains."""
        if words[:2] == ("keystore", "import"):
            return self.import_keys(stores)
        if words[0] == "policy-check":
            self.mend_policy()
            os.utime(self.opensm.running.policy)
            self.opensm.running.sweep()  # as it advises: it is right, so OpenSM reads it
            return 0, ""
        if words[0] == "plan":
            self.mend_policy()
            live = (self.other or self.opensm.running).policy.read_text()
            plan_for(self.served, live if "Green" in live else live.replace("Red=0x10", "Green=0x11"))
            code, text = self.yes(stores, *APPLY)
            if self.other is not None and "refused by interlock standby-differs" in text:
                return self.yes(stores, *APPLY, "--override", "standby-differs")  # the plan has what is the master's
            if "refused by interlock drift" in text and "`apply` with --rewrite makes" in text:
                return self.yes(stores, *APPLY, "--rewrite")
            return code, text
        code, text = self.type(stores, *words, *(() if "--yes" in words else ("--yes",)), "-v")
        if "interlock stale-lock" in text and self.since == "journal lost" and TAKE_OVER[1] not in words:
            return self.yes(stores, *words, *TAKE_OVER)  # what identifies its own lock is lost too
        if code == INCOMPLETE and self.is_away:
            self.be_away(False)
            return self.yes(stores, *words)
        if words[0] == "harden" and code in (FINDINGS, INCOMPLETE) and "--dry-run" not in words:
            if "ibkeys: error:" not in text:
                return 0, text  # done; what is left is not in its power
            if code == INCOMPLETE and "ibkeys keystore import" in text:
                self.import_keys(stores)
                return self.type(stores, *words, "--yes", "-v")
        return code, text

    def mend_policy(self) -> None:
        """Take the line away that policy-check names, if it names one."""
        policy = self.opensm.running.policy
        if self.is_faulty():
            code, text = self.type(self.anna, "policy-check", str(policy))
            number = policy.read_text().count("\n")
            assert (code, f"{policy}:{number}:" in text) == (FINDINGS, True), self.told()
            policy.write_text(policy.read_text().replace(FAULTY, ""))

    def is_faulty(self) -> bool:
        return FAULTY in self.opensm.running.policy.read_text()

    def must(self, stores: Path, *words: str) -> None:
        code, _ = self.yes(stores, *words)
        assert code == 0, self.told()

    def import_keys(self, stores: Path) -> tuple[int, str]:
        """Import what the OpenSMs keep of M_Keys, as it is advised."""
        command = ("keystore", "import")
        result = self.type(stores, *command, str(self.served.folder), "--opensm-conf", str(self.opensm.conf))
        if self.other is not None:
            return self.type(stores, *command, str(self.other.cache), "--opensm-conf", str(self.other.conf))
        return result

    # --- what happens since -----------------------------------------------------------------------------------------

    def be_away(self, on: bool) -> None:
        if on != self.is_away:
            self.served.steer(f"silent {AWAY} {'on' if on else 'off'}")
            self.is_away = on
            if not on:
                self.opensm.running.sweep()  # before that nothing says who is there

    def move(self) -> None:
        """Two hosts change their places at the switches, and OpenSM finds them there."""
        for host in MOVED:
            self.served.steer(f"link {host} down")
        for host, switch_port in MOVED.items():
            self.served.steer(f"link {host} {switch_port}")
        self.opensm.running.sweep()

    def another_works(self, *words: str) -> None:
        """Bert, who has imported OpenSM's keys, does something; he is refused while a file is unread."""
        plan = self.served.folder / "plan.json"
        annas = plan.read_bytes() if plan.exists() else b""
        if not self.kind.is_of_policy:
            self.import_keys(self.bert)
        else:
            plan_for(self.served, self.opensm.running.policy.read_text() + HAND)
        before = self.facts()
        code, text = self.yes(self.bert, *words)
        if code == 0 and self.facts() == before and not self.kind.is_of_policy:
            return  # all is as he wants it: he takes no lock, and changes nothing
        assert code == REFUSED, self.told()
        assert "refused by interlock stale-lock" in text, self.told()
        command, since = re.findall(r"by `([^`]+)` since (\S+ \S+) UTC, process \d+, was cut off", text)[0]
        named = self.kind.words[0]
        if self.kind_name == "harden":  # by the step that it is in
            named = "mkey-deploy" if self.moment == BETWEEN else "smkey-rotate"
        assert (command, self.facts()) == (named, before), self.told()
        assert since <= f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S}"
        code, _ = self.yes(self.bert, *words, *TAKE_OVER)
        assert code == 0 or (code == REFUSED and self.facts() == before), self.told()
        if self.kind.is_of_policy:
            plan.write_bytes(annas)

    def edit(self, is_read: bool) -> None:
        """Somebody edits the file that the operation changes."""
        self.by_hand.add(THEIRS)
        if self.kind.is_of_policy:
            self.edit_policy()
        else:
            text = self.opensm.conf.read_text()
            for line in self.kind.by_hand:
                text = re.sub(rf"^{line.split()[0]} .*\n", "", text, flags=re.MULTILINE) + f"{line}\n"
            self.opensm.conf.write_text(text)
        if is_read:
            os.utime(self.opensm.running.policy)
            self.opensm.running.sweep()

    def edit_policy(self, more: str = HAND) -> None:
        """Somebody edits the policy, after OpenSM's last sweep."""
        policy = self.opensm.running.policy
        policy.write_text(policy.read_text() + more)
        os.utime(policy, (time.time() + 60,) * 2)

    def restart(self) -> None:
        self.opensm.running.kill()
        self.opensm.running.start()

    def see_another(self) -> None:
        """Another SM stands by, is seen, and is stopped."""
        with ExitStack() as stack:
            standby = self.manager_there(0, self.tenants, stack)
            standby.log.wait("ENTERING SM STANDBY STATE")
            code, text = self.type(self.anna, "sm-show")
            assert (code, f"{NODES[OTHER]:#018x}" in text) == (0, True), self.told()
        shutil.rmtree(standby.cache)
        [port] = [each for each in self.opensm.end_ports() if each.guid == NODES[OTHER]]
        deadline = time.monotonic() + RUN_TIMEOUT
        while port.capability_mask & CapabilityMask.IS_SM:
            assert time.monotonic() < deadline, self.served.steer("clients")

    def manager_there(self, priority: int, policy: str, stack: ExitStack) -> NodesOpensm:
        """Start an OpenSM of another port, with the first one's former options and its key files."""
        options = f"sweep_interval 3\n{self.former_options}"
        keys = self.opensm.running.folder
        return NodesOpensm(self.served, OTHER, priority, stack, policy, NODES[OTHER], options, keys)

    def be_managed_by_another(self, *, is_first_gone: bool) -> None:
        """An SM of another port takes over, with the files that the first had before the operation, or a policy of its
        own if the first is still there."""
        first = self.opensm.running
        if is_first_gone:
            first.kill()
        self.stack.callback(self.let_first_be_master)
        policy = self.former_policy + ("" if is_first_gone or not self.kind.is_of_policy else HAND)
        self.others_policy = policy
        self.other = self.manager_there(15, policy, self.stack)
        self.stack.callback(setattr, self, "other", None)
        self.other.log.wait("SUBNET UP", self.other.place("ENTERING SM MASTER STATE"))
        self.since_line = len(first.log.lines)

    def let_first_be_master(self) -> None:
        """Wait until the first SM has taken over from the other, which is gone, or start it if it is gone too."""
        first = self.opensm.running
        if first.process.poll() is not None:
            self.served.wait_until_no_sm()
            first.start()
        else:
            first.log.wait("SUBNET UP", first.log.place("ENTERING SM MASTER STATE", self.since_line))

    def lose(self, name: str) -> None:
        lost = self.served.folder / "lost"
        lost.mkdir()
        if (self.anna / name).exists():
            (self.anna / name).rename(lost / name)
        if (lost / "keys.db").exists():
            self.lost_stores.append(lost)


def _lines(conf: Path) -> dict[str, tuple[str, ...]]:
    """Return the values of LINES in an options file."""
    text = conf.read_text()
    return {name: tuple(re.findall(rf"^{name} (\S+)$", text, re.MULTILINE)) for name in LINES}


def _sm_keys(folder: Path) -> set[int]:
    """Return every sm_key and sa_key of the key store in *folder*."""
    with KeyStore(folder / "keys.db") as store:
        return {row.sm_key.reveal() for row in SmKeys(store).rows()}
