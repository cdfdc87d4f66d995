"""The file of an edited policy: reading it, refusing the edit, writing it, and the report."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ibkeys.cli import exits
from ibkeys.cli.documents.field import Document, JsonRow
from ibkeys.cli.exits import clean, write, write_each
from ibkeys.cli.render import write_document
from ibkeys.cli.screen.colour import paint, role_of_change
from ibkeys.errors import FileError, FileFormatError
from ibkeys.grouping import grouped
from ibkeys.topology.names.folded import FoldedNames
from ibkeys.topology.port_id import IDENTITY

if TYPE_CHECKING:
    from ibkeys.apply.by_sm.changed_together import LocalFile
    from ibkeys.change.consent import Objection
    from ibkeys.host.replacing.file_to_replace import SeenFile
    from ibkeys.partitions.editing.changes import EditedPolicy, MemberChange
    from ibkeys.partitions.model import Policy
    from ibkeys.topology.nodes import Port


@dataclass(frozen=True, slots=True)
class PolicyFile:
    """A file by the name that the user typed. ``content``: its bytes, owner and mode when it was read."""

    name: str
    content: SeenFile

    @classmethod
    def read_if_there(cls, name: str) -> PolicyFile:
        """Read a file that may not exist. Raises FileError; UsageError for a name that is not a file's."""
        from ibkeys import files
        from ibkeys.cli.sm.policy import require_file
        from ibkeys.host.replacing.file_to_replace import look

        require_file(
            name,
            "a policy is edited and written as a file (one called opensm: ./opensm); UFM's partitions change by "
            "`ibkeys plan` and `ibkeys apply PLAN --via ufm:URL`",
        )
        return cls(name, look(Path(name), files.LARGE))

    @classmethod
    def read(cls, name: str) -> PolicyFile:
        """Read a file.

        Raises FileFormatError if it does not exist or cannot be read; UsageError for a name that is not a file's.
        """
        try:
            policy_file = cls.read_if_there(name)
        except FileError as error:
            raise FileFormatError(str(error)) from None
        if policy_file.content.data is None:
            raise FileFormatError("there is no such policy (policy-from writes one)", name)
        return policy_file

    @property
    def policy(self) -> Policy:
        """Return the policy that the file holds."""
        from ibkeys.partitions.reader import parse_policy

        return parse_policy(self.content.data or b"", self.name)

    def write(self, data: bytes, like: PolicyFile | None = None) -> None:
        """Replace the contents of the file by *data* in one step. Owner and mode stay as they are.

        *like*: the file whose mode a new file gets; None: 0644. Raises FileChanged if another program or administrator
        has changed the file since it was read; FileError if it cannot be written.
        """
        from ibkeys import files
        from ibkeys.host.replacing.file_to_replace import Metadata
        from ibkeys.host.replacing.putting import put

        present = self.content.found
        if present is not None:
            metadata = present.metadata
        else:
            other = like.content.found if like is not None else None
            metadata = Metadata(other.metadata.mode if other is not None else 0o644)
        put(self.content, data, metadata, files.LARGE)


def refuse_by_interlocks(
    place: PolicyFile, force: bool, override: tuple[str, ...], only_say: bool, further: Sequence[Objection] = ()
) -> bool:
    """Raise Refused if an interlock objects to writing the policy file *place*. Return whether one objects.

    *force*, *override*: the interlocks that the user overrides. *only_say*: whether to write a warning instead.
    *further*: objections to the edit itself.
    """
    from ibkeys.change.consent import Consent
    from ibkeys.change.interlocks.file_owners import objections_to_edit
    from ibkeys.cli.sm.hosts import settings_of

    consent = Consent(force, frozenset(override))
    all_objections = [*further, *objections_to_edit(place.content.path, place.content.data, settings_of(None).here)]
    objections = [each for each in all_objections if not consent.covers(each.interlock)]
    for each in objections:
        if not only_say:
            raise each.refusal()
        exits.warn(f"by interlock {each.interlock}: {each.message}", "would be refused", each.more)
    return bool(objections)


def report(
    document: Document,
    edited: EditedPolicy,
    place: PolicyFile,
    written: bool,
    ports: Mapping[int, Port],
    format: str,
    beside: Sequence[LocalFile] = (),
) -> None:
    """Write the result of an edit. *document*: the document of the command. *place*: the file to write.

    *written*: whether the file was written. *ports*: the ports of the fabric by their GUIDs. *beside*: other files that
    change with it.
    """
    exits.warn_each(edited.notes, "note")
    warn_of_new_problems(edited)
    rows = [_row(each, ports) for each in edited.changes]
    has_files = any(field.name == "files" for field in document.fields)
    files = {"files": [{"file": str(each.path), "diff": _diff_of(each)} for each in beside]} if has_files else {}
    if not write_document(format, document, lambda: _document(edited, place, written, rows, ports) | files, rows):
        _write_words(edited, place, written, rows, beside)


