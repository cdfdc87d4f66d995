"""The HTML report: one page, safe, whole, readable."""

from __future__ import annotations

import base64
import hashlib
import re
import sys

import pytest

from ibkeys.audit.findings import SEVERITIES, Report, Subject
from ibkeys.audit.formats.folder import NAMES
from ibkeys.audit.formats.html import FIRST, MOST, render_html
from ibkeys.audit.formats.matrix_page import render_matrix
from ibkeys.audit.formats.page import render_page
from ibkeys.audit.formats.report_pages import MOST as MOST_LINES
from ibkeys.audit.formats.report_pages import ReportTable, Text, render_text
from ibkeys.audit.pictures.columns import lay_out
from ibkeys.audit.pictures.fabric_map import fabric_map
from ibkeys.errors import UsageError
from ibkeys.port_text import PortText
from ibkeys.reach.reach import Reach
from tests.audit.pages import Page, contrast
from tests.audit.reports import NASTY, TEXTS, coverage, identity, large, partitions, report, rule, small, subject
from tests.audit.tables import fabric_of

LOADING = {"src", "srcset", "href", "xlink:href", "action", "data", "poster", "background", "formaction", "ping"}


def matrix_page() -> str:
    names, found = {1: NASTY}, fabric_of([(1, [1, 2], [3])], {1: NASTY, 3: NASTY})
    return render_matrix(lay_out(Reach(found), names), fabric_map(found, names), source=NASTY)


PAGES = {
    "small": lambda: render_html(small(), TEXTS, version="1.2.3"),
    "large": lambda: render_html(large(), TEXTS),
    "clean": lambda: render_html(report(partitions=())),
    "nasty": lambda: render_html(
        report(
            rule(
                "MK001", "fail", subject(1, name=NASTY, message=NASTY, waiver=NASTY, evidence={NASTY: {NASTY: NASTY}})
            ),
            rule("QK001", "unknown", note=NASTY),
            source=NASTY,
            policy=NASTY,
            coverage=coverage(NASTY),
            partitions=[(0x10, NASTY, 1, 2)],
        )
    ),
    "matrix": matrix_page,
    "index": lambda: render_text(Text(NASTY, NASTY, [NASTY], {NASTY: NASTY}), links=[("audit.html", NASTY, NASTY)]),
    "tables": lambda: render_text(
        Text(NASTY, NASTY, [NASTY], {NASTY: NASTY}), [ReportTable(NASTY, [NASTY], [[NASTY]], NASTY)], version=NASTY
    ),
}


@pytest.fixture(params=list(PAGES))
def html(request: pytest.FixtureRequest) -> str:
    return PAGES[request.param]()


def test_the_page_loads_nothing(html: str) -> None:
    page = Page(html)
    assert not page.open
    for tag, attrs in page.elements:
        assert tag not in {"link", "img", "iframe", "object", "embed", "base", "use", "image", "video", "audio"}
        # to a page beside it, or to a place in this one, when it is clicked
        linked = {"href"} if tag == "a" and (attrs["href"] in NAMES or attrs["href"].startswith("#")) else set()
        assert not {name for name in attrs if name in LOADING or name.startswith("on") or name == "style"} - linked
    assert not re.search(r"url\(|@import|image-set|https?:|//", page.text["style"])
    assert not re.search(r"https?:|fetch|XMLHttp|import\(|WebSocket|sendBeacon|innerHTML|eval", page.text["script"])


def test_the_policy_allows_this_style_and_this_script_and_nothing_else(html: str) -> None:
    page = Page(html)
    (policy,) = [
        attrs["content"]
        for tag, attrs in page.elements
        if tag == "meta" and attrs.get("http-equiv") == "Content-Security-Policy"
    ]

    def hash_of(kind: str) -> str:
        return "'sha256-" + base64.b64encode(hashlib.sha256(page.text[kind].encode()).digest()).decode() + "'"

    assert policy.split("; ") == [
        "default-src 'none'",
        f"style-src {hash_of('style')}",
        f"script-src {hash_of('script')}",
        "base-uri 'none'",
        "form-action 'none'",
    ]
    assert [tag for tag, _ in page.elements].count("style") == [tag for tag, _ in page.elements].count("script") == 1


