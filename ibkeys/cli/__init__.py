"""The command line: parses options, calls the library and writes results.

A command's module is imported only when it is needed, so that ``ibkeys --version`` costs little more than click itself.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import os
import resource
import shlex
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, NoReturn

import click

from ibkeys.cli import exits, streams, typed
from ibkeys.collecting import few_collections
from ibkeys.version import __version__

PROG_NAME: Final = "ibkeys"
COMPLETE_VARIABLE: Final = "_IBKEYS_COMPLETE"


class CommandEntry(NamedTuple):
    """A command's module below `ibkeys.cli`, the first line of its help, and the name of its function in the module, if
    that is not the command's name with underscores."""

    module: str
    summary: str
    function: str = ""


GROUPS: Final[Mapping[str, Mapping[str, CommandEntry]]] = {
    "Show": {
        "pkey-show": CommandEntry("partitions.pkey", "Show P_Key tables."),
        "mkey-show": CommandEntry("mkeys.mkey", "Show M_Key state, ProtectBits, lease and violations."),
        "port-show": CommandEntry("tools.port", "Show enforcement, capacities and violations of ports."),
        "classkey-show": CommandEntry("mkeys.classkey", "Show CC_Key, VS_Key, N2N manager key and B_Key of ports."),
        "host-show": CommandEntry("local.host", "Show this host's keys from its kernel, without root."),
        "discover": CommandEntry("tools.discover", "Show nodes, ports and links of the whole fabric."),
        "sm-show": CommandEntry("sm.show", "Show master and standby SMs, their files and dangers."),
        "why": CommandEntry("partitions.why", "Show whether two ports can talk, or what blocks them."),
        "matrix": CommandEntry("partitions.matrix", "Show each partition's members, and who can talk to whom."),
    },
    "Check": {
        "doctor": CommandEntry("tools.doctor", "Check the local InfiniBand stack and suggest fixes."),
        "audit": CommandEntry("audit.audit", "Check all keys of a fabric, or of a snapshot, by rules."),
        "report": CommandEntry("audit.report", "Write web pages: audit, matrix, map, changes, journal."),
        "compare": CommandEntry("partitions.compare", "Compare policy, SM's file, SA and nodes for every port."),
        "diff": CommandEntry("comparing.diff", "Show what changed between two snapshots."),
        "history": CommandEntry("comparing.history", "Show when a port's keys or a partition's members changed."),
        "snapshot": CommandEntry("audit.snapshot", "Save the whole fabric's keys in one file."),
        "import": CommandEntry("audit.import_files", "Make a snapshot from files that other tools wrote.", "import_"),
        "watch": CommandEntry("watch.watch", "Show who tries a wrong key, and where, as it happens."),
        "export": CommandEntry("audit.export", "Write metrics of the fabric's keys for Prometheus."),
    },
    "Change a port": {
        "pkey-set": CommandEntry("partitions.pkey", "Write entries of a P_Key table by index."),
        "pkey-add": CommandEntry("partitions.pkey", "Add P_Keys to a port's table, at free indexes."),
        "pkey-remove": CommandEntry("partitions.pkey", "Remove P_Keys from a port's table, by value."),
        "enforce-set": CommandEntry("partitions.enforce", "Switch enforcement of a switch port on or off."),
        "counters-clear": CommandEntry("tools.counters", "Clear the violation counters."),
        "mkey-set": CommandEntry("mkeys.mkey", "Set M_Key, ProtectBits or lease of one port."),
    },
    "Partitions of the whole fabric": {
        "policy-check": CommandEntry("partitions.policy", "Check a partition policy (OpenSM's partitions.conf)."),
        "partition-show": CommandEntry("policies.show", "Show partitions, with their members by name."),
        "partition-add": CommandEntry("policies.edit", "Add ports to a partition, or set its flags."),
        "partition-remove": CommandEntry("policies.edit", "Remove ports from a partition."),
        "partition-delete": CommandEntry("policies.edit", "Delete a partition with all its members."),
        "partition-rename": CommandEntry("policies.edit", "Give a partition another name."),
        "partition-spread": CommandEntry("policies.spread", "Give all OpenSMs the policy of the master."),
        "replace": CommandEntry("policies.replace", "Give a new adapter the place of the former one."),
        "policy-from": CommandEntry("policies.from_fabric", "Write a policy that describes the current fabric."),
        "policy-diff": CommandEntry("policies.diff", "Compare what two policies mean for the fabric."),
        "plan": CommandEntry("partitions.plan", "Show what a partition policy would change."),
        "rehearse": CommandEntry("partitions.rehearse", "Try a change with your OpenSM, on a simulated copy."),
        "apply": CommandEntry("partitions.apply", "Apply a plan to the fabric."),
    },
    "M_Keys of the whole fabric": {
        "mkey-deploy": CommandEntry("mkeys.rollout", "Give every port of the fabric its first M_Key."),
        "mkey-rotate": CommandEntry("mkeys.rollout", "Replace the M_Key of every port that has one."),
        "mkey-remove": CommandEntry("mkeys.rollout", "Remove the M_Key of every port of the fabric."),
        "mkey-recover": CommandEntry("mkeys.recover", "Recover ports whose M_Key is lost: try keys, or wait."),
        "keystore": CommandEntry("keystore.group", "List, import, export, encrypt and back up the key store."),
    },
    "Changes that were made": {
        "journal": CommandEntry("tools.journal", "List the changes that were made."),
        "undo": CommandEntry("operations.undo", "Take back a change."),
        "resume": CommandEntry("operations.resume", "Finish an operation that was interrupted or stopped."),
        "confirm": CommandEntry("operations.confirm", "Confirm a change that was begun with --confirm-within."),
    },
    "With OpenSM": {
        "harden": CommandEntry("audit.harden", "Fix what an audit finds, through OpenSM while it runs."),
        "smkey-rotate": CommandEntry("sm.smkey_rotate", "Set new sm_key and sa_key for all OpenSMs of the subnet."),
        "sm-repair": CommandEntry("sm.repair", "Rebuild OpenSM's key files after a crash during a change."),
    },
    "Explain and simulate": {
        "explain": CommandEntry("tools.symptoms", "Explain a message, log line or number: paste it."),
        "help": CommandEntry("tools.help", "Show the help of a command, or of all that name a word."),
        "pkey-check": CommandEntry("tools.explain", "Show whether ports with these P_Keys can talk, and why."),
        "pkey-explain": CommandEntry("tools.explain", "Explain a P_Key."),
        "qkey-explain": CommandEntry("tools.explain", "Explain what a Q_Key can be used for."),
        "decode": CommandEntry("tools.decode", "Decode a MAD or a bare attribute, given in hex."),
        "sim": CommandEntry("sim.group", "Simulate a fabric, or a snapshot, and run programs on it."),
    },
}
"""The commands, grouped by purpose. Help, completion, ibkeys(1) and the web site list them in this order."""
LISTED: Final = {name: entry for group in GROUPS.values() for name, entry in group.items()}
COMMANDS: Final = {**LISTED, "completion": CommandEntry("tools.completion", "Print the completion script of a shell.")}
"""All commands: the listed ones, and `completion`, which a user or a package runs once."""
FIRST: Final[Mapping[str, Sequence[str]]] = {
    "start": ("doctor", "audit", "report", "explain"),
    "ask": ("pkey-show", "mkey-show", "why", "matrix", "diff"),
    "change": ("plan", "apply", "mkey-rotate", "undo"),
}
"""The commands that ``ibkeys`` without arguments shows, by purpose."""
_FIRST_WORD: Final = f"{__name__}.first_word"
"""Key in the ``meta`` of click's context during completion: the first part of a command, if typed as a word.

With its hyphen (``pkey-``) it is the prefix of the commands to offer.
"""


