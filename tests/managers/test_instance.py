"""Files and options of a running OpenSM, read off made-up hosts."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

from ibkeys.keys.mkey import MKey
from ibkeys.managers.instance import NO_ENTRY, HostEntry, Instance, read_instance
from ibkeys.managers.opensm.effective_options import EffectiveOption
from ibkeys.managers.opensm.process import opensm_processes
from tests.managers.hosts import KEY, STARTED, MadeUpHost

CONF = "/etc/opensm/opensm.conf"
POLICY = "/etc/opensm/partitions.conf"


def host_with(*arguments: str, conf: str | None = "", changed: float = STARTED - 10, **process: Any) -> MadeUpHost:
    host = MadeUpHost()
    host.folder("/etc/opensm")
    if conf is not None:
        host.file(CONF, conf, 0o600, changed)
    host.opensm(7, *arguments, **process)
    return host


def seen(host: MadeUpHost, named: HostEntry = NO_ENTRY) -> Instance:
    [process] = opensm_processes(Path("/proc"), host=host)
    return read_instance(process, host, named)


def setting(host: MadeUpHost, name: str) -> EffectiveOption:
    return seen(host).options.setting(name)


def path_of(instance: Instance, role: Any) -> tuple[str, str, bool]:
    file = instance.files[role]
    return str(file.path), file.source, file.is_certain


# --- which files ------------------------------------------------------------------------------------------------------


def test_defaults_where_nothing_names_a_file() -> None:
    instance = seen(host_with())
    assert path_of(instance, "options") == (CONF, "default", True)
    assert path_of(instance, "policy") == (POLICY, "default", True)
    assert path_of(instance, "log") == ("/var/log/opensm.log", "default", True)
    assert path_of(instance, "dumps") == ("/var/log", "default", True)
    assert path_of(instance, "cache") == ("/var/cache/opensm", "default", True)


def test_the_command_line_wins_over_the_file_and_the_file_over_the_environment() -> None:
    conf = "partition_config_file /file.conf\nlog_file /file.log\ndump_files_dir /dumps\n"
    host = host_with("-P", "/cli.conf", conf=conf, environment={"OSM_TMP_DIR": "/tmp/e", "OSM_CACHE_DIR": "/cache"})
    instance = seen(host)
    assert path_of(instance, "policy") == ("/cli.conf", "command line", True)
    assert path_of(instance, "log") == ("/file.log", "options file", True)
    assert path_of(instance, "dumps") == ("/dumps", "options file", True)
    assert path_of(instance, "cache") == ("/cache", "environment", True)
    assert path_of(seen(host_with(environment={"OSM_TMP_DIR": "/tmp/e"})), "dumps") == ("/tmp/e", "environment", True)


def test_relative_names_count_from_its_working_directory() -> None:
    host = host_with("-F", "osm.conf", "-Pparts/p.conf", cwd="/srv/sm", conf=None)
    host.file("/srv/sm/osm.conf", "log_file ../log\n", changed=STARTED - 5)
    instance = seen(host)
    assert path_of(instance, "options") == ("/srv/sm/osm.conf", "command line", True)
    assert path_of(instance, "policy") == ("/srv/sm/parts/p.conf", "command line", True)
    assert path_of(instance, "log") == ("/srv/log", "options file", True)


def test_what_may_not_be_read_is_not_known_and_says_so() -> None:
    instance = seen(host_with("-P", "p.conf", is_ours=False))
    for role in ("policy", "dumps", "output", "cache", "keys"):
        file = instance.files[role]
        assert (file.path, file.is_certain, "run as root" in file.problem) == (None, False, True), role
    assert len(list(instance.unknowns())) == 6
    assert list(seen(host_with("-f", "stdout")).unknowns()) == []


def test_an_options_file_that_may_not_be_read_leaves_every_option_open() -> None:
    host = host_with(conf=None)
    host.file(CONF, refused=True)
    instance = seen(host)
    assert "run as root" in instance.files["options"].problem
    assert instance.options.setting("sa_key") == EffectiveOption("sa_key", None, "not known", False)
    assert instance.files["policy"].path is None


def test_two_default_files_of_two_distributions_are_not_chosen_between() -> None:
    host = host_with()
    host.file("/etc/rdma/opensm.conf")
    assert seen(host).files["options"].path is None
    host = host_with(conf=None)
    host.file("/etc/rdma/opensm.conf", changed=STARTED - 5)
    host.file("/etc/rdma/partitions.conf")
    assert path_of(seen(host), "options") == ("/etc/rdma/opensm.conf", "default", False)
    assert "was built: name it" in seen(host).files["options"].doubt
    assert path_of(seen(host), "policy") == ("/etc/rdma/partitions.conf", "default", False)


def test_files_that_the_user_names_are_taken() -> None:
    host = host_with()
    host.file("/x/o.conf", "sm_priority 4\n", changed=STARTED - 5)
    instance = seen(host, HostEntry(options=Path("/x/o.conf"), policy=Path("/x/p.conf")))
    assert path_of(instance, "options") == ("/x/o.conf", "sm.toml", True)
    assert path_of(instance, "policy") == ("/x/p.conf", "sm.toml", True)
    assert instance.options.setting("sm_priority").value == 4


def test_a_log_to_standard_output_is_no_file() -> None:
    assert seen(host_with("-f", "stdout")).files["log"].problem == "goes to stdout"
    for name in ("socket:[123]", "/dev/null", "/dev/pts/0"):
        assert seen(host_with(output=name)).files["output"].problem == f"goes to {name}"


def test_a_file_in_shared_memory_is_no_device() -> None:
    """Else its log is not closed to others when it is to hold keys, and its output counts as syslog only."""
    host = host_with("-f", "/dev/shm/sm/log", output="/dev/shm/sm/out")
    for name in ("log", "out"):
        host.file(f"/dev/shm/sm/{name}", "")
    instance = seen(host)
    for role, name in (("log", "log"), ("output", "out")):
        file = instance.files[role]  # type: ignore[index]
        assert (str(file.path), file.problem, file.is_there) == (f"/dev/shm/sm/{name}", "", True)


# --- which options ----------------------------------------------------------------------------------------------------


def test_each_option_says_where_it_comes_from() -> None:
    host = host_with("-s", "20", conf="sweep_interval 30\nsm_priority 5\n")
    assert setting(host, "sweep_interval") == EffectiveOption("sweep_interval", 20, "command line", True)
    assert setting(host, "sm_priority") == EffectiveOption("sm_priority", 5, "options file", True)
    assert setting(host, "lmc") == EffectiveOption("lmc", 0, "default", True)


@pytest.mark.parametrize(
    ("name", "certain"),
    [("sweep_interval", False), ("sm_priority", False), ("lmc", False), ("qos", True), ("partition_config_file", True)],
)
def test_a_file_that_changed_leaves_only_the_command_line_certain(name: str, certain: bool) -> None:
    """And not even that where the file has a line for an option that a heavy sweep takes over."""
    conf = "sweep_interval 30\nsm_priority 5\npartition_config_file /x\n"
    host = host_with("-s", "20", "-Q", "-P/p", conf=conf, changed=STARTED + 10)
    assert setting(host, name).is_certain is certain


def test_keys_are_shown_as_states() -> None:
    host = host_with("-k", KEY, conf=f"m_key {KEY}\nsa_key 0\ncc_key {KEY}\n")
    instance = seen(host)
    shown = {each.name: each.shown for each in instance.options.shown()}
    assert {name: shown[name] for name in ("m_key", "sm_key", "sa_key", "cc_key")} == {
        "m_key": "set",
        "sm_key": "set",
        "sa_key": "zero",
        "cc_key": "set",
    }
    assert setting(host_with(), "sm_key").shown == "default"
    assert instance.options.setting("m_key").value == MKey(int(KEY, 16))
    assert KEY[2:] not in repr(instance)
    assert str(int(KEY, 16)) not in repr(instance)


# --- what was read ----------------------------------------------------------------------------------------------------


def test_an_options_file_that_was_not_there_at_the_start() -> None:
    file = seen(host_with("-F", "/etc/opensm/mine.conf", conf=None)).files["options"]
    assert (file.is_there, file.reading) == (False, "absent-since-start")
    host = host_with("-F", "/etc/opensm/mine.conf", conf=None)
    host.folder("/etc/opensm", changed=STARTED + 5)
    assert seen(host).files["options"].reading == "absent"


def test_a_policy_is_armed_until_a_heavy_sweep_has_ended() -> None:
    host = host_with()
    host.file(POLICY, "Default=0x7fff : ALL=full ;\n", changed=STARTED + 20)
    assert seen(host).files["policy"].reading == "changed"
    host.file("/var/log/opensm-subnet.lst", changed=STARTED + 10)
    assert seen(host).files["policy"].reading == "not-read"
    host.file("/var/log/opensm-subnet.lst", changed=STARTED + 30)
    assert seen(host).files["policy"].reading == "may-have-been-read"
    host.file("/var/log/opensm-subnet.lst", changed=STARTED - 30)  # of the process before
    assert seen(host).files["policy"].reading == "changed"


def test_the_policy_is_read_and_its_bytes_are_marked() -> None:
    host = host_with()
    text = "Default=0x7fff : ALL=limited, SELF=full ;\n"
    host.file(POLICY, text)
    instance = seen(host)
    assert instance.policy is not None
    assert instance.policy.accepted
    assert instance.files["policy"].digest == hashlib.sha256(text.encode()).hexdigest()


@pytest.mark.parametrize("name", ["/dev/stdin", "/dev/fd/40", "/proc/self/fd/3", "//dev/../dev/fd/4", "/proc/7/fd/3"])
def test_a_descriptor_of_that_process_is_not_read_as_one_of_ours(name: str) -> None:
    host = host_with("-P", name, "-F", name, conf=None)
    for each in (name, "/dev/fd/4"):
        host.file(each, "Default=0x7fff : ALL=full ;\n")
    instance = seen(host)
    for role in ("options", "policy"):
        assert instance.files[role].problem == "cannot be read: it is a descriptor of that process"  # type: ignore[index]
    assert (instance.policy, instance.options_file) == (None, None)
    assert seen(host_with("-f", "/dev/stdout")).files["log"].problem == "goes to /dev/stdout"
    assert seen(host_with("-f", "/dev/null")).files["log"].problem == "goes to /dev/null"


# --- whose files they are ---------------------------------------------------------------------------------------------

INSIDE = Path("/proc/7") / "root"
"""The root directory of process 7, as its host shows it."""


def test_another_mount_namespace_is_not_the_host_though_its_root_is_the_same_inode() -> None:
    host = host_with("-P", "/p.conf", mounts="mnt:[2]")
    assert seen(host).files["policy"].place == INSIDE / "p.conf"
    assert seen(host).process.cache == INSIDE / "var/cache/opensm"
    host = host_with("-P", "/p.conf")
    assert (str(seen(host).files["policy"].place), seen(host).files["policy"].doubt) == ("/p.conf", "")


@pytest.mark.parametrize(
    ("cwd", "place"), [("/jail/srv", INSIDE / "srv/p.conf"), ("/jail", INSIDE / "p.conf"), ("/srv", None)]
)
def test_behind_chroot_a_relative_name_counts_inside_of_it(cwd: str, place: Path | None) -> None:
    """/proc shows that working directory as the host names it. One outside of the new root is not guessed at."""
    host = host_with("-P", "p.conf", cwd=cwd)
    host.folder("/jail")
    host.links[str(INSIDE)] = "/jail"
    assert seen(host).files["policy"].place == place


@pytest.mark.parametrize("hidden", [str(INSIDE), "/proc/7/ns/mnt", "/proc/self/ns/mnt"])
def test_where_its_root_cannot_be_told_its_files_are_taken_for_those_of_the_host_and_that_is_said(hidden: str) -> None:
    host = host_with("-P", "/p.conf")
    host.file("/p.conf", "Default=0x7fff : ALL=full ;\n")
    del host.links[hidden]
    file = seen(host).files["policy"]
    assert (str(file.place), file.is_certain, file.doubt) == (
        "/p.conf",
        False,
        "assumed to be the host's own; run as root to be certain",
    )


@pytest.mark.parametrize(
    ("program", "known"),
    [("/usr/sbin/opensm", True), ("/usr/sbin/opensm (deleted)", True), ("/usr/bin/python3", False), (None, False)],
)
def test_what_is_only_called_opensm_is_named(program: str | None, known: bool) -> None:
    words = list(seen(host_with("-f", "stdout", program=program)).unknowns())
    assert words == ([] if known else ["its program could not be examined: only its name is opensm"])


# --- nothing secret is shown -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "word",
    [
        f"-m_key={KEY}",
        f"-sm_key={KEY}",
        f"-sa_key={KEY}",
        f"-sa_key={int(KEY, 16)}",
        f"-m_key={KEY[2:]}",
        f"-Pkey: {KEY}",
    ],
)
def test_a_key_in_a_mistyped_option_is_not_shown(word: str) -> None:
    instance = seen(host_with(word))
    shown = [*map(str, instance.process.command.given), *(str(each.shown) for each in instance.options.shown())]
    assert any("(a key, not shown)" in each for each in shown)
    for text in (*shown, repr(instance)):
        assert KEY[2:] not in text
        assert str(int(KEY, 16)) not in text


def test_what_a_plugin_is_told_is_not_shown() -> None:
    assert setting(host_with(conf="event_plugin_options --pw secret\n"), "event_plugin_options").shown == "set"
    assert setting(host_with(), "event_plugin_options").shown is None


def test_the_problems_of_a_policy_that_a_process_of_another_user_names_show_none_of_its_text() -> None:
    host = host_with("-P", "/etc/hashes")
    host.folder("/proc/7")
    host.entries["/proc/7"].uid = 1000
    host.folder("/dev/infiniband")
    host.file("/dev/infiniband/umad0", "")
    host.entries["/dev/infiniband/umad0"].uid = 1000  # else it is not taken for an OpenSM
    host.file("/etc/hashes", "root:$6$salt$hash:19000:0:99999:7:::\n")
    policy = seen(host).policy
    assert policy is not None
    assert not policy.accepted
    shown = [each.located("x") for each in (*policy.errors, *policy.warnings)]
    assert all("$6$" not in each and "root" not in each and "hash" not in each for each in shown), shown
    assert min(policy.errors).line == 1
    named = seen(host, HostEntry(policy=Path("/etc/hashes"))).policy
    assert named is not None
    assert [each.message for each in named.errors] != [each.message for each in policy.errors]
    host.entries["/proc/7"].uid = 0
    to_root = seen(host).policy
    assert to_root is not None
    assert [each.message for each in to_root.errors] == [each.message for each in named.errors]