@pytest.mark.parametrize(("page", "times"), [("nasty", 8), ("matrix", 3), ("index", 6), ("tables", 8)])
def test_hostile_text_is_shown_and_makes_no_element(page: str, times: int) -> None:
    shown = Page(PAGES[page]()).text["shown"]
    assert shown.count('<script>alert("x")</script>') >= times
    assert "\\u202e" in shown
    assert not {char for char in shown if not char.isprintable()} - {"\n"}


def test_every_failing_rule_is_there_with_findings_remedy_and_reason() -> None:
    audit = small()
    page = Page(render_html(audit, TEXTS))
    shown = page.text["shown"]
    listed = [attrs["id"] for attrs in page.having("details", "rule")]
    assert listed == ["MK001", "PK001", "PK007", "HY003", "MK003", "HY002"]
    assert len(page.having("tr", "finding")) == sum(len(each.subjects) for each in audit.results)
    for each in audit.results:
        assert each.title in shown
        assert (each.remedy in shown) == (each.rule in listed)
        for one in each.subjects:
            assert one.message in shown
    assert "until 2027-01-31" in shown


@pytest.mark.parametrize(
    ("audit", "fail_on", "headline"),
    [
        (small(), "high", "Failed, and incomplete"),
        (small(), None, "Incomplete: no verdict"),
        (report(rule("MK001", "fail", subject(1))), "high", "Failed"),
        (report(rule("PK007", "fail", subject(1))), "high", "Passed, with remarks"),
        (report(rule("PK007", "fail", subject(1))), "low", "Failed"),
        (report(rule("QK001", "unknown", note="no baseline")), "high", "Passed, with remarks"),
        (report(coverage=coverage("no reply")), "high", "Incomplete: no verdict"),
        (report(), "high", "Passed"),
    ],
)
def test_the_headline_is_the_verdict(audit: Report, fail_on: str | None, headline: str) -> None:
    html = render_html(audit, fail_on=fail_on)  # type: ignore[arg-type]
    assert f"<strong>{headline}</strong>" in html


def test_an_audit_in_which_nothing_passes_or_fails_has_no_verdict() -> None:
    audit = report()
    nothing = Report(**{**{name: getattr(audit, name) for name in audit.__slots__}, "results": [rule("KF001", "n/a")]})
    assert "<strong>No answers: no verdict</strong>" in render_html(nothing)


def test_the_score_counts_unknown_rules_against_and_leaves_out_waived_ones() -> None:
    shown = Page(render_html(small())).text["shown"]
    scores = dict(re.findall(r"(Hygiene|Key files|Violations and Q_Keys|M_Keys)(\d+ %|-)\d", shown))
    assert scores == {"M_Keys": "66 %", "Key files": "-", "Violations and Q_Keys": "50 %", "Hygiene": "0 %"}


def m_keys_score(audit: Report) -> int:
    """Return the score of the M_Keys in percent."""
    found = re.search(r"M_Keys(\d+) %", Page(render_html(audit)).text["shown"])
    assert found is not None
    return int(found[1])


def test_the_score_of_m_keys_stays_low_while_no_port_is_protected() -> None:
    """Level 0 everywhere: five of six rules pass, but everyone can read the keys. Or there is no key at all."""
    readable = rule("MK002", "fail", subject(1), passed=0)
    assert m_keys_score(report(readable)) == 49
    assert m_keys_score(report(rule("MK001", "fail", subject(2)), readable)) == 49
    without = [rule("MK001", "fail", subject(1), passed=0), rule("MK002", "n/a", passed=0)]
    assert m_keys_score(report(*without)) == 49
    assert m_keys_score(report(rule("MK002", "fail", subject(1), passed=1))) == 83
    assert m_keys_score(report(rule("MK002", "waived", subject(1, "waived"), passed=0))) == 100


