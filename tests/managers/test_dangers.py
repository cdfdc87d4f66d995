"""Each danger is seen where it is, and is not seen where it is not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from ibkeys.managers.dangers.catalogue import DANGERS, dangers_of
from ibkeys.managers.dangers.danger import FoundDanger
from ibkeys.managers.instance import read_instance
from ibkeys.managers.opensm.process import opensm_processes
from tests.managers.hosts import BOOTED, KEY, STARTED, MadeUpHost

OPTIONS = "/etc/opensm/opensm.conf"
POLICY = "/etc/opensm/partitions.conf"
CONF = "sa_key 0x77\nsm_key 0x78\n"
GOOD_POLICY = "Default=0x7fff : ALL=limited, SELF=full ;\n"


def good(
    *arguments: str, conf: str = CONF, conf_at: float = BOOTED, conf_mode: int = 0o600, umask: str = "0077"
) -> MadeUpHost:
    """A host as it should be; its keys still show in syslog and the journal, which OpenSM cannot be told to leave."""
    host = MadeUpHost()
    host.file(OPTIONS, conf, conf_mode, conf_at)
    host.file(POLICY, GOOD_POLICY)
    host.file("/var/log/opensm.log", "", 0o600)
    host.file("/var/cache/opensm/guid2mkey", "", 0o600)
    host.opensm(7, *arguments, umask=umask)
    return host


def of(host: MadeUpHost) -> list[FoundDanger]:
    [process] = opensm_processes(Path("/proc"), host=host)
    return list(dangers_of(read_instance(process, host)))


def changed(change: Callable[[MadeUpHost], None], host: MadeUpHost | None = None) -> MadeUpHost:
    host = host or good()
    change(host)
    return host


def swept(host: MadeUpHost, at: float) -> MadeUpHost:
    return changed(lambda host: host.file("/var/log/opensm-subnet.lst", changed=at), host)


CASES: list[tuple[MadeUpHost, str, str]] = [
    (changed(lambda host: host.entries.pop(POLICY) and None), "policy-missing", f"{POLICY} is not there"),
    (changed(lambda host: host.file(POLICY, "Default=0x7fff ALL\n")), "policy-faulty", f"{POLICY}:1:"),
    (good(conf="sm_key 5\n"), "sa-key-default", "sa_key is OpenSM's default 1"),
    (good(conf="sa_key 0\nsm_key 5\n"), "sa-key-zero", "sa_key is 0"),
    (good(conf="sa_key 5\n"), "sm-key-default", "sm_key is OpenSM's default 1"),
    (good(conf="sa_key 5\nsm_key 0\n"), "sm-key-zero", "sm_key is 0"),
    (good(conf_mode=0o644), "options-readable", f"others can read {OPTIONS} (mode 0644)"),
    (
        changed(lambda host: host.file("/var/cache/opensm/guid2mkey", "", 0o644)),
        "keys-readable",
        "others can read /var/cache/opensm/guid2mkey",
    ),
    (good(conf=f"{CONF}m_key {KEY}\n", umask="0022"), "keys-made-readable", "its umask is 0022"),
    (changed(lambda host: host.file(POLICY, GOOD_POLICY, 0o666)), "files-writable", f"replace {POLICY}"),
    (good("-k", KEY), "key-on-command-line", "--smkey"),
    (good("--cc_key=5"), "key-on-command-line", "--cc_key"),
    (good(), "keys-in-output", "it prints sm_key and sa_key in clear when it reads them: to syslog"),
    (good("-B"), "keys-in-output", "to its log /var/log/opensm.log, which others cannot read"),
    (changed(lambda host: host.file("/var/log/opensm.log", "", 0o644)), "log-readable", "/var/log/opensm.log"),
    (good("-q", "loopback"), "console-open", "TCP port 10000"),
    (good("-q", "socket"), "console-open", "open to the network on TCP port 10000, if"),
    (good(conf=f"{CONF}m_key {KEY}\nm_key_lookup FALSE\n"), "key-lookup-off", "m_key_lookup is FALSE"),
    (good(conf=f"{CONF}qos true\n"), "not-true", f"{OPTIONS}:3: qos has a word"),
    (good(conf=f"{CONF}lmc ten\n"), "no-number", f"{OPTIONS}:3: lmc has a value"),
    (good(conf=f"{CONF}lmc 9\n"), "replaced", f"{OPTIONS}:3: lmc has a value"),
    (good(conf=f"{CONF}lmx 9\n"), "unknown-option", f"{OPTIONS}:3: OpenSM 3.3 has no such option"),
    (good(conf=f"{CONF}lmc 1"), "no-newline", f"{OPTIONS}:3: the last line"),
    (good("-s", "0"), "sweep-interval-0", "sweep_interval is 0"),
    (swept(good(conf_at=STARTED + 20), STARTED + 10), "armed", f"{OPTIONS} was changed after"),
    (swept(good(conf_at=STARTED + 5), STARTED + 10), "changed", f"{OPTIONS} was changed since"),
    (good(conf=f"{CONF}lmc 1\nqos TRUE\n", conf_at=STARTED + 5), "needs-restart", "sets lmc"),
    (good("-F", "/etc/opensm/x.conf"), "options-not-read", "/etc/opensm/x.conf was not there when it started"),
    (good("--nothing"), "not-understood", "1 word that"),
]


@pytest.mark.parametrize(("host", "name", "words"), CASES, ids=[name for _, name, _ in CASES])
def test_each_danger_is_seen_where_it_is(host: MadeUpHost, name: str, words: str) -> None:
    found = {each.danger: each for each in of(host)}
    assert words in found[name].seen
    assert (found[name].pid, bool(found[name].means), bool(found[name].remedy)) == (7, True, True)
    assert KEY[2:] not in repr(found)


def test_a_faulty_policy_that_waits_is_not_advised_to_be_read() -> None:
    """Neither for an edit of the options beside it: one heavy sweep reads both."""
    host = swept(good(conf_at=STARTED + 20), STARTED + 10)
    host.file(POLICY, "Default=0x7fff ALL\n", changed=STARTED + 20)
    found = {each.danger: each for each in of(host)}
    assert "armed" not in found
    assert not any("SIGHUP" in each.remedy for each in found.values())
    assert "FULL MEMBER OF THE DEFAULT PARTITION" in found["policy-faulty"].seen


def test_every_row_has_a_case() -> None:
    assert {row.name for row in DANGERS} == {name for _, name, _ in CASES}


def test_a_host_as_it_should_be_shows_only_what_opensm_cannot_be_told_to_leave() -> None:
    assert [each.danger for each in of(good())] == ["keys-in-output"]


def test_what_is_not_known_is_no_danger() -> None:
    host = MadeUpHost()
    host.file(OPTIONS, refused=True)
    host.opensm(7, is_ours=False)
    assert of(host) == []
