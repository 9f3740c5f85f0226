// All tables of the step or of the training, in one dialog: sorted by a click, filtered by words, copied as CSV.
// A column is [heading, unit]; values are numbers and texts as they are, null where there is none.
// Needs format.js, model.js, cards.js, comparison.js.

const MOST_LINES = 300; // that are drawn at once; the CSV has all
const SHOWN = { ns: showNanos, bytes: showBytes, count: showCount, share: showShare, per_s: showRate, flop: (value) => scaled(value, [[1e12, "TFLOP"], [1e9, "GFLOP"], [1e6, "MFLOP"], [1e3, "kFLOP"], [1, "FLOP"]]) };

const known = (value) => (value < 0 ? null : value);
const sumOf = (values) => values.reduce((sum, value) => sum + value, 0);

// Each table: its name, its columns, and a function that makes its rows: [values, selection].
function tablesOf(model) {
  const training = !byId("training").hidden;
  return (training ? [stepsTable, updatesTable, tasksTable] : [nodesTable, opsTable, transfersTable, tensorsTable, devicesTable, linksTable, criticalTable, movedTable, crossingsTable])
    .map((make) => make(model))
    .filter(Boolean);
}

function nodesTable(model) {
  const { nodes, tensors, cluster, timeline } = model;
  const row = (name, node) => {
    const total = totalsOf(model, itemOfNode(model, node));
    const [first] = rowsIn(model.slicesOf, node);
    const made = tensors.bytes.slice(tensors.ptr[node], tensors.ptr[node + 1]);
    const values = [name, opOf(model, node), model.categories.names[categoryOf(model, node)], cluster.devices[nodes.device[node]].short, ruleOf(model, node), nodes.fed.includes(node) ? "fed" : nodes.runs[node] ? "yes" : "no",
      first === undefined ? null : timeline.start_ns[first], total.nanos, total.critical, known(nodes.cost_ns[node]), nodes.flops[node], made.some((size) => size < 0) ? null : sumOf(made), nodes.resident_bytes[node], nodes.asked[nodes.requested[node]]];
    return [values, { kind: "node", id: node }];
  };
  const columns = [["node", ""], ["op", ""], ["category", ""], ["device", ""], ["rule", ""], ["runs", ""], ["start", "ns"], ["time", "ns"], ["critical", "ns"], ["cost", "ns"], ["work", "flop"], ["outputs", "bytes"], ["resident", "bytes"], ["requested", ""]];
  return { name: "Nodes", columns, rows: () => nodes.names.map(row) };
}

function opsTable(model) {
  const { slices, timeline, cluster } = model;
  const row = (node, slice) => [
    [sliceName(model, slice), opOf(model, node), cluster.devices[laneOf(timeline, slice)[1]].short, timeline.ready_ns[slice], timeline.start_ns[slice], timeline.end_ns[slice], lasts(timeline, slice), timeline.start_ns[slice] - timeline.ready_ns[slice], model.criticalSlices.has(slice) ? "yes" : "no"],
    { kind: "node", id: node },
  ];
  return { name: "Ops in time", columns: [["node", ""], ["op", ""], ["device", ""], ["ready", "ns"], ["start", "ns"], ["end", "ns"], ["time", "ns"], ["waited", "ns"], ["critical", ""]], rows: () => slices.node.map(row) };
}

function transfersTable(model) {
  const { transfers, cluster } = model;
  const device = (row) => cluster.devices[row].short;
  const stages = ["asked", "packed", "sent", "through", "arrived", "unpacked"];
  const row = (_, at) => [
    [transferName(model, at), device(transfers.src[at]), device(transfers.dst[at]), known(transfers.bytes[at]), ...stages.map((stage) => transfers[`${stage}_ns`][at]), transfers.crossing_ns[at], transfers.unpacked_ns[at] - transfers.asked_ns[at]],
    { kind: "transfer", id: at },
  ];
  return { name: "Transfers", columns: [["tensor", ""], ["from", ""], ["to", ""], ["size", "bytes"], ...stages.map((stage) => [stage, "ns"]), ["crossing", "ns"], ["time", "ns"]], rows: () => transfers.tensor.map(row) };
}

function tensorsTable(model) {
  const { tensors, nodes, edges } = model;
  const rows = () => {
    const readers = new Int32Array(tensors.bytes.length);
    const crossing = new Int32Array(tensors.bytes.length);
    edges.tensor.forEach((tensor, edge) => {
      if (tensor < 0) return;
      readers[tensor]++;
      if (edges.transfer[edge] >= 0) crossing[tensor]++;
    });
    return nodes.names.flatMap((name, node) => {
      const ports = Array.from({ length: tensors.ptr[node + 1] - tensors.ptr[node] }, (_, port) => port);
      return ports.map((port) => {
        const at = tensors.ptr[node] + port;
        return [[`${name}:${port}`, tensors.dtypes[tensors.dtype[at]], tensors.shapes[tensors.shape[at]], known(tensors.bytes[at]), readers[at], crossing[at]], { kind: "node", id: node }];
      });
    });
  };
  return { name: "Tensors", columns: [["tensor", ""], ["type", ""], ["shape", ""], ["size", "bytes"], ["readers", "count"], ["readers elsewhere", "count"]], rows };
}

