// The timeline on its canvas: lanes, memory, links, the time axis; pan and zoom in time, scroll through the rows.
// Needs format.js, model.js, canvas.js, timeline_rows.js, timeline_drawing.js.

// One closure, as graphView is: the stretch of time in sight is nobody else's.
function timelineView(canvas, model, state, tip, onRange) {
  const context = canvas.getContext("2d");
  const { rows, height } = timelineRows(model);
  const whole = Math.max(1, model.summary.makespan_ns);
  const view = { from: 0, to: whole, top: 0 };
  let theme = null;
  let waiting = false;

  const width = () => Math.max(1, canvas.clientWidth - ROW.label);
  const xOf = (ns) => ROW.label + ((ns - view.from) / (view.to - view.from)) * width();
  const nsAt = (x) => view.from + ((x - ROW.label) / width()) * (view.to - view.from);

  function clamp() {
    const span = Math.min(Math.max(view.to - view.from, Math.min(whole, 50)), whole * 1.1);
    const from = Math.min(Math.max(view.from, -whole * 0.05), whole * 1.05 - span);
    view.from = from;
    view.to = from + span;
    view.top = Math.min(Math.max(0, view.top), Math.max(0, height + ROW.axis + 8 - canvas.clientHeight));
  }
  function fit() {
    view.from = -whole * 0.004;
    view.to = whole * 1.012;
    draw();
  }
  function zoom(factor, x = ROW.label + width() / 2) {
    const at = nsAt(x);
    view.from = at - (at - view.from) / factor;
    view.to = at + (view.to - at) / factor;
    draw();
  }
  function move(dx, dy) {
    const shift = (dx / width()) * (view.to - view.from);
    view.from -= shift;
    view.to -= shift;
    view.top -= dy;
    draw();
  }
  // Bring a stretch of time and a row into sight; zoom in where it would be a hair.
  function show(start, end, row) {
    const span = view.to - view.from;
    const length = Math.max(end - start, 1);
    if (length / span < 0.004 || start < view.from || end > view.to) {
      const wanted = Math.min(Math.max(length * 40, 50), Math.max(span, length * 1.2));
      view.from = (start + end) / 2 - wanted / 2;
      view.to = view.from + wanted;
    }
    const found = rows[row];
    if (found && (found.y < view.top || found.y + found.height > view.top + canvas.clientHeight - ROW.axis)) {
      view.top = found.y - (canvas.clientHeight - ROW.axis) / 3;
    }
    draw();
  }
  const rowOfBar = (bar) => rows.findIndex((row) => row.kind === "lane" && row.device === model.bars.device[bar] && row.rows.includes(bar));
  const rowOfCarried = (bar) => rows.findIndex((row) => row.kind === "link" && row.rows.includes(bar));

  function showSelection() {
    const { selection } = state;
    if (selection?.kind === "node") {
      const [slice] = rowsIn(model.slicesOf, selection.id);
      if (slice !== undefined) return show(model.slices.start_ns[slice], model.slices.end_ns[slice], rowOfBar(slice));
    }
    if (selection?.kind === "transfer") {
      const bar = model.carried.transfer.indexOf(selection.id); // on its first link
      return show(model.carried.start_ns[bar], model.carried.end_ns[bar], rowOfCarried(bar));
    }
    return draw();
  }

  function draw() {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      clamp();
      paint();
      onRange(view.from, view.to);
    });
  }

  function paint() {
    theme ??= readTheme();
    sized(canvas, context);
    const bottom = canvas.clientHeight;
    const right = canvas.clientWidth;
    context.clearRect(0, 0, right, bottom);
    const pen = { context, model, state, theme, scale: 1, xOf, view, right, step: tickStep(view.to - view.from, width()), marked: markedEntries(model, state) };
    drawGrid(pen, bottom, whole);
    context.save();
    context.beginPath();
    context.rect(0, ROW.axis, right, bottom - ROW.axis);
    context.clip();
    for (const row of rows) {
      const y = row.y + ROW.axis + 4 - view.top;
      if (y > bottom || y + row.height < ROW.axis) continue;
      drawRow(pen, row, y);
    }
    context.restore();
    drawAxis(pen);
    drawScrollbar(pen, view.top, height + 8, bottom);
  }

  // What lies under a point: {kind: "node" | "transfer", id}, or nothing.
  function hit(x, y) {
    const row = rows.find((candidate) => {
      const top = candidate.y + ROW.axis + 4 - view.top;
      return y >= top && y < top + candidate.height;
    });
    if (!row || x < ROW.label || y < ROW.axis) return { row };
    const reach = ((view.to - view.from) / width()) * 2;
    const { start_ns: start, end_ns: end } = row.kind === "link" ? model.carried : model.bars;
    const time = nsAt(x);
    let best = null;
    for (let index = firstAfter(row, end, time - reach); index < row.rows.length && start[row.rows[index]] <= time + reach; index++) {
      const entry = row.rows[index];
      if (end[entry] < time - reach) continue;
      best ??= entry;
      if (start[entry] <= time && end[entry] > time) best = entry;
    }
    return { row, entry: best, time };
  }

  watchPointer(canvas, {
    drag: move,
    wheel: (x, y, turn, sideways) => {
      if (sideways) move(-sideways, 0);
      else if (x < ROW.label) move(0, -turn);
      else zoom(Math.exp(-turn * 0.0018), x);
    },
    hover: (x, y, event) => {
      const { row, entry, time } = hit(x, y);
      canvas.style.cursor = entry !== null && entry !== undefined ? "pointer" : "grab";
      if (entry !== null && entry !== undefined) tip.show(event, ...describeEntry(model, row, entry));
      else if (row?.kind === "memory" && time !== undefined) tip.show(event, ...describeMemory(model, row.device, time));
      else if (row && x < ROW.label && row.label) tip.show(event, row.link >= 0 || row.device === undefined ? row.label : model.cluster.devices[row.device].name);
      else tip.hide();
    },
    leave: () => tip.hide(),
    click: (x, y) => {
      const { row, entry } = hit(x, y);
      if (entry === null || entry === undefined) return state.select(null);
      return state.select(row.kind === "link" ? { kind: "transfer", id: model.carried.transfer[entry] } : selectionOf(model, entry), "timeline");
    },
  });

  // The slice before or after the selected one on the same device, by start.
  function neighbour(forward) {
    if (state.selection?.kind !== "node") return;
    const [slice] = rowsIn(model.slicesOf, state.selection.id);
    const row = rows[rowOfBar(slice)];
    const slices = row?.rows.filter((bar) => bar < model.bars.slices);
    const next = slices?.[slices.indexOf(slice) + (forward ? 1 : -1)];
    if (next !== undefined) state.select({ kind: "node", id: model.slices.node[next] }, "keyboard");
  }

  fit();
  return {
    draw, fit, zoom, move, showSelection, neighbour, rows,
    marked: () => [...markedEntries(model, state).bars],
    height: height + ROW.axis,
    placeOf: (bar) => ({ x: (xOf(model.bars.start_ns[bar]) + xOf(model.bars.end_ns[bar])) / 2, y: rows[rowOfBar(bar)].y + ROW.axis + 4 - view.top + 8 }),
    retheme: () => {
      theme = null;
      draw();
    },
  };
}

