"""Options files as people have them: links, owners, line ends, lines twice and lines in comments."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from tests.corpus import DATA
from tests.integration.hosted import facts
from tests.integration.keyed_opensm import CONF, KeyedOpensm, keyed
from tests.owners import needs_root
from tests.sample import in_soak

NET = DATA / "fabrics" / "two-switch.net"
DEPLOY = ("mkey-deploy", "--protect", "2", "--lease", "60")
NO_USER = 65534
LINE = re.compile(r"^m_key 0x[0-9a-f]{16}$", re.M)


def deployed(opensm: KeyedOpensm) -> str:
    """Give the first key, and return what the options file says then, the key left out."""
    code, said = opensm.ibkeys(*DEPLOY)
    assert code == 0, said
    [(key, level, lease)] = opensm.keys()
    assert (level, lease) == (2, 60)
    opensm.assert_nothing_was_lost()
    text = opensm.conf.read_bytes().decode()
    assert text.count(f"{key:016x}") == 1
    return text.replace(f"0x{key:016x}", "KEY")


def moved(opensm: KeyedOpensm) -> Path:
    """Move the options file to another name, and return that."""
    real = opensm.served.folder / "real.conf"
    opensm.conf.rename(real)
    return real


def test_a_symbolic_link_stays_and_the_file_behind_it_is_replaced() -> None:
    with keyed(NET) as opensm:
        real = moved(opensm)
        opensm.conf.symlink_to(real.name)
        deployed(opensm)
        assert opensm.conf.is_symlink()
        assert (opensm.mode(real), LINE.search(real.read_text()) is not None) == (0o600, True)


def test_a_file_with_two_names_is_refused() -> None:
    with keyed(NET) as opensm:
        os.link(opensm.conf, opensm.served.folder / "other")
        before = facts(opensm.conf)
        code, said = opensm.ibkeys(*DEPLOY)
        assert code == 4, said
        assert "2 names (hard links)" in said
        assert (facts(opensm.conf), opensm.keys()) == (before, {(0, 0, 0)})


def test_a_file_that_nobody_may_write_is_replaced_and_stays_so() -> None:
    with keyed(NET) as opensm:
        opensm.conf.chmod(0o444)
        deployed(opensm)
        assert opensm.mode(opensm.conf) == 0o400


@needs_root
def test_a_file_of_another_owner_stays_theirs_and_nobody_else_reads_it() -> None:
    """OpenSM runs as root, and reads it all the same."""
    with keyed(NET) as opensm:
        os.chown(opensm.conf, NO_USER, NO_USER)
        deployed(opensm)
        status = opensm.conf.stat()
        assert (status.st_uid, status.st_gid, opensm.mode(opensm.conf)) == (NO_USER, NO_USER, 0o600)


LINES = "m_key KEY\nm_key_protection_level 2\nm_key_lease_period 60\n"


@pytest.mark.parametrize(
    ("former", "later"),
    [
        ("m_key 0x0\nm_key 0x0\n", "m_key 0x0\n" + LINES),  # the last one counts
        in_soak("# m_key 0x1\n#m_key 0x2\n", "# m_key 0x1\n#m_key 0x2\n" + LINES),
        in_soak("log_flags 0x7 # m_key 0x3\n", "log_flags 0x7 # m_key 0x3\n" + LINES),
        (
            "\tm_key\t0 # ours\nm_key_lease_period 0\n",
            "\tm_key\tKEY # ours\nm_key_lease_period 60\nm_key_protection_level 2\n",
        ),
        in_soak("log_flags 0x7", "log_flags 0x7\n" + LINES),
    ],
    ids=["twice", "in a comment", "behind a value", "tabs", "no newline at the end"],
)
def test_lines_that_count_are_edited_and_all_others_stay(former: str, later: str) -> None:
    with keyed(NET, CONF + former) as opensm:
        assert deployed(opensm) == "sweep_interval 0\n" + CONF + later


def test_line_ends_of_another_system_stay() -> None:
    with keyed(NET) as opensm:
        before = opensm.conf.read_bytes().replace(b"\n", b"\r\n").decode()
        opensm.conf.write_bytes(before.encode())
        opensm.running.sweep()
        assert deployed(opensm) == before + LINES