def write_local_files(files: Iterable[LocalFile]) -> None:
    """Replace files that change with a policy file. Raises FileChanged if another program or administrator has changed
    one since it was read; FileError if it cannot be written."""
    from ibkeys.errors import FileChanged
    from ibkeys.host.replacing.file_to_replace import look
    from ibkeys.host.replacing.putting import put

    for each in files:
        seen = look(each.path)
        if seen.found is None or seen.data != each.before:
            raise FileChanged(f"{each.path}: another user or program changed it in the meantime")
        put(seen, each.after, seen.found.metadata)


def _diff_of(file: LocalFile) -> str:
    return "\n".join(clean(line) for line in differing_lines(file.before, file.after, str(file.path)))


def warn_of_new_problems(edited: EditedPolicy) -> None:
    """Warn of problems that the policy has now and did not have before."""
    from ibkeys.partitions.lint import lint

    before = Counter(problem.code for problem in lint(edited.before)) if edited.pending else Counter()
    for problem in lint(edited.after) if edited.pending else ():
        before[problem.code] -= 1
        if problem.severity == "warning" and before[problem.code] < 0:
            exits.warn(problem.located(edited.after.path))


def _write_words(
    edited: EditedPolicy, place: PolicyFile, written: bool, rows: Sequence[JsonRow], beside: Sequence[LocalFile]
) -> None:
    write_each(map(clean, difference(edited)))
    write_each(_diff_of(each) for each in beside)
    write_each(_member_lines(rows))
    if edited.unchanged:
        count = len(edited.unchanged)
        write(f"{count} port{'s are' if count != 1 else ' is'} already as requested")
    if not edited.pending:
        write(f"nothing to change{' in the policy' if beside else ''}")
    if written:
        write_each(clean(f"written: {each.path}") for each in beside)
    if written and (edited.pending or not beside):
        write(clean(f"written: {place.name}; what it changes on the fabric: ibkeys plan {place.name}"))
    elif not written and (edited.pending or beside):
        write("dry run: nothing was written")


def _member_lines(rows: Sequence[JsonRow]) -> Iterator[str]:
    """Yield lines with the members that changed: ``added to lustre (0x0021), limited: stage[1-48] mlx5_0``."""
    names = FoldedNames(row for row in rows if _is_found(row))
    for (what, role), alike in grouped(rows, lambda row: (_change_in_words(row), _role(row))).items():
        names_of_ports = names.words(filter(_is_found, alike))
        others = [row["port_guid"] or row["who"] for row in alike if not _is_found(row)]
        yield f"{paint(clean(what), role)}: {', '.join([*names_of_ports, *others])}"


def _is_found(row: JsonRow) -> bool:
    """Return whether the row is of a port of the fabric, and not of a keyword or an unknown GUID."""
    return row["node_guid"] is not None


def _change_in_words(row: JsonRow) -> str:
    before, after = row["before"], row["after"]
    where = f"{row['name']} ({row['partition']})" if row["name"] else row["partition"]
    if before is None:
        return f"added to {where}, {after}"
    return f"removed from {where}" if after is None else f"{after} instead of {before} in {where}"


def _role(row: JsonRow) -> str:
    return role_of_change(row["before"], row["after"])


def difference(edited: EditedPolicy) -> Iterator[str]:
    """Yield a unified diff of the policy before and after."""
    return differing_lines(edited.before.data or b"", edited.after.data or b"", edited.before.path)


def differing_lines(before: bytes, after: bytes, path: str) -> Iterator[str]:
    """Yield a unified diff of the bytes of the file *path*."""
    old, new = (data.decode("utf-8", "surrogateescape").splitlines() for data in (before, after))
    return difflib.unified_diff(old, new, path, f"{path} (edited)", lineterm="")


def _document(
    edited: EditedPolicy, place: PolicyFile, written: bool, rows: Sequence[JsonRow], ports: Mapping[int, Port]
) -> dict[str, Any]:
    return {
        "file": edited.before.path,
        "out": place.name,
        "written": written,
        "digest_before": edited.before.digest,
        "digest_after": edited.after.digest,
        "changes": rows,
        "unchanged": [_identity(guid, ports) for guid in edited.unchanged],
        "diff": "\n".join(clean(line) for line in difference(edited)),
    }


def _row(change: MemberChange, ports: Mapping[int, Port]) -> dict[str, Any]:
    return {
        **_identity(change.rule.guid, ports),
        "partition": f"0x{change.base:04x}",
        "name": change.partition,
        "who": change.rule.who,
        "before": change.before,
        "after": change.after,
    }


def _identity(guid: int, ports: Mapping[int, Port]) -> dict[str, Any]:
    """Return the identity of the port with *guid*. If the fabric has no such port, the GUID alone; 0 is no GUID."""
    if guid in ports:
        return ports[guid].identity()
    return {**dict.fromkeys(IDENTITY), "port_guid": f"0x{guid:016x}" if guid else None}
