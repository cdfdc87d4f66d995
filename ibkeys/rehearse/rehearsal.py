"""A rehearsal: what the site's OpenSM does with a change, made on a private copy of the fabric.

The copy is served as the snapshot has it. OpenSM is started on it. What it changes then, a restart or a takeover would
change on the fabric. If the snapshot was taken while a subnet manager was master, these values are then put back behind
OpenSM's back, because a running OpenSM does not repair them: so the change meets the same drift as on the fabric. Then
ibkeys applies the plan through that OpenSM, as it would on the fabric, and undoes it. After each, all tables are
compared with what was planned.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ibkeys.errors import AddressError, UsageError
from ibkeys.keys.fingerprint import Fingerprints
from ibkeys.keys.mkey import MKey
from ibkeys.managers.opensm.options_file import OptionsFile, read_options
from ibkeys.managers.simulated_keys import export_keys
from ibkeys.plan.model import PartitionPlan
from ibkeys.rehearse.causes import Cause, causes_of
from ibkeys.rehearse.opensm_options import POLICY, RehearsalOptions, rehearsal_options
from ibkeys.rehearse.opensm_run import OpensmRun
from ibkeys.rehearse.private import run_privately
from ibkeys.rehearse.site_opensm import SiteOpensm
from ibkeys.rehearse.tables import Tables, ValueDifference, differences, identities, planned, put_back, tables_of
from ibkeys.rehearse.twin import Ended, Twin
from ibkeys.sim.netfile.model import NetFile
from ibkeys.sim.nodes import SimPort
from ibkeys.sim.subnet import Subnet

_REFUSED: Final = 4
"""The exit status of ibkeys if an interlock refuses a change: see ibkeys(1)."""
_CONF, _GIVEN, _WRITTEN, _PLAN, _KEYS = "opensm.conf", "given.conf", "written.conf", "plan.json", "keys"
"""Files in the private folder: the options of OpenSM there, the site's, all of the site's, the plan, the M_Keys."""
_QUIET: Final = 1.0
"""Seconds without a MAD after which OpenSM has nothing left to do, if every port answers."""
_MARGIN: Final = 1.25
"""How much longer than OpenSM waits for answers the silence has to be."""


@dataclass(frozen=True, slots=True)
class RehearsalRequest:
    """What to rehearse, and on which copy.

    ``fabric``: the fabric as records of the simulator. ``opensm``: the site's OpenSM. ``host``: the node on which it
    runs, as the user typed it; None: the port of its option guid, else ``port_guid``, the port of the master, or of the
    host that took the snapshot. ``had_master``: whether a subnet manager was master. ``number_of``: returns the number
    that stands for an M_Key in ``fabric``, None if it is not known. ``plan``: the plan, and the bytes of its file;
    None: the rehearsal ends after the start of OpenSM. ``arguments``: further arguments of ``ibkeys apply``, which
    ``ibkeys undo`` has too, but for those in ``only_apply``.
    """

    fabric: NetFile
    opensm: SiteOpensm
    host: str | None
    port_guid: int
    had_master: bool
    number_of: Callable[[MKey], int | None]
    plan: tuple[PartitionPlan, bytes] | None = None
    arguments: Sequence[str] = ()
    only_apply: Sequence[str] = ()


def rehearse(request: RehearsalRequest, say: Callable[[str], None] = lambda text: None) -> dict[str, Any]:
    """Make a rehearsal, and return it as the document rehearse has it. *say*: called with each step.

    Nothing of it is left on this host. Raises Refused if the kernel allows no private namespaces; UsageError for
    options of OpenSM that cannot be rehearsed; IbkeysError if OpenSM does not run on the copy.
    """
    needed = [request.opensm.program, request.opensm.folder, *filter(None, [request.opensm.config])]
    return dict(run_privately(lambda folder: _Rehearsal(request, folder, say).make(), needed))


class _Rehearsal:
    """One rehearsal, in the private process. *folder*: the private folder."""

    def __init__(self, request: RehearsalRequest, folder: Path, say: Callable[[str], None]) -> None:
        self._request, self._folder, self._say = request, folder, say
        self._subnet = Subnet(request.fabric)
        self._ports = identities(self._subnet)
        self._notes: list[str] = []
        self._made_up = Fingerprints.generate()

    def make(self) -> dict[str, Any]:
        with Twin(self._subnet, self._subnet.nodes[0], self._folder) as twin:
            written = self._all_options(twin)
            home = self._home(written)
            twin.host = home.node
            options = rehearsal_options(written, self._folder, home.guid, self._made_up_key)
            self._place_files(options)
            recorded = tables_of(self._subnet)
            self._say(f"OpenSM starts on {home.node.description} of the copy")
            words = [str(self._request.opensm.program), "-F", self._path(_CONF)]
            opensm = OpensmRun(twin, words, self._folder, _longest_silence(read_options(written)))
            opensm.wait_until_it_rests()
            started = tables_of(self._subnet)
            document = {
                "opensm": {
                    "program": str(self._request.opensm.program),
                    "source": self._request.opensm.source,
                    "options_file": str(self._request.opensm.config) if self._request.opensm.config else None,
                    "port": self._ports[home.node.guid, home.number].to_json(),
                },
                "at_start": self._to_json(recorded, started, self._causes(recorded, started, written)),
            }
            return document | self._change(twin, opensm, recorded, started)

    def _all_options(self, twin: Twin) -> bytes:
        """Return all options of the site's OpenSM, as its own program writes them."""
        opensm = self._request.opensm
        words = list(opensm.words)
        if opensm.config is not None:
            (self._folder / _GIVEN).write_bytes(opensm.read(str(opensm.config)) or b"")
            words += ["-F", self._path(_GIVEN)]
        done = twin.run([str(opensm.program), *words, "-c", self._path(_WRITTEN)])
        try:
            return (self._folder / _WRITTEN).read_bytes()
        except FileNotFoundError:
            raise UsageError(
                f"{opensm.program} does not write its options with -c (exit status {done.code}): is it an OpenSM?"
            ) from None

    def _home(self, written: bytes) -> SimPort:
        """Return the port on which OpenSM runs. Raises UsageError if the fabric does not have it."""
        request, guid = self._request, read_options(written).value("guid")
        key = request.host or guid or request.port_guid
        assert isinstance(key, str | int)
        try:
            node = self._subnet.node(key)
        except AddressError as error:
            raise UsageError(
                f"OpenSM runs on no port of this fabric ({error}): name its host, `ibkeys rehearse --host NODE`"
            ) from None
        same = (port for port in node.end_ports if port.guid in (guid, request.port_guid))
        return next(same, self._subnet.attach_port(node))

    def _made_up_key(self, key: MKey) -> MKey:
        number = self._request.number_of(key)
        return MKey(self._made_up.of(key) if number is None else number)

    def _place_files(self, options: RehearsalOptions) -> None:
        """Write the files of OpenSM into the private folder. Raises UsageError if one cannot be copied."""
        (self._folder / _CONF).write_bytes(options.text)
        for name, path in options.copies.items():
            data = self._request.opensm.read(path)
            if data is not None:
                (self._folder / name).write_bytes(data)
            elif name == POLICY:
                self._notes.append(
                    f"OpenSM finds no policy at {self._request.opensm.path(path)}, so every port is a full member of "
                    "the default partition"
                )
        (self._folder / _KEYS).mkdir()
        if export_keys(self._subnet, self._folder / _KEYS):
            for file in (self._folder / _KEYS).iterdir():  # OpenSM's cache is this folder
                (self._folder / file.name).write_bytes(file.read_bytes())

    def _change(self, twin: Twin, opensm: OpensmRun, recorded: Tables, started: Tables) -> dict[str, Any]:
        """Make the change and undo it, and return what the document says about both."""
        if self._request.plan is None:
            changes = differences(recorded, started)
            return self._result("differs" if changes else "identical", opensm)
        plan, data = self._request.plan
        if self._request.had_master and recorded != started:
            put_back(self._subnet, recorded)
            opensm.sweep()
        (self._folder / _PLAN).write_bytes(data)
        before = tables_of(self._subnet)
        self._say("ibkeys applies the plan through it")
        made = twin.run(
            ["ibkeys", "apply", self._path(_PLAN), "--via", "opensm", *self._request.only_apply, *self._common()]
        )
        if made.code == _REFUSED:
            return self._result("refused", opensm, apply=_step(made))
        opensm.wait_until_it_rests()
        wrong = self._to_json(planned(plan, before), tables_of(self._subnet))
        operation = _operation(made.output)
        result: dict[str, Any] = {"apply": _step(made), "differences": wrong}
        if operation is None:
            return self._result("differs" if wrong or made.code else "identical", opensm, **result)
        self._say("ibkeys undoes it")
        undone = twin.run(["ibkeys", "undo", str(operation), *self._common()])
        opensm.wait_until_it_rests()
        left = self._to_json(before, tables_of(self._subnet))
        is_same = not (wrong or left or made.code or undone.code)
        return self._result(
            "identical" if is_same else "differs", opensm, **result, undo=_step(undone), left_by_undo=left
        )

    def _common(self) -> list[str]:
        has_keys = any((self._folder / _KEYS).iterdir())
        keys = ["--security-keys", self._path(_KEYS)] if has_keys else []
        return ["--yes", "-f", "json", *keys, *self._request.arguments]

    def _result(self, verdict: str, opensm: OpensmRun, **parts: Any) -> dict[str, Any]:
        nothing: dict[str, Any] = {"apply": None, "differences": [], "undo": None, "left_by_undo": []}
        return {
            "verdict": verdict,
            **nothing,
            **parts,
            "opensm_errors": [{"error": name, "count": count} for name, count in opensm.errors().most_common()],
            "notes": self._notes,
        }

    def _to_json(
        self, before: Tables, after: Tables, causes: Mapping[ValueDifference, Cause] | None = None
    ) -> list[dict[str, Any]]:
        return [
            {
                **self._ports[each.key].to_json(),
                "kind": each.kind,
                "index": each.index,
                "before": each.before,
                "after": each.after,
                **({"cause": causes[each]} if causes is not None else {}),
            }
            for each in differences(before, after)
        ]

    def _causes(self, recorded: Tables, started: Tables, written: bytes) -> dict[ValueDifference, Cause]:
        return causes_of(recorded, started, read_options(written), (self._folder / POLICY).exists())

    def _path(self, name: str) -> str:
        return str(self._folder / name)


def _longest_silence(options: OptionsFile) -> float:
    """Return the seconds after which an OpenSM that sends nothing waits for no answer any more."""
    timeout, retries = options.value("transaction_timeout"), options.value("transaction_retries")
    assert isinstance(timeout, int)
    assert isinstance(retries, int)
    return max(_QUIET, timeout * (retries + 1) * _MARGIN / 1000)


def _step(done: Ended) -> dict[str, Any]:
    """Return a command that has ended as the document has it: its last line on standard error is the message."""
    lines = [line for line in done.errors.splitlines() if line.strip()]
    return {
        "exit_code": done.code,
        "seconds": round(done.seconds, 1),
        "message": lines[-1] if done.code and lines else None,
    }


def _operation(output: str) -> int | None:
    """Return the number of the operation in the journal that a command names in its JSON; None if it began none."""
    try:
        document = json.loads(output)
    except ValueError:
        return None
    operation = document.get("operation")
    return operation if isinstance(operation, int) else None