class Commands(click.Group):
    """The group of all commands, imported on demand. Every run ends with one of the exit codes of ibkeys(1)."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order of the help."""
        return list(LISTED)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return a command; None if no command has this name."""
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return None
        module = importlib.import_module(f"ibkeys.cli.{entry.module}")
        command: click.Command = getattr(module, entry.function or cmd_name.replace("-", "_"))
        return command

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands of `FIRST`, and how to list all others."""
        formatter.write(f"{self.help}\n\n")
        for purpose, names in FIRST.items():
            for name in names:
                formatter.write(f"{purpose if name == names[0] else '':8}{name:13}{COMMANDS[name].summary}\n")
        formatter.write("\nAll commands: ibkeys help -a    One of them: ibkeys help COMMAND\n")

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that the first word names, or the first two words joined by a hyphen (``pkey show``).

        Raises UsageError for an unknown name; the message has the new name of a renamed command, or similar names.
        """
        joined = args[0] if args[1:2] == [] or args[1].startswith("-") else f"{args[0]}-{args[1]}"
        if args[0] not in COMMANDS:
            if joined in COMMANDS:
                args = [joined, *args[2:]]
            elif ctx.resilient_parsing:
                ctx.meta[_FIRST_WORD] = f"{joined}-"
            else:
                raise _unknown_command(args[0], joined, ctx)
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[Any]:
        """Complete a command's name, or its second part after the first was typed as a word. Imports no command."""
        from click.shell_completion import CompletionItem

        first = ctx.meta.get(_FIRST_WORD, "")
        offers = [
            CompletionItem(name.removeprefix(first), help=entry.summary)
            for name, entry in LISTED.items()
            if name.startswith(first + incomplete)
        ]
        return offers + click.Command.shell_complete(self, ctx, incomplete)

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> NoReturn:
        """Run a command and exit with its exit code, which `exits` alone decides; *standalone_mode* has no effect."""
        # No core dumps: M_Keys and passphrases may be in the memory of this process.
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
        arguments = sys.argv[1:] if args is None else list(args)
        with streams.outlasting_readers():
            if COMPLETE_VARIABLE in os.environ:
                self._complete(extra)
            typed.watch([*arguments, *(value for name, value in os.environ.items() if name.startswith("IBKEYS_"))])
            with few_collections():
                code = exits.run(lambda: self._run(arguments, extra))
        sys.exit(code)

    def _complete(self, extra: dict[str, Any]) -> NoReturn:
        """Answer a shell's completion script and exit.

        Errors are silent, because a message would appear in the line that the user is typing; with IBKEYS_DEBUG they
        are raised.
        """
        from ibkeys.cli.completing import shells

        shells.register()
        try:
            self._main_shell_completion(extra, PROG_NAME, COMPLETE_VARIABLE)
        except Exception:
            if os.environ.get("IBKEYS_DEBUG"):
                raise
        sys.exit(1)

    def _run(self, args: list[str], extra: dict[str, Any]) -> int:
        if not args:
            args = ["--help"]
        for number, arg in enumerate(args, 1):
            if "\0" in arg:  # no process can pass one, but code that calls `main` can
                from ibkeys.errors import UsageError

                raise UsageError(f"argument {number} contains a NUL character, which no name and no value may have")
        with self.make_context(PROG_NAME, args, **extra) as ctx:
            code = self.invoke(ctx)
        return int(code or 0)


