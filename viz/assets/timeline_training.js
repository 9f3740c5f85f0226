// The subject of a training's timeline: updates on top, tasks with disturbances but without a client, the steps of each
// client, then the devices and links of the steps that were recorded op by op.
// Needs format.js, canvas.js, timeline.js, timeline_drawing.js, training_bands.js.

const STEPS = { row: 22, task: 17, updates: 16 };
const DIGIT = 6; // pixels of the first digit of a step's number
const WHOLE = -2; // of a complete step; -1: the end of the run cut it off; else the row of the crash that did

// The colour of a client: of the device that its steps keep busiest; background traffic has none.
const clientColour = (model, theme, client) => model.cluster.colours[model.training.steps.clients[client][4]] ?? theme.faint;

// `clock`: the last moment of all timelines that show the same times.
function trainingTimeline(canvas, model, tip, onRange, clock = 0) {
  const { steps, timeline } = model.training;
  const { devices, links, colours } = model.cluster;
  const recordedUntil = timeline.end_ns.reduce((most, time) => Math.max(most, time), 0);
  const subject = {
    top: STEPS.updates + 6,
    whole: steps.whole_ns,
    clock,
    rowsAbove: rowsOfSteps(model),
    shapeOf: (device, entries) => (entries.length ? "lane" : ""),
    nameOf: (device) => devices[device].short,
    linkOf: (link) => (link < 0 ? "handed over in memory" : links[link].name),
    bandsOf: (device) => bandsOfTask(model.training, timeline.task_of[device]),
    titleOf: (row) => row.label,
    chipOf: (row, theme) => (row.kind === "client" ? clientColour(model, theme, row.client) : row.kind === "lane" ? colours[row.device] : null),
    drawRow(pen, row, y) {
      if (row.kind !== "client") return;
      drawSession(pen, model, row, y);
      drawSteps(pen, model, row, y);
    },
    textOf: (slice, row) => (row.kind === "lane" ? leafOf(timeline.labels[timeline.label[slice]][0]) : ""),
    coloursOf: (pen, slice, row) => recordedColours(pen, model, slice, row),
    drawBehind(pen, y) {
      drawWarmUp(pen, steps.cut_ns);
      drawUnrecorded(pen, recordedUntil, y, pen.bottom);
    },
    drawBefore(pen) {
      drawCrashes(pen, model, ROW.axis, pen.bottom);
      drawUpdates(pen, model, ROW.axis);
    },
    describe(row, entry, time) {
      const band = bandAt(row, time);
      const said = row.kind === "client" ? describeStep(model, row, entry, time) : entry === undefined ? null : describeRecorded(model, row, entry);
      return said || band ? [...(said ?? []), ...(band ? describeBand(model, band) : [])] : null;
    },
    describeTop: (sight, x, y) => (y > ROW.axis ? describeUpdate(model, sight, x) : null),
  };
  return timelineView(canvas, timeline, subject, tip, onRange);
}

// [row, height] of the rows above the lanes.
function rowsOfSteps(model) {
  const { training } = model;
  const { steps } = training;
  const withClient = new Set(steps.clients.map(([, task]) => task));
  const tasks = [...new Set(steps.bands.map((band) => band.task))].filter((task) => !withClient.has(task));
  const entries = steps.clients.map(() => []);
  steps.client.forEach((client, step) => entries[client].push(step));
  return [
    ...tasks.map((task) => bandsOfTask(training, task)).map((bands) => [{ kind: "task", task: bands[0].task, label: bands[0].name, bands, times: steps }, STEPS.task]),
    ...entries.map((rows, client) => [{ kind: "client", client, label: steps.clients[client][0], bands: bandsOfClient(training, client), rows, times: steps }, STEPS.row]),
  ];
}

// As in the timeline of a step. The strip below an op is for whom it runs, where that is a client of another task.
function recordedColours(pen, model, slice, row) {
  const { steps, timeline } = model.training;
  const { colours } = model.cluster;
  const { src, dst } = timeline.transfers;
  const transfer = timeline.transfer[slice];
  if (row.kind === "link") return { above: colours[src[transfer]], below: colours[dst[transfer]], split: row.height / 2 - 1 };
  if (transfer >= 0) return { above: blend(colours[row.device], pen.theme.paper, 0.45), below: colours[src[transfer] === row.device ? dst[transfer] : src[transfer]], split: 4 };
  const client = timeline.client[slice];
  const elsewhere = steps.clients[client][1] !== timeline.task_of[row.device];
  return { above: colours[row.device], ...(elsewhere && { below: clientColour(model, pen.theme, client), split: 4 }) };
}

