// The timeline on its canvas: lanes, memory, links, the time axis; pan and zoom in time, scroll through the rows.
// Needs format.js, model.js, canvas.js, timeline_rows.js, timeline_drawing.js, timeline_window.js.

function timelineView(canvas, model, state, tip, onRange) {
  const { rows, height } = timelineRows(model);
  const whole = Math.max(1, model.summary.makespan_ns);
  const sight = timelineWindow(canvas, { whole, height }, (bare) => {
    const pen = { ...bare, model, state, marked: markedEntries(model, state) };
    eachRow(pen, rows, (row, y) => drawRow(pen, row, y));
  }, onRange);

  // Bring a stretch of time and a row into sight; zoom in where it would be a hair.
  function show(start, end, row) {
    const { from, to } = sight.view;
    const length = Math.max(end - start, 1);
    if (rows[row]) sight.scrollTo(rows[row]);
    if (length / (to - from) >= 0.004 && start >= from && end <= to) return sight.draw();
    const wanted = Math.min(Math.max(length * 40, 50), Math.max(to - from, length * 1.2));
    sight.look((start + end) / 2 - wanted / 2, (start + end) / 2 + wanted / 2);
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
    return sight.draw();
  }

  // What lies under a point: its row, and there the entry and the time.
  function hit(x, y) {
    const row = sight.rowAt(rows, y);
    if (!row || x < ROW.label || y < ROW.axis) return { row };
    return { row, entry: sight.entryAt(row, row.kind === "link" ? model.carried : model.bars, x), time: sight.nsAt(x) };
  }

  watchPointer(canvas, {
    drag: sight.move,
    wheel: sight.wheel,
    hover: (x, y, event) => {
      const { row, entry, time } = hit(x, y);
      canvas.style.cursor = entry !== undefined ? "pointer" : "grab";
      if (entry !== undefined) tip.show(event, ...describeEntry(model, row, entry));
      else if (row?.kind === "memory" && time !== undefined) tip.show(event, ...describeMemory(model, row.device, time));
      else if (row && x < ROW.label && row.label) tip.show(event, row.link >= 0 || row.device === undefined ? row.label : model.cluster.devices[row.device].name);
      else tip.hide();
    },
    leave: () => tip.hide(),
    click: (x, y) => {
      const { row, entry } = hit(x, y);
      if (entry === undefined) return state.select(null);
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

  sight.fit();
  const { draw, fit, zoom, move, retheme } = sight;
  return {
    draw, fit, zoom, move, retheme, showSelection, neighbour, rows,
    marked: () => [...markedEntries(model, state).bars],
    height: height + ROW.axis,
    placeOf: (bar) => ({ x: (sight.xOf(model.bars.start_ns[bar]) + sight.xOf(model.bars.end_ns[bar])) / 2, y: sight.topOf(rows[rowOfBar(bar)]) + 8 }),
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
