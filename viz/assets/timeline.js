// A timeline on its canvas, for a step and for a training: lanes of devices and links; pan, zoom, scroll, hover, click.
// Its columns come from viz/page/time_content.py. A subject (timeline_step.js, timeline_training.js) says what the slices
// stand for: their names, colours and descriptions, rows above the lanes, and what is drawn behind and before all rows.
// Needs format.js, canvas.js, timeline_drawing.js, timeline_window.js.

const ROW = { head: 22, lane: 20, memory: 34, link: 15, track: 7, gap: 8, label: 168, axis: 24 };
const MOST_TRACKS = 12; // of one link; further ones share the last row

const laneOf = (timeline, slice) => timeline.lanes[timeline.lane[slice]]; // [kind, row of the device or link, number]
const lasts = (timeline, slice) => timeline.end_ns[slice] - timeline.start_ns[slice];

// Each row has its entries in order of start, and `times` with their start_ns and end_ns. No two entries of a row overlap,
// unless the row says so. What is hidden has no row; the last row brings it back.
function timelineRows(timeline, subject, folded, hidden) {
  const rows = [];
  let y = subject.top;
  const add = (row, height, after) => {
    rows.push({ rows: [], times: timeline, ...row, y, height });
    y += height + after;
  };
  for (const [row, height] of subject.rowsAbove) add(row, height, 2);
  const top = y; // of the lanes
  const entries = entriesByLane(timeline);
  const devices = timeline.lanes.flatMap(([kind, device, number], lane) => (kind === "device" ? [{ device, number, lane, shape: subject.shapeOf(device, entries[lane]) }] : []));
  if (subject.rowsAbove.length && devices.some((one) => one.shape)) add({ kind: "heading", label: "Devices" }, ROW.head, 2);
  let task = "";
  devices.forEach(({ device, number, lane, shape }, at) => {
    const now = subject.taskOf?.(device) ?? "";
    if (hidden.has(device) || hidden.has(now)) return;
    if (shape && now !== task) add({ kind: "heading", label: folded.has(now) ? `${now}: folded` : now, folds: now }, ROW.head, 0);
    if (shape) task = now;
    if (now && folded.has(now)) return;
    if (shape === "idle") add({ kind: "idle", device, label: subject.nameOf(device) }, ROW.link, 4);
    if (shape !== "lane") return;
    if (folded.has(device)) {
      const all = devices.flatMap((one) => (one.device === device ? entries[one.lane] : [])).sort((a, b) => timeline.start_ns[a] - timeline.start_ns[b]);
      if (!number) add({ kind: "lane", device, label: subject.nameOf(device), rows: all, overlap: true, folded: true }, ROW.link, 2);
      return;
    }
    add({ kind: "lane", device, label: number ? "" : subject.nameOf(device), rows: entries[lane], bands: subject.bandsOf?.(device) }, ROW.lane, 1);
    if (subject.showsMemory?.() && devices[at + 1]?.device !== device) add({ kind: "memory", device, label: "memory" }, ROW.memory, ROW.gap);
  });
  if (subject.rest) add({ kind: "rest", label: subject.rest }, ROW.link, 4);
  const links = linkRows(timeline, entries);
  if (links.length && !hidden.has("links")) add({ kind: "heading", label: folded.has("links") ? `Links: ${plural(links.length, "row")} folded` : "Links", folds: "links" }, ROW.head, 0);
  if (!folded.has("links") && !hidden.has("links")) for (const { link, number, ...row } of links) add({ kind: "link", link, label: number ? "" : subject.linkOf(link), ...row }, number ? ROW.track : ROW.link, 1);
  if (hidden.size) add({ kind: "heading", label: `${hidden.size} hidden: show`, shows: true }, ROW.head, 0);
  return { rows, height: y, top };
}

function entriesByLane(timeline) {
  const { lane, start_ns: start, end_ns: end } = timeline;
  const found = timeline.lanes.map(() => []);
  lane.forEach((owner, slice) => found[owner].push(slice));
  for (const entries of found) entries.sort((a, b) => start[a] - start[b] || end[a] - end[b] || a - b);
  return found;
}

// The tracks of links; those that are too many lie over each other in the last row.
function linkRows(timeline, entries) {
  const found = [];
  timeline.lanes.forEach(([kind, link, number], lane) => {
    if (kind !== "link") return;
    if (number < MOST_TRACKS) found.push({ link, number, rows: entries[lane], overlap: false });
    else Object.assign(found.at(-1), { rows: [...found.at(-1).rows, ...entries[lane]].sort((a, b) => timeline.start_ns[a] - timeline.start_ns[b]), overlap: true });
  });
  return found;
}

// The place of the first of a row's entries that ends after a time. If none overlap, their ends are in order.
function firstAfter({ rows: entries, overlap }, end, time) {
  if (overlap) return 0;
  let low = 0;
  let high = entries.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (end[entries[middle]] <= time) low = middle + 1;
    else high = middle;
  }
  return low;
}

