// What if: the step with one change at a time, as a tornado plot and as a table. Needs format.js, cards.js,
// comparison.js, training_charts.js.

const TORNADO = { row: 30, most: 12, label: 12, bar: 11, edge: 44 };
const isNothing = (share) => Math.abs(share) < 0.0005; // LEAST_SHARE of what_if.py
const signedPercent = (share) => (isNothing(share) ? "±0 %" : `${share < 0 ? "−" : "+"}${showShare(Math.abs(share))}`);

function whatIfCard(model) {
  const found = model.what_if;
  if (!found) return null;
  const { unsized } = model.summary;
  const keeps = found.rows.some((row) => row.placement === "kept");
  const again = keeps ? "placed again, or kept where that is no slower" : "placed again each time";
  const said = `One change at a time, ${found.placement === "again" ? again : "on the same placement"}; without any, the step takes ${unsized.least}${showNanos(found.makespan_ns)}${unsized.words && `: ${unsized.words}. ${unsized.cure}`}.`;
  const rows = found.rows.map((row) => {
    const perExample = row.change_per_example !== row.change ? `${signedPercent(row.change_per_example)} per example` : "";
    const remarks = [perExample, row.other_devices && row.placement === "again" ? "placed again" : "", row.out_of_memory, row.refused].filter(Boolean);
    const [before, after] = [row.before, row.after].map(asWritten);
    const title = [`${row.what}: ${before} → ${after}`, ...remarks].join("\n");
    const name = element("span", "", row.what, element("small", "", ` ${before} → ${after}`));
    const change = row.change === null ? "refused" : element("span", row.out_of_memory ? "over" : "", signedPercent(row.change));
    return [[name, row.makespan_ns === null ? "–" : unsized.least + showNanos(row.makespan_ns), change], null, title, [row.what + row.after, row.makespan_ns ?? Infinity, row.change ?? Infinity]];
  });
  const lines = table(["change", "step#", "by#"], [], rows);
  lines.className = "wrapping";
  return card("What if", element("p", "", said), tornado(found), lines, ...found.notes.map((note) => element("p", "more", asWritten(note))));
}

// What would be if a scope or a node ran elsewhere: the command that shows it beside this run.
function elsewhereCard(model, path, device) {
  const { names } = model.nodes;
  const real = names.some((name) => name === path || name.startsWith(path + "/")); // a series is no scope
  if (!model.command || model.training || !real) return null;
  const chosen = element("select", "");
  chosen.setAttribute("aria-label", "Device to run it on");
  chosen.append(...model.cluster.devices.map((one) => element("option", "", one.short)));
  chosen.selectedIndex = device === 0 && model.cluster.devices.length > 1 ? 1 : 0;
  const shown = element("code", "command");
  const say = () => {
    const words = [...model.command.split(" "), inShell(`--pin=${path}=${model.cluster.devices[chosen.selectedIndex].short}`), "--against=unpinned"];
    shown.replaceChildren(...words.flatMap((word, at) => [at ? " " : "", element("span", "", word)])); // no line breaks in an option
  };
  chosen.addEventListener("change", say);
  say();
  const copy = element("button", "csv", "Copy");
  copy.type = "button";
  copy.title = "Copy the command";
  copy.addEventListener("click", () => copyText(shown.textContent));
  return element("section", "card elsewhere", element("h3", "", "If it ran elsewhere"), copy, element("p", "", "Run it on ", chosen, " and compare:"), shown);
}
const inShell = (word) => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'"'"'`)}'`);

// A pair of bars for each figure, from no change in the middle: to the left shorter, to the right longer.
function tornado(found) {
  const figures = new Map();
  for (const row of found.rows) {
    const key = `${row.what} (${asWritten(row.before)})`;
    if (row.change) figures.set(key, [...(figures.get(key) ?? []), row]);
  }
  const shown = [...figures].filter(([, rows]) => rows.some((row) => !isNothing(row.change))).slice(0, TORNADO.most);
  if (!shown.length) return null;
  const changes = shown.flatMap(([, rows]) => rows.map((row) => row.change));
  const low = Math.min(0, ...changes);
  const high = Math.max(0, ...changes);
  const { row: height, edge, label, bar } = TORNADO;
  const width = Math.min(460, Math.max(200, (byId("panel").clientWidth || 330) - 28)); // letters are drawn at their size
  const x = (share) => edge + ((share - low) / (high - low)) * (width - 2 * edge);
  const svg = drawn("svg", { viewBox: `0 0 ${width} ${shown.length * height}`, class: "chart tornado", role: "img", "aria-label": "Tornado plot of the changes" });
  shown.forEach(([key, rows], at) => {
    const top = at * height;
    svg.append(drawn("text", { x: 0, y: top + label - 2, class: "tick" }, key));
    svg.append(drawn("line", { x1: x(0), x2: x(0), y1: top + label - 1, y2: top + label + bar + 3, class: "ideal" })); // not through the words
    const ends = [Math.min(0, ...rows.map((one) => one.change)), Math.max(0, ...rows.map((one) => one.change))];
    for (const one of [...rows].sort((a, b) => Math.abs(b.change) - Math.abs(a.change))) {
      const [from, to] = [x(Math.min(0, one.change)), x(Math.max(0, one.change))];
      const made = drawn("rect", { x: from, width: Math.max(0.5, to - from), y: top + label + 1, height: bar, class: one.change < 0 ? "gain" : "loss" });
      made.append(drawn("title", {}, `${one.what} ${asWritten(one.before)} → ${asWritten(one.after)}: ${signedPercent(one.change)}`));
      svg.append(made);
    }
    if (!isNothing(ends[0])) svg.append(drawn("text", { x: x(ends[0]) - 3, y: top + label + bar - 1, class: "tick end" }, signedPercent(ends[0])));
    if (!isNothing(ends[1])) svg.append(drawn("text", { x: x(ends[1]) + 3, y: top + label + bar - 1, class: "tick" }, signedPercent(ends[1])));
  });
  return svg;
}
