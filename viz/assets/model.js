// The scene on the page: the columns of the report's JSON, and indices for the views.
// Items of the tree are scopes (0 is the root), then nodes: item = scopes + node. The first slices of the timeline are the ops,
// in the order of `slices`. Needs timeline.js, unpacking.js.

function indexed(scene) {
  const { nodes, edges, slices, timeline, transfers, tree, cluster } = scene;
  const count = nodes.names.length;
  const scopes = tree.labels.length;
  const model = { ...scene, count, scopes, items: scopes + count };

  model.isHub = new Uint8Array(count);
  for (const node of tree.hubs) model.isHub[node] = 1;
  model.isSeries = new Uint8Array(scopes);
  for (const scope of tree.series) model.isSeries[scope] = 1;
  model.isBack = new Uint8Array(edges.src.length);
  for (const edge of edges.back) model.isBack[edge] = 1;

  // Nodes that are shown in the box of a reader, and the items in the flow of the step: what runs, but for these and hubs.
  model.hostOf = new Int32Array(count).fill(-1);
  tree.folded.forEach((node, at) => (model.hostOf[node] = tree.host[at]));
  model.heldBy = grouped(edges.src.map((src, edge) => (model.hostOf[src] >= 0 && nodes.runs[edges.dst[edge]] ? edges.dst[edge] : -1)), count, edges.src);
  model.flows = new Uint8Array(model.items);
  for (let node = 0; node < count; node++) {
    if (!nodes.runs[node] || model.isHub[node] || model.hostOf[node] >= 0) continue;
    for (let item = scopes + node; item >= 0 && !model.flows[item]; item = tree.parent[item]) model.flows[item] = 1;
  }

  model.children = grouped(tree.parent, scopes);
  model.inEdges = grouped(edges.dst, count);
  model.outEdges = grouped(edges.src, count);
  model.slicesOf = grouped(slices.node, count);
  model.slicesOfTransfer = grouped(timeline.transfer, transfers.tensor.length);
  model.packs = new Uint8Array(timeline.lane.length);
  for (const slice of timeline.packs) model.packs[slice] = 1;
  model.isDead = new Uint8Array(transfers.tensor.length);
  for (const row of transfers.dead) model.isDead[row] = 1;
  model.transfersOf = grouped(transfers.pair, transfers.pair.reduce((most, pair) => Math.max(most, pair + 1), 0));
  model.transferNode = transfers.tensor.map((tensor) => (tensor >= 0 ? nodeOfTensor(model, tensor) : -1 - tensor));

  // Devices without a slice or a byte; where there are many, the views name their number alone.
  const busy = new Set(timeline.lane.flatMap((_, slice) => { const [kind, device] = laneOf(timeline, slice); return kind === "device" ? [device] : []; }));
  model.idleDevices = new Set([...cluster.devices.keys()].filter((device) => !busy.has(device) && !scene.memory.curves[device].time_ns.length));
  model.namesIdle = model.idleDevices.size <= 8;

  model.stateCategory = model.categories.names.indexOf("state");
  model.criticalSlices = new Set(timeline.critical);
  model.totals = new Map();
  model.longestNs = timeline.lane.reduce((most, _, slice) => (laneOf(timeline, slice)[0] === "device" ? Math.max(most, lasts(timeline, slice)) : most), 1);
  return model;
}

const rowsIn = (table, group) => table.row.subarray(table.start[group], table.start[group + 1]);

const nodeOfTensor = (model, tensor) => nodeWith(model.tensors.ptr, tensor);
const itemOfNode = (model, node) => model.scopes + node;
const isScope = (model, item) => item < model.scopes;
// Why a node is on its device.
function ruleOf({ nodes, rules }, node) {
  if (nodes.fed.includes(node)) return "the client feeds its value there";
  return nodes.moved.includes(node) ? "moved by the cut, with its control flow" : rules[nodes.why[node]];
}
const labelOf = (model, item) =>
  isScope(model, item) ? model.tree.labels[item] : leafOf(model.nodes.names[item - model.scopes]).trim() || "unnamed";
const opOf = (model, node) => model.nodes.ops[model.nodes.op[node]];
const categoryOf = (model, node) => model.nodes.category[model.nodes.op[node]];

