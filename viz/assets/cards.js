// Parts of the side panel: cards, tables, lists of links, bars. Needs format.js.

// A card whose table can be copied as CSV.
function card(heading, ...content) {
  const tables = content.filter((part) => part?.csv);
  const copy = tables.length && element("button", "csv", "CSV");
  if (copy) {
    copy.type = "button";
    copy.title = "Copy the table as CSV";
    copy.addEventListener("click", () => copyText(tables.map((one) => one.csv()).join("\n")));
  }
  return element("section", "card", heading && element("h3", "", heading), copy || null, ...content);
}

function chip(colour) {
  const made = element("span", "chip");
  made.style.background = colour;
  return made;
}

function deviceName(model, device) {
  const name = element("span", "tail", element("bdi", "", ...lined(model.cluster.devices[device].short)));
  return element("span", "device", chip(model.cluster.colours[device]), name);
}

function facts(...rows) {
  const list = element("dl", "facts");
  for (const row of rows) {
    if (!row) continue;
    const [term, value, small] = row;
    list.append(element("dt", "", term), element("dd", "", value, small && element("small", "", small)));
  }
  return list;
}

// A cell with a whole name, which has the width of the row, and below it what belongs to it. `fields` stand for that in the CSV.
function named(name, below, ...fields) {
  const made = element("span", "named", element("bdi", "", ...lined(name)), element("small", "", below));
  made.fields = [name, ...fields];
  return made;
}

// A short name, which needs the width of its row in narrow windows alone. It breaks between words.
function shortly(name, before) {
  const words = name.split(" ").flatMap((word, at) => (at ? [" ", element("span", "word", word)] : [element("span", "word", before, word)]));
  const made = element("span", "named short", element("bdi", "", ...words), element("small"));
  made.fields = [name];
  return made;
}

// The colours of the two devices between which something moves.
const ends = (from, to) => element("span", "", chip(from), "→ ", chip(to));

// A table of rows [cells, action, title, values]; numeric columns are those whose heading ends in "#". These are as wide as their
// longest cell, so that no number is cut; `widths` are those of the others. A click on a heading sorts by it, the largest first,
// and again the other way round; without values by what the cells say. A column without a heading has pictures: it is not sorted,
// and not in the CSV. Behind a "|" are headings of the CSV alone, for `named`.
function table(headings, widths, rows) {
  const made = element("table");
  const numeric = headings.map((heading) => heading.endsWith("#"));
  const columnsOf = headings.map((heading) => heading.replace("#", "").split("|"));
  const head = element("tr", "", ...columnsOf.map(([heading], at) => element(heading ? "th" : "td", numeric[at] ? "n" : "", ...partsApart(heading))));
  const body = element("tbody");
  const lines = [];
  for (const [cells, action, titles] of rows) {
    const line = element("tr", action ? "link" : "", ...cells.map((cell, at) => element("td", numeric[at] ? "n" : "", cell)));
    if (titles) line.title = titles;
    if (cells.some((cell) => cell.fields)) line.className += " tall";
    lines.push(acting(line, action));
  }
  body.append(...lines);
  const columns = element("colgroup", "", ...headings.map((heading, at) => {
    const column = element("col");
    const letters = Math.max(0, ...lines.map((line) => inDigits(line.cells[at].textContent)));
    const heads = Math.min(longestPart(heading), LETTERS_OF_HEADING);
    column.style.width = numeric[at] ? `calc(max(${letters}ch, ${heads} * var(--heading-letter, 0.9ch)) + var(--beside, 10px))` : (widths[at] ?? "");
    return column;
  }));
  const valued = rows.map(([cells, , , values], place) => values ?? cells.map((_, at) => valueOf(lines[place].cells[at].textContent)));
  if (rows.length > 1) [...head.children].forEach((cell, at) => cell.textContent && sortsBy(cell, body, valued.map((values, place) => [values[at], lines[place]])));
  made.append(columns, element("thead", "", head), body);
  if (rows.length > FIRST_ROWS) made.append(restOf(made, rows.length));
  const fieldsOf = (cell) => cell.firstChild?.fields ?? [cell.textContent];
  const written = columnsOf.map(([heading]) => heading !== "");
  made.csv = () => csvOf(columnsOf.flat().filter(Boolean), [...body.children].map((line) => [...line.cells].filter((_, at) => written[at]).flatMap(fieldsOf)));
  walksRows(body);
  return made;
}

const inDigits = (said) => said.length + 0.5 * said.replace(/[^%±]/g, "").length; // in digits; these two are wider
const FIRST_ROWS = 40; // of a table, as in report.css; they stay the first ones when it is sorted
// Below a long table a button that shows the other rows; on paper a sentence that counts them.
function restOf(long, count) {
  const more = element("button", "", `${showCount(count - FIRST_ROWS)} more rows`);
  more.type = "button";
  more.addEventListener("click", () => {
    long.classList.remove("long");
    more.remove();
  });
  long.classList.add("long");
  return element("caption", "more", more, element("span", "paper-only", `The first ${FIRST_ROWS} of ${showCount(count)} rows; the others are on the page.`));
}
const LETTERS_OF_HEADING = 9; // a longer part wraps

