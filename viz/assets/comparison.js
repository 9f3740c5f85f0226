// Two runs of one graph on one page: both as models, the run that is shown, and the cards of what differs.
// In each pair the other run comes first, then the run of the page. Needs format.js, model.js, cards.js.

const MOST_ROWS = 400; // of a table of differences; the JSON has all

// The models of both runs; of the other one null where only its outline is known.
function comparedModels(scene) {
  const { against } = scene;
  const own = indexed(scene);
  if (!against) return { own, other: null };
  const run = against.run;
  const other = run ? indexed({ ...scene, ...run, check: null, training: null, what_if: null }) : null;
  [other, own].forEach((model, at) => {
    if (!model) return;
    model.compared = { at, names: against.names };
    model.elsewhere = new Map(against.moved.map(([node, ...devices]) => [node, deviceNamed([own, other], devices[1 - at])]));
    model.otherTransfer = (at ? other : own)?.edges.transfer ?? null;
  });
  return { own, other };
}

// A device of either run by its full name; grey where neither cluster has it.
function deviceNamed(models, name) {
  for (const model of models) {
    const row = model ? model.cluster.devices.findIndex((device) => device.name === name) : -1;
    if (row >= 0) return { short: model.cluster.devices[row].short, colour: model.cluster.colours[row] };
  }
  return { short: shortDevice(name), colour: "#8d97a3" };
}

// The transfer of another run that stands for one of this: the same tensor and iteration, to the same device if there is one.
function partnerOf(from, to, transfer) {
  const tag = tagOf(from, from.transfers.iteration[transfer]);
  const target = from.cluster.devices[from.transfers.dst[transfer]].name;
  const same = [...to.transfers.tensor.keys()].filter((row) => to.transfers.tensor[row] === from.transfers.tensor[transfer] && tagOf(to, to.transfers.iteration[row]) === tag);
  return same.find((row) => to.cluster.devices[to.transfers.dst[row]].name === target) ?? same[0] ?? null;
}

// A selection of one run in the rows of another; a transfer that this has not becomes the node that makes its tensor.
function selectionIn(from, to, selection) {
  if (from === to || selection?.kind !== "transfer") return selection;
  const partner = partnerOf(from, to, selection.id);
  return partner === null ? { kind: "node", id: from.transferNode[selection.id] } : { kind: "transfer", id: partner };
}

// The state as the timeline of one run sees it. `shown` tells which run the page's selection is of, `name` is the timeline's.
function stateOfRun(state, shown, model, name) {
  let known = null;
  let mapped = null;
  return Object.create(state, {
    selection: {
      get() {
        if (known !== state.selection || state.selection === null) [known, mapped] = [state.selection, selectionIn(shown(), model, state.selection)];
        return mapped;
      },
    },
    measure: { value: (range) => state.measure(range) },
    select: { value: (selection, from) => state.select(selectionIn(model, shown(), selection), from === "timeline" ? name : from) },
  });
}

const signedNanos = (nanos) => (nanos === 0 ? "=" : `${nanos < 0 ? "−" : "+"}${showNanos(Math.abs(nanos))}`);
const signedBytes = (bytes) => (bytes === 0 ? "=" : `${bytes < 0 ? "−" : "+"}${showBytes(Math.abs(bytes))}`);
const signedShare = (now, before) => {
  if (!before) return "";
  const said = showShare(Math.abs(now / before - 1));
  return ` (${said.startsWith("<") ? "" : now < before ? "−" : "+"}${said})`; // "<0.1 %" has no sign
};

// ---- cards

function differenceCards(model, state) {
  const { against } = model;
  if (!against) return [];
  return [explanationCard(model, state), movedCard(model, state), crossingsCard(model, state), usesCard(model), linkUsesCard(model)];
}

// The parts of the difference, each with the subjects of both critical paths that make it.
function explanationCard(model, state) {
  const { against } = model;
  const part = ([sentence, before, after, rows]) => {
    const lines = rows.slice(0, 50).map(([node, subject, was, is]) => [[named(subject, null), showNanos(was), showNanos(is), signedNanos(is - was)], toNode(state, node), subject, [subject, was, is, is - was]]);
    const more = rows.length > lines.length ? element("p", "more", `and ${showCount(rows.length - lines.length)} more in the JSON`) : null;
    return element(
      "details", "part",
      element("summary", "", element("b", after > before ? "bad" : "good", signedNanos(after - before)), element("span", "", ...lined(asWritten(sentence)))),
      table(["op or tensor", ...bothColumns(against.names), "change#"], [], lines), more,
    );
  };
  const [, unlike, said] = /^( \([^)]*\))?: (.*)$/s.exec(against.headline.slice(`Against ${against.names[0]}`.length)) ?? [null, "", against.headline];
  return card(`Against ${against.names[0]}${unlike ?? ""}`, element("p", "", asWritten(said)), ...against.parts.map(part));
}