// Steps in the colour of their client. A paler part is the wait for tokens or gradients: at the end for a worker, at
// the beginning for a client that updates for others. A pale, hatched part is the wait for input. A step that was cut off
// is hatched: its waits are not known.
function drawSteps(pen, model, row, y) {
  const { context, theme } = pen;
  const { steps } = model.training;
  const worker = steps.clients[row.client][3];
  const colour = clientColour(model, theme, row.client);
  const { start_ns: start, end_ns: end, waiting_ns: waited, input_ns: dry, number, cut } = steps;
  eachInSight(pen, row, start, end, (step, x, length) => {
    const gap = length > 3 ? 0.7 : 0;
    const left = Math.max(x, ROW.label) + 5; // of the number
    let pale = cut[step] !== WHOLE; // there
    context.fillStyle = colour;
    context.fillRect(x, y + 1, length - gap, row.height - 2);
    if (cut[step] !== WHOLE) {
      context.fillStyle = theme.paper;
      context.globalAlpha = 0.35;
      context.fillRect(x, y + 1, length - gap, row.height - 2);
      context.fillStyle = hatch(context, theme.paper, -1);
      context.globalAlpha = 0.9;
      context.fillRect(x, y + 1, length - gap, row.height - 2);
      context.globalAlpha = 1;
    }
    if (waited[step] > 0) {
      const share = (waited[step] / Math.max(1, end[step] - start[step])) * (length - gap);
      const from = worker ? x + length - gap - share : x;
      pale ||= from <= left && left + DIGIT <= from + share;
      context.fillStyle = theme.paper;
      context.globalAlpha = 0.68;
      context.fillRect(from, y + 1, share, row.height - 2);
      context.globalAlpha = 1;
    }
    if (dry[step] > 0) {
      const share = (dry[step] / Math.max(1, end[step] - start[step])) * (length - gap);
      pale ||= left + DIGIT <= x + share;
      context.fillStyle = theme.paper;
      context.globalAlpha = 0.68;
      context.fillRect(x, y + 1, share, row.height - 2);
      context.fillStyle = hatch(context, theme.paper, -1);
      context.fillRect(x, y + 1, share, row.height - 2);
      context.globalAlpha = 1;
    }
    if (length > 22 && cut[step] !== WHOLE) { // between the stripes no ink can be read on every colour
      context.fillStyle = theme.paper;
      context.fillRect(left - 2, y + 4, Math.min(length - 7, (DIGIT + 1) * String(number[step]).length + 3), row.height - 8);
    }
    if (length > 22) text(pen, String(number[step]), left, y + row.height / 2 + 0.5, x + length - left - 3, pale ? theme.ink : inkOn(colour), "10.5px");
  });
}

// Before its session starts, a client waits for the last task to come up.
function drawSession(pen, model, row, y) {
  const { context, theme, xOf, right } = pen;
  const { steps } = model.training;
  const start = steps.session_ns[row.client];
  const x0 = Math.max(ROW.label, xOf(0));
  const x1 = Math.min(right, xOf(start));
  if (!start || x1 <= x0) return;
  context.fillStyle = theme.soft;
  context.fillRect(x0, y + 1, x1 - x0, row.height - 2);
  context.strokeStyle = theme.edge;
  context.setLineDash([3, 3]);
  context.strokeRect(x0 + 0.5, y + 1.5, x1 - x0 - 1, row.height - 3);
  context.setLineDash([]);
  const said = steps.waited_for[row.client] ? `waits for ${steps.waited_for[row.client]}` : "waits";
  text(pen, said, x0 + 6, y + row.height / 2 + 0.5, x1 - x0 - 10, theme.quiet, "10.5px");
}

