"""A metric with all its series. All are gauges: each is the value of one reading, and none is a counter."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ibkeys.printable import clean

Labels = tuple[str, ...]


class Family:
    """One metric: its name, its description, the names of its labels, and a value for each set of label values.

    No series can occur twice, because series are stored by their labels. Label values are made printable, because a
    node can choose any name.
    """

    def __init__(self, name: str, help: str, labels: Labels = (), values: Mapping[Labels, float] | None = None) -> None:
        self.name = name
        self.help = help
        self.labels = labels
        self._values = dict(values or {})

    def add(self, *labels: str, value: float = 1) -> None:
        """Add *value* to the series with these label values, which begins at 0."""
        key = self._key(labels)
        self._values[key] = self._values.get(key, 0) + value

    def put(self, *labels: str, value: float = 1) -> None:
        """Set the series with these label values to *value*."""
        self._values[self._key(labels)] = value

    def series(self) -> Iterator[tuple[Labels, float]]:
        """Yield each set of label values with its value."""
        yield from self._values.items()

    def __bool__(self) -> bool:
        return bool(self._values)

    def _key(self, labels: Labels) -> Labels:
        if len(labels) != len(self.labels):
            raise TypeError(f"{self.name} has the labels {self.labels}, not {len(labels)} of them")
        return tuple(clean(each) for each in labels)


def of_one(name: str, help: str, value: float) -> Family:
    """Return a metric of one series without labels."""
    return Family(name, help, (), {(): value})