function describeEntry(model, row, entry) {
  if (row.kind === "link") {
    const { src, dst, bytes, came_ns: came } = model.transfers;
    const { start_ns: start, end_ns: end } = model.carried;
    const { devices } = model.cluster;
    const transfer = model.carried.transfer[entry];
    return [transferName(model, transfer), `${devices[src[transfer]].short} → ${devices[dst[transfer]].short}`, `${showBytes(bytes[transfer])} in ${showNanos(end[entry] - start[entry])}, from ${showNanos(start[entry])}`, `arrives at ${showNanos(came[transfer])}`];
  }
  const { start_ns: start, end_ns: end } = model.bars;
  const span = `${showNanos(end[entry] - start[entry])}, from ${showNanos(start[entry])}`;
  const here = model.cluster.devices[row.device].short;
  if (entry < model.bars.slices) return [barName(model, entry), `${opOf(model, model.slices.node[entry])} on ${here}`, span];
  const work = entry - model.bars.slices;
  const { src, dst, bytes } = model.transfers;
  const transfer = model.work.transfer[work];
  const [ends, verb] = model.work.packs[work] ? [dst, "packed by"] : [src, "unpacked by"];
  const other = model.cluster.devices[ends[transfer]].short;
  return [barName(model, entry), `${showBytes(bytes[transfer])} ${verb} ${here} ${model.work.packs[work] ? "for" : "from"} ${other}`, span];
}

function describeMemory(model, device, time) {
  const { time_ns: times, bytes } = model.memory.curves[device];
  const level = levelAt(times, bytes, time, model.memory.resident_bytes[device]);
  const { short, memory_bytes: capacity } = model.cluster.devices[device];
  return [showBytes(level), `in use on ${short} at ${showNanos(Math.round(Math.max(0, time)))}`, `peak ${showBytes(model.memory.peak_bytes[device])} of ${showBytes(capacity)}`];
}

function levelAt(times, bytes, time, before) {
  const index = indexAfter(times, time);
  return index ? bytes[index - 1] : before;
}
