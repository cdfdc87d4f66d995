"""A page of HTML, parsed, and the contrast of its colours."""

from __future__ import annotations

from html.parser import HTMLParser

VOID = {"meta", "br", "input", "link", "img", "hr"}


class Page(HTMLParser):
    """A page taken apart: its elements with attributes, and the text of each kind of element."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.text: dict[str, str] = {}
        self.open: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        inside = "style" if "style" in self.open else "script" if "script" in self.open else "shown"
        self.text[inside] = self.text.get(inside, "") + data

    def having(self, tag: str, class_: str) -> list[dict[str, str]]:
        return [attrs for name, attrs in self.elements if name == tag and class_ in attrs.get("class", "").split()]


def contrast(one: str, other: str) -> float:
    """Return the contrast ratio of WCAG 2.1."""

    def luminance(colour: str) -> float:
        parts = [int(colour[index : index + 2], 16) / 255 for index in (1, 3, 5)]
        red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)
