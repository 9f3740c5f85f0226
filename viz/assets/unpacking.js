// The page's content as it was before it was packed: see viz/page/packing.py, which has the same rules. Needs timeline.js.

async function readScene() {
  const packed = atob(document.getElementById("scene").textContent.trim());
  const bytes = Uint8Array.from(packed, (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return unpacked(JSON.parse(await new Response(stream).text()));
}

// Columns that come as differences: from the entry before, or from another column of the member, which stands before it here.
const DIFFERENCES = {
  timeline: { transfer: "", critical: "" },
  slices: { node: "" },
  transfers: { packed_ns: "asked_ns", arrived_ns: "through_ns", unpacked_ns: "arrived_ns", tensor: "", pair: "" },
  edges: { dst: "", src: "dst" },
  tensors: { ptr: "" },
  tree: { order: "", parent: "", folded: "", host: "folded" },
  curve: { time_ns: "", bytes: "" },
};

// Undo the packing of a scene and of the run beside it, in place.
function unpacked(scene) {
  const { tensors, nodes, against } = scene;
  summed(tensors.ptr);
  addAll(scene.tree, DIFFERENCES.tree);
  addAll(scene.edges, DIFFERENCES.edges);
  const { src, tensor } = scene.edges;
  tensor.forEach((port, edge) => port >= 0 && (tensor[edge] = tensors.ptr[src[edge]] + port));
  unpackRun(scene, tensors);
  if (!against) return scene;
  const named = (columns, at) => rowsOf(columns, 1 - at).map((row) => row.with(at, fullName(row[at], nodes.names[row[1 - at]])));
  against.crossings = named(against.crossings, 0);
  for (const part of against.parts) part[3] = named(part[3], 1);
  if (against.run) {
    for (const shared of ["summary", "cluster", "nodes", "edges"]) against.run[shared] = { ...scene[shared], ...against.run[shared] };
    unpackRun(against.run, tensors);
  }
  against.moved = [...rowsOf(against.moved, 0), ...(against.run ? movedNodes(scene, against.run) : [])].sort((a, b) => a[0] - b[0]);
  return scene;
}

// The columns of a run. Its order: one tells of the next.
function unpackRun(run, tensors) {
  const { timeline, slices, transfers, edges, memory } = run;
  for (const curve of memory.curves) addAll(curve, DIFFERENCES.curve);
  if (run.critical) summed(run.critical);
  addAll(timeline, DIFFERENCES.timeline);
  addAll(slices, DIFFERENCES.slices);
  onLanes(timeline);
  const many = Math.max(1, slices.iterations.length);
  const ends = new Map(slices.node.map((node, op) => [node * many + slices.iteration[op], timeline.end_ns[op]])); // of node and iteration
  const { tensor, iteration, asked_ns: asked } = transfers;
  const { packed_ns, ...others } = DIFFERENCES.transfers;
  summed(tensor);
  summed(transfers.pair);
  for (let row = 0; row < asked.length; row++) asked[row] += ends.get((tensor[row] < 0 ? -1 - tensor[row] : nodeWith(tensors.ptr, tensor[row])) * many + iteration[row]) ?? 0;
  summed(transfers.packed_ns, asked);
  onLinks(timeline, transfers);
  for (const [column, beside] of Object.entries(others)) if (beside) summed(transfers[column], transfers[beside]);
  transfersOfEdges(run);
  readyTimes(run, ends, many);
}

// A slice starts as long after the one before it on its lane as its difference says, and lasts as long as that of its end.
function onLanes({ lane, start_ns: start, end_ns: end }) {
  const reached = [];
  for (let slice = 0; slice < lane.length; slice++) {
    start[slice] += reached[lane[slice]] ?? 0;
    reached[lane[slice]] = end[slice] += start[slice];
  }
}

// A transfer is sent when its first slice on a link starts, and through when its last one ends; without links it is packed.
function onLinks({ lanes, lane, transfer: of, start_ns: start, end_ns: end }, { packed_ns: packed, sent_ns: sent, through_ns: through }) {
  const [first, last] = [[], []];
  of.forEach((row, slice) => {
    if (row < 0 || lanes[lane[slice]][0] !== "link") return;
    first[row] = Math.min(first[row] ?? Infinity, start[slice]);
    last[row] = Math.max(last[row] ?? packed[row], end[slice]);
  });
  for (let row = 0; row < sent.length; row++) {
    sent[row] += first[row] ?? packed[row];
    through[row] += last[row] ?? packed[row];
  }
}

// The transfer of an edge is the first of its tensor to the device of its consumer.
function transfersOfEdges({ nodes, edges, transfers }) {
  const first = new Map();
  const key = (tensor, device) => tensor * 65536 + device;
  for (let row = transfers.tensor.length - 1; row >= 0; row--) first.set(key(transfers.tensor[row], transfers.dst[row]), row);
  const { src, dst, tensor, transfer } = edges;
  for (let edge = 0; edge < src.length; edge++) {
    const [from, to] = [src[edge], dst[edge]];
    const crosses = nodes.runs[from] && nodes.runs[to] && nodes.device[from] !== nodes.device[to];
    transfer[edge] += crosses ? (first.get(key(tensor[edge] < 0 ? -1 - from : tensor[edge], nodes.device[to])) ?? -1) : -1;
  }
}

// An op is ready when its last input is there; the work for a transfer, or its way over a link, when the stage before it has ended.
function readyTimes({ timeline, slices, transfers, edges }, ends, many) {
  const { node, iteration } = slices;
  const { transfer: of, ready_ns: ready, lanes, lane } = timeline;
  const arrivals = new Map(transfers.pair.map((pair, row) => [pair * many + transfers.iteration[row], transfers.unpacked_ns[row]]));
  const before = grouped(edges.dst, edges.dst.reduce((most, dst) => Math.max(most, dst), -1) + 1);
  for (let op = 0; op < node.length; op++) {
    let there = 0;
    for (let at = before.start[node[op]] ?? 0; at < (before.start[node[op] + 1] ?? 0); at++) {
      const edge = before.row[at];
      const row = edges.transfer[edge];
      there = Math.max(there, (row < 0 ? ends.get(edges.src[edge] * many + iteration[op]) : arrivals.get(transfers.pair[row] * many + iteration[op])) ?? 0);
    }
    ready[op] += there;
  }
  const packs = new Set(timeline.packs);
  for (let slice = node.length; slice < of.length; slice++) {
    const stage = lanes[lane[slice]][0] === "link" ? "packed_ns" : packs.has(slice) ? "asked_ns" : "arrived_ns";
    ready[slice] += transfers[stage][of[slice]];
  }
}

// The nodes that two runs place on different devices: [node, there, here, whether it runs in either]; without those that
// a cut moved from where they were placed.
function movedNodes(own, other) {
  const apart = new Set([...own.nodes.moved, ...other.nodes.moved]);
  const [here, there] = [own, other].map((run) => (node) => run.cluster.devices[run.nodes.device[node]].name);
  const rows = own.nodes.names.map((_, node) => [node, there(node), here(node), other.nodes.runs[node] || own.nodes.runs[node]]);
  return rows.filter(([node, was, is]) => was !== is && !apart.has(node));
}

function addAll(member, differences) {
  for (const [column, beside] of Object.entries(differences)) summed(member[column], member[beside]);
}
// Add to each entry the one before it, or that of another column.
function summed(column, beside) {
  for (let at = beside ? 0 : 1; at < column.length; at++) column[at] += beside ? beside[at] : column[at - 1];
}
// The rows of columns, of which that of nodes comes as differences.
function rowsOf(columns, node) {
  if (!columns.length) return [];
  summed(columns[node]);
  return columns[0].map((_, row) => columns.map((column) => column[row]));
}
// A name by what stands behind a node's: see `_packed_rows`.
const fullName = (rest, name) => (rest[0] === " " ? rest.slice(1) : rest[0] === "^" ? "^" + name + rest.slice(1) : name + rest);

// The node that makes a tensor: the last one whose first tensor is not behind it.
function nodeWith(ptr, tensor) {
  let low = 0;
  let high = ptr.length - 1;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (ptr[middle] <= tensor) low = middle;
    else high = middle;
  }
  return low;
}

// Rows by group, as a compressed table: rowsIn(table, group) are the rows whose group is that, or what `values` has for them.
function grouped(group, count, values = null) {
  const start = new Int32Array(count + 1);
  for (const g of group) if (g >= 0) start[g + 1]++;
  for (let g = 0; g < count; g++) start[g + 1] += start[g];
  const row = new Int32Array(start[count]);
  const next = start.slice();
  group.forEach((g, r) => {
    if (g >= 0) row[next[g]++] = values ? values[r] : r;
  });
  return { start, row };
}
