"""The files of an OpenSM of a rehearsal, in a private folder: options, policy, key files, and all that it reads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from ibkeys.errors import AddressError, IbkeysError, UsageError
from ibkeys.keys.fingerprint import Fingerprints
from ibkeys.keys.mkey import MKey
from ibkeys.managers.opensm.options_file import OptionsFile, read_options
from ibkeys.rehearse.bundle import Bundle
from ibkeys.rehearse.key_files import place_key_files
from ibkeys.rehearse.opensm_options import POLICY, rehearsal_options
from ibkeys.rehearse.opensm_run import OpensmRun
from ibkeys.rehearse.site_opensm import SiteOpensm
from ibkeys.rehearse.surprises import notes_before_start
from ibkeys.rehearse.twin import Twin
from ibkeys.sim.nodes import SimPort
from ibkeys.sim.subnet import Subnet
from ibkeys.store.opensm import MKEY_FILE, NEIGHBORS_FILE

CONF: Final = "opensm.conf"
_GIVEN, _WRITTEN, _CACHE = "given.conf", "written.conf", "packed"
KEYS: Final = "keys"
"""Files in the folder: the options of OpenSM there, the site's, all of the site's; the folders of key files from a
bundle, and of the ports' keys."""
_QUIET: Final = 1.0
"""Seconds without a MAD after which OpenSM has nothing left to do, if every port answers."""
_MARGIN: Final = 1.25
"""The silence has to last this many times as long as OpenSM waits for an answer."""


class MadeUpKeys:
    """The keys of the copy. *number_of*: returns the number that stands for an M_Key in the fabric of the copy, None if
    no port has it, or if it is not known. *can_compare*: whether it is known."""

    def __init__(self, number_of: Callable[[MKey], int | None], can_compare: bool) -> None:
        self._number_of, self._can_compare = number_of, can_compare
        self._made_up = Fingerprints.generate()
        self._assumed: dict[MKey, int] = {}

    def of(self, key: MKey) -> MKey:
        """Return the key that replaces *key*: the same one for equal keys."""
        number = self._number_of(key)
        if number is None:
            number = self._assumed.get(key, self._made_up.of(key))
        return MKey(number)

    def assume(self, m_key: MKey, subnet: Subnet) -> list[str]:
        """Assume that *m_key*, OpenSM's option, is the key of the ports, if that cannot be known, and all ports that
        have a key have the same one. Return a note on it, also if their keys differ."""
        keys = {port.m_key for node in subnet.nodes for port in node.end_ports} - {0}
        if m_key.is_zero or not keys or self._can_compare:
            return []
        if len(keys) == 1:
            self._assumed[m_key] = keys.pop()
            return [
                "it is assumed that m_key of OpenSM's options is the M_Key of the ports: only a host with the secret "
                "of the snapshot's fingerprints can compare them"
            ]
        return [
            f"the ports have {len(keys)} different M_Keys, and whether m_key of OpenSM's options is one of them is "
            "known only on a host with the secret of the snapshot's fingerprints: it counts as another one here"
        ]


@dataclass(frozen=True, slots=True)
class PlacedOpensm:
    """An OpenSM whose files are in ``folder``. ``options``: all options of the site's; ``home``: its port; ``policy``:
    where the site has its policy; ``notes``: facts about its files for the user."""

    opensm: SiteOpensm
    folder: Path
    options: OptionsFile
    home: SimPort
    policy: Path
    notes: tuple[str, ...]

    @property
    def policy_copy(self) -> Path:
        """The copy of its policy."""
        return self.folder / POLICY

    def start(self, twin: Twin) -> OpensmRun:
        """Start OpenSM on its host, and return it when it rests. Raises IbkeysError as
        `OpensmRun.wait_until_it_rests`."""
        words = [str(self.opensm.program), "-F", str(self.folder / CONF)]
        started = OpensmRun(twin, self.home.node, words, self.folder, _longest_silence(self.options))
        try:
            started.wait_until_it_rests()
        except IbkeysError as error:
            raise IbkeysError("; ".join([str(error), *self.notes])) from None
        return started


