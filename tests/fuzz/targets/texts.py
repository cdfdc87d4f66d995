"""Files that a person or another program wrote, and that are read whole: lists, keys, settings, plans, fabrics."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import date
from pathlib import Path

from ibkeys import secret_files
from ibkeys.audit.files import read_guids, read_registry, read_tenants
from ibkeys.audit.waivers import read_waivers
from ibkeys.classkeys.key_files import CLASS_KEY_FILES, read_class_key_files
from ibkeys.cli.config import read_config
from ibkeys.cli.secrets import read_m_keys, read_token
from ibkeys.errors import IbkeysError
from ibkeys.managers.opensm.process import read_given_config
from ibkeys.managers.settings import read_settings
from ibkeys.plan.document import dumps
from ibkeys.plan.document_reader import loads, read_plan
from ibkeys.sim.steering.commands import execute
from ibkeys.sim.steering.script import Script
from ibkeys.sim.subnet import Subnet
from ibkeys.store.opensm import KEY_FILES, read_key_files, write_key_files
from ibkeys.topology.names.node_names import read_node_name_map
from tests.corpus import DATA
from tests.fabricsim import subnet
from tests.fuzz.judge import check_words
from tests.fuzz.target import Target, folder, written

_SMALL: tuple[tuple[Callable[[Path], object], tuple[bytes, ...]], ...] = (
    (read_registry, (b"0x8010 tenant-a # comment\n0x0021 -\n\n",)),
    (
        read_tenants,
        (
            b'{"partitions": [{"partition_key": "0x10", "tenant_id": "a", "name": null}, {"partition_key": 33}]}',
            b"0x0010 a\n32784 b\n",
        ),
    ),
    (read_guids, (b"0x0002c903000a1020 node02\n0002:c903:004e:22a1\n# none\n",)),
    (read_node_name_map, (b'0x0002c903000a1020 "node 02"\n# comment\n0x2 "x"\n',)),
    (read_config, (b"CA=mlx5_0\nPort=1\ntimeout=100\nMLX_EPI=1\nm_key=0x1122\n# x\nsa_key=0x1\n",)),
    (
        read_given_config,
        (b"m_key 0x1122\nsm_key 0x2\nguid 0x1\nsubnet_prefix 0xfe80000000000000\nm_key_lease_period 60\n",),
    ),
    (
        read_settings,
        (b'ssh_config = "/x"\n[here]\nunit = "a"\npolicy = "/p.conf"\n[[host]]\nname = "sm2"\nsudo = true\n',),
    ),
    (
        lambda path: read_waivers(path, date(2026, 11, 23)),
        (
            b'[[waiver]]\nrule = ["PK001"]\nports = ["node01*"]\nreason = "x"\nexpires = 2027-01-31\n',
            b'[[waiver]]\nrule = "PK014"\npairs = [["a", "b"]]\nreason = "x"\nexpires = 2026-01-31\n',
        ),
    ),
    (lambda path: read_m_keys(path, "--keys"), (b"0x1122334455667788\n# old\n\n0x7\n",)),
    (lambda path: read_token(str(path), "--token"), (b"abcdefghijklmnopqrstuvwxyz\n",)),
    (lambda path: secret_files.read_token(path, "--token", 1, "rule", str.strip), (b"abcdefgh\n",)),
)
"""What reads each of the small files, and such files as they should be."""


def _small(data: bytes) -> None:
    """One of the small files; the first byte says which."""
    read, _ = _SMALL[data[0] % len(_SMALL) if data else 0]
    read(written(data[1:]))


def _small_files() -> Iterator[bytes]:
    for number, (_, whole) in enumerate(_SMALL):
        yield from (bytes((number,)) + text for text in whole)


_SMALL_WORDS = (
    b"0x", b"partition_key", b"tenant_id", b'"', b"[[", b"]]", b"[here]", b"[[host]]", b"name = ", b"rule",
    b"expires = ", b"1970-01-01", b"9999-12-31", b"0001-01-01T00:00:00Z", b"a.b.c.d.e.f.g.h.i.j", b"inf", b"nan",
    b"sudo = true", b"\xe2\x80\xa8", b"\x0c", b"\xc2\xb2", b"\xd9\xa1", b"m_key=", b"timeout=", b"'''", b'"""',
    b"\\u0000",
)  # fmt: skip


# --- OpenSM's key files -----------------------------------------------------------------------------------------------

_KEY_FILES = (*KEY_FILES, *CLASS_KEY_FILES.values())


def _key_files(data: bytes) -> None:
    """All key files of a folder at once; a byte 0xff divides them. What was read is written and is the same again."""
    place = folder() / "key-files"
    place.mkdir(mode=0o700, exist_ok=True)
    parts = data.split(b"\xff")
    for number, name in enumerate(_KEY_FILES):
        (place / name).write_bytes(parts[number] if number < len(parts) else b"")
        (place / name).chmod(0o600)
    _, warnings = read_class_key_files(place)
    assert not any("\n" in each for each in warnings)
    found = read_key_files(place)
    write_key_files(place, found, KEY_FILES)
    again = read_key_files(place)
    assert (again.m_keys, again.neighbors, again.lids) == (found.m_keys, found.neighbors, found.lids)


