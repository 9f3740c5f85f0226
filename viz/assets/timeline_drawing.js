// How the rows of the timeline look. Needs format.js, model.js, canvas.js, timeline_rows.js.

// The bars and transfers that the selection stands for.
function markedEntries(model, state) {
  const { selection } = state;
  const bars = new Set();
  const transfers = new Set();
  const mark = (transfer) => {
    transfers.add(transfer);
    for (const row of rowsIn(model.workOf, transfer)) bars.add(model.bars.slices + row);
  };
  if (selection?.kind === "transfer") mark(selection.id);
  if (selection?.kind === "node") {
    for (const row of rowsIn(model.slicesOf, selection.id)) bars.add(row);
    for (const edge of [...rowsIn(model.inEdges, selection.id), ...rowsIn(model.outEdges, selection.id)]) {
      const first = model.edges.transfer[edge]; // a loop has one per iteration
      if (first >= 0) for (const row of rowsIn(model.transfersOf, model.transfers.pair[first])) mark(row);
    }
  }
  if (selection?.kind === "scope") {
    const pending = [selection.id];
    while (pending.length) {
      const item = pending.pop();
      if (isScope(model, item)) pending.push(...rowsIn(model.children, item));
      else for (const row of rowsIn(model.slicesOf, item - model.scopes)) bars.add(row);
    }
  }
  return { bars, transfers, any: bars.size > 0 };
}

// A tick distance of 1, 2 or 5 times a power of ten, about a hundred pixels wide.
function tickStep(span, width) {
  const rough = Math.max(1, (span * 110) / width);
  const power = 10 ** Math.floor(Math.log10(rough));
  return [1, 2, 5, 10].map((part) => part * power).find((step) => step >= rough);
}

function drawGrid(pen, bottom, whole) {
  const { context, theme, view, xOf, right } = pen;
  context.fillStyle = theme.soft;
  const end = Math.min(right, xOf(whole));
  if (end < right) context.fillRect(Math.max(ROW.label, end), ROW.axis, right - end, bottom);
  context.fillStyle = theme.soft;
  for (let tick = Math.max(0, Math.ceil(view.from / pen.step)) * pen.step; tick <= Math.min(view.to, whole); tick += pen.step) {
    context.fillRect(Math.round(xOf(tick)), ROW.axis, 1, bottom);
  }
}

function drawAxis(pen) {
  const { context, theme, view, xOf, right } = pen;
  context.fillStyle = theme.paper;
  context.fillRect(0, 0, right, ROW.axis);
  context.fillStyle = theme.line;
  context.fillRect(0, ROW.axis - 1, right, 1);
  for (let tick = Math.max(0, Math.ceil(view.from / pen.step)) * pen.step; tick <= view.to; tick += pen.step) {
    const x = xOf(tick);
    if (x < ROW.label) continue;
    context.fillStyle = theme.line;
    context.fillRect(Math.round(x), ROW.axis - 6, 1, 6);
    const said = showTick(tick, pen.step, Math.max(pen.step, view.to));
    context.font = `10.5px ${theme.sans}`;
    if (x + 4 + context.measureText(said).width <= right) text(pen, said, x + 4, ROW.axis / 2, 100, theme.quiet, "10.5px");
  }
}

function drawScrollbar(pen, top, height, bottom) {
  const { context, theme, right } = pen;
  const space = bottom - ROW.axis;
  if (height <= space) return;
  rounded(context, right - 6, ROW.axis + 2 + (top / height) * space, 4, Math.max(20, (space / height) * space - 4), 2);
  context.fillStyle = theme.faint;
  context.globalAlpha = 0.5;
  context.fill();
  context.globalAlpha = 1;
}

