// The scene as the page uses it: the columns of the report's JSON, and the indices that the views ask for.
// Items of the tree are scopes (0 is the root), then nodes: item = scopes + node.

async function readScene() {
  const packed = atob(document.getElementById("scene").textContent.trim());
  const bytes = Uint8Array.from(packed, (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return indexed(JSON.parse(await new Response(stream).text()));
}

function indexed(scene) {
  const { nodes, edges, slices, transfers, tree, cluster } = scene;
  const count = nodes.names.length;
  const scopes = tree.labels.length;
  const model = { ...scene, count, scopes, items: scopes + count };

  model.isHub = new Uint8Array(count);
  for (const node of tree.hubs) model.isHub[node] = 1;
  model.isSeries = new Uint8Array(scopes);
  for (const scope of tree.series) model.isSeries[scope] = 1;
  model.isBack = new Uint8Array(edges.src.length);
  for (const edge of edges.back) model.isBack[edge] = 1;

  model.children = grouped(tree.parent, scopes);
  model.inEdges = grouped(edges.dst, count);
  model.outEdges = grouped(edges.src, count);
  model.slicesOf = grouped(slices.node, count);
  model.bars = barsOf(slices, scene.work);
  model.workOf = grouped(scene.work.transfer, transfers.tensor.length);
  model.isDead = new Uint8Array(transfers.tensor.length);
  for (const row of transfers.dead) model.isDead[row] = 1;
  model.transfersOf = grouped(transfers.pair, transfers.pair.reduce((most, pair) => Math.max(most, pair + 1), 0));
  model.routes = new Map(transfers.routes.map(([src, dst, ...links]) => [src * cluster.devices.length + dst, links]));
  model.carried = onLinks(transfers, (row) => model.routes.get(transfers.src[row] * cluster.devices.length + transfers.dst[row]));
  model.transferNode = transfers.tensor.map((tensor) => (tensor >= 0 ? nodeOfTensor(model, tensor) : -1 - tensor));

  // Devices without a slice or a byte; where there are many, the views name their number alone.
  const busy = new Set(model.bars.device);
  model.idleDevices = new Set([...cluster.devices.keys()].filter((device) => !busy.has(device) && !scene.memory.curves[device].time_ns.length));
  model.namesIdle = model.idleDevices.size <= 8;

  const critical = scene.critical ?? [];
  const onPath = new Set(critical);
  model.criticalSlices = new Set(critical.filter((row) => row >= 0));
  model.criticalBars = new Set(model.criticalSlices);
  scene.work.transfer.forEach((transfer, row) => {
    if (onPath.has(stretchTask(transfer, scene.work.packs[row] ? STRETCH.pack : STRETCH.unpack))) model.criticalBars.add(slices.node.length + row);
  });
  model.criticalTransfers = new Set([...transfers.tensor.keys()].filter((row) => onPath.has(stretchTask(row, STRETCH.wire))));
  model.criticalNodes = new Uint8Array(count);
  for (const row of model.criticalSlices) model.criticalNodes[slices.node[row]] = 1;
  model.totals = new Map();
  model.longestNs = model.bars.start_ns.reduce((most, start, row) => Math.max(most, model.bars.end_ns[row] - start), 1);
  return model;
}

// What takes lanes of devices: first the slices, then the packing and unpacking of transfers, in one numbering.
function barsOf(slices, work) {
  const joined = (key) => [...slices[key], ...work[key]];
  return { slices: slices.node.length, device: joined("device"), lane: joined("lane"), ready_ns: joined("ready_ns"), start_ns: joined("start_ns"), end_ns: joined("end_ns") };
}

// A transfer is a chain of stretches; on the critical path each has a number below zero (execution/trace.py).
const STRETCH = { request: 0, pack: 1, wire: 2, latency: 3, unpack: 4 };
const stretchTask = (transfer, stretch) => -1 - (5 * transfer + stretch);

// Rows by group, as a compressed table: rowsIn(table, group) are the rows whose group is that.
function grouped(group, count) {
  const start = new Int32Array(count + 1);
  for (const g of group) if (g >= 0) start[g + 1]++;
  for (let g = 0; g < count; g++) start[g + 1] += start[g];
  const row = new Int32Array(start[count]);
  const next = start.slice();
  group.forEach((g, r) => {
    if (g >= 0) row[next[g]++] = r;
  });
  return { start, row };
}
const rowsIn = (table, group) => table.row.subarray(table.start[group], table.start[group + 1]);

// The node that makes a tensor: the last one whose first tensor is not behind it.
function nodeOfTensor(model, tensor) {
  const ptr = model.tensors.ptr;
  let low = 0;
  let high = ptr.length - 1;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (ptr[middle] <= tensor) low = middle;
    else high = middle;
  }
  return low;
}

const itemOfNode = (model, node) => model.scopes + node;
const isScope = (model, item) => item < model.scopes;
const labelOf = (model, item) =>
  isScope(model, item) ? model.tree.labels[item] : leafOf(model.nodes.names[item - model.scopes]);
const opOf = (model, node) => model.nodes.ops[model.nodes.op[node]];
const categoryOf = (model, node) => model.nodes.category[model.nodes.op[node]];
const ranFor = (model, node) => {
  let total = 0;
  for (const row of rowsIn(model.slicesOf, node)) total += model.slices.end_ns[row] - model.slices.start_ns[row];
  return total;
};

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
const sliceName = (model, row) => model.nodes.names[model.slices.node[row]] + tagOf(model, model.slices.iteration[row]);

// The name of a bar: that of its node, or what is done for which transfer.
function barName(model, bar) {
  if (bar < model.bars.slices) return sliceName(model, bar);
  const row = bar - model.bars.slices;
  return (model.work.packs[row] ? "send " : "receive ") + transferName(model, model.work.transfer[row]);
}

// What a bar stands for, as the state selects it.
function selectionOf(model, bar) {
  if (bar < model.bars.slices) return { kind: "node", id: model.slices.node[bar] };
  return { kind: "transfer", id: model.work.transfer[bar - model.bars.slices] };
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
  const total = { ops: 0, running: 0, nanos: 0, critical: 0, byDevice: new Map(), byCategory: new Map() };
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
  const kind = categoryOf(model, node);
  for (const row of rowsIn(model.slicesOf, node)) {
    const nanos = model.slices.end_ns[row] - model.slices.start_ns[row];
    const device = model.slices.device[row];
    total.nanos += nanos;
    total.byDevice.set(device, (total.byDevice.get(device) ?? 0) + nanos);
    total.byCategory.set(kind, (total.byCategory.get(kind) ?? 0) + nanos);
    if (model.criticalSlices.has(row)) total.critical += nanos;
  }
  if (!total.byDevice.size) total.byDevice.set(model.nodes.device[node], 0);
  if (!total.byCategory.size) total.byCategory.set(kind, 0);
}

function addTotals(total, part) {
  for (const key of ["ops", "running", "nanos", "critical"]) total[key] += part[key];
  for (const [device, nanos] of part.byDevice) total.byDevice.set(device, (total.byDevice.get(device) ?? 0) + nanos);
  for (const [kind, nanos] of part.byCategory) total.byCategory.set(kind, (total.byCategory.get(kind) ?? 0) + nanos);
}
