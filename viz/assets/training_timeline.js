// The timeline of a training on its canvas: pan and zoom in time, scroll through the rows, updates on top.
// Needs format.js, canvas.js, timeline_rows.js, timeline_drawing.js, timeline_window.js, training_bands.js, training_rows.js.

function trainingTimeline(canvas, model, tip, onRange) {
  const { timeline, recorded } = model.training;
  const { rows, height, unrecorded, recordedUntil } = trainingRows(model);
  const lost = new Set(timeline.lost);
  const whole = Math.max(1, timeline.whole_ns);
  const sight = timelineWindow(canvas, { whole, height }, (bare) => {
    const pen = { ...bare, model };
    drawWarmUp(pen);
    drawUnrecorded(pen, recordedUntil, pen.topOf({ y: unrecorded }), pen.bottom);
    eachRow(pen, rows, (row, y) => drawTrainingRow(pen, row, y));
    drawCrashes(pen, ROW.axis, pen.bottom);
    drawUpdates(pen, ROW.axis);
  }, onRange);
  const { view, xOf, nsAt } = sight;

  // The steps that were recorded op by op.
  function showFirst() {
    const from = recorded.start_ns.reduce((least, time) => Math.min(least, time), Infinity);
    const to = recorded.end_ns.reduce((most, time) => Math.max(most, time), 0);
    sight.look(from - (to - from) * 0.01, to + (to - from) * 0.02);
  }

  // Updates of the global step, in the colour of whoever made them, grey where those of several fall on one place; what
  // a crash took back is short and red. They stay in sight while the rows scroll.
  function drawUpdates(pen, y) {
    const { context, theme } = pen;
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
  function drawWarmUp(pen) {
    const { context, theme, bottom } = pen;
    const x1 = Math.min(pen.right, xOf(timeline.cut_ns));
    if (!timeline.cut_ns || x1 <= ROW.label) return;
    context.fillStyle = theme.edge;
    context.globalAlpha = 0.16;
    context.fillRect(ROW.label, ROW.axis, x1 - ROW.label, bottom);
    context.globalAlpha = 1;
    context.fillRect(x1 - 0.5, ROW.axis, 1, bottom);
  }

  function hit(x, y) {
    const row = y < ROW.axis + STEPS.updates + 6 ? undefined : sight.rowAt(rows, y);
    if (!row?.times || x < ROW.label) return row && { row, time: x < ROW.label ? Infinity : nsAt(x) };
    return { row, time: nsAt(x), entry: sight.entryAt(row, row.times, x) };
  }

  watchPointer(canvas, {
    drag: sight.move,
    wheel: sight.wheel,
    hover: (x, y, event) => {
      const found = hit(x, y);
      const said = found?.time === Infinity && found.row.label ? [found.row.label] : found ? describeTraining(model, found.row, found.entry, found.time) : y > ROW.axis && describeUpdate(x);
      if (said) tip.show(event, ...said);
      else tip.hide();
    },
    leave: () => tip.hide(),
    click: () => {},
  });
  sight.fit();
  const { draw, fit, zoom, move, retheme } = sight;
  return {
    draw, fit, showFirst, zoom, move, retheme, hit, view, rows,
    said: (row, time) => describeTraining(model, rows[row], rows[row].rows.find((entry) => rows[row].times.start_ns[entry] <= time && time < rows[row].times.end_ns[entry]), time),
    height: height + ROW.axis,
    ofSteps: unrecorded + ROW.axis,
  };
}
