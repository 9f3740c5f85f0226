// The subject of a step's timeline: ops, the work for transfers, transfers on links, and the memory of each device.
// Needs format.js, model.js, canvas.js, graph_drawing.js, timeline.js, timeline_drawing.js.

const MOST_ARROWS = 60; // at once
const FEW_DEVICES = 6; // that do something: more are grouped by task

// `clock`: the last moment of all timelines that show the same times.
function stepTimeline(canvas, model, state, tip, onRange, clock = 0) {
  const { timeline, cluster, transfers } = model;
  const isOp = (slice) => timeline.transfer[slice] < 0;
  let known = {}; // what was marked last: a frame must not look for it again
  function marked() {
    const { selection, hits, traced } = state;
    if (known.selection !== selection || known.hits !== hits || known.traced !== traced) known = { selection, hits, traced, slices: markedSlices(model, state) };
    return known.slices;
  }

  const most = model.memory.peak_bytes.reduce((largest, peak) => Math.max(largest, peak), 1);
  const groups = cluster.tasks > 1 && new Set(timeline.lanes.filter(([kind]) => kind === "device").map(([, device]) => device)).size - model.idleDevices.size > FEW_DEVICES;
  const subject = {
    top: 0,
    whole: model.summary.makespan_ns,
    clock,
    rowsAbove: [],
    rest: model.namesIdle ? "" : `${plural(model.idleDevices.size, "more device")} idle`,
    shapeOf: (device) => (!model.idleDevices.has(device) ? "lane" : model.namesIdle ? "idle" : ""),
    nameOf: (device) => cluster.devices[device].short,
    linkOf: (link) => (link < 0 ? "handed over in memory" : cluster.links[link].name),
    titleOf: (row) => (row.device === undefined ? row.label : cluster.devices[row.device].name),
    chipOf: (row) => (row.kind === "lane" || row.kind === "idle" ? cluster.colours[row.device] : null),
    marked: () => marked(),
    critical: () => (state.critical ? model.criticalSlices : null),
    showsMemory: () => state.memory !== "none",
    taskOf: groups ? (device) => cluster.devices[device].short.split("/")[0] : null,
    memory: (device) => `${model.summary.unsized.least_held}${showBytes(model.memory.peak_bytes[device])} of ${showBytes(cluster.devices[device].memory_bytes)}`,
    measure: (one, other) => state.measure(rangeOf(one, other, model.summary.makespan_ns)),
    drawBefore(pen, rows) {
      if (state.range) drawRange(pen, state.range);
      drawArrows(pen, model, state, rows);
    },
    drawRow: (pen, row, y) => row.kind === "memory" && drawMemory(pen, model, row, y, state.memory === "one" ? most : 0),
    textOf: (slice, row) => (row.kind === "lane" ? sliceText(model, slice) : ""),
    coloursOf: (pen, slice, row) => sliceColours(pen, model, state, slice, row),
    describe: (row, entry, time) => (entry !== undefined ? describeSlice(model, row, entry) : row.kind === "memory" ? describeMemory(model, row.device, time) : null),
    select(slice) {
      if (slice === undefined) return state.select(null);
      return state.select(isOp(slice) ? { kind: "node", id: model.slices.node[slice] } : { kind: "transfer", id: timeline.transfer[slice] }, "timeline");
    },
  };
  const view = timelineView(canvas, timeline, subject, tip, onRange);

  function showSelection() {
    const { selection } = state;
    const slices = selection?.kind === "node" ? rowsIn(model.slicesOf, selection.id)
      : selection?.kind === "transfer" ? linkSlices(model, selection.id) : [];
    if (slices.length) view.show(slices[0]);
    else view.draw();
  }

  // The op or transfer before or after the selected one on the same lane, by start; the first op where none is selected.
  function neighbour(forward) {
    const { selection } = state;
    const [slice] = selection?.kind === "node" ? rowsIn(model.slicesOf, selection.id) : selection?.kind === "transfer" ? linkSlices(model, selection.id) : [timeline.start_ns.indexOf(Math.min(...timeline.start_ns.slice(0, model.slices.node.length)))];
    const others = view.rowOf(slice)?.rows.filter((one) => isOp(one) === isOp(slice));
    const next = selection ? others?.[others.indexOf(slice) + (forward ? 1 : -1)] : slice;
    if (next !== undefined && next >= 0) state.select(isOp(next) ? { kind: "node", id: model.slices.node[next] } : { kind: "transfer", id: timeline.transfer[next] }, "keyboard");
  }
  // Hide the device or the links of what is selected; without a selection, show all again.
  function hideSelected() {
    const { selection } = state;
    if (selection === null) return view.hide(null);
    const [slice] = selection.kind === "node" ? rowsIn(model.slicesOf, selection.id) : selection.kind === "transfer" ? linkSlices(model, selection.id) : [];
    const [kind, device] = slice === undefined ? [] : laneOf(timeline, slice);
    if (kind) view.hide(kind === "link" ? "links" : device);
  }
  return { ...view, showSelection, neighbour, hideSelected, marked: () => [...marked()].filter((slice) => laneOf(timeline, slice)[0] === "device") };
}

