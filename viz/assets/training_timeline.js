// The timeline of a training on its canvas: pan and zoom in time, scroll through the rows, updates on top.
// Needs format.js, canvas.js, timeline_rows.js, timeline_drawing.js, training_bands.js, training_rows.js.

// One closure, as timelineView is: the stretch of time in sight is nobody else's.
function trainingTimeline(canvas, model, tip, onRange) {
  const context = canvas.getContext("2d");
  const { timeline } = model.training;
  const { rows, height, unrecorded, recordedUntil } = trainingRows(model);
  const lost = new Set(timeline.lost);
  const whole = Math.max(1, timeline.whole_ns);
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
    view.top = Math.min(Math.max(0, view.top), Math.max(0, height + ROW.axis + 8 - canvas.clientHeight));
  }
  function fit() {
    view.from = -whole * 0.004;
    view.to = whole * 1.012;
    draw();
  }
  // The steps that were recorded op by op.
  function showFirst() {
    const { start_ns: start, end_ns: end } = model.training.recorded;
    const from = start.reduce((least, time) => Math.min(least, time), Infinity);
    const to = end.reduce((most, time) => Math.max(most, time), 0);
    view.from = from - (to - from) * 0.01;
    view.to = to + (to - from) * 0.02;
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
    drawWarmUp(pen, bottom);
    drawUnrecorded(pen, recordedUntil, topOf({ y: unrecorded }), bottom);
    for (const row of rows) {
      const y = topOf(row);
      if (y < bottom && y + row.height > ROW.axis) drawTrainingRow(pen, row, y);
    }
    drawCrashes(pen, ROW.axis, bottom);
    drawUpdates(pen, ROW.axis);
    context.restore();
    drawAxis(pen);
    drawScrollbar(pen, view.top, height + 8, bottom);
  }

  // Updates of the global step, in the colour of whoever made them, grey where those of several fall on one place; what
  // a crash took back is short and red. They stay in sight while the rows scroll.
  function drawUpdates(pen, y) {
    context.fillStyle = theme.paper;
    context.fillRect(0, y, pen.right, STEPS.updates + 6);
    text(pen, "updates", 31, y + 4 + STEPS.updates / 2, ROW.label - 38, theme.quiet, "10.5px");
    let tick = null;
    const paintTick = () => {
      if (!tick) return;
      context.fillStyle = tick.lost ? theme.bad : tick.mixed ? theme.quiet : timeline.clients[tick.client][4];
      context.fillRect(tick.x - 0.7, y + (tick.lost ? 12 : 6), 1.4, STEPS.updates - (tick.lost ? 10 : 4));
    };
    timeline.update_ns.forEach((when, at) => {
      const x = xOf(when);
      if (x < ROW.label || x > pen.right) return;
      const client = timeline.update_client[at];
      if (tick && x - tick.x < 0.8) {
        tick.mixed ||= client !== tick.client;
        tick.lost &&= lost.has(at);
        return;
      }
      paintTick();
      tick = { x, client, mixed: false, lost: lost.has(at) };
    });
    paintTick();
  }

  // The update that is nearest to a place, as lines; null where none is near.
  function describeUpdate(x) {
    const near = indexAfter(timeline.update_ns, nsAt(x));
    const [at] = [near - 1, near].filter((one) => one in timeline.update_ns).sort((one, other) => Math.abs(xOf(timeline.update_ns[one]) - x) - Math.abs(xOf(timeline.update_ns[other]) - x));
    if (at === undefined || x < ROW.label || Math.abs(xOf(timeline.update_ns[at]) - x) > 4) return null;
    const made = `by ${timeline.clients[timeline.update_client[at]][0]} at ${showNanos(timeline.update_ns[at])}`;
    return [`update ${showCount(at + 1)}`, made, `staleness ${timeline.update_staleness[at]}`, ...(lost.has(at) ? ["taken back by a crash"] : [])];
  }

  // What the figures leave out is shaded.
  function drawWarmUp(pen, bottom) {
    const x1 = Math.min(pen.right, xOf(timeline.cut_ns));
    if (!timeline.cut_ns || x1 <= ROW.label) return;
    context.fillStyle = theme.edge;
    context.globalAlpha = 0.16;
    context.fillRect(ROW.label, ROW.axis, x1 - ROW.label, bottom);
    context.globalAlpha = 1;
    context.fillRect(x1 - 0.5, ROW.axis, 1, bottom);
  }

  function hit(x, y) {
    if (y < ROW.axis + STEPS.updates + 6) return null;
    const row = rows.find((one) => y >= topOf(one) && y < topOf(one) + one.height);
    const time = nsAt(x);
    if (!row?.times || x < ROW.label) return row && { row, time: x < ROW.label ? Infinity : time };
    const reach = ((view.to - view.from) / width()) * 2;
    const { start_ns: start, end_ns: end } = row.times;
    let best;
    for (let index = firstAfter(row, end, time - reach); index < row.rows.length && start[row.rows[index]] <= time + reach; index++) {
      const entry = row.rows[index];
      if (end[entry] < time - reach) continue;
      best ??= entry;
      if (start[entry] <= time && end[entry] > time) best = entry;
    }
    return { row, time, entry: best };
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
      const said = found ? describeTraining(model, found.row, found.entry, found.time) : y > ROW.axis && describeUpdate(x);
      if (said) tip.show(event, ...said);
      else tip.hide();
    },
    leave: () => tip.hide(),
    click: () => {},
  });
  fit();
  return {
    draw, fit, showFirst, zoom, move, hit, view, rows,
    said: (row, time) => describeTraining(model, rows[row], rows[row].rows.find((entry) => rows[row].times.start_ns[entry] <= time && time < rows[row].times.end_ns[entry]), time),
    height: height + ROW.axis,
    retheme: () => {
      theme = null;
      draw();
    },
  };
}