def place_opensm(
    twin: Twin, opensm: SiteOpensm, folder: Path, host: str | int | None, port_guid: int, keys: MadeUpKeys
) -> PlacedOpensm:
    """Put the files of *opensm* into *folder*, which exists. *host*: its node; None: that of its option guid, else of
    the port *port_guid*.

    Raises UsageError for options that cannot be rehearsed, a file that cannot be copied, and a port that the fabric
    does not have; FileFormatError and StoreError for key files that cannot be read.
    """
    written = _all_options(twin, opensm, folder)
    options = read_options(written)
    home = _home(twin.subnet, options, host, port_guid)
    m_key = options.value("m_key")
    assert isinstance(m_key, MKey)
    notes = keys.assume(m_key, twin.subnet)
    changed = rehearsal_options(written, folder, home.guid, keys.of)
    (folder / CONF).write_bytes(changed.text)
    for name, path in changed.copies.items():
        data = opensm.read(path)
        if data is not None:
            (folder / name).write_bytes(data)
        elif name == POLICY:
            where = "in the bundle" if opensm.packed is not None else f"at {opensm.path(path)}"
            notes.append(f"OpenSM finds no policy {where}, so every port is a full member of the default partition")
    notes += notes_before_start(twin.subnet, options, m_key if m_key.is_zero else keys.of(m_key))
    if opensm.packed is not None:
        _unpack_key_files(opensm.packed, folder / _CACHE)
        opensm = replace(opensm, cache=folder / _CACHE)
    notes += place_key_files(twin.subnet, opensm, folder, folder / KEYS, keys.of)
    return PlacedOpensm(opensm, folder, options, home, opensm.path(changed.copies[POLICY]), tuple(notes))


def _all_options(twin: Twin, opensm: SiteOpensm, folder: Path) -> bytes:
    """Return all options of the site's OpenSM, as its own program writes them. Raises UsageError if it writes none."""
    if opensm.packed is not None:
        return opensm.packed.options
    words = list(opensm.words)
    if opensm.config is not None:
        (folder / _GIVEN).write_bytes(opensm.read(str(opensm.config)) or b"")
        words += ["-F", str(folder / _GIVEN)]
    done = twin.run([str(opensm.program), *words, "-c", str(folder / _WRITTEN)])
    try:
        return (folder / _WRITTEN).read_bytes()
    except FileNotFoundError:
        raise UsageError(
            f"{opensm.program} does not write its options with -c (exit status {done.code}): is it an OpenSM?"
        ) from None


def _unpack_key_files(bundle: Bundle, cache: Path) -> None:
    cache.mkdir()
    for name in {MKEY_FILE, NEIGHBORS_FILE} & bundle.files.keys():
        (cache / name).write_bytes(bundle.files[name])


def _home(subnet: Subnet, options: OptionsFile, host: str | int | None, port_guid: int) -> SimPort:
    """Return the port on which OpenSM runs. Raises UsageError if the fabric does not have it."""
    guid = options.value("guid")
    key = host or guid or port_guid
    assert isinstance(key, str | int)
    try:
        node = subnet.node(key)
    except AddressError as error:
        if host:
            raise UsageError(f"OpenSM's host is not found: {error}") from None
        raise UsageError(
            f"OpenSM runs on no port of this fabric ({error}): name its host, `ibkeys rehearse --host NODE`"
        ) from None
    same = (port for port in node.end_ports if port.guid in (guid, port_guid))
    return next(same, subnet.attach_port(node))


def _longest_silence(options: OptionsFile) -> float:
    """Return the seconds after which an OpenSM that sends nothing waits for no answer any more."""
    timeout, retries = options.value("transaction_timeout"), options.value("transaction_retries")
    assert isinstance(timeout, int)
    assert isinstance(retries, int)
    return max(_QUIET, timeout * (retries + 1) * _MARGIN / 1000)
