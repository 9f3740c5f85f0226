// The side panel: tables of the step while nothing is selected, else the facts of the selection.
// Needs format.js, model.js, cards.js, comparison.js, what_if.js, devices.js, edge_panel.js, transfer_panel.js.

function sidePanel(root, model, state) {
  return {
    // `staying`: the reader is still at the same place.
    draw(staying = false) {
      const { selection } = state;
      const top = root.scrollTop;
      const cards =
        selection === null ? (state.range ? rangeCards(model, state) : overviewCards(model, state))
        : selection.kind === "node" ? nodeCards(model, state, selection.id)
        : selection.kind === "scope" ? scopeCards(model, state, selection.id)
        : selection.kind === "edges" ? edgeCards(model, state, selection)
        : transferCards(model, state, selection.id);
      root.replaceChildren(...(selection === null && !state.range ? [] : [backButton(state)]), ...cards.filter(Boolean));
      root.scrollTop = staying ? top : 0;
    },
  };
}

function backButton(state) {
  const button = element("button", "back", "‹ Whole step");
  button.type = "button";
  button.addEventListener("click", () => state.select(null));
  return button;
}

// ---- the whole step

function overviewCards(model, state) {
  const { tables } = model;
  return [
    tables.full ? memoryCard(model, state) : null,
    ...differenceCards(model, state),
    whatIfCard(model),
    devicesCard(model),
    checkCard(model, state),
    criticalCard(model, state),
    categoriesCard(model, state),
    transfersCard(model, state),
    opsCard(model, state),
    tables.full ? null : memoryCard(model, state),
    lateCard(model),
    stepCard(model),
    notesCard(tables),
  ];
}

// Hues stand for devices unless the user colours by category. Until then these are shades of the ink, darkest first.
function categoryColour(model, state, name, rank) {
  const index = model.categories.names.indexOf(name === "transfers" ? "communication" : name);
  if (state.colourBy === "category") return index >= 0 ? model.categories.colours[index] : "var(--edge)";
  return `color-mix(in srgb, var(--ink) ${Math.max(8, Math.round(74 * 0.72 ** rank))}%, var(--paper))`;
}

function criticalCard(model, state) {
  const rows = model.tables.critical;
  if (!rows.length) return null;
  const whole = model.summary.makespan_ns || 1;
  const colours = rows.map(([what], rank) => categoryColour(model, state, what, rank));
  const lines = rows.map(([what, nanos], rank) => [[element("span", "", chip(colours[rank]), what), showNanos(nanos), showShare(nanos / whole)]]);
  return card("Critical path", stack(rows.map(([, nanos], rank) => [colours[rank], nanos])), wrapping(table(["category", "time#", "share#"], [], lines)));
}

function categoriesCard(model, state) {
  const rows = model.tables.categories.map(([name, ...times]) => {
    const total = times.reduce((sum, part) => sum + part, 0);
    const said = state.colourBy === "category" ? element("span", "", chip(categoryColour(model, state, name, 0)), name) : name;
    return [[said, stack(times.map((part, device) => [model.cluster.colours[device], part])), showNanos(total)]];
  });
  if (!rows.length) return null;
  return card("Time by category and device", wrapping(table(["category", "", "time#"], ["", "30%"], rows)));
}

function transfersCard(model, state) {
  const { transfers, cluster } = model;
  const rows = model.tables.transfers.map((row) => {
    const name = transferName(model, row);
    const [from, to] = [transfers.src[row], transfers.dst[row]];
    const devices = [from, to].map((device) => cluster.devices[device].short);
    const title = `${name}\n${devices.join(" → ")}`;
    return [[named(name, ends(cluster.colours[from], cluster.colours[to]), ...devices), showBytes(transfers.bytes[row]), showNanos(transfers.crossing_ns[row] + transfers.arrived_ns[row] - transfers.through_ns[row])], () => state.select({ kind: "transfer", id: row }), title];
  });
  if (!rows.length) return null;
  return card("Longest transfers", table(["tensor|from|to", "size#", "time#"], [], rows));
}