// An arrow for each transfer of the selection: from the lane of its source, when it is sent, to that of its target, when it is there.
function drawArrows(pen, model, state, rows) {
  const { context, theme, xOf, topOf, right, bottom } = pen;
  const { src, dst, packed_ns: packed, arrived_ns: arrived } = model.transfers;
  const laneRow = (device) => rows.find((row) => row.kind === "lane" && row.device === device);
  context.strokeStyle = context.fillStyle = theme.accent;
  context.lineWidth = 1.4;
  for (const transfer of transfersSelected(model, state.selection).slice(0, MOST_ARROWS)) {
    const [from, to] = [laneRow(src[transfer]), laneRow(dst[transfer])];
    const [x0, x1] = [xOf(packed[transfer]), xOf(arrived[transfer])];
    if (!from || !to || from === to || x1 < ROW.label || x0 > right) continue;
    const down = to.y > from.y;
    const [y0, y1] = [topOf(from) + (down ? from.height : 0), topOf(to) + (down ? 0 : to.height)];
    if (Math.max(y0, y1) < ROW.axis || Math.min(y0, y1) > bottom) continue;
    const head = down ? -5 : 5;
    context.save();
    context.beginPath();
    context.rect(ROW.label, ROW.axis, right - ROW.label, bottom);
    context.clip();
    context.beginPath();
    context.moveTo(x0, y0);
    context.bezierCurveTo(x0, (y0 + y1) / 2, x1, (y0 + y1) / 2, x1, y1 + head);
    context.stroke();
    context.beginPath();
    context.moveTo(x1, y1);
    context.lineTo(x1 - 3.5, y1 + 1.3 * head);
    context.lineTo(x1 + 3.5, y1 + 1.3 * head);
    context.fill();
    context.restore();
  }
}

// The transfers of a selected transfer, node or edge.
function transfersSelected(model, selection) {
  const of = (edges) => [...new Set([...edges].map((edge) => model.edges.transfer[edge]).filter((row) => row >= 0))].flatMap((row) => [...repeats(model, row)]);
  if (selection?.kind === "transfer") return [selection.id];
  if (selection?.kind === "node") return of([...rowsIn(model.inEdges, selection.id), ...rowsIn(model.outEdges, selection.id)]);
  return selection?.kind === "edges" ? of(selection.id) : [];
}

// The slices that the selection stands for; without one, those of what the search found.
function markedSlices(model, state) {
  const { selection } = state;
  const found = new Set();
  const mark = (table, row) => rowsIn(table, row).forEach((slice) => found.add(slice));
  const markTransfer = (edge) => {
    const first = model.edges.transfer[edge]; // a loop has one per iteration
    if (first >= 0) for (const row of repeats(model, first)) mark(model.slicesOfTransfer, row);
  };
  if (!selection || state.traced) for (const item of state.hits) if (!isScope(model, item)) mark(model.slicesOf, item - model.scopes);
  if (selection?.kind === "transfer") mark(model.slicesOfTransfer, selection.id);
  if (selection?.kind === "edges") selection.id.forEach(markTransfer);
  if (selection?.kind === "node") {
    mark(model.slicesOf, selection.id);
    for (const edge of [...rowsIn(model.inEdges, selection.id), ...rowsIn(model.outEdges, selection.id)]) markTransfer(edge);
  }
  if (selection?.kind === "scope") {
    const pending = [selection.id];
    while (pending.length) {
      const item = pending.pop();
      if (isScope(model, item)) pending.push(...rowsIn(model.children, item));
      else mark(model.slicesOf, item - model.scopes);
    }
  }
  return found;
}

// The end of an op's name; of packing and unpacking the verb comes first.
function sliceText(model, slice) {
  const transfer = model.timeline.transfer[slice];
  return transfer < 0 ? leafOf(sliceName(model, slice)) : verbOf(model, slice) + leafOf(transferName(model, transfer));
}

// A transfer has the colours of both ends: the source above, the target below. Packing and unpacking have that of their
// device, paler, with the transfer's other end in a strip below.
function sliceColours(pen, model, state, slice, row) {
  const { timeline, transfers, cluster, categories } = model;
  const transfer = timeline.transfer[slice];
  if (row.kind === "link") return { above: cluster.colours[transfers.src[transfer]], below: cluster.colours[transfers.dst[transfer]], split: row.height / 2 - 1 };
  if (state.colourBy === "time") return { above: heat(pen.theme, lasts(timeline, slice) / model.longestNs) };
  if (transfer < 0) return { above: state.colourBy === "category" ? categories.colours[categoryOf(model, model.slices.node[slice])] : cluster.colours[row.device] };
  const packs = model.packs[slice];
  if (state.colourBy === "category") return { above: categories.colours[categories.names.indexOf(packs ? "packing" : "unpacking")] };
  const other = (packs ? transfers.dst : transfers.src)[transfer];
  return { above: blend(cluster.colours[row.device], pen.theme.paper, 0.45), below: cluster.colours[other], split: 4 };
}

