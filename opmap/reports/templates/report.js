"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const { rows, words } = data;
  const FIRST = 2; // the columns before it are the id and the message
  const STEP = 100;
  const column = Object.fromEntries(data.columns.map((name, at) => [name, FIRST + at]));
  const [search, list, more, count, form] = ["search", "list", "more", "count", "filters"].map((id) => document.getElementById(id));
  const selects = [...form.querySelectorAll("select")];
  const word = (row, name) => words[row[column[name]]];
  let found = [];
  let shown = 0;

  const element = (name, text, kind) => {
    const made = document.createElement(name);
    if (text !== undefined) made.textContent = text;
    if (kind) made.className = kind;
    return made;
  };

  for (const select of selects) {
    const at = column[select.dataset.column];
    const values = [...new Set(rows.map((row) => row[at]))].map((number) => words[number]).filter(Boolean);
    values.sort((one, other) => one.localeCompare(other, "en", { numeric: true }));
    for (const value of values) select.append(new Option(value, value));
    select.parentElement.hidden = values.length === 0;
  }

  const numberOf = new Map(words.map((text, number) => [text, number]));
  const texts = []; // the text of a row in which words are sought, made when it is first needed
  const text = (at) => (texts[at] ??= `${rows[at][0]} ${rows[at][1] || ""}`.toLowerCase());

  const filter = () => {
    const wanted = selects.filter((select) => select.value !== "").map((select) => [column[select.dataset.column], numberOf.get(select.value)]);
    const sought = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    found = [];
    rows.forEach((row, at) => {
      if (wanted.every(([where, number]) => row[where] === number) && sought.every((part) => text(at).includes(part))) found.push(row);
    });
    const number = (value) => value.toLocaleString("en");
    count.textContent = found.length === rows.length ? `${number(rows.length)} cases` : `${number(found.length)} of ${number(rows.length)} cases`;
    list.replaceChildren();
    shown = 0;
    show();
  };

  const show = () => {
    const part = document.createDocumentFragment();
    for (const row of found.slice(shown, shown + STEP)) part.append(line(row));
    list.append(part);
    shown = Math.min(shown + STEP, found.length);
    more.hidden = shown >= found.length;
    more.textContent = `show more (${(found.length - shown).toLocaleString("en")} left)`;
  };

  const line = (row) => {
    const verdict = word(row, "verdict");
    const made = element("details");
    const summary = element("summary");
    const good = (data.meanings[verdict] || ["", false])[1];
    summary.append(element("span", verdict, `verdict ${good ? "good" : "bad"}`), element("code", row[0]));
    made.append(summary);
    made.addEventListener("toggle", () => made.children.length === 1 && made.append(told(row)));
    return made;
  };

  const quoted = (part) => (/^[\w@%+=:,./-]+$/.test(part) ? part : `'${part.replaceAll("'", `'"'"'`)}'`);

  const told = (row) => {
    const verdict = word(row, "verdict");
    const names = element("dl");
    const say = (name, value, kind) => {
      if (!value) return;
      const what = element("dd", kind === "code" ? undefined : value, kind);
      if (kind === "code") what.append(element("code", value));
      names.append(element("dt", name), what);
    };
    say("message", row[1]);
    say("verdict", (data.meanings[verdict] || [""])[0]);
    say("stage", word(row, "stage"));
    say("cause", word(row, "cause"));
    say("since the baseline", word(row, "change"));
    say("operator", word(row, "operator"));
    say("ran on it", word(row, "placement"));
    for (const one of word(row, "more").split("\n").filter(Boolean)) {
      const end = one.indexOf(": ");
      say(one.slice(0, end), one.slice(end + 2));
    }
    say("rerun", [...data.again, row[0]].map(quoted).join(" "), "code");
    const box = element("div", undefined, "told");
    box.append(names);
    return box;
  };

  let waiting;
  search.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(filter, 120);
  });
  for (const select of selects) select.addEventListener("change", filter);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", () => setTimeout(filter));
  more.addEventListener("click", show);
  new IntersectionObserver((entries) => entries.some((entry) => entry.isIntersecting) && shown && show()).observe(more);
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-filter]");
    if (!button) return;
    const wanted = JSON.parse(button.dataset.filter);
    search.value = "";
    for (const select of selects) select.value = wanted[select.dataset.column] ?? "";
    filter();
    document.getElementById("cases").scrollIntoView();
  });
  filter();
})();
