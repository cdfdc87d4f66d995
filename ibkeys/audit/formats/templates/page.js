"use strict";
(() => {
  const form = document.querySelector("#filter");
  if (form) {
    const rules = [...document.querySelectorAll("details.rule")].map((rule) => ({
      rule,
      open: rule.open,
      head: rule.querySelector("summary").textContent.toLowerCase(),
      rows: [...rule.querySelectorAll("tr.finding")].map((row) => ({
        row,
        text: row.textContent.toLowerCase(),
        findings: Number(row.dataset.findings),
        each: [...row.querySelectorAll("details.each")].map((list) => ({list, text: list.textContent.toLowerCase()})),
      })),
      more: [...rule.querySelectorAll("details.more")],
      lists: [...rule.querySelectorAll("details.more, table.findings")],
    }));
    const filter = () => {
      const severity = form.elements.severity.value;
      const group = form.elements.group.value;
      const text = form.elements.text.value.trim().toLowerCase();
      let shownRules = 0;
      let shownRows = 0;
      for (const each of rules) {
        const data = each.rule.dataset;
        const wanted = (!severity || data.severity === severity) && (!group || data.group === group);
        const all = !text || each.head.includes(text);
        let matches = 0;
        for (const {row, text: content, findings, each: lists} of each.rows) {
          row.hidden = !(wanted && (all || content.includes(text)));
          matches += row.hidden ? 0 : findings;
          for (const {list, text: ports} of lists) list.open = Boolean(text) && !all && ports.includes(text);
        }
        each.rule.hidden = !(wanted && (all || matches));
        if (!each.rule.hidden) {
          shownRules += 1;
          shownRows += matches;
          each.rule.open = text ? true : each.open;
          for (const more of each.more) more.open = Boolean(text) && !all;
          for (const list of each.lists) list.hidden = !list.querySelector("tr.finding:not([hidden])");
        }
      }
      document.body.classList.toggle("searching", Boolean(text));
      for (const section of document.querySelectorAll("section.kind")) {
        section.hidden = !section.querySelector("details.rule:not([hidden])");
      }
      form.elements.shown.value = severity || group || text
        ? `${shownRules} of ${rules.length} rules shown, ${shownRows.toLocaleString("en")} findings` : "";
    };
    form.addEventListener("input", filter);
    form.addEventListener("submit", (event) => event.preventDefault());
    form.addEventListener("reset", () => setTimeout(filter));
    // A card leads to its first rule, which a filter may hide.
    for (const link of document.querySelectorAll(".tiles a")) {
      link.addEventListener("click", () => {
        form.reset();
        filter();
        const rule = document.querySelector(`details${link.hash}`);
        if (rule) rule.open = true;
      });
    }
    form.hidden = false;
  }
  let closed = [];
  window.addEventListener("beforeprint", () => {
    closed = [...document.querySelectorAll("details:not([open]):not(.more):not(.each)")];
    for (const each of closed) each.open = true;
  });
  window.addEventListener("afterprint", () => {
    for (const each of closed) each.open = false;
  });
})();