function describeSlice(model, row, slice) {
  const { timeline, transfers } = model;
  const { devices } = model.cluster;
  const took = showNanos(lasts(timeline, slice));
  const from = `from ${showNanos(timeline.start_ns[slice])}`;
  if (timeline.transfer[slice] < 0) return [sliceName(model, slice), `${opOf(model, model.slices.node[slice])} on ${devices[row.device].short}`, `${took}, ${from}`];
  const transfer = timeline.transfer[slice];
  const [source, target] = [devices[transfers.src[transfer]].short, devices[transfers.dst[transfer]].short];
  const bytes = showBytes(transfers.bytes[transfer]);
  if (row.kind === "link") return [transferName(model, transfer), `${source} → ${target}`, `${bytes} in ${took}, ${from}`, `arrives at ${showNanos(transfers.arrived_ns[transfer])}`];
  const here = devices[row.device].short;
  return [sliceName(model, slice), model.packs[slice] ? `${bytes} packed by ${here} for ${target}` : `${bytes} unpacked by ${here} from ${source}`, `${took}, ${from}`];
}

function describeMemory(model, device, time) {
  const { time_ns: times, bytes } = model.memory.curves[device];
  const index = indexAfter(times, time);
  const level = index ? bytes[index - 1] : model.memory.resident_bytes[device];
  const { short, memory_bytes: capacity } = model.cluster.devices[device];
  return [showBytes(level), `in use on ${short} at ${showNanos(Math.round(Math.max(0, time)))}`, `peak ${model.summary.unsized.least_held}${showBytes(model.memory.peak_bytes[device])} of ${showBytes(capacity)}`];
}

// Memory in use over time. The row's top is the capacity, or the peak where that is less than half of it; or `scale`, for all devices.
function drawMemory(pen, model, row, y, scale) {
  const { context, theme, xOf, view, right } = pen;
  const { time_ns: times, bytes } = model.memory.curves[row.device];
  const peak = model.memory.peak_bytes[row.device];
  const capacity = model.cluster.devices[row.device].memory_bytes;
  const top = scale ? scale * 1.08 : peak > capacity / 2 ? Math.max(peak, capacity) : Math.max(peak * 1.08, 1);
  const yOf = (level) => y + row.height - 1 - (level / top) * (row.height - 4);
  const colour = peak > capacity ? theme.bad : model.cluster.colours[row.device];
  context.beginPath();
  const first = Math.max(0, indexAfter(times, view.from) - 1);
  let level = first < times.length && times[first] <= view.from ? bytes[first] : model.memory.resident_bytes[row.device];
  context.moveTo(ROW.label - 2, yOf(level));
  let x = ROW.label - 2;
  let [low, high] = [level, level];
  for (let index = first; index < times.length && times[index] <= view.to; index++) {
    const at = Math.max(ROW.label - 2, xOf(times[index]));
    if (at - x > 0.6) {
      context.lineTo(x, yOf(low));
      context.lineTo(x, yOf(high));
      context.lineTo(x, yOf(level));
      context.lineTo(at, yOf(level));
      [x, low, high] = [at, level, level];
    }
    level = bytes[index];
    low = Math.min(low, level);
    high = Math.max(high, level);
  }
  const end = Math.min(right + 2, xOf(Math.max(model.summary.makespan_ns, times[times.length - 1] ?? 0)));
  for (const at of [low, high, level]) context.lineTo(x, yOf(at));
  context.lineTo(end, yOf(level));
  context.strokeStyle = colour;
  context.lineWidth = 1.2;
  context.stroke();
  context.lineTo(end, y + row.height);
  context.lineTo(ROW.label - 2, y + row.height);
  context.fillStyle = colour;
  context.globalAlpha = 0.18;
  context.fill();
  context.globalAlpha = 1;
  if (top >= capacity) drawCapacity(pen, yOf(capacity));
}

function drawCapacity(pen, y) {
  const { context, theme, right } = pen;
  context.strokeStyle = theme.bad;
  context.lineWidth = 1;
  context.setLineDash([5, 4]);
  context.beginPath();
  context.moveTo(ROW.label, Math.round(y) + 0.5);
  context.lineTo(right, Math.round(y) + 0.5);
  context.stroke();
  context.setLineDash([]);
}