function drawRow(pen, row, y) {
  const { context, theme, model, right } = pen;
  context.save();
  context.beginPath();
  context.rect(ROW.label, y - 1, right - ROW.label, row.height + 2);
  context.clip();
  if (row.kind === "lane") drawBars(pen, row, y);
  if (row.kind === "link") drawTransfers(pen, row, y);
  if (row.kind === "memory") drawMemory(pen, row, y);
  context.restore();
  const middle = y + row.height / 2;
  if (row.kind === "lane" || row.kind === "idle") {
    if (row.label) {
      context.fillStyle = model.cluster.colours[row.device];
      rounded(context, 14, middle - 5, 10, 10, 2.5);
      context.fill();
    }
    const idle = row.kind === "idle";
    text(pen, row.label + (idle ? "   idle" : ""), 31, middle, ROW.label - 38, idle ? theme.faint : theme.ink, idle ? "11px" : "600 11.5px");
  } else if (row.kind === "memory") {
    text(pen, "memory", 31, y + 9, 60, theme.quiet, "10.5px");
    text(pen, memoryLabel(model, row.device), 31, y + 22, ROW.label - 36, theme.faint, "10px");
  } else if (row.kind === "heading") {
    text(pen, "Links", 14, middle, ROW.label - 20, theme.quiet, "600 11px");
  } else {
    text(pen, row.label, 14, middle, ROW.label - 20, theme.quiet, "10.5px");
  }
}

const memoryLabel = (model, device) => `${showBytes(model.memory.peak_bytes[device])} of ${showBytes(model.cluster.devices[device].memory_bytes)}`;

// Entries of a row in sight. Those that fall on the same pixel are drawn once.
function eachInSight(pen, row, start, end, visit) {
  const { view, xOf, right } = pen;
  let painted = -Infinity;
  for (let index = firstAfter(row, end, view.from); index < row.rows.length; index++) {
    const entry = row.rows[index];
    if (start[entry] > view.to) break;
    if (end[entry] < view.from) continue;
    const x0 = Math.max(ROW.label - 2, xOf(start[entry]));
    const x1 = Math.min(right + 2, xOf(end[entry]));
    if (x1 - painted < 0.5 && x1 - x0 < 0.5) continue;
    painted = Math.max(painted, x1);
    visit(entry, x0, Math.max(x1 - x0, 0.7));
  }
}

function drawBars(pen, row, y) {
  const { context, model, state, theme, marked } = pen;
  const { start_ns: start, end_ns: end } = model.bars;
  eachInSight(pen, row, start, end, (entry, x, width) => {
    const [above, below] = barColours(pen, entry, row.device);
    const faded = (state.critical && !model.criticalBars.has(entry)) || (marked.any && !marked.bars.has(entry));
    context.globalAlpha = faded ? 0.28 : 1;
    const gap = width > 3 ? 0.7 : 0;
    context.fillStyle = above;
    context.fillRect(x, y + 1, width - gap, row.height - 2);
    if (below !== above) {
      context.fillStyle = below;
      context.fillRect(x, y + row.height - 5, width - gap, 4);
    }
    if (width > 26) {
      const left = Math.max(x, ROW.label) + 5;
      text(pen, barLabel(model, entry), left, y + row.height / 2 + (below === above ? 0.5 : -1.5), x + width - left - 4, inkOn(above), "10.5px");
    }
    context.globalAlpha = 1;
  });
  outlineMarked(pen, row, start, end, marked.bars, y, row.height, theme.accent);
  if (state.critical) underlineMarked(pen, row, start, end, model.criticalBars, y + row.height - 1);
}

// The end of a bar's name, where the op is; of packing and unpacking what is done comes first.
function barLabel(model, bar) {
  const name = barName(model, bar);
  return bar < model.bars.slices ? leafOf(name) : `${name.slice(0, name.indexOf(" "))} ${leafOf(name)}`;
}

// Frames around chosen entries, after all others so that none hides them.
function outlineMarked(pen, row, start, end, chosen, y, height, colour) {
  const entries = row.rows;
  const { context, xOf, view, right } = pen;
  if (!chosen.size) return;
  context.strokeStyle = colour;
  context.lineWidth = 2;
  let last = -Infinity;
  for (let index = firstAfter(row, end, view.from); index < entries.length && start[entries[index]] <= view.to; index++) {
    if (!chosen.has(entries[index])) continue;
    const x0 = Math.max(-4, xOf(start[entries[index]]));
    const x1 = Math.min(right + 4, xOf(end[entries[index]]));
    if (x1 < last + 1) continue;
    last = x1;
    context.strokeRect(x0, y + 1, Math.max(x1 - x0 - 0.7, 1.5), height - 2);
  }
}