// Sentences come from the summary, which is ASCII. A number stays with its unit.
const asWritten = (said) => said.replace(/(\d) us\b/g, "$1 µs").replace(/(?<=^|[ (])-(?=\d)/g, "−").replace(/(\d) ?%/g, "$1\u00a0%").replace(/(\d) (?=(?:[num]?s|µs|[KMGT]?i?B)\b)/g, "$1\u00a0");
const toNode = (state, node) => (node >= 0 ? () => state.select({ kind: "node", id: node }) : null);
const shortened = (rows) => (rows.length > MOST_ROWS ? element("p", "more", `and ${showCount(rows.length - MOST_ROWS)} more in the JSON`) : null);

function movedCard(model, state) {
  const { moved, names } = model.against;
  if (!moved.length) return null;
  const { own, other } = model.runs;
  const time = (node) => totalsOf(own, itemOfNode(own, node)).nanos;
  const rows = [...moved].sort((a, b) => b[3] - a[3] || time(b[0]) - time(a[0])).slice(0, MOST_ROWS).map(([node, ...devices]) => {
    const [from, to] = devices.slice(0, 2).map((name) => deviceNamed([own, other], name));
    const name = model.nodes.names[node];
    const below = element("span", "", ends(from.colour, to.colour), opOf(model, node));
    return [[named(name, below, opOf(model, node), from.short, to.short), showNanos(time(node))], toNode(state, node), `${name}\n${from.short} in ${names[0]}, ${to.short} in ${names[1]}`, [name, time(node)]];
  });
  return card(`Moved nodes (${showCount(moved.length)})`, table([`node|op|in ${names[0]}|in ${names[1]}`, "time#"], [], rows), shortened(moved));
}

function crossingsCard(model, state) {
  const { crossings, names } = model.against;
  if (!crossings.length) return null;
  const rows = crossings.slice(0, MOST_ROWS).map(([tensor, node, was, is, before, after]) => {
    const happened = !was ? "began" : !is ? "ceased" : `${was} → ${is} times`;
    const title = `${tensor}\n${names[0]}: ${plural(was, "transfer")}, ${showBytes(before)}\n${names[1]}: ${plural(is, "transfer")}, ${showBytes(after)}`;
    return [[named(tensor, happened, happened), signedBytes(after - before)], toNode(state, node), title, [tensor, after - before]];
  });
  return card(`Tensors that cross differently (${showCount(crossings.length)})`, table(["tensor|crosses", "bytes#"], [], rows), shortened(crossings));
}

// Busy time and peak memory of each device in both runs.
function usesCard(model) {
  const { devices } = model.against;
  const changed = devices.filter(([, busyWas, busyIs, peakWas, peakIs]) => busyWas !== busyIs || peakWas !== peakIs);
  if (!changed.length) return null;
  const { own, other } = model.runs;
  const rows = changed.slice(0, MOST_ROWS).map(([device, busyWas, busyIs, peakWas, peakIs]) => {
    const { short, colour } = deviceNamed([own, other], device);
    const title = `${device}\nbusy ${showNanos(busyWas)} → ${showNanos(busyIs)}\npeak ${showBytes(peakWas)} → ${showBytes(peakIs)}`;
    return [[element("span", "", chip(colour), short), signedNanos(busyIs - busyWas), signedBytes(peakIs - peakWas)], null, title, [short, busyIs - busyWas, peakIs - peakWas]];
  });
  return card("Devices that differ", table(["device", "busy#", "peak#"], [], rows), shortened(changed));
}

// The names of two runs as headings: of "heft on ps=2,worker=4" and another those settings alone that the other has not.
function columnNames(names) {
  const parts = names.map((name) => name.split(/,| on /));
  const own = parts.map((some, at) => some.filter((part) => !parts[1 - at].includes(part)).join(","));
  return own.some(Boolean) ? own.map((name) => name || "without") : names;
}

const bothColumns = (names) => columnNames(names).map((name) => `${name}#`);

function linkUsesCard(model) {
  const changed = model.against.links.filter(([, was, is]) => was !== is);
  if (!changed.length) return null;
  const rows = changed.slice(0, MOST_ROWS).map(([link, was, is]) => [[named(link, null), showBytes(was), showBytes(is), signedBytes(is - was)], null, link, [link, was, is, is - was]]);
  return card("Links that carry more or less", table(["link", ...bothColumns(model.against.names), "change#"], [], rows), shortened(changed));
}

// The facts of a node that the other run has elsewhere, or at another time.
function comparedFact(model, node) {
  if (!model.compared) return null;
  const { at, names } = model.compared;
  const there = at ? model.runs.other : model.runs.own;
  const device = model.elsewhere.get(node);
  if (!there) return device ? [`in ${names[1 - at]}`, element("span", "", chip(device.colour), device.short)] : null;
  const [slice] = rowsIn(there.slicesOf, node);
  const times = slice === undefined ? null : `${showSpan(there.timeline.start_ns[slice], there.timeline.end_ns[slice])}`;
  return [`in ${names[1 - at]}`, device ? element("span", "", chip(device.colour), device.short) : "the same device", times];
}

// ---- the page

// Buttons that choose the run of graph and panel; both timelines stay.
function wireRuns(root, shown, state, changed) {
  const { own, other } = shown.runs;
  root.hidden = !other;
  if (!other) return;
  const models = [other, own];
  const buttons = models.map((model, at) => {
    const button = element("button", "", element("span", "tail", isolated(shown.against.names[at])), element("small", "", model.summary.unsized.least + showNanos(model.summary.makespan_ns)));
    button.type = "button";
    button.title = `Show the graph as ${shown.against.names[at]} places it`;
    button.addEventListener("click", () => show(models[at]));
    return button;
  });
  const press = () => buttons.forEach((button, at) => button.setAttribute("aria-pressed", String(shown.compared.at === at)));
  function show(model) {
    if (shown.compared.at === model.compared.at) return;
    const selection = selectionIn(models[shown.compared.at], model, state.selection);
    Object.assign(shown, model, { runs: shown.runs });
    press();
    changed();
    state.set({ selection: selection?.kind === "edges" ? null : selection, traced: "", ...(state.traced ? { hits: new Set() } : {}) }, "graph");
  }
  root.append(...buttons);
  press();
  return () => show(models[1 - shown.compared.at]);
}