function devicesTable(model) {
  const { devices } = model.cluster;
  const row = (one) => [[devices[one.device].name, devices[one.device].kind, one.ops, one.busy_ns, one.busy_share, one.peak_bytes, one.capacity_bytes], null];
  return { name: "Devices", columns: [["device", ""], ["kind", ""], ["ops", "count"], ["busy", "ns"], ["busy share", "share"], ["peak", "bytes"], ["capacity", "bytes"]], rows: () => model.tables.devices.map(row) };
}

function linksTable(model) {
  const { timeline, transfers, cluster } = model;
  const rows = () => {
    const uses = cluster.links.map(() => ({ bytes: 0, busy: 0, count: 0 }));
    timeline.transfer.forEach((transfer, slice) => {
      const [kind, link] = laneOf(timeline, slice);
      if (transfer < 0 || kind !== "link" || link < 0) return;
      uses[link].bytes += Math.max(0, transfers.bytes[transfer]);
      uses[link].busy += lasts(timeline, slice);
      uses[link].count++;
    });
    return cluster.links.map((link, at) => [[link.name, link.bytes_per_s, link.latency_ns, uses[at].count, uses[at].bytes, uses[at].busy], null]);
  };
  return { name: "Links", columns: [["link", ""], ["bandwidth", "per_s"], ["latency", "ns"], ["transfers", "count"], ["moved", "bytes"], ["time of transfers", "ns"]], rows };
}

// The stretches of the critical path in order of time.
function criticalTable(model) {
  const { timeline, cluster, transfers } = model;
  if (!model.criticalSlices.size) return null;
  const row = (slice) => {
    const transfer = timeline.transfer[slice];
    const [kind, place] = laneOf(timeline, slice);
    const where = kind === "device" ? cluster.devices[place].short : place < 0 ? "in memory" : cluster.links[place].name;
    const what = transfer < 0 ? opOf(model, model.slices.node[slice]) : kind === "link" ? "transfer" : model.packs[slice] ? "packing" : "unpacking";
    return [[sliceName(model, slice), what, where, timeline.start_ns[slice], timeline.end_ns[slice], lasts(timeline, slice), transfer < 0 ? null : known(transfers.bytes[transfer])], transfer < 0 ? { kind: "node", id: model.slices.node[slice] } : { kind: "transfer", id: transfer }];
  };
  const inOrder = () => [...model.criticalSlices].sort((a, b) => timeline.start_ns[a] - timeline.start_ns[b] || timeline.end_ns[a] - timeline.end_ns[b]);
  return { name: "Critical path", columns: [["what", ""], ["kind", ""], ["where", ""], ["start", "ns"], ["end", "ns"], ["time", "ns"], ["size", "bytes"]], rows: () => inOrder().map(row) };
}

function movedTable(model) {
  const { against, runs } = model;
  if (!against?.moved.length) return null;
  const row = ([node, from, to, running]) => [[model.nodes.names[node], opOf(model, node), from, to, running ? "yes" : "no", totalsOf(runs.own, itemOfNode(model, node)).nanos], { kind: "node", id: node }];
  return { name: "Moved nodes", columns: [["node", ""], ["op", ""], [`in ${against.names[0]}`, ""], [`in ${against.names[1]}`, ""], ["runs", ""], ["time", "ns"]], rows: () => against.moved.map(row) };
}

function crossingsTable(model) {
  const { against } = model;
  if (!against?.crossings.length) return null;
  const [one, other] = against.names;
  const row = ([tensor, node, was, is, before, after]) => [[tensor, was, is, before, after, after - before], node >= 0 ? { kind: "node", id: node } : null];
  return { name: "Tensors that cross differently", columns: [["tensor", ""], [`transfers in ${one}`, "count"], [`transfers in ${other}`, "count"], [`size in ${one}`, "bytes"], [`size in ${other}`, "bytes"], ["change", "bytes"]], rows: () => against.crossings.map(row) };
}

function stepsTable({ training: { steps } }) {
  const row = (client, at) => [[steps.clients[client][0], steps.clients[client][2], steps.number[at], steps.start_ns[at], steps.end_ns[at], steps.end_ns[at] - steps.start_ns[at], steps.waiting_ns[at], steps.input_ns[at], steps.cut[at] === WHOLE ? "yes" : "no"], null];
  return { name: "Steps", columns: [["client", ""], ["session", ""], ["step", "count"], ["start", "ns"], ["end", "ns"], ["time", "ns"], ["for tokens", "ns"], ["for input", "ns"], ["whole", ""]], rows: () => steps.client.map(row) };
}

