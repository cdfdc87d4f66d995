"""`ibkeys import`: what it writes and says, that every offline command reads the result, and that no key gets out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Cli
from tests.dumps.bringing import DUMPS, FORMS, M_KEY

SOURCES = ("keyed.cache", "pir-keyed.txt", "portinfo-keyed.txt", "pktr3.txt", "opensm-subnet.lst")
POLICY = "Default=0x7fff: ALL=limited, SELF=full;\nblue=0x12: 0x0002c903000a1011=full, 0x0002c903000a1021=full;\n"


@pytest.fixture
def imported(cli: Cli, tmp_path: Path) -> Path:
    """A snapshot of files that hold keys."""
    path = tmp_path / "imported.db"
    files = [DUMPS / name for name in SOURCES]
    result = cli("import", *files, "--pkeys-of", "2", DUMPS / "pkeys.txt", "--out", path)
    assert result.code == 0
    return path


def test_it_says_what_it_made_and_what_holds_keys(cli: Cli, tmp_path: Path) -> None:
    files = [DUMPS / name for name in SOURCES]
    result = cli("import", *files, "--out", tmp_path / "x", "-f", "json")
    assert result.code == 0
    document = result.json
    assert document["schema"] == "ibkeys.import/1"
    assert (document["nodes"], document["links"], document["port_info_unknown"]) == (8, 8, 0)
    assert document["pkeys_unknown"] == 23
    assert [(each["file"], each["kind"], each["sm_word"], each["m_keys"]) for each in document["files"]] == [
        ("keyed.cache", "ibnetdiscover --cache", False, 8),
        ("pir-keyed.txt", "saquery", True, 1),
        ("portinfo-keyed.txt", "smpquery", False, 1),
        ("pktr3.txt", "saquery", True, 0),
        ("opensm-subnet.lst", "opensm-subnet.lst", True, 0),
    ]
    assert "keyed.cache holds the M_Keys of 8 ports in clear" in result.err
    assert "P_KeyTable of 1 port: as the SM reported it at its last sweep (pktr3.txt)" in result.err


def test_the_table_counts_what_is_unknown(cli: Cli, tmp_path: Path) -> None:
    result = cli("import", DUMPS / "ibnetdiscover.txt", "--out", tmp_path / "x")
    assert result.code == 0
    assert "8 nodes, 24 ports, 8 links, 0 P_Keys; M_Keys as fingerprints" in result.out
    assert "unknown: the PortInfo of 24 ports and the P_Key table of 24 ports" in result.out


OFFLINE = (
    ("pkey-show", "--all"),
    ("pkey-show", "2"),
    ("mkey-show", "--all"),
    ("mkey-show", "-K", "--all"),
    ("port-show", "--enforcement", "--all"),
    ("port-show", "--caps", "--all"),
    ("discover",),
    ("discover", "--names"),
    ("matrix",),
    ("matrix", "--pairs"),
    ("why", "node02", "node03"),
    ("audit",),
    ("audit", "-f", "json"),
    ("audit", "-f", "html"),
    ("audit", "--policy", "POLICY", "--profile", "lab"),
    ("plan", "--policy", "POLICY"),
    ("plan", "--policy", "POLICY", "-f", "json", "--full"),
    ("compare", "--policy", "POLICY"),
    ("policy-from",),
    ("policy-diff", "POLICY", "POLICY"),
)


def test_every_offline_command_reads_it_and_none_shows_a_key(cli: Cli, imported: Path, tmp_path: Path) -> None:
    policy = tmp_path / "policy.conf"
    policy.write_text(POLICY)
    for words in OFFLINE:
        result = cli(*(policy if word == "POLICY" else word for word in words), "--from", imported)
        assert result.code in (0, 1, 3), (words, result.err)
        assert "internal error" not in result.err, words
        assert result.out or result.err, words
        said = (result.out + result.err).lower()
        assert not any(form.decode("latin-1").lower() in said for form in FORMS[2:]), words


def test_no_key_is_in_the_snapshot_or_in_any_other_file(cli: Cli, imported: Path, tmp_path: Path) -> None:
    assert any(form in (DUMPS / "keyed.cache").read_bytes() for form in FORMS)
    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert imported in written
    for path in written:
        assert not any(form in path.read_bytes() for form in FORMS), path


def test_an_import_compares_with_itself_and_with_less(cli: Cli, imported: Path, tmp_path: Path) -> None:
    assert cli("diff", imported, imported).code in (0, 3)
    cli("import", DUMPS / "plain.cache", "--out", tmp_path / "less")
    result = cli("diff", tmp_path / "less", imported, "-f", "json")
    document = json.loads(result.out)
    assert document["changes"] == []
    assert len(document["m_keys_hidden"]) == 8
    assert document["nodes"] == {"added": [], "removed": []}


def test_what_is_the_word_of_the_sm_is_said_whenever_it_is_read(cli: Cli, imported: Path) -> None:
    assert "as the SM reported it at its last sweep (pktr3.txt)" in cli("pkey-show", "3", "--from", imported).err


def test_compare_takes_the_word_of_the_sm_for_the_sa_and_not_for_the_node(cli: Cli, imported: Path) -> None:
    values = cli("compare", "--from", imported, "--full", "-f", "json").json["values"]
    tables = {value["lid"]: value for value in values if value["what"] == "pkey" and value["partition"] == "0x7fff"}
    assert tables[3]["sa"] == ["0x7fff"]
    assert tables[3]["node"] is None
    assert tables[2]["sa"] is None
    assert tables[2]["node"] is not None


def test_a_port_that_no_file_describes_is_an_error_of_its_own(cli: Cli, tmp_path: Path) -> None:
    cli("import", DUMPS / "ibnetdiscover.txt", "--out", tmp_path / "x")
    result = cli("pkey-show", "2", "--from", tmp_path / "x")
    assert result.code == 3
    assert "P_KeyTable is in no imported file" in result.err
    cli("import", DUMPS / "ibnetdiscover.txt", "--pkeys-of", "2", DUMPS / "pkeys.txt", "--out", tmp_path / "x")
    assert "0x8012" in cli("pkey-show", "2", "--from", tmp_path / "x").out
    result = cli("mkey-show", "2", "--from", tmp_path / "x")
    assert "PortInfo is in no imported file" in result.err


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        ((), 2, "no file to import"),
        (("nothing.txt",), 2, "nothing.txt: cannot be read: No such file or directory"),
        (("README.md",), 2, "is not a file that can be imported"),
        (("pkeys.txt",), 2, "pkeys.txt:9: a P_Key table does not say which port it belongs to"),
        (("keyed.cache", "--pkeys-of", "gpu", "pkeys.txt"), 2, "neither a LID nor a GUID"),
    ],
)
def test_mistakes(cli: Cli, tmp_path: Path, words: tuple[str, ...], code: int, text: str) -> None:
    files = [DUMPS / word if word.endswith((".txt", ".md", ".cache")) else word for word in words]
    result = cli("import", *files, "--out", tmp_path / "x")
    assert result.code == code
    assert text in result.error
    assert not (tmp_path / "x").exists()


def test_a_key_in_a_broken_line_is_not_repeated(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "broken.txt"
    text = (DUMPS / "portinfo-keyed.txt").read_text()
    path.write_text(text.replace("Mkey:............................0x", "Mkey:............................00x"))
    result = cli("import", DUMPS / "ibnetdiscover.txt", path, "--out", tmp_path / "x")
    assert result.code == 2
    assert "broken.txt:2: Mkey has a value that this field cannot have" in result.error
    assert f"{M_KEY:x}" not in result.err


def test_another_file_is_not_overwritten(cli: Cli, tmp_path: Path) -> None:
    other = tmp_path / "opensm.conf"
    other.write_text("m_key 1\n")
    result = cli("import", DUMPS / "keyed.cache", "--out", other)
    assert result.code == 3
    assert other.read_text() == "m_key 1\n"