function opsCard(model, state) {
  const { slices, timeline, cluster } = model;
  const rows = model.tables.ops.map((row) => {
    const node = slices.node[row];
    const device = laneOf(timeline, row)[1];
    const { short } = cluster.devices[device];
    const title = `${sliceName(model, row)}\n${short}`;
    const below = element("span", "", chip(cluster.colours[device]), opOf(model, node));
    return [[named(sliceName(model, row), below, opOf(model, node), short), showNanos(lasts(timeline, row))], () => state.select({ kind: "node", id: node }), title];
  });
  if (!rows.length) return null;
  return card("Largest ops", table(["node|op|device", "time#"], [], rows));
}

function checkCard(model, state) {
  const { check } = model;
  if (!check) return null;
  const agreed = (part) => [
    `${part.what} agrees`,
    element("span", part.agree === part.of ? "good" : "bad", `${showCount(part.agree)} of ${showCount(part.of)}`),
    part.undone || null,
  ];
  const said = [...(check.notes ?? []), ...(check.laws ?? [])];
  const list = (lines) => (lines.length ? element("ul", "notes", ...lines.map((line) => element("li", "", String(line)))) : null);
  return card(
    check.log ? "Compared with " + check.log : "Checked with TensorFlow " + (check.tensorflow ?? ""),
    list(check.first ?? []),
    facts(
      ...(check.refused ? [] : (check.agreements ?? []).map(agreed)),
      check.refused && [check.foreseen ? "refused, as predicted" : "refused", element("span", check.foreseen ? "" : "bad", String(check.refused))],
      check.mode && [String(check.mode), check.question || null],
      check.oracle && ["asked", String(check.oracle), check.asked || null],
    ),
    list(said),
    ...differenceLists(model, state, check.differences ?? []),
  );
}

// Each difference with both sides and the rule of simviz. A node of the cut may be in no graph.
function differenceLists(model, state, differences) {
  if (!differences.length) return [];
  const item = (row) => {
    const node = model.nodes.names.indexOf(row.node);
    const name = element("button", "", isolated(String(row.node)));
    name.type = "button";
    name.disabled = node < 0;
    name.addEventListener("click", () => state.select({ kind: "node", id: node }));
    const sides = facts(["ours", shortDevice(row.ours) || "absent"], ["TensorFlow's", shortDevice(row.theirs) || "absent"], ["rule", String(row.rule)]);
    return element("li", "", name, sides);
  };
  const list = element("ul", "differences", ...differences.slice(0, 50).map(item));
  const more = differences.length > 50 ? element("p", "more", `and ${showCount(differences.length - 50)} more in the JSON`) : null;
  return [element("h3", "", plural(differences.length, "difference")), list, more];
}
const shortDevice = (name) => String(name).replace(/^\/job:([^/]*)\/replica:0\/task:([0-9]+)\/device:/, "$1:$2/");

function stepCard(model) {
  const { summary, cluster } = model;
  const own = Object.entries(summary.simulation.links);
  const used = summary.used === summary.asked ? null : `faster than ${summary.asked}`;
  return card(
    "This run",
    facts(
      ["step", `${showCount(summary.running)} of ${plural(summary.nodes, "node")}`, summary.rule],
      ["fetches", summary.fetches.slice(0, 6).join(", ") || "none", summary.fetches.length > 6 ? `and ${summary.fetches.length - 6} more` : null],
      summary.feeds.length ? ["feeds", summary.feeds.slice(0, 6).join(", "), summary.feeds.length > 6 ? `and ${summary.feeds.length - 6} more` : null] : null,
      ["cluster", cluster.name, `${plural(cluster.devices.length, "device")}, ${plural(cluster.links.length, "link")}`],
      ["algorithm", summary.used, used],
      ["order", summary.simulation.order, `simulated by the ${summary.simulation.engine} engine`],
      ["contention", summary.simulation.contention, own.length ? `but ${own.slice(0, 3).map(([name, how]) => `${name} ${how}`).join(", ")}${own.length > 3 ? `, and ${own.length - 3} more` : ""}` : null],
      cluster.tasks > 1 ? ["protocol", summary.simulation.protocol, "between tasks"] : null,
    ),
  );
}