function updatesTable({ training: { steps } }) {
  const row = (when, at) => [[at + 1, steps.clients[steps.update_client[at]][0], when, steps.update_staleness[at], steps.lost.includes(at) ? "yes" : "no"], null];
  return { name: "Updates", columns: [["update", "count"], ["by", ""], ["at", "ns"], ["staleness", "count"], ["lost", ""]], rows: () => steps.update_ns.map(row) };
}

function tasksTable({ training: { tasks, kinds } }) {
  return { name: "Tasks", columns: [["task", ""], ...kinds.map(([kind]) => [kind, "share"])], rows: () => tasks.map((values) => [values, null]) };
}

// ---- CSV

// Text that a spreadsheet would take for a formula gets an apostrophe: names come from files of others.
function csvField(value) {
  if (value === null || value === undefined) return "";
  if (typeof value === "number") return String(value);
  const said = /^[=+\-@\t\r]/.test(value) ? `'${value}` : String(value);
  return /[",\n\r]/.test(said) ? `"${said.replaceAll('"', '""')}"` : said;
}
const csvOf = (heads, rows) => [heads, ...rows].map((row) => row.map(csvField).join(",") + "\n").join("");
const csvHead = ([heading, unit]) => [heading.replaceAll(" ", "_"), unit === "per_s" ? "bytes_per_s" : unit === "count" ? "" : unit].filter(Boolean).join("_");

// Into the clipboard; where a browser or a frame keeps it closed, by a field that is selected and copied.
async function copyText(said, near = document.body) {
  try {
    await navigator.clipboard.writeText(said);
  } catch {
    const field = element("textarea");
    field.value = said;
    near.append(field);
    field.select();
    document.execCommand("copy");
    field.remove();
  }
}

// ---- the dialog

function tablesDialog(dialog, model, state) {
  const [choice, filter, count, copy, place] = ["tables-choice", "tables-filter", "tables-count", "tables-copy", "tables-rows"].map(byId);
  let tables = [];
  let shown = { columns: [], rows: [] };
  let sorted = null; // [column, sign]

  const texts = new WeakMap(); // what a row is filtered by
  function textOf(row) {
    if (!texts.has(row)) texts.set(row, row[0].filter((value) => typeof value === "string").join("\n").toLowerCase());
    return texts.get(row);
  }
  function matching() {
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    const rows = shown.rows.filter((row) => words.every((word) => textOf(row).includes(word)));
    if (!sorted) return rows;
    const [column, sign] = sorted;
    return rows.sort(([a], [b]) => inOrder(a[column], b[column], sign));
  }
  function draw() {
    const rows = matching();
    const numeric = shown.columns.map(([, unit]) => unit !== "");
    const head = element("tr", "", ...shown.columns.map(([heading], column) => headCell(heading, column, numeric[column])));
    const lines = rows.slice(0, MOST_LINES).map(([values, selection]) => {
      const cells = values.map((value, column) => {
        const said = value === null ? "" : typeof value === "number" ? (SHOWN[shown.columns[column][1]] ?? String)(value) : value;
        const cell = element("td", numeric[column] ? "n" : "", numeric[column] ? said : isolated(said));
        if (!numeric[column]) cell.title = said;
        return cell;
      });
      return acting(element("tr", selection ? "link" : "", ...cells), selection && (() => choose(selection)));
    });
    const made = element("table", "all", element("thead", "", head), element("tbody", "", ...lines));
    walksRows(made.tBodies[0]);
    place.replaceChildren(made);
    count.textContent = `${plural(rows.length, "row")}${rows.length > lines.length ? `, the first ${showCount(lines.length)} shown` : ""}`;
  }
  function headCell(heading, column, numeric) {
    const cell = element("th", `sorts${numeric ? " n" : ""}`, heading);
    if (sorted?.[0] === column) cell.setAttribute("aria-sort", sorted[1] < 0 ? "descending" : "ascending");
    return acting(cell, () => {
      sorted = [column, sorted?.[0] === column ? -sorted[1] : numeric ? -1 : 1];
      draw();
      place.querySelectorAll("th")[column].focus();
    });
  }
  function use(at) {
    choice.value = String(at);
    shown = { columns: tables[at].columns, rows: tables[at].rows() };
    sorted = null;
    draw();
  }
  function choose(selection) {
    dialog.close();
    state.select(selection, "table");
  }
  function open(name) {
    tables = tablesOf(model);
    choice.replaceChildren(...tables.map((one, at) => {
      const option = element("option", "", one.name);
      option.value = String(at);
      return option;
    }));
    filter.value = "";
    dialog.showModal();
    use(Math.max(0, tables.findIndex((one) => one.name === name)));
    filter.focus();
  }
  choice.addEventListener("change", () => use(Number(choice.value)));
  filter.addEventListener("input", draw);
  copy.addEventListener("click", async () => {
    await copyText(csvOf(shown.columns.map(csvHead), matching().map(([values]) => values)), dialog);
    copy.textContent = "Copied";
    setTimeout(() => (copy.textContent = "Copy CSV"), 1200);
  });
  byId("tables-close").addEventListener("click", () => dialog.close());
  return { open };
}