// Updates of the global step, in the colour of their client; grey where those of several clients fall on one place. An
// update that a crash took back is short and red. Updates stay in sight while the rows scroll.
function drawUpdates(pen, model, y) {
  const { context, theme, xOf } = pen;
  const { steps } = model.training;
  context.fillStyle = theme.paper;
  context.fillRect(0, y, pen.right, STEPS.updates + 6);
  text(pen, "updates", 31, y + 4 + STEPS.updates / 2, ROW.label - 38, theme.quiet, "10.5px");
  let tick = null;
  const paintTick = () => {
    if (!tick) return;
    context.fillStyle = tick.lost ? theme.bad : tick.mixed ? theme.quiet : clientColour(model, theme, tick.client);
    context.fillRect(tick.x - 0.7, y + (tick.lost ? 12 : 6), 1.4, STEPS.updates - (tick.lost ? 10 : 4));
  };
  const lost = new Set(steps.lost);
  steps.update_ns.forEach((when, at) => {
    const x = xOf(when);
    if (x < ROW.label || x > pen.right) return;
    const client = steps.update_client[at];
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

// The update nearest to a place, as lines; null if none is near.
function describeUpdate(model, { xOf, nsAt }, x) {
  const { steps } = model.training;
  const near = indexAfter(steps.update_ns, nsAt(x));
  const far = (at) => Math.abs(xOf(steps.update_ns[at]) - x);
  const [at] = [near - 1, near].filter((one) => one in steps.update_ns).sort((one, other) => far(one) - far(other));
  if (at === undefined || x < ROW.label || far(at) > 4) return null;
  const made = `by ${steps.clients[steps.update_client[at]][0]} at ${showNanos(steps.update_ns[at])}`;
  return [`update ${showCount(at + 1)}`, made, `staleness ${steps.update_staleness[at]}`, ...(steps.lost.includes(at) ? ["taken back by a crash"] : [])];
}

// The warm-up, which the figures leave out, is shaded.
function drawWarmUp(pen, until) {
  const { context, theme, bottom, xOf } = pen;
  const x1 = Math.min(pen.right, xOf(until));
  if (!until || x1 <= ROW.label) return;
  context.fillStyle = theme.edge;
  context.globalAlpha = 0.16;
  context.fillRect(ROW.label, ROW.axis, x1 - ROW.label, bottom);
  context.globalAlpha = 1;
  context.fillRect(x1 - 0.5, ROW.axis, 1, bottom);
}

function describeStep(model, row, step, time) {
  const { steps } = model.training;
  const [name, , task] = steps.clients[row.client];
  const until = steps.session_ns[row.client];
  if (step === undefined) return time < until ? [name, `waits for ${steps.waited_for[row.client] || "its own task"} until ${showNanos(until)}`] : null;
  const { start_ns: start, end_ns: end, waiting_ns: waited, input_ns: dry, number, cut } = steps;
  const gate = cut[step] !== WHOLE ? cutBy(steps, cut[step]) : waited[step] ? `${showNanos(waited[step])} of it waiting for a token or gradients` : "no wait for a token";
  return [`${name}, step ${number[step]}`, `session at ${task}`, `${showNanos(end[step] - start[step])}, from ${showNanos(start[step])}`, gate, ...(dry[step] > 0 ? [`${showNanos(dry[step])} of it waiting for input`] : [])];
}

function describeRecorded(model, row, slice) {
  const { steps, timeline } = model.training;
  const { devices } = model.cluster;
  const [name, op] = timeline.labels[timeline.label[slice]];
  const whose = `${steps.clients[timeline.client[slice]][0]}, step ${timeline.step[slice]}`;
  const when = `${showNanos(lasts(timeline, slice))}, from ${showNanos(timeline.start_ns[slice])}`;
  if (row.kind === "lane") return [name, `${op} on ${devices[row.device].short}, for ${whose}`, when];
  const { src, dst, bytes, arrived_ns: came } = timeline.transfers;
  const transfer = timeline.transfer[slice];
  const ends = `${devices[src[transfer]].short} → ${devices[dst[transfer]].short}`;
  return [name, `${ends}, for ${whose}`, `${showBytes(bytes[transfer])} in ${when}`, `arrives at ${showNanos(came[transfer])}`];
}

function cutBy(steps, crash) {
  const band = steps.bands.find((one) => one.kind === "gone" && one.crash === crash);
  return band ? `cut short by the crash of ${band.name}` : "cut off by the end of the run";
}

// After the recorded steps, the rows of devices and links are shown as unknown.
function drawUnrecorded(pen, from, y, bottom) {
  const { context, theme, xOf, right } = pen;
  const x = Math.max(ROW.label, xOf(from));
  if (x >= right || y >= bottom || !from) return;
  context.fillStyle = theme.soft;
  context.fillRect(x, y, right - x, bottom - y);
  text(pen, "only the first steps of each client are recorded op by op", x + 12, y + ROW.head / 2, right - x - 20, theme.quiet, "10.5px");
}