const notesList = (lines) => element("ul", "notes", ...lines.map((line) => element("li", "", asWritten(line))));
function notesCard(tables) {
  const lines = [...tables.notes];
  const counted = (rows) => rows.slice(0, 8).map(([op, count]) => `${op} ×${count}`).join(", ") + (rows.length > 8 ? ` and ${rows.length - 8} more` : "");
  if (tables.fallbacks.length) lines.unshift(`Fallback cost: ${counted(tables.fallbacks)}.`);
  if (tables.unknown.length) lines.unshift(`Outputs of unknown size: ${counted(tables.unknown)}.`);
  if (!lines.length) return null;
  return card("Notes", notesList(lines));
}

// ---- one node

function nodeCards(model, state, node) {
  const { nodes } = model;
  const name = nodes.names[node];
  const device = nodes.device[node];
  const fetched = model.summary.fetches.filter((one) => one === name || one.startsWith(name + ":"));
  const different = model.check?.differences?.find((row) => row.node === name);
  const asked = nodes.asked[nodes.requested[node]];
  return [
    element("section", "card", element("h3", "name", leafOf(name)), scopeOf(name) ? element("p", "path", scopeOf(name)) : null,
      facts(
        ["op", opOf(model, node), model.categories.names[categoryOf(model, node)]],
        ["device", deviceName(model, device), ruleOf(model, node)],
        ...citedFacts(model, node),
        comparedFact(model, node),
        different ? ["TensorFlow's", element("span", "bad", shortDevice(different.theirs) || "absent"), `where simviz says ${shortDevice(different.ours) || "absent"}`] : null,
        asked ? ["requested", asked] : null,
        fetched.length ? ["fetched", fetched.map((one) => (one === name ? "only run" : `output ${one.slice(name.length + 1)}`)).join(", ")] : null,
        costFact(model, node),
        ...timeFacts(model, node),
        nodes.flops[node] ? ["work", scaled(nodes.flops[node], [[1e12, "TFLOP"], [1e9, "GFLOP"], [1e6, "MFLOP"], [1e3, "kFLOP"], [1, "FLOP"]]), `${showBytes(nodes.moved_bytes[node])} read and written`] : null,
        nodes.resident_bytes[node] ? ["resident", showBytes(nodes.resident_bytes[node])] : null,
        nodes.scratch_bytes[node] ? ["scratch", showBytes(nodes.scratch_bytes[node])] : null,
      ),
      traceButtons(model, state),
    ),
    elsewhereCard(model, name, device),
    attributesCard(model, node),
    outputsCard(model, node),
    neighboursCard(model, state, node, "Inputs", rowsIn(model.inEdges, node), model.edges.src),
    neighboursCard(model, state, node, "Read by", rowsIn(model.outEdges, node), model.edges.dst),
  ];
}

// The sentences behind the rule: of TensorFlow's, by section of docs/tensorflow.md, or of the algorithm.
function citedFacts(model, node) {
  const { nodes } = model;
  if (nodes.fed.includes(node) || nodes.moved.includes(node)) return [];
  return nodes.cited[nodes.why[node]].map(([where, said]) => [where, element("small", "", said)]);
}

function costFact(model, node) {
  const { nodes } = model;
  const cost = nodes.cost_ns[node];
  if (cost < 0) return ["cost", "no kernel on this device"];
  const source = model.sources[nodes.source[node]];
  const said = { static: "estimated from shapes (roofline)", measured: "measured", profile: "by the profile of a machine", fallback: "fallback: no formula for this op", model: "by a cost model that is not simviz's own" };
  return ["cost", showNanos(cost), said[source] ?? source];
}

function timeFacts(model, node) {
  const rows = [...rowsIn(model.slicesOf, node)];
  if (!rows.length) return [["step", model.nodes.fed.includes(node) ? "fed, so it does not run" : model.nodes.runs[node] ? "takes no time in this step" : "does not run in this step"]];
  const { start_ns: start, end_ns: end, ready_ns: ready } = model.timeline;
  const shown = rows.slice(0, 4).map((row) => {
    const waited = start[row] - ready[row];
    const critical = model.criticalSlices.has(row) ? "on the critical path" : "";
    const queue = waited > 0 ? `waited ${showNanos(waited)} for its device` : "";
    return [`runs ${tagOf(model, model.slices.iteration[row])}`.trim(), showSpan(start[row], end[row]), [critical, queue].filter(Boolean).join("; ") || null];
  });
  return rows.length > shown.length ? [...shown, ["in all", `${showCount(rows.length)} times`, `until ${showNanos(end[rows[rows.length - 1]])}`]] : shown;
}

