// The timeline of a training: a row per client with its steps, the wait for its session, and the updates on top.
// Needs format.js, canvas.js, timeline_rows.js, timeline_drawing.js.

const STEPS = { row: 22, updates: 16 };

function trainingTimeline(canvas, model, tip, onRange) {
  const context = canvas.getContext("2d");
  const { timeline } = model.training;
  const rows = timeline.clients.map(() => []);
  timeline.client.forEach((client, step) => rows[client].push(step)); // in order of start
  const height = STEPS.updates + 6 + rows.length * (STEPS.row + 2);
  const whole = Math.max(1, timeline.whole_ns);
  const view = { from: 0, to: whole, top: 0 };
  let theme = null;
  let waiting = false;

  const width = () => Math.max(1, canvas.clientWidth - ROW.label);
  const xOf = (ns) => ROW.label + ((ns - view.from) / (view.to - view.from)) * width();
  const nsAt = (x) => view.from + ((x - ROW.label) / width()) * (view.to - view.from);
  const top = (row) => ROW.axis + 4 + STEPS.updates + 6 + row * (STEPS.row + 2) - view.top;

  function clamp() {
    const span = Math.min(Math.max(view.to - view.from, Math.min(whole, 50)), whole * 1.1);
    view.from = Math.min(Math.max(view.from, -whole * 0.05), whole * 1.05 - span);
    view.to = view.from + span;
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
  function draw() {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      if (!canvas.clientWidth) return; // it is not in sight
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
    const pen = { context, model, theme, scale: 1, xOf, view, right, step: tickStep(view.to - view.from, width()) };
    drawGrid(pen, bottom, whole);
    context.save();
    context.beginPath();
    context.rect(0, ROW.axis, right, bottom - ROW.axis);
    context.clip();
    rows.forEach((steps, row) => {
      const y = top(row);
      if (y < bottom && y + STEPS.row > ROW.axis) drawClient(pen, row, steps, y);
    });
    drawUpdates(pen, ROW.axis + 4 - view.top);
    drawWarmUp(pen, bottom);
    context.restore();
    drawAxis(pen);
    drawScrollbar(pen, view.top, height + 8, bottom);
  }

  function drawClient(pen, row, steps, y) {
    const [name, colour, , worker] = timeline.clients[row];
    context.save();
    context.beginPath();
    context.rect(ROW.label, y - 1, pen.right - ROW.label, STEPS.row + 2);
    context.clip();
    drawSession(pen, row, y);
    eachInSight(pen, { rows: steps }, timeline.start_ns, timeline.end_ns, (step, x, length) => {
      const gap = length > 3 ? 0.7 : 0;
      const { start_ns: start, end_ns: end, waiting_ns: waited } = timeline;
      context.fillStyle = model.training.colours[colour];
      context.globalAlpha = worker ? 1 : 0.6;
      context.fillRect(x, y + 1, length - gap, STEPS.row - 2);
      context.globalAlpha = 1;
      if (waited[step]) {
        const share = (waited[step] / Math.max(1, end[step] - start[step])) * length;
        context.fillStyle = theme.paper;
        context.globalAlpha = 0.62;
        context.fillRect(x + (worker ? length - gap - share : 0), y + 1, share, STEPS.row - 2);
        context.globalAlpha = 1;
      }
      if (length > 22) text(pen, String(timeline.number[step]), Math.max(x, ROW.label) + 5, y + STEPS.row / 2 + 0.5, length - 8, inkOn(model.training.colours[colour]), "10.5px");
    });
    context.restore();
    context.fillStyle = model.training.colours[colour];
    rounded(context, 14, y + STEPS.row / 2 - 5, 10, 10, 2.5);
    context.fill();
    text(pen, name, 31, y + STEPS.row / 2, ROW.label - 38, theme.ink, worker ? "600 11.5px" : "11px");
  }

  // Before its session starts, a client waits for the last task to come up.
  function drawSession(pen, row, y) {
    const start = timeline.session_ns[row];
    if (!start) return;
    const x0 = Math.max(ROW.label, xOf(0));
    const x1 = Math.min(pen.right, xOf(start));
    if (x1 <= x0) return;
    context.fillStyle = theme.soft;
    context.fillRect(x0, y + 1, x1 - x0, STEPS.row - 2);
    context.strokeStyle = theme.edge;
    context.setLineDash([3, 3]);
    context.strokeRect(x0 + 0.5, y + 1.5, x1 - x0 - 1, STEPS.row - 3);
    context.setLineDash([]);
    text(pen, timeline.waited_for[row] ? `waits for ${timeline.waited_for[row]}` : "waits", x0 + 6, y + STEPS.row / 2 + 0.5, x1 - x0 - 10, theme.quiet, "10.5px");
  }

  function drawUpdates(pen, y) {
    context.fillStyle = theme.paper;
    context.fillRect(0, y - 4, pen.right, STEPS.updates + 4);
    text(pen, "updates", 31, y + STEPS.updates / 2, ROW.label - 38, theme.quiet, "10.5px");
    let painted = -Infinity;
    timeline.update_ns.forEach((when, at) => {
      const x = xOf(when);
      if (x < ROW.label || x > pen.right || x - painted < 0.8) return;
      painted = x;
      context.fillStyle = model.training.colours[timeline.clients[timeline.update_client[at]][1]];
      context.fillRect(x - 0.6, y + 2, 1.4, STEPS.updates - 4);
    });
  }

  // What the figures leave out is shaded.
  function drawWarmUp(pen, bottom) {
    if (!timeline.cut_ns) return;
    const x1 = Math.min(pen.right, xOf(timeline.cut_ns));
    if (x1 <= ROW.label) return;
    context.fillStyle = theme.edge;
    context.globalAlpha = 0.14;
    context.fillRect(ROW.label, ROW.axis, x1 - ROW.label, bottom);
    context.globalAlpha = 1;
    context.fillStyle = theme.edge;
    context.fillRect(x1 - 0.5, ROW.axis, 1, bottom);
  }

  function hit(x, y) {
    const row = rows.findIndex((_, at) => y >= top(at) && y < top(at) + STEPS.row);
    if (row < 0 || y < ROW.axis) return null;
    const time = nsAt(x);
    const step = x < ROW.label ? undefined : rows[row].find((one) => timeline.start_ns[one] <= time && timeline.end_ns[one] > time);
    return { row, time, step };
  }
  function describe({ row, time, step }) {
    const [name, , task] = timeline.clients[row];
    if (step === undefined) {
      const before = time < timeline.session_ns[row];
      return before ? [name, `waits for ${timeline.waited_for[row] || "its own task"} to come up, until ${showNanos(timeline.session_ns[row])}`] : null;
    }
    const { start_ns: start, end_ns: end, waiting_ns: waited, number } = timeline;
    const gate = waited[step] ? `${showNanos(waited[step])} of it waiting for a token or gradients` : "waits for no token";
    return [`${name}, step ${number[step]}`, `session at ${task}`, `${showNanos(end[step] - start[step])}, from ${showNanos(start[step])}`, gate];
  }

  watchPointer(canvas, {
    drag: move,
    wheel: (x, y, turn, sideways) => {
      if (sideways) move(-sideways, 0);
      else if (x < ROW.label) move(0, -turn);
      else zoom(Math.exp(-turn * 0.0018), x);
    },
    hover: (x, y, event) => {
      const found = hit(x, y);
      const said = found && describe(found);
      if (said) tip.show(event, ...said);
      else tip.hide();
    },
    leave: () => tip.hide(),
    click: () => {},
  });
  fit();
  return {
    draw, fit, zoom, move,
    height: height + ROW.axis,
    retheme: () => {
      theme = null;
      draw();
    },
  };
}
