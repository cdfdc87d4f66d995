"""The stored record of a run through OpenSM, from which it can be resumed or rolled back whatever stopped it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from ibkeys.change.course import Course, EndedStep
from ibkeys.errors import StoreError
from ibkeys.keys.key_setting import KeySetting
from ibkeys.keys.mkey import NO_MKEY, MKey
from ibkeys.managers.site import KEPT_HOSTS
from ibkeys.mkeys.opensm.course import KeyStep, RunKeys, describe_step
from ibkeys.mkeys.opensm.key_proof import PortReadings
from ibkeys.mkeys.opensm.standbys import Standby
from ibkeys.store.keystore.keystore import KeyStore

NAME: Final = "opensm"
"""The name of this method in the journal."""


@dataclass(frozen=True, slots=True)
class Part:
    """One step of the runner, which is a part of a step of the run. ``number``: the number of the step of the run;
    ``what``: whether the ports are set, a ``standby`` is stopped or started, or the options files get the values from
    before the step again."""

    number: int
    what: Literal["set", "stop", "start", "restore"] = "set"
    standby: Standby | None = None


@dataclass(slots=True)
class RunRecord:
    """A run through OpenSM. ``keys``: the former setting of all ports, and the wanted one; ``steps``: the steps in
    order; ``hosts``: the other hosts, as `ibkeys.managers.site.to_json` returns them; ``at``: the number of
    the step that is being made, counted from 0, ``len(steps)`` when all are made.

    ``stopped``: the standbys that were stopped and have not been started again; ``members``: all SMs that were found,
    of which an absent one counts as stopped later; ``goes_back``: whether the steps are those of the rollback;
    ``has_written``: whether an options file may have the values of a step; ``earlier``: the settings that the run found
    or wrote before its rollback began.
    """

    keys: RunKeys
    steps: list[KeyStep]
    hosts: list[dict[str, Any]]
    at: int = 0
    stopped: list[Standby] = field(default_factory=list)
    members: list[Standby] = field(default_factory=list)
    goes_back: bool = False
    has_written: bool = False
    earlier: list[KeySetting] = field(default_factory=list)

    @property
    def settings(self) -> list[KeySetting]:
        """The settings that the run found or may have written. Any other setting in a file was set by another program
        or administrator."""
        if not self.has_written:
            return [self.keys.former]
        steps = [self.keys.setting(each) for each in self.steps]
        return list(dict.fromkeys([*self.earlier, self.keys.former, self.keys.wanted, *steps]))

    @property
    def undoes_nothing(self) -> bool:
        """Whether this is the rollback of a run that has written no options file: then the rollback writes nothing
        either."""
        return self.goes_back and not self.has_written

    def is_ours(self, setting: KeySetting) -> bool:
        """Return whether the run found or wrote *setting*. Without a key, level and lease have no effect."""
        return any(each == setting or (each.key.is_zero and setting.key.is_zero) for each in self.settings)

    def rewind(self, settings: Collection[KeySetting]) -> None:
        """Set ``at`` back, so that earlier steps are repeated, if every port has the former key again, as after a sweep
        of an SM with an old options file. *settings*: the settings of the ports now.

        The key may change only in its own step, at the level that the steps before it reach, so these have to be
        repeated. If a port has the new key, no step is repeated, because OpenSM gives that key to the other ports too.
        Nothing is repeated either if all steps are made, or if the run does not change the key.
        """
        former = self.keys.former.key
        if self.at == len(self.steps) or former == self.keys.wanted.key or {each.key for each in settings} != {former}:
            return
        level = 0 if former.is_zero else max(each.protect for each in settings)
        while self.at and not self._begins_at(former, level):
            self.at -= 1

    def _begins_at(self, key: MKey, level: int) -> bool:
        before = self.keys.before(self.steps, self.at)
        return before.key == key and before.protect >= level

    def course(self, running: Iterable[Standby], until: int | None = None) -> Course[Part]:
        """Return the course of the remaining steps, for the runner. *running*: the standbys that
        run now. *until*: only the steps before this number, and no standby is started at the end; None: all steps.

        The standbys are stopped while the key changes. A standby that a user started during that time is stopped and
        started again, because it started with other key files.

        If a step takes effect on no port, the options files get their former values again (`is_without_effect`).
        """
        return Course([*self._parts([*running], [*self.stopped], until)], self._parts_back)

    def _parts_back(self, failed: EndedStep[Part]) -> list[Part]:
        is_without_effect = self.is_without_effect(failed.step.number, failed.last_look)
        return [replace(failed.step, what="restore")] if is_without_effect else []

    def is_without_effect(self, number: int, seen: object) -> bool:
        """Return whether step *number* took effect on no port, so that OpenSM may not read its options file. *seen*:
        the result of the last look.

        The files then get their former values again, so that no later sweep applies the step unnoticed. The step that
        lowers the level is an exception: its values stay in the files, because a later sweep may apply them, which is
        wanted, and because the values of the step before may be below the level from before the run.
        """
        if not isinstance(seen, PortReadings) or not seen.wrong or len(seen.wrong) != len(seen.infos):
            return False
        step = self.steps[number]
        return step.kind != "lowered" and self.keys.before(self.steps, number) != self.keys.setting(step)

    def _parts(self, running: list[Standby], stopped: list[Standby], until: int | None) -> Iterator[Part]:
        end = len(self.steps) if until is None else until
        for number in range(self.at, end):
            if any(step.standbys for step in self.steps[number:]):
                yield from (Part(number, "stop", each) for each in running)
                running, stopped = [], [*stopped, *running]
            yield Part(number)
            if self.steps[number].standbys:
                yield from _starting(number, stopped)
                running, stopped = [*running, *stopped], []
        if until is None:  # in a rollback that began before the key changed, standbys may be stopped still
            yield from _starting(end - 1, stopped)

    def update_standbys(self, running: Sequence[Standby], hosts: Collection[str]) -> list[Standby]:
        """Note the OpenSMs that are *running* now. An OpenSM that ran before, on one of *hosts*, and does not run now
        counts as stopped, a former master too, because its options file of an earlier step would undo later steps.

        Forget and return those on no host of *hosts*, which cannot be started again.
        """
        guids = {each.guid for each in running}
        places = {(each.host, each.cache) for each in running}  # after a swap of its adapter an OpenSM has another GUID
        known = {each.guid: each for each in [*self.members, *self.stopped]}
        gone = [each for guid, each in known.items() if guid not in guids and (each.host, each.cache) not in places]
        self.stopped = [each for each in gone if each.host in hosts]
        self.members = [*running, *self.stopped]
        return [each for each in gone if each.host not in hosts]

    def words(self, number: int) -> str:
        """Return the step with this *number* in words, without a key."""
        return describe_step(self.steps[number], self.goes_back)

    def to_json(self, store: KeyStore) -> dict[str, Any]:
        """Return the record as JSON values for the journal. The keys get rows of their own in *store*, and the journal
        has the names of these rows. The wanted key becomes the newest key of the subnet, with which ports without a
        known key are read.
        """
        return {
            "name": NAME,
            KEPT_HOSTS: self.hosts,
            "former": _setting_to_json(store, self.keys.former, is_newest=False),
            "wanted": _setting_to_json(store, self.keys.wanted, is_newest=True),
            "steps": [each.to_json() for each in self.steps],
            "at": self.at,
            "stopped": [each.to_json() for each in self.stopped],
            "members": [each.to_json() for each in self.members],
            "goes_back": self.goes_back,
            "has_written": self.has_written,
            "earlier": [_setting_to_json(store, each, is_newest=False) for each in self.earlier],
        }

    @classmethod
    def of_json(cls, kept: Mapping[str, Any], store: KeyStore) -> RunRecord:
        """Return the record of which the journal has these values; *store* has its keys. Raises StoreError for values
        that are no run through OpenSM, KeyGone if *store* does not have a key."""
        try:
            if kept["name"] != NAME:
                raise StoreError(f"the run was made through {str(kept['name'])!r}, which this ibkeys does not know")
            return cls(
                RunKeys(_setting_of_json(store, kept["former"]), _setting_of_json(store, kept["wanted"])),
                [KeyStep.of_json(each) for each in kept["steps"]],
                list(kept[KEPT_HOSTS]),
                int(kept["at"]),
                [Standby.of_json(each) for each in kept["stopped"]],
                [Standby.of_json(each) for each in kept["members"]],
                bool(kept["goes_back"]),
                bool(kept.get("has_written", True)),  # records of earlier versions do not have this value
                [_setting_of_json(store, each) for each in kept.get("earlier", ())],
            )
        except (KeyError, TypeError, ValueError):
            raise StoreError("the journal is damaged: the run through OpenSM cannot be read") from None


def _starting(number: int, standbys: Sequence[Standby]) -> Iterator[Part]:
    for each in standbys:
        yield Part(number, "stop", each)
        yield Part(number, "start", each)


def _setting_to_json(store: KeyStore, setting: KeySetting, is_newest: bool) -> dict[str, Any]:
    name = None
    if not setting.key.is_zero:
        name = None if is_newest else store.subnet_key_names().get(setting.key)
        name = name or store.subnet_key_name(store.put_subnet_key(setting.key, "of a run through OpenSM"))
    return {"key_name": name, "protect": setting.protect, "lease": setting.lease}


def _setting_of_json(store: KeyStore, kept: Mapping[str, Any]) -> KeySetting:
    name = kept["key_name"]
    key = NO_MKEY if name is None else store.subnet_key_named(str(name))
    return KeySetting(key, int(kept["protect"]), int(kept["lease"]))
