// The stretch of time in sight of a canvas, and its pan, zoom, axis and scrollbar. Needs canvas.js, timeline.js,
// timeline_drawing.js.

// One closure, so that nobody else sets `view`. `whole` is the last moment on the clock, `end` that of these
// rows, and `height()` that of all of them. `content` draws below the axis, `onRange` gets the times in sight.
function timelineWindow(canvas, { whole, end, height }, content, onRange) {
  const context = canvas.getContext("2d");
  const view = { from: 0, to: whole, top: 0 };
  let theme = null;
  let waiting = false;

  const width = () => Math.max(1, canvas.clientWidth - ROW.label);
  const xOf = (ns) => ROW.label + ((ns - view.from) / (view.to - view.from)) * width();
  const nsAt = (x) => view.from + ((x - ROW.label) / width()) * (view.to - view.from);
  const topOf = (row) => row.y + ROW.axis + 4 - view.top;

  function clamp() {
    const span = Math.min(Math.max(view.to - view.from, Math.min(whole, 50)), whole * 1.1);
    view.from = Math.min(Math.max(view.from, -whole * 0.05), whole * 1.05 - span);
    view.to = view.from + span;
    view.top = Math.min(Math.max(0, view.top), Math.max(0, height() + ROW.axis + 8 - canvas.clientHeight));
  }
  function look(from, to) {
    view.from = from;
    view.to = to;
    draw();
  }
  // The same times as another window of the same clock.
  function follow(from, to) {
    if (view.from !== from || view.to !== to) look(from, to);
  }
  const fit = () => look(-whole * 0.004, whole * 1.012);
  function zoom(factor, x = ROW.label + width() / 2) {
    const at = nsAt(x);
    look(at - (at - view.from) / factor, at + (view.to - at) / factor);
  }
  function move(dx, dy) {
    const shift = (dx / width()) * (view.to - view.from);
    view.top -= dy;
    look(view.from - shift, view.to - shift);
  }
  function scrollTo(row) {
    if (row.y < view.top || row.y + row.height > view.top + canvas.clientHeight - ROW.axis) view.top = row.y - (canvas.clientHeight - ROW.axis) / 3;
  }
  function wheel(x, y, turn, sideways) {
    if (sideways) move(-sideways, 0);
    else if (x < ROW.label) move(0, -turn);
    else zoom(Math.exp(-turn * 0.0018), x);
  }

  function draw() {
    if (waiting || isPrinted()) return;
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      if (!canvas.clientWidth) return; // it is not in sight
      clamp();
      paint();
      onRange(view.from, view.to);
    });
  }

  function paint(paper = false) {
    theme ??= readTheme();
    sized(canvas, context);
    const bottom = canvas.clientHeight;
    const right = canvas.clientWidth;
    context.clearRect(0, 0, right, bottom);
    const pen = { context, theme, paper, scale: 1, xOf, nsAt, topOf, view, right, bottom, step: tickStep(view.to - view.from, width()) };
    drawGrid(pen, bottom, end);
    context.save();
    context.beginPath();
    context.rect(0, ROW.axis, right, bottom - ROW.axis);
    context.clip();
    content(pen);
    context.restore();
    drawAxis(pen);
    if (!paper) drawScrollbar(pen, view.top, height() + 8, bottom);
  }

  // All rows, or as many as a page of paper has room for, in its colours. The canvas keeps its place on the screen.
  function onPaper() {
    if (!canvas.clientWidth) return;
    const { top } = view;
    const tall = Math.min(height() + ROW.axis + 8, canvas.clientWidth * PAGE);
    canvas.style.cssText = `flex: none; height: ${tall}px`;
    theme = null;
    clamp();
    paint(true);
    canvas.style.cssText = "";
    view.top = top;
  }

  // The row under a point.
  const rowAt = (rows, y) => rows.find((row) => y >= topOf(row) && y < topOf(row) + row.height);

  // The entry of a row at a place, or one that is at most two pixels away; `times` has start_ns and end_ns of all.
  function entryAt(row, { start_ns: start, end_ns: end }, x) {
    const reach = ((view.to - view.from) / width()) * 2;
    const time = nsAt(x);
    let best;
    for (let index = firstAfter(row, end, time - reach); index < row.rows.length && start[row.rows[index]] <= time + reach; index++) {
      const entry = row.rows[index];
      if (end[entry] < time - reach) continue;
      best ??= entry;
      if (start[entry] <= time && end[entry] > time) best = entry;
    }
    return best;
  }

  function retheme() {
    theme = null;
    draw();
  }

  return { view, xOf, nsAt, topOf, look, follow, fit, zoom, move, scrollTo, wheel, draw, rowAt, entryAt, retheme, onPaper };
}
const PAGE = 1; // the height of a timeline on paper, in its widths

// The rows in sight, each with where it begins.
function eachRow(pen, rows, visit) {
  for (const row of rows) {
    const y = pen.topOf(row);
    if (y < pen.bottom && y + row.height > ROW.axis) visit(row, y);
  }
}
