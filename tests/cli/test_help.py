"""Help, man pages and completion keep up with the commands."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys

import click
import pytest

from ibkeys import __version__
from ibkeys.change.consent import INTERLOCKS
from ibkeys.cli import COMMANDS, FIRST, GROUPS, LISTED, main
from ibkeys.cli.help.common import GENERAL, SECTIONS, by_section, section_of, short_name
from ibkeys.cli.help.examples import EXAMPLES
from tests.cli.commands import command_named, options_of, options_within
from tests.cli.conftest import run
from tests.corpus import DATA
from tests.examples.pages import named, of_line

MAN = DATA.parent.parent / "man"


@pytest.mark.parametrize("words", [(), ("-h",), ("--help",), ("help",)])
def test_the_commands_to_begin_with_fit_one_screen(words: tuple[str, ...]) -> None:
    result = run(*words)
    lines = result.out.splitlines()
    assert (result.code, result.err) == (0, "")
    assert len(lines) <= 17
    assert max(map(len, lines)) <= 80
    assert lines[-1] == "All commands: ibkeys help -a    One of them: ibkeys help COMMAND"
    found = [(line[:8].strip(), *line[8:].split(maxsplit=1)) for line in lines[2:-2]]
    assert found == [
        (purpose if name == names[0] else "", name, COMMANDS[name].summary)
        for purpose, names in FIRST.items()
        for name in names
    ]


@pytest.mark.parametrize("option", ["-a", "--all"])
def test_help_lists_the_commands_in_groups(option: str) -> None:
    result = run("help", option)
    assert (result.code, result.err) == (0, "")
    assert re.findall(r"^  ([a-z]+(?:-[a-z]+)?)(?: |$)", result.out, re.MULTILINE) == list(LISTED)
    assert max(map(len, result.out.splitlines())) <= 80
    for title, group in GROUPS.items():
        section = f"\n{result.out}".partition(f"\n{title}:\n")[2].partition("\n\n")[0]
        assert [line.split()[0] for line in section.splitlines() if line[2] != " "] == list(group)
    assert sum(map(len, GROUPS.values())) == len(LISTED)
    assert COMMANDS.keys() - LISTED == {"completion"}


def test_the_list_of_all_commands_has_their_arguments_and_what_they_require() -> None:
    """As the usage of each has them: nobody knows a command that he cannot type."""
    listed = run("help", "-a").out
    for name in LISTED:
        usage = " ".join(run(name, "--help").out.partition("\n\n")[0].split()).removeprefix("Usage: ibkeys ")
        required = "".join(f" {option.opts[0]} {option.metavar}" for option in options_of(name) if option.required)
        entry = f"  {usage.replace(' [OPTIONS]', '')}{required}"
        assert re.search(rf"^{re.escape(entry)}(?:  |$)", listed, re.M), entry
    for entry in ("plan FILE", "report DIR", "why [A] [B]", "import FILE... --out SNAPSHOT", "undo [ID]"):
        assert re.search(rf"^  {re.escape(entry)}(?:  |$)", listed, re.M), entry


def leaves() -> list[str]:
    """Return the words that name each command without commands within it."""
    found = []
    for name in COMMANDS:
        command = command_named(name)
        found += [f"{name} {each}" for each in command.commands] if isinstance(command, click.Group) else [name]
    return found


def test_each_command_has_an_example_and_nothing_else_has() -> None:
    assert list(EXAMPLES) == leaves()


@pytest.mark.parametrize("words", EXAMPLES)
def test_an_example_is_a_whole_line_that_is_understood(words: str) -> None:
    (shown,) = of_line(EXAMPLES[words], is_whole=True)
    command, rest = named(shown)
    assert command.name == words.split()[-1]
    command.make_context(words, rest, parent=click.Context(main, **main.context_settings))


@pytest.mark.parametrize("words", [*EXAMPLES, "sim", "keystore"])
def test_help_shows_the_example_unbroken(words: str) -> None:
    text = run(*words.split(), "--help").out
    section = text.partition("\nExample")[2].partition(":\n")[2].partition("\n\n")[0]
    assert section.splitlines() == [
        f"  {line}" for path, line in EXAMPLES.items() if path == words or path.split()[0] == words
    ]
    assert max(map(len, section.splitlines())) <= 80


@pytest.mark.parametrize("words", EXAMPLES)
def test_the_examples_of_a_man_page_begin_with_it(words: str) -> None:
    """`make docs` writes it; tests/test_documents.py holds that. A page for several commands has one of each."""
    section = (MAN / f"ibkeys-{words.split()[0]}.1").read_text().partition("\n.SH EXAMPLES\n")[2]
    mark = f'.\\" made from ibkeys/cli/help/examples.py: {words}\n'
    assert section.count(mark) == 1
    if " " not in words:
        assert ".TP" not in section.partition(mark)[0]


@pytest.mark.parametrize(
    ("words", "same"),
    [
        ("pkey-show", "pkey-show --help"),
        ("pkey show", "pkey-show --help"),
        ("-a pkey-show", "pkey-show --help-all"),
        ("sim serve", "sim serve --help"),
        ("sim", "sim --help"),
        ("completion", "completion --help"),
        ("help", "help --help"),
    ],
)
def test_help_of_a_command_is_that_of_its_option(words: str, same: str) -> None:
    result = run("help", *words.split())
    assert (result.code, result.err) == (0, "")
    assert result.out == run(*same.split()).out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("pkeey", "No such command 'pkeey'; did you mean pkey-"),
        ("names", "names is now: ibkeys discover --names"),
        ("pkey-show 14", "ibkeys pkey-show has no command '14'"),
        ("sim start", "No such command 'start'"),
    ],
)
def test_help_of_what_is_no_command_is_refused(words: str, said: str) -> None:
    result = run("help", *words.split())
    assert (result.code, result.out) == (2, "")
    assert result.error.startswith(said)


@pytest.mark.parametrize("args", [["-V"], ["--version"], ["pkey-show", "-V"], ["keystore", "generate", "--version"]])
def test_version(args: list[str]) -> None:
    result = run(*args)
    assert (result.code, result.out) == (0, f"ibkeys {__version__}\n")


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(name: str) -> None:
    for flag in ("-h", "--help"):
        result = run(name, flag)
        assert result.code == 0
        assert result.out.startswith(f"Usage: ibkeys {name} [OPTIONS]")
    assert all(option.help for option in options_within(name))


@pytest.mark.parametrize("name", COMMANDS)
def test_help_lists_own_options_and_names_the_common_ones_once(name: str) -> None:
    short, whole = run(name, "--help"), run(name, "--help-all")
    assert (short.code, whole.code, short.err, whole.err) == (0, 0, "", "")
    own, _, common = short.out.partition("\nAlso, listed by --help-all: ")
    for option in options_of(name):
        for each in option.opts:
            entry = re.compile(rf"^  (?:-\S, )?{re.escape(each)}(?![\w-])", re.MULTILINE)
            assert entry.search(whole.out), each
            assert bool(entry.search(own)) == (section_of(option) in (None, GENERAL)), each
        if section_of(option) not in (None, GENERAL):
            assert re.search(rf"[( \n]{re.escape(short_name(option))}[,)]", common), option
    assert bool(common) == ("--help-all" in own)
    assert max(map(len, [*short.out.splitlines(), *whole.out.splitlines()])) <= 80


def test_the_sections_of_help_all() -> None:
    found = re.findall(r"^(\S.*):$", run("plan", "--help-all").out, re.MULTILINE)
    assert found == ["Example", "Options", *SECTIONS]


def test_the_help_of_a_command_is_a_screen_without_the_common_options() -> None:
    """It was 68 lines with them, and without an example."""
    assert len(run("pkey-show", "--help").out.splitlines()) <= 43


def test_commands_within_a_command_have_help_all_too() -> None:
    for words in (["sim"], ["sim", "serve"], ["sim", "ctl"]):
        assert run(*words, "--help-all").code == 0


@pytest.mark.parametrize("name", COMMANDS)
def test_summary_is_the_first_line_of_the_help(name: str) -> None:
    command = command_named(name)
    assert command.name == name
    assert (command.help or "").splitlines()[0] == COMMANDS[name].summary


def common_line(name: str) -> str:
    """The line of a command's man page that names its common options, none of them hyphenated."""
    command = command_named(name)
    sections = by_section(command.params)
    names = [short_name(option) for options in sections.values() for option in options]
    names += ["-V", "-h", "--help-all"] if sections else ["-V", "-h"]
    unbroken = [f"\\%{each}" if each.startswith("--") else each for each in names]
    return ", ".join(f"\\fB{each}\\fR" for each in unbroken) + ": see \\fBibkeys-options\\fR(7)."