_KEYS = (
    b"0x0002c903000a1021 0x1122334455667788\n0x0002c903000a1031 0x0\n\n\xff"
    b"0x0002c903000a1021:1 0x0002c90200401000:2\n\xff0x0002c903000a1021 0x0001 0x0001\n\xff"
    b"0x0002c903000a1021 0x1\n\xff0x0002c903000a1021 0x2\n\xff0x0002c903000a1021 0x3\n"
)


# --- plans, fabrics, scripts ------------------------------------------------------------------------------------------


def _plan(data: bytes) -> None:
    """A plan as the journal has it; one that is read is written and is the same again. And the same as a file."""
    with suppress(IbkeysError):  # the digest, as it should be
        read_plan(written(data))
    plan = loads(data.decode("utf-8", "surrogateescape"), bound=False)
    assert loads(dumps(plan)) == plan


def _plans() -> Iterator[bytes]:
    for path in sorted((DATA / "stores" / "70c34ae").glob("apply-*/plan.json")):
        yield path.read_bytes()


_PLAN_WORDS = (
    b"null", b"true", b'"0x8010"', b'"0x0002c903000a1021"', b'"before"', b'"after"', b'"tables"', b'"breaks"', b"[]",
    b"{}", b'""', b"-1", b"256", b"1e5", b'"\\udc80"', b'"kind"', b'"port"', b'"peer"', b'"policy"', b'"text_base64"',
)  # fmt: skip


def _net(data: bytes) -> None:
    """A net file, and the subnet that it describes."""
    Subnet.from_text(data.decode("utf-8", "surrogateescape"))


def _nets() -> Iterator[bytes]:
    for name in ("dual-home", "two-switch"):
        yield (DATA / "fabrics" / f"{name}.net").read_bytes()
    yield (
        b'module x\nswitchguid=0x10(0x10)\nSwitch 8 "S-1" # "a" base port 0 lid 1 lmc 0\n'
        b'[1] "H-1"[1](0x5) # lid 3 4xEDR\n'
    )
    yield b'Hca 2 "H" # "b"\n@[1] "S"[2] w=4 s=8\nRouter 1 "R"\n[1] "H"[2]\nvendid=0x2c9\ndevid=0x1\nsysimgguid=0x1\n'


_NET_WORDS = (
    b"Switch 254 ", b"Ca 2 ", b"Hca 1 ", b"Router 2 ", b"switchguid=", b"caguid=", b"rtguid=", b'"S-1"', b"[1]",
    b"[255]", b"(0x", b"# lid ", b" lmc 7", b" 4xHDR", b"include ", b"do ", b"@", b" w=12 s=1 ", b"base port 0", b"\t",
    b"module ",
)  # fmt: skip


def _script(data: bytes) -> None:
    """A script of the simulator: read, and each of its lines done."""
    text = data.decode("utf-8", "replace")
    script = Script.parse(text, "script")
    net = subnet("two-switch")
    for line in script.due(float("inf")):
        try:
            execute(net, line.text)
        except IbkeysError as error:
            check_words(error)


_SCRIPT = (
    b'link "node02 mlx4_0"[1] down\n@1 link "node02 mlx4_0"[1] up\nsilent "node03 mlx4_0" on --dead\n'
    b'@2 packet "node01 mlx4_0" "node02 mlx4_0" pkey=0x8010\ndescribe "node04 mlx4_0" "other"\ntime +10\nevents 5\n'
    b'sm "node01 mlx4_0" on\nclasskey "node02 mlx4_0" cc on key=0x5 protect=1\nvports "node02 mlx4_0" on possible=9\n'
    b"drop 5\ndelay 5 1\nduplicate 1\ncorrupt 2\nseed 7\nshow 0x0002c903000a1021\n"
)
_SCRIPT_WORDS = (
    b"node02 mlx4_0", b'"node02 mlx4_0"[1]', b"link ", b" down", b" up", b"silent ", b"reset ", b"describe ", b"sm ",
    b"sa ", b"drop ", b"delay ", b"duplicate ", b"corrupt ", b"seed ", b"time +5\n", b"packet ", b"show ", b"events",
    b"help\n", b"classkey ", b"classrule cc ", b"vports ", b"@1 ", b"@2.5 ", b"nvram ", b"pkey=0x8010", b"1e308",
    b" on", b" off",
)  # fmt: skip

TARGETS = (
    Target("small-files", _small, _small_files, _SMALL_WORDS, 1024),
    Target("key-files", _key_files, lambda: (_KEYS,), (b"0x", b":1 ", b"\xff", b"0x0002c903000a1021 "), largest=1024),
    Target("plan", _plan, _plans, _PLAN_WORDS, largest=8192),
    Target("net", _net, _nets, _NET_WORDS, largest=3072),
    Target("script", _script, lambda: (_SCRIPT,), _SCRIPT_WORDS, largest=512),
)