// The attributes as the file has them.
function attributesCard(model, node) {
  const { texts, sets, set } = model.nodes.attributes;
  const rows = sets[set[node]].map((at) => [texts[at].slice(0, texts[at].indexOf(": ")), isolated(texts[at].slice(texts[at].indexOf(": ") + 2))]);
  return rows.length ? card("Attributes", facts(...rows)) : null;
}

function outputsCard(model, node) {
  const { ptr, shape, shapes, dtype, dtypes, bytes } = model.tensors;
  const rows = [];
  for (let tensor = ptr[node]; tensor < ptr[node + 1]; tensor++) {
    rows.push([[String(tensor - ptr[node]), dtypes[dtype[tensor]], shapes[shape[tensor]], showBytes(bytes[tensor])], null, shapes[shape[tensor]]]);
  }
  return rows.length ? card("Outputs", table(["port", "type", "shape", "size#"], ["32px", "27%"], rows.slice(0, 64))) : null;
}

function neighboursCard(model, state, node, heading, edges, ends) {
  if (!edges.length) return null;
  const rows = [...edges].map((edge) => {
    const other = ends[edge];
    const tensor = model.edges.tensor[edge];
    const size = tensor < 0 ? "control" : showBytes(model.tensors.bytes[tensor]);
    const crosses = model.edges.transfer[edge] >= 0 ? "⇄ " : "";
    const loop = model.isBack[edge] ? " · loop" : "";
    return [model.nodes.names[other], crosses + size + loop, () => state.select({ kind: "node", id: other }), chip(model.cluster.colours[model.nodes.device[other]])];
  });
  return card(`${heading} (${showCount(rows.length)})`, links(rows));
}

// ---- a scope

function scopeCards(model, state, scope) {
  const total = totalsOf(model, scope);
  const path = pathTo(model, scope).map((item) => model.tree.labels[item]);
  const devices = [...total.byDevice].sort((a, b) => b[1] - a[1]);
  const kinds = [...total.byCategory].sort((a, b) => b[1] - a[1]);
  const share = (nanos) => showShare(nanos / (total.nanos || 1));
  const children = [...rowsIn(model.children, scope)].sort((a, b) => totalsOf(model, b).nanos - totalsOf(model, a).nanos);
  const go = (item) => () => state.select(isScope(model, item) ? { kind: "scope", id: item } : { kind: "node", id: item - model.scopes });
  return [
    element("section", "card", element("h3", "name", path[path.length - 1]), path.length > 1 ? element("p", "path", path.slice(0, -1).join(" / ")) : null,
      facts(
        ["ops", showCount(total.ops), `${showCount(total.running)} run in this step`],
        ["device time", showNanos(total.nanos), `${showShare(total.nanos / (totalsOf(model, 0).nanos || 1))} of the step's`],
        total.critical ? ["critical path", showNanos(total.critical), `${showShare(total.critical / (model.summary.makespan_ns || 1))} of the makespan`] : null,
      ),
      traceButtons(model, state),
    ),
    card("Devices", stack(devices.map(([device, nanos]) => [model.cluster.colours[device], nanos || 1])),
      table(["device", "time#", "share#"], [], devices.map(([device, nanos]) => [[deviceName(model, device), showNanos(nanos), share(nanos)]]))),
    card("Categories", table(["category", "time#", "share#"], [],
      kinds.map(([kind, nanos], rank) => [[element("span", "", chip(categoryColour(model, state, model.categories.names[kind], rank)), model.categories.names[kind]), showNanos(nanos), share(nanos)]]))),
    elsewhereCard(model, path.join("/"), devices.length ? devices[0][0] : -1),
    card(`Holds (${showCount(children.length)})`, links(children.map((item) => [labelOf(model, item), showNanos(totalsOf(model, item).nanos), go(item)]))),
  ];
}