def names_a_command(words: Sequence[str]) -> bool:
    """Return whether *words* begin with the name of a command, its two parts, or a name that a command had before."""
    from ibkeys.cli.renamed import RENAMED

    return any(name in COMMANDS or name in RENAMED for name in (words[0], "-".join(words[:2])))


def _unknown_command(first: str, joined: str, root: click.Context) -> Exception:
    """Return the error for words that name no command. Where no name is similar, it says where the word occurs.

    *first*: the first word. *joined*: the first two words with a hyphen between them, or the first word alone.
    """
    from ibkeys.cli.help.search import search
    from ibkeys.cli.renamed import RENAMED
    from ibkeys.errors import UsageError
    from ibkeys.printable import counted
    from ibkeys.similar_names import did_you_mean, did_you_mean_one_of

    for old in (first, joined):
        if old in RENAMED:
            return UsageError(f"{old} is now: ibkeys {RENAMED[old]}")
    same_beginning = [name for name in COMMANDS if name.startswith(f"{first}-")]
    hint = joined != first and did_you_mean(joined, COMMANDS)
    hint = hint or did_you_mean_one_of(same_beginning, len(same_beginning)) or did_you_mean(first, COMMANDS)
    places = 0 if hint else len(search([first], root))
    found = f"; it is in {counted(places, 'help text')}: ibkeys help {shlex.quote(first)}" if places else ""
    return UsageError(f"No such command {first!r}{hint or found} (see ibkeys help -a)")


# The garbage collector's last pass over all objects of a sweep would take a tenth of the command's time.
atexit.register(gc.freeze)


HELP_NAMES: Final = {"help_option_names": ["-h", "--help"]}
_version = click.version_option(__version__, "-V", "--version", prog_name=PROG_NAME, message="%(prog)s %(version)s")
main: Final = _version(
    Commands(
        "main",
        help="Show, set and check the keys of an InfiniBand fabric.",
        context_settings=HELP_NAMES,
        no_args_is_help=False,
    )
)