function timelineView(canvas, timeline, subject, tip, onRange) {
  const [folded, hidden] = [new Set(), new Set()]; // devices, tasks, and "links"
  const { rows, height, top } = timelineRows(timeline, subject, folded, hidden);
  const end = Math.max(1, subject.whole);
  const sight = timelineWindow(canvas, { whole: Math.max(end, subject.clock ?? 0), end, height: () => rows.height }, (bare) => {
    const pen = { ...bare, timeline, subject, marked: subject.marked?.() ?? NOTHING, critical: subject.critical?.() ?? null };
    subject.drawBehind?.(pen, pen.topOf({ y: top }));
    eachRow(pen, rows, (row, y) => drawRow(pen, row, y));
    subject.drawBefore?.(pen, rows);
    if (pen.paper) drawRest(pen, rows);
  }, onRange);
  rows.height = height;

  // Fold what a label stands for, or unfold it; the rows stay the same list.
  function fold(what) {
    if (!folded.delete(what)) folded.add(what);
    rebuild();
  }
  // Hide what a label stands for; null shows all that is hidden.
  function hide(what) {
    if (what === null) hidden.clear();
    else hidden.add(what);
    rebuild();
  }
  function rebuild() {
    const next = timelineRows(timeline, subject, folded, hidden);
    rows.splice(0, rows.length, ...next.rows);
    rows.height = next.height;
    sight.draw();
  }
  const hideOf = (row, x) => (row?.kind === "idle" && x < ROW.label ? row.device : foldOf(row, x));
  const foldOf = (row, x) => (!row || x >= ROW.label ? undefined : (row.folds ?? (row.kind === "lane" || row.kind === "memory" ? row.device : undefined)));

  // The row, the entry and the time under a point.
  function hit(x, y) {
    const row = y < ROW.axis + subject.top ? undefined : sight.rowAt(rows, y);
    if (!row || x < ROW.label) return { row };
    return { row, time: sight.nsAt(x), entry: sight.entryAt(row, row.times, x) };
  }
  const onLabel = (row, x) => (row && x < ROW.label && row.label ? [subject.titleOf(row), ...(foldOf(row, x) === undefined ? [] : ["a click folds it, and again unfolds it"]), ...(hideOf(row, x) === undefined ? [] : ["a click with Shift hides it"])] : null);

  watchPointer(canvas, {
    drag: sight.move,
    wheel: sight.wheel,
    hover: (x, y, event) => {
      const { row, entry, time } = hit(x, y);
      canvas.style.cursor = (entry !== undefined && subject.select) || foldOf(row, x) !== undefined || row?.shows ? "pointer" : "grab";
      const said = onLabel(row, x) ?? (time === undefined ? subject.describeTop?.(sight, x, y) : subject.describe(row, entry, time));
      if (said) tip.show(event, ...said);
      else tip.hide();
    },
    leave: () => tip.hide(),
    click: (x, y, event) => {
      const { row, entry } = hit(x, y);
      if (row?.shows) hide(null);
      else if (event.shiftKey && hideOf(row, x) !== undefined) hide(hideOf(row, x));
      else if (foldOf(row, x) !== undefined) fold(foldOf(row, x));
      else subject.select?.(entry);
    },
    measure: subject.measure && ((x0, x1) => subject.measure(sight.nsAt(x0), sight.nsAt(x1))),
  });

  // Bring a slice into sight; zoom in where it would be a hair.
  function show(slice) {
    const [start, end] = [timeline.start_ns[slice], timeline.end_ns[slice]];
    const { from, to } = sight.view;
    const length = Math.max(end - start, 1);
    const row = rowOf(slice);
    if (row) sight.scrollTo(row);
    if (length / (to - from) >= 0.004 && start >= from && end <= to) return sight.draw();
    const wanted = Math.min(Math.max(length * 40, 50), Math.max(to - from, length * 1.2));
    return sight.look((start + end) / 2 - wanted / 2, (start + end) / 2 + wanted / 2);
  }
  const rowOf = (slice) => rows.find((row) => (row.kind === "lane" || row.kind === "link") && row.rows.includes(slice));

  // The times from the first to the last slice.
  function showSlices() {
    const from = timeline.start_ns.reduce((least, time) => Math.min(least, time), Infinity);
    const to = timeline.end_ns.reduce((most, time) => Math.max(most, time), 0);
    sight.look(from - (to - from) * 0.01, to + (to - from) * 0.02);
  }

  sight.fit();
  const { draw, fit, follow, zoom, move, retheme, onPaper, view } = sight;
  return {
    draw, fit, follow, zoom, move, retheme, onPaper, view, rows, hit, show, showSlices, rowOf, fold, hide, rebuild,
    look: sight.look,
    xOf: sight.xOf,
    said: (row, time) => subject.describe(rows[row], rows[row].rows.find((entry) => rows[row].times.start_ns[entry] <= time && time < rows[row].times.end_ns[entry]), time),
    height: height + ROW.axis,
    top: top + ROW.axis,
    placeOf: (slice) => ({ x: (sight.xOf(timeline.start_ns[slice]) + sight.xOf(timeline.end_ns[slice])) / 2, y: sight.topOf(rowOf(slice)) + 8 }),
  };
}
