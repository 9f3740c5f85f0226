// Parts of the side panel: cards, tables, lists of links, bars. Needs format.js.

function card(heading, ...content) {
  return element("section", "card", heading && element("h3", "", heading), ...content);
}

function chip(colour) {
  const made = element("span", "chip");
  made.style.background = colour;
  return made;
}

function deviceName(model, device) {
  const name = element("span", "tail", isolated(model.cluster.devices[device].short));
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

// A table of rows [cells, action, title, values]; numeric columns are those whose heading ends in "#". With values, a click on a
// heading sorts by it, the largest first, and again the other way round.
function table(headings, widths, rows) {
  const made = element("table");
  const columns = element("colgroup");
  for (const width of widths) {
    const column = element("col");
    column.style.width = width;
    columns.append(column);
  }
  const numeric = headings.map((heading) => heading.endsWith("#"));
  const head = element("tr", "", ...headings.map((heading, at) => element("th", numeric[at] ? "n" : "", heading.replace("#", ""))));
  const body = element("tbody");
  const lines = [];
  for (const [cells, action, titles] of rows) {
    const line = element("tr", action ? "link" : "", ...cells.map((cell, at) => element("td", numeric[at] ? "n" : "", cell)));
    if (titles) line.title = titles;
    if (action) {
      line.tabIndex = 0;
      line.addEventListener("click", action);
      line.addEventListener("keydown", (event) => event.key === "Enter" && action());
    }
    lines.push(line);
  }
  body.append(...lines);
  if (rows.length > 1 && rows[0][3]) [...head.children].forEach((cell, at) => sortsBy(cell, body, rows.map((row, place) => [row[3][at], lines[place]])));
  made.append(columns, element("thead", "", head), body);
  return made;
}

function sortsBy(cell, body, valued) {
  let sign = 1;
  const sort = () => {
    sign = -sign;
    const by = ([a], [b]) => sign * (typeof a === "number" ? a - b : b < a ? -1 : Number(b > a));
    body.replaceChildren(...[...valued].sort(by).map(([, line]) => line));
    for (const other of cell.parentElement.children) other.removeAttribute("aria-sort");
    cell.setAttribute("aria-sort", sign < 0 ? "descending" : "ascending");
  };
  cell.className += " sorts";
  cell.tabIndex = 0;
  cell.addEventListener("click", sort);
  cell.addEventListener("keydown", (event) => event.key === "Enter" && sort());
}

function meter(share, colour) {
  const fill = element("i");
  fill.style.width = Math.min(100, share * 100) + "%";
  fill.style.background = colour;
  return element("span", "meter", fill);
}

// One bar of several coloured parts, with the parts named below it.
function stack(parts) {
  const whole = parts.reduce((sum, [, value]) => sum + value, 0) || 1;
  const bar = element("div", "stack");
  for (const [colour, value] of parts) {
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
    const button = element("button", "", before, element("span", "name", isolated(said)), element("span", "with", aside));
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

// A name within a run of text of any direction stays one run of its own.
function isolated(said) {
  return element("bdi", "", said);
}