def test_what_was_not_seen_is_named() -> None:
    shown = Page(render_html(small())).text["shown"]
    assert "'host0900 mlx5_0' 0x0002c90300000384 port 1: PortInfo: no reply after 3 attempts" in shown
    assert "no earlier snapshot to compare with" in shown


def different(n: int) -> str:
    return f"lease of {n} s"


def findings(page: Page) -> list[int]:
    """Return how many findings each row stands for."""
    return [int(each["data-findings"]) for each in page.having("tr", "finding")]


def test_equal_findings_are_one_row_that_names_every_port_folded_and_one_by_one() -> None:
    html = render_html(large(), TEXTS)
    page = Page(html)
    assert len(html) < 500_000
    assert findings(page) == [1200, 600, 900, 300]
    assert "1,200 portshost[0000-1199] mlx5_0" in page.text["shown"]
    assert page.text["shown"].count("0x0002c903000004af port 1 host1199 mlx5_0\n") == 1
    assert 'id="MK002" data-severity="high" data-group="MK" open>' in html  # four rows: all of them are open


def test_what_differs_in_anything_but_the_port_stays_apart() -> None:
    subjects = [
        subject(1),
        subject(2),
        subject(3, message="another"),
        subject(4, evidence={"PortInfo": {"m_key": "0x1"}}),
        subject(5, m_key_used=True),
        subject(6, time="2026-11-20T10:00:00Z"),
        subject(7, severity="low"),
        subject(8, "unknown"),
        subject(9, "waived", waiver="a"),
        subject(10, "waived", waiver="b"),
        Subject(dict.fromkeys(identity(11)), "fail", "M_KeyProtectBits is 0"),
        Subject(dict.fromkeys(identity(12)), "fail", "M_KeyProtectBits is 0"),
    ]
    page = Page(render_html(report(rule("MK001", "fail", *subjects))))
    assert sorted(findings(page)) == [1] * 10 + [2]
    assert "2 portshost[0001-0002] mlx5_0" in page.text["shown"]


def test_messages_that_differ_in_the_port_they_name_are_one_row_with_each_in_the_list() -> None:
    said = [PortText.of("enforcement is off towards {}", f"'node{n} mlx5_0' 0x{n:016x} port 1") for n in range(3)]
    page = Page(render_html(report(rule("SE001", "fail", *(subject(n, message=said[n]) for n in range(3))))))
    assert findings(page) == [3]
    assert "enforcement is off towards …" in page.text["shown"]
    for n, text in enumerate(said):
        assert f"0x0002c9030000000{n} port 1 host000{n} mlx5_0: {text}\n" in page.text["shown"]


def test_two_nodes_of_one_name_are_told_apart() -> None:
    page = Page(render_html(report(rule("MK001", "fail", *(subject(n, name="twin") for n in (1, 2))))))
    assert "twin (0x0002c90300000001,0x0002c90300000002)" in page.text["shown"]


def test_rows_are_mostly_folded_and_of_a_sensible_size() -> None:
    rows = [rule("MK002", "fail", *(subject(n, message=different(n)) for n in range(3000)))]
    html = render_html(report(*rows, rule("MK001", "fail", subject(1))))
    assert len(html) < 1_500_000
    assert len(findings(Page(html))) == 3001
    assert f"{3000 - FIRST:,} more findings" in html
    assert 'id="MK002" data-severity="high" data-group="MK">' in html  # folded: only what is critical is open


def test_more_than_a_page_is_for_is_counted() -> None:
    rows = render_html(report(rule("MK001", "fail", *(subject(n, message=different(n)) for n in range(MOST + 5)))))
    assert len(findings(Page(rows))) == MOST
    assert "And 5 more findings; the JSON of this report has them all." in rows
    ports = render_html(report(rule("MK001", "fail", *(subject(n) for n in range(MOST + 5)))))
    assert findings(Page(ports)) == [MOST + 5]
    assert "host[0000-3004] mlx5_0" in ports
    assert "And 5 more ports; the JSON of this report has them all." in ports