@pytest.mark.parametrize("name", COMMANDS)
def test_man_page_has_every_option_of_its_own_and_names_the_common_ones(name: str) -> None:
    """Where it fails with a common option: put the line of `common_line` into the page."""
    page = (MAN / f"ibkeys-{name}.1").read_text().replace("\\-", "-")
    shared = (MAN / "ibkeys-options.7").read_text().replace("\\-", "-")
    for option in options_within(name):
        for each in option.opts:
            assert f"\\fB{each}\\fR" in (page if section_of(option) is None else shared)
    assert common_line(name) in page.splitlines()


def test_common_options_are_described_once() -> None:
    """A page says of one only what is not so for all commands."""
    lines = [
        (MAN / "ibkeys-options.7").read_text().splitlines(),
        *((MAN / f"ibkeys-{name}.1").read_text().splitlines() for name in COMMANDS),
    ]
    described = [{text for text in page if len(text) > 30} for page in lines]
    common = {text for text in described[0] if not text.startswith((".", "\\f"))}
    assert len(common) > 20
    assert not [text for page in described[1:] for text in page & common]


def test_there_is_no_man_page_too_many() -> None:
    sevens = ("interlocks", "opensm", "options", "output", "rights", "security", "symptoms", "ufm")
    assert {path.name for path in MAN.glob("*.7")} == {f"ibkeys-{name}.7" for name in sevens}
    assert {path.name for path in MAN.glob("*.5")} == {"ibkeys.toml.5"}
    ones = ("ibkeys", "ibkeys-sim-run", *(f"ibkeys-{name}" for name in COMMANDS))
    assert {path.name for path in MAN.glob("*.1")} == {f"{name}.1" for name in ones}


