// The drawing of a timeline's rows, grid and axis. Needs format.js, canvas.js, timeline.js.

const NOTHING = new Set();
const FEWEST_LETTERS = 4; // of a slice's name that is cut: fewer say nothing

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

// Below the rows for which paper has room: how many have none.
function drawRest(pen, rows) {
  const { context, theme, right, bottom, topOf } = pen;
  const below = (edge) => rows.filter((row) => row.label && row.kind !== "memory" && row.kind !== "heading" && topOf(row) + row.height > edge).length;
  if (!below(bottom)) return;
  context.fillStyle = theme.paper;
  context.fillRect(0, bottom - ROW.head, right, ROW.head);
  text(pen, `${plural(below(bottom - ROW.head), "more row")} on the page`, 14, bottom - ROW.head / 2, right - 20, theme.quiet, "600 11px");
}

function drawRow(pen, row, y) {
  const { context, subject, theme, right } = pen;
  context.save();
  context.beginPath();
  context.rect(ROW.label, y - 1, right - ROW.label, row.height + 2);
  context.clip();
  if (row.kind === "lane" || row.kind === "link") drawSlices(pen, row, y);
  else subject.drawRow?.(pen, row, y);
  if (row.bands) drawBands(pen, row, y);
  context.restore();
  const middle = y + row.height / 2;
  if (row.kind === "heading") return text(pen, row.label, 14, middle, ROW.label - 20, theme.quiet, "600 11px");
  if (row.kind === "memory") {
    text(pen, "memory", 31, y + 9, 60, theme.quiet, "10.5px");
    return text(pen, subject.memory(row.device), 31, y + 22, ROW.label - 36, theme.faint, "10px");
  }
  if (!row.label) return;
  const chip = subject.chipOf(row, theme);
  if (!chip) return text(pen, row.label, 14, middle, ROW.label - 20, theme.quiet, "10.5px");
  context.fillStyle = chip;
  rounded(context, 14, middle - 5, 10, 10, 2.5);
  context.fill();
  const idle = row.kind === "idle";
  text(pen, row.label + (idle ? "   idle" : ""), 31, middle, ROW.label - 38, idle ? theme.faint : theme.ink, idle ? "11px" : "600 11.5px");
}

// Entries of a row in sight. Of those that fall on the same pixel one is drawn: a search finds the first that reaches the next,
// so that a frame takes as long as its pixels, however many entries there are.
function eachInSight(pen, row, start, end, visit, entries = row.rows) {
  const { view, xOf, nsAt, right } = pen;
  let painted = -Infinity;
  for (let index = firstAfter({ rows: entries, overlap: row.overlap }, end, view.from); index < entries.length; index++) {
    const entry = entries[index];
    if (start[entry] > view.to) break;
    if (end[entry] < view.from) continue;
    const x0 = Math.max(ROW.label - 2, xOf(start[entry]));
    const x1 = Math.min(right + 2, xOf(end[entry]));
    if (x1 - painted < PIXEL && x1 - x0 < PIXEL) {
      if (!row.overlap) index = firstReaching(entries, end, nsAt(painted + PIXEL), index + 1) - 1;
      continue;
    }
    painted = Math.max(painted, x1);
    visit(entry, x0, Math.max(x1 - x0, 0.7));
  }
}
const PIXEL = 0.75; // what is nearer to what is painted, and smaller, is not seen

// The first place from `low` on whose entry does not end before a time; ends are in order. Most often it is near.
function firstReaching(entries, end, time, low) {
  let step = 1;
  while (low + step < entries.length && end[entries[low + step]] < time) step *= 2;
  let high = Math.min(entries.length, low + step + 1);
  while (low < high) {
    const middle = (low + high) >> 1;
    if (end[entries[middle]] < time) low = middle + 1;
    else high = middle;
  }
  return low;
}

// Slices in their colours: one, or one above and another below at a height. Slices of one colour that touch are painted as one.
function drawSlices(pen, row, y) {
  const { context, subject, marked, critical, theme } = pen;
  const { start_ns: start, end_ns: end } = row.times;
  let run = null; // of narrow slices: {x, width, above, below, split, faded}
  const paint = ({ x, width, above, below, split, faded }) => {
    context.globalAlpha = faded ? 0.28 : 1;
    context.fillStyle = above;
    context.fillRect(x, y + 1, width, row.height - 2);
    if (below) {
      context.fillStyle = below;
      context.fillRect(x, y + row.height - 1 - split, width, split);
    }
    context.globalAlpha = 1;
  };
  eachInSight(pen, row, start, end, (slice, x, width) => {
    const { above, below, split } = subject.coloursOf(pen, slice, row);
    const faded = (critical && !critical.has(slice)) || (marked.size && !marked.has(slice));
    const narrow = width <= 3;
    if (run && narrow && run.above === above && run.below === below && run.faded === faded && x - (run.x + run.width) < PIXEL) {
      run.width = x + width - run.x;
      return;
    }
    if (run) paint(run);
    run = { x, width: width - (narrow ? 0 : 0.7), above, below, split, faded };
    if (narrow) return;
    paint(run);
    run = null;
    const name = width > 26 && row.height >= 14 ? subject.textOf(slice, row) : "";
    if (!name) return;
    const left = Math.max(x, ROW.label) + 5;
    context.globalAlpha = faded ? 0.28 : 1;
    text(pen, name, left, y + row.height / 2 + (below ? -1.5 : 0.5), x + width - left - 4, inkOn(above), "10.5px", FEWEST_LETTERS);
    context.globalAlpha = 1;
  });
  if (run) paint(run);
  outlineMarked(pen, row, start, end, marked, y, row.height, theme.accent);
  if (critical) underlineMarked(pen, row, start, end, critical, y + row.height - 1);
}

// Those entries of a row that are chosen, found once per set: most of a set's entries are elsewhere.
const chosenRows = new WeakMap();
function chosenOf(row, chosen) {
  if (!chosenRows.has(chosen)) chosenRows.set(chosen, new Map());
  const known = chosenRows.get(chosen);
  if (!known.has(row)) known.set(row, row.rows.filter((entry) => chosen.has(entry)));
  return known.get(row);
}

// Frames around chosen entries, after all others so that none hides them. Of many that are narrow the sides would hide the
// colours: they have a line above and below.
function outlineMarked(pen, row, start, end, chosen, y, height, colour) {
  const { context } = pen;
  if (!chosen.size) return;
  context.strokeStyle = context.fillStyle = colour;
  context.lineWidth = 2;
  const rows = chosenOf(row, chosen);
  const many = rows.length > MANY;
  let last = -Infinity;
  const frame = (_, x, width) => {
    if (x + width < last + 1) return;
    last = x + width;
    if (many && width < NARROW) for (const edge of [y, y + height - 2]) context.fillRect(x, edge, width, 2);
    else context.strokeRect(x, y + 1, Math.max(width - 0.7, 1.5), height - 2);
  };
  eachInSight(pen, row, start, end, frame, rows);
}
const [MANY, NARROW] = [40, 8]; // entries of a row, and pixels

// A line under chosen entries: frames would hide the colours where many lie close together.
function underlineMarked(pen, row, start, end, chosen, y) {
  const { context, theme } = pen;
  context.fillStyle = theme.ink;
  eachInSight(pen, row, start, end, (_, x, width) => context.fillRect(x, y, Math.max(width, 1), 2), chosenOf(row, chosen));
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