@pytest.mark.parametrize(("number", "folded"), [(1, 0), (20, 0), (500, 476)])
def test_partitions_are_drawn_with_their_members(number: int, folded: int) -> None:
    page = Page(render_html(report(partitions=partitions(number))))
    pictures = page.having("svg", "picture")
    assert [int(each["height"]) // 38 for each in pictures] == ([number] if not folded else [24, folded])
    assert len(page.having("rect", "track")) == number
    assert "3 full, " in page.text["shown"]


def test_without_partitions_there_is_no_picture() -> None:
    assert not Page(render_html(report(partitions=()))).having("svg", "picture")


def test_lines_of_a_table_beyond_what_a_page_is_for_are_counted_with_where_they_are() -> None:
    lines = [[f"line {n}"] for n in range(MOST_LINES + 2)]
    page = render_text(Text("a", "b", [], {}), [ReportTable("c", ["d"], lines, "ibkeys diff has them all")])
    assert "And 2 more lines: ibkeys diff has them all" in page
    assert page.count('<td data-title="d">') == MOST_LINES


def test_without_javascript_the_filter_is_hidden_and_all_is_there() -> None:
    (form,) = Page(render_html(small())).having("form", "filter")
    assert "hidden" in form


def colours(html: str) -> tuple[dict[str, str], dict[str, str]]:
    """Return the custom properties of the page, in light and in dark."""
    light, dark = (
        dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", part))
        for part in html.split("@media print")[0].split("@media screen and (prefers-color-scheme: dark)")[:2]
    )
    return light, dark


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
def test_text_has_the_contrast_of_wcag_aa_and_pictures_that_of_graphics(scheme: int) -> None:
    light, dark = colours(render_html(report()))
    named = light if scheme == 0 else {**light, **dark}
    for text in ("text", "muted", "link", "bad", "warn", "good", "open"):
        for ground in ("page", "panel"):
            assert contrast(named[text], named[ground]) >= 4.5, (text, ground)
    for badge in ("critical", "high", "medium", "low", "info", "unknown"):
        assert contrast(named["badge"], named[badge]) >= 4.5, badge
    for fill in ("bad-fill", "open-fill", "good-fill", "full", "limited"):
        assert contrast(named[fill], named["page"]) >= 3, fill


def test_a_missing_jinja2_is_said_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(UsageError, match=r" -m pip install jinja2$"):
        render_page("report.html.j2")


def test_a_rule_without_an_answer_says_why_as_the_text_does() -> None:
    fabric_wide = Subject(dict.fromkeys(identity(9)), "unknown", "no key store is at hand")
    unread = subject(1, "unknown", "not read", evidence={"PortInfo": {"reading": "unreadable"}})
    page = render_html(report(rule("QK003", "unknown", fabric_wide, unread, note="never shown")))
    assert "needs data that was not read: see “Could not be read”<br>no key store is at hand</td>" in page


def test_one_reason_of_many_ports_and_of_several_rules_is_said_once() -> None:
    old = [subject(n, "unknown", "the baseline has no counters of it") for n in range(40)]
    page = Page(render_html(report(rule("QK001", "unknown", *old), rule("MK003", "unknown", *old))))
    assert page.text["shown"].count("host[0000-0039] mlx5_0: the baseline has no counters of it") == 1


@pytest.mark.parametrize("page", ["small", "large", "clean", "nasty"])
def test_each_card_leads_to_what_it_counts(page: str) -> None:
    shown = Page(PAGES[page]())
    places = {attrs["id"]: attrs for _, attrs in shown.elements if "id" in attrs}
    targets = [attrs["href"].removeprefix("#") for tag, attrs in shown.elements if tag == "a"]
    assert targets or page == "clean"
    assert set(targets) <= places.keys()
    severities = [places[target].get("data-severity") for target in targets if target != "unanswered"]
    assert severities == sorted(set(severities), key=[*SEVERITIES].index)