def test_the_main_man_page_is_short_and_begins_with_examples() -> None:
    """`make docs` writes its list of commands; tests/test_documents.py holds that."""
    page = (MAN / "ibkeys.1").read_text()
    assert re.findall(r"^\.SH (.*)", page, re.M)[:4] == ["NAME", "SYNOPSIS", "EXAMPLES", "DESCRIPTION"]
    assert len(page.splitlines()) < 250
    assert re.findall(r"^\\fB(\S+)\\fR\t", page.replace("\\-", "-"), re.M) == list(LISTED)


def test_one_man_page_has_every_interlock() -> None:
    page = (MAN / "ibkeys-interlocks.7").read_text().replace("\\-", "-")
    assert set(re.findall(r"^\.TP\n\\fB(\S+)\\fR", page, re.M)) == set(INTERLOCKS)


@pytest.mark.parametrize("width", ["78n", "120n"], ids=["a terminal", "lintian"])
def test_man_pages_have_no_mistakes(width: str) -> None:
    groff = shutil.which("groff")
    assert groff is not None, "groff is not installed: apt-get install groff-base"
    for page in sorted(MAN.glob("*.[157]")):
        command = [groff, "-t", "-man", "-ww", "-z", "-Tutf8", f"-rLL={width}", page]
        done = subprocess.run(command, capture_output=True, text=True, timeout=30)
        assert (done.returncode, done.stderr) == (0, ""), page.name


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_script(shell: str) -> None:
    result = run("completion", shell)
    assert result.code == 0
    assert f"_IBKEYS_COMPLETE={shell}_complete" in result.out


@pytest.mark.parametrize(
    ("words", "at", "expected"),
    [
        ("ibkeys pkey-s", 1, ["pkey-show", "pkey-set"]),
        ("ibkeys pkey-show --form", 2, ["--format"]),
        ("ibkeys pkey-show -f ", 3, ["table", "json", "csv"]),
        ("ibkeys enforce-set --inbound o", 3, ["on", "off"]),
        ("ibkeys pkey s", 2, ["show", "set"]),  # the second part of a name, as a word
        ("ibkeys pkey show --form", 3, ["--format"]),
        ("ibkeys nothing s", 2, []),
    ],
)
def test_completion(words: str, at: int, expected: list[str]) -> None:
    """In a process of its own, as a shell runs it: newer versions of click write bytes here."""
    environment = {**os.environ, "_IBKEYS_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(at)}
    command = [sys.executable, "-c", "from ibkeys.cli import main; main()"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=60)
    assert done.stdout.split() == [f"plain,{word}" for word in expected], done.stderr


@pytest.mark.parametrize(
    ("word", "near"),
    [
        ("pkey-shw", "; did you mean pkey-show"),
        ("rotate", "; did you mean mkey-rotate or "),
        ("zzz", " (see ibkeys help -a)"),
    ],
)
def test_a_command_that_is_not_there_names_those_that_are_near(word: str, near: str) -> None:
    result = run(word)
    assert result.code == 2
    assert result.error.startswith(f"No such command '{word}'{near}")