// A line under chosen entries: frames would hide the colours where many lie close together.
function underlineMarked(pen, row, start, end, chosen, y) {
  const entries = row.rows;
  const { context, theme, xOf, view, right } = pen;
  context.fillStyle = theme.ink;
  let last = -Infinity;
  for (let index = firstAfter(row, end, view.from); index < entries.length && start[entries[index]] <= view.to; index++) {
    if (!chosen.has(entries[index])) continue;
    const x0 = Math.max(last, xOf(start[entries[index]]));
    const x1 = Math.min(right, xOf(end[entries[index]]));
    if (x1 - last < 0.5) continue;
    last = x1;
    context.fillRect(x0, y, Math.max(x1 - x0, 1), 2);
  }
}

// The colour of a bar, and of the strip below it: packing and unpacking wear the colour of the transfer's other end there.
function barColours(pen, bar, device) {
  const { model, state, theme } = pen;
  if (state.colourBy === "time") {
    const shade = heat(theme, (model.bars.end_ns[bar] - model.bars.start_ns[bar]) / model.longestNs);
    return [shade, shade];
  }
  const { colours, names } = model.categories;
  if (bar < model.bars.slices) {
    const colour = state.colourBy === "category" ? colours[categoryOf(model, model.slices.node[bar])] : model.cluster.colours[device];
    return [colour, colour];
  }
  const row = bar - model.bars.slices;
  const packs = model.work.packs[row];
  if (state.colourBy === "category") {
    const colour = colours[names.indexOf(packs ? "packing" : "unpacking")];
    return [colour, colour];
  }
  const other = (packs ? model.transfers.dst : model.transfers.src)[model.work.transfer[row]];
  return [blend(model.cluster.colours[device], theme.paper, 0.45), model.cluster.colours[other]];
}

// A transfer wears the colours of both ends: where it comes from above, where it goes to below.
function drawTransfers(pen, row, y) {
  const { context, model, state, marked, theme } = pen;
  const { src, dst } = model.transfers;
  const { transfer, start_ns: start, end_ns: end } = model.carried;
  const { colours } = model.cluster;
  const chosen = marked.transfers.size > 0;
  const barsOf = (transfers) => ({ size: transfers.size, has: (bar) => transfers.has(transfer[bar]) });
  const [critical, selected] = [barsOf(model.criticalTransfers), barsOf(marked.transfers)];
  eachInSight(pen, row, start, end, (bar, x, width) => {
    const faded = (state.critical && !critical.has(bar)) || ((chosen || marked.any) && !selected.has(bar));
    context.globalAlpha = faded ? 0.25 : 1;
    const gap = width > 3 ? 0.7 : 0;
    context.fillStyle = colours[src[transfer[bar]]];
    context.fillRect(x, y + 1, width - gap, row.height / 2 - 1);
    context.fillStyle = colours[dst[transfer[bar]]];
    context.fillRect(x, y + row.height / 2, width - gap, row.height / 2 - 1);
    context.globalAlpha = 1;
  });
  outlineMarked(pen, row, start, end, selected, y, row.height, theme.accent);
  if (state.critical) underlineMarked(pen, row, start, end, critical, y + row.height - 1);
}

// Memory in use over time. The row's top is the capacity, or the peak where that is less than half of it.
function drawMemory(pen, row, y) {
  const { context, model, theme, xOf, view, right } = pen;
  const { time_ns: times, bytes } = model.memory.curves[row.device];
  const peak = model.memory.peak_bytes[row.device];
  const capacity = model.cluster.devices[row.device].memory_bytes;
  const top = peak > capacity / 2 ? Math.max(peak, capacity) : Math.max(peak * 1.08, 1);
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

function indexAfter(times, time) {
  let low = 0;
  let high = times.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (times[middle] <= time) low = middle + 1;
    else high = middle;
  }
  return low;
}