// What a click, Enter or the space bar acts on.
function acting(made, action) {
  if (!action) return made;
  made.tabIndex = 0;
  made.addEventListener("click", action);
  made.addEventListener("keydown", (event) => {
    if (event.target !== made || (event.key !== "Enter" && event.key !== " ")) return;
    event.preventDefault();
    action();
  });
  return made;
}

// Of the rows that act, Tab comes to one, and arrows to the others: behind hundreds nobody would come to what follows.
function walksRows(body) {
  const rows = () => [...body.rows].filter((row) => row.classList.contains("link"));
  const stop = (chosen) => rows().forEach((row) => (row.tabIndex = row === chosen ? 0 : -1));
  stop(rows()[0]);
  body.addEventListener("focusin", (event) => stop(event.target.closest("tr")));
  body.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step || event.shiftKey) return;
    event.preventDefault();
    event.stopPropagation(); // arrows move the views
    const all = rows();
    all[all.indexOf(event.target.closest("tr")) + step]?.focus();
  });
}

const SIZES = { ns: 1, "µs": 1e3, ms: 1e6, s: 1e9, KiB: 2 ** 10, MiB: 2 ** 20, GiB: 2 ** 30, TiB: 2 ** 40 };
// The number that a cell shows, to compare it with those of the same column; else its text.
function valueOf(said) {
  const [, sign, digits, unit] = /^([+−]?)<?([0-9,]*\.?[0-9]+)\s?(\S*)$/.exec(said) ?? [];
  return digits === undefined ? said.toLowerCase() : (sign === "−" ? -1 : 1) * Number(digits.replaceAll(",", "")) * (SIZES[unit] ?? 1);
}
// Numbers by size, texts by letter, after each other; what is missing comes last.
function inOrder(a, b, sign) {
  const missing = (value) => value === null || value === undefined;
  if (missing(a) || missing(b)) return missing(a) - missing(b);
  if (typeof a !== typeof b) return typeof a === "number" ? -1 : 1;
  return sign * (typeof a === "number" ? a - b || 0 : b < a ? 1 : -Number(b > a));
}

function sortsBy(cell, body, valued) {
  let sign = typeof valued[0][0] === "number" ? 1 : -1; // numbers begin with the largest, texts with a
  const sort = () => {
    sign = -sign;
    body.replaceChildren(...[...valued].sort(([a], [b]) => inOrder(a, b, sign)).map(([, line]) => line));
    for (const other of cell.parentElement.children) other.removeAttribute("aria-sort");
    cell.setAttribute("aria-sort", sign < 0 ? "descending" : "ascending");
  };
  cell.className += " sorts";
  acting(cell, sort);
}

function meter(share, colour) {
  const fill = element("i");
  fill.style.width = Math.min(100, share * 100) + "%";
  fill.style.background = colour;
  return element("span", "meter", fill);
}

const GAPPED = 16; // parts with a gap between them; gaps of more would leave parts no room

// One bar of several coloured parts, with the parts named below it.
function stack(parts) {
  const whole = parts.reduce((sum, [, value]) => sum + value, 0) || 1;
  const seen = parts.filter(([, value]) => value > 0);
  const bar = element("div", seen.length > GAPPED ? "stack close" : "stack");
  for (const [colour, value] of seen) {
    const piece = element("i");
    piece.style.width = (value / whole) * 100 + "%";
    piece.style.background = colour;
    bar.append(piece);
  }
  return bar;
}

// A list of rows to go to: [text, aside, action].
function links(rows, limit = 12) {
  const list = element("ul", "rows");
  const add = ([said, aside, action, before, title]) => {
    const button = element("button", "", before, element("span", "name", element("bdi", "", ...lined(said))), element("span", "with", aside));
    button.type = "button";
    button.title = title ?? said;
    button.addEventListener("click", action);
    list.append(element("li", "", button));
  };
  rows.slice(0, limit).forEach(add);
  if (rows.length > limit) {
    const more = element("button", "more", `${showCount(rows.length - limit)} more`);
    more.type = "button";
    more.addEventListener("click", () => {
      more.parentElement.remove();
      rows.slice(limit, limit + 500).forEach(add);
    });
    list.append(element("li", "", more));
  }
  return list;
}

// A text that may break behind each slash, comma and equals sign; of what is longer than a line, see `overflow-wrap`.
const partsOf = (said) => said.split(/(?<=[/,=])/);
const lined = (said) => partsOf(said).flatMap((part) => [part, element("wbr")]);
// The same for a heading, whose parts between commas stay in one line each where they find room.
const partsApart = (said) => said.split(/(?<=,)/).flatMap((part) => [part.startsWith(" ") ? " " : "", element("span", "part-of", ...lined(part.trim())), element("wbr")]);
const longestPart = (said) => Math.max(...partsOf(said).flatMap((part) => part.split(" ")).map((part) => part.length));

// A name within a run of text of any direction stays one run of its own.
function isolated(said) {
  return element("bdi", "", said);
}