// The variable behind a read, or -1 behind a constant; its name and shape are those that its readers see.
function variableOf(model, node) {
  let at = node;
  for (let steps = 0; steps < 8; steps++) {
    const before = [...rowsIn(model.inEdges, at)].find((edge) => model.edges.tensor[edge] >= 0);
    if (before === undefined) break;
    at = model.edges.src[before];
  }
  return categoryOf(model, at) === model.stateCategory ? at : -1;
}
// The shape of a variable's value: its own, or of a handle, which is a scalar, what a read of it gives.
function shapeOfVariable(model, node) {
  const { ptr, shape, shapes, dtype, dtypes, bytes } = model.tensors;
  const seen = new Set([node]);
  for (const at of seen) {
    const tensor = ptr[at];
    const isHandle = ptr[at + 1] > tensor && dtypes[dtype[tensor]] === "resource";
    if (ptr[at + 1] > tensor && bytes[tensor] >= 0 && !isHandle && (at === node || opOf(model, at) === "ReadVariableOp")) return shapes[shape[tensor]];
    if (isHandle && seen.size < 64) for (const edge of rowsIn(model.outEdges, at)) seen.add(model.edges.dst[edge]);
  }
  return "";
}

// "node:port" or "^node" of a row of the tensor columns, or of -1 - node for a control edge.
function tensorName(model, tensor) {
  if (tensor < 0) return "^" + model.nodes.names[-1 - tensor];
  const node = nodeOfTensor(model, tensor);
  return model.nodes.names[node] + ":" + (tensor - model.tensors.ptr[node]);
}

// "#3" behind the name of what runs in a loop, "#0,3" in a loop within another.
function tagOf(model, iteration) {
  const tag = model.slices.iterations[iteration];
  return tag.length ? "#" + tag.join(",") : "";
}
const transferName = (model, row) => tensorName(model, model.transfers.tensor[row]) + tagOf(model, model.transfers.iteration[row]);
// The name of a slice: of its node, or the verb and the transfer.
function sliceName(model, slice) {
  const transfer = model.timeline.transfer[slice];
  if (transfer < 0) return model.nodes.names[model.slices.node[slice]] + tagOf(model, model.slices.iteration[slice]);
  const [kind] = laneOf(model.timeline, slice);
  return (kind === "link" ? "" : verbOf(model, slice)) + transferName(model, transfer);
}
const verbOf = (model, slice) => (model.packs[slice] ? "send " : "receive ");

// The slices of a transfer on links, in the order of its route.
function linkSlices(model, transfer) {
  const route = model.transfers.routes[model.transfers.route[transfer]];
  const link = (slice) => laneOf(model.timeline, slice)[1];
  const found = [...rowsIn(model.slicesOfTransfer, transfer)].filter((slice) => laneOf(model.timeline, slice)[0] === "link");
  return found.sort((a, b) => route.indexOf(link(a)) - route.indexOf(link(b)));
}

// From the outermost scope to the item itself, without the root.
function pathTo(model, item) {
  const path = [];
  for (let at = item; at > 0; at = model.tree.parent[at]) path.unshift(at);
  return path;
}

// What a scope or node holds: ops, those that run, time by device and by category, and time on the critical path.
function totalsOf(model, item) {
  const known = model.totals.get(item);
  if (known) return known;
  const total = { ops: 0, running: 0, moved: 0, hubs: 0, nanos: 0, critical: 0, byDevice: new Map(), byCategory: new Map() };
  if (isScope(model, item)) {
    for (const child of rowsIn(model.children, item)) addTotals(total, totalsOf(model, child));
  } else {
    countNode(model, total, item - model.scopes);
  }
  model.totals.set(item, total);
  return total;
}

function countNode(model, total, node) {
  total.ops = 1;
  total.running = model.nodes.runs[node];
  total.moved = total.running && model.elsewhere?.has(node) ? 1 : 0;
  total.hubs = total.running && model.hostOf[node] < 0 ? model.isHub[node] : 0;
  const kind = categoryOf(model, node);
  for (const row of rowsIn(model.slicesOf, node)) {
    const nanos = lasts(model.timeline, row);
    const device = laneOf(model.timeline, row)[1];
    total.nanos += nanos;
    total.byDevice.set(device, (total.byDevice.get(device) ?? 0) + nanos);
    total.byCategory.set(kind, (total.byCategory.get(kind) ?? 0) + nanos);
    if (model.criticalSlices.has(row)) total.critical += nanos;
  }
  if (!total.byDevice.size) total.byDevice.set(model.nodes.device[node], 0);
  if (!total.byCategory.size) total.byCategory.set(kind, 0);
}

function addTotals(total, part) {
  for (const key of ["ops", "running", "moved", "hubs", "nanos", "critical"]) total[key] += part[key];
  for (const [device, nanos] of part.byDevice) total.byDevice.set(device, (total.byDevice.get(device) ?? 0) + nanos);
  for (const [kind, nanos] of part.byCategory) total.byCategory.set(kind, (total.byCategory.get(kind) ?? 0) + nanos);
}
