// The rows of a training's timeline and how they look: tasks without a client to which something happened, the steps of
// each client, then the devices and links of the steps that were recorded op by op.
// Needs format.js, canvas.js, timeline_rows.js, timeline_drawing.js, training_bands.js.

const STEPS = { row: 22, task: 17, updates: 16 };
const DIGIT = 6; // pixels of the first digit of a step's number
const WHOLE = -2; // of a step that nothing cut off; -1: the end of the run did; else the crash that did

// Each row holds its entries in order of start; `times` has their start_ns and end_ns.
function trainingRows(model) {
  const { training } = model;
  const { timeline, recorded } = training;
  const rows = [];
  let y = STEPS.updates + 6;
  const add = (row, height, after = 2) => {
    rows.push({ ...row, y, height });
    y += height + after;
  };
  const trained = new Set(timeline.clients.map(([, task]) => task));
  for (const task of new Set(timeline.bands.map((band) => band.task))) {
    const bands = bandsOfTask(training, task);
    if (!trained.has(task)) add({ kind: "task", task, label: bands[0].name, bands, rows: [] }, STEPS.task);
  }
  const steps = timeline.clients.map(() => []);
  timeline.client.forEach((client, step) => steps[client].push(step));
  steps.forEach((entries, client) => add({ kind: "client", client, label: timeline.clients[client][0], bands: bandsOfClient(training, client), rows: entries, times: timeline }, STEPS.row));
  const unrecorded = y;
  if (recorded.start_ns.length) add({ kind: "heading", label: "Devices", rows: [] }, ROW.head);
  for (const [key, entries] of groupedBy(recorded.device.map((device, at) => `${device} ${recorded.lane[at]}`))) {
    const [device, lane] = key.split(" ").map(Number);
    add({ kind: "lane", device, lane, label: lane ? "" : recorded.devices[device], bands: bandsOfTask(training, recorded.task_of[device]), rows: entries, times: recorded }, ROW.lane, 1);
  }
  const { transfers } = recorded;
  const carried = onLinks(transfers, (row) => transfers.links[row]);
  for (const key of ["client", "step"]) carried[key] = carried.transfer.map((row) => transfers[key][row]);
  if (carried.link.length) add({ kind: "heading", label: "Links", rows: [] }, ROW.head);
  for (const [link, bars] of barsByLink(carried)) {
    const label = link < 0 ? "handed over in memory" : recorded.links[link];
    tracksOf(carried, bars).forEach((entries, track) =>
      add({ kind: "link", label: track ? "" : label, rows: entries, times: carried, overlap: track === MOST_TRACKS - 1 }, track ? ROW.track : ROW.link, 1));
  }
  const recordedUntil = recorded.end_ns.reduce((most, time) => Math.max(most, time), 0);
  return { rows, height: y, unrecorded, recordedUntil };
}

// key "device lane" -> places in order, devices and lanes ascending.
function groupedBy(keys) {
  const found = new Map();
  keys.forEach((key, at) => {
    if (!found.has(key)) found.set(key, []);
    found.get(key).push(at);
  });
  const numbers = (key) => key.split(" ").map(Number);
  return [...found].sort(([one], [other]) => numbers(one)[0] - numbers(other)[0] || numbers(one)[1] - numbers(other)[1]);
}

function drawTrainingRow(pen, row, y) {
  const { context, theme, model, right } = pen;
  const middle = y + row.height / 2;
  if (row.kind === "heading") return text(pen, row.label, 14, middle, ROW.label - 20, theme.quiet, "600 11px");
  context.save();
  context.beginPath();
  context.rect(ROW.label, y - 1, right - ROW.label, row.height + 2);
  context.clip();
  if (row.kind === "client") {
    drawSession(pen, row, y);
    drawSteps(pen, row, y);
  } else if (row.times) drawRecorded(pen, row, y);
  if (row.bands) drawBands(pen, row, y);
  context.restore();
  if (row.kind === "link") return text(pen, row.label, 14, middle, ROW.label - 20, theme.quiet, "10.5px");
  if (!row.label) return;
  const { timeline, recorded, colours } = model.training;
  if (row.kind === "client") context.fillStyle = timeline.clients[row.client][4];
  else if (row.kind === "task") context.fillStyle = colours[row.task];
  else context.fillStyle = ofOneClient(model) ? model.cluster.colours[row.device] : colours[recorded.task_of[row.device]];
  rounded(context, 14, middle - 5, 10, 10, 2.5);
  context.fill();
  text(pen, row.label, 31, middle, ROW.label - 38, theme.ink, row.kind === "client" ? "600 11.5px" : "11px");
}

// Steps in the colour of their client's task. The paler part is how long the step waited for tokens or gradients, wherever
// in the step that was: at the end for a worker, at the beginning for what updates for others. How long it waited for input
// is paler and hatched, at the beginning. What was cut off is hatched: of it nobody knows how long it waited.
function drawSteps(pen, row, y) {
  const { context, model, theme } = pen;
  const { timeline } = model.training;
  const [, , , worker, colour] = timeline.clients[row.client];
  const { start_ns: start, end_ns: end, waiting_ns: waited, input_ns: dry, number, cut } = timeline;
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
    if (length > 22) text(pen, String(number[step]), left, y + row.height / 2 + 0.5, x + length - left - 3, pale ? theme.ink : inkOn(colour), "10.5px");
  });
}

// Before its session starts, a client waits for the last task to come up.
function drawSession(pen, row, y) {
  const { context, theme, model, xOf, right } = pen;
  const { timeline } = model.training;
  const start = timeline.session_ns[row.client];
  const x0 = Math.max(ROW.label, xOf(0));
  const x1 = Math.min(right, xOf(start));
  if (!start || x1 <= x0) return;
  context.fillStyle = theme.soft;
  context.fillRect(x0, y + 1, x1 - x0, row.height - 2);
  context.strokeStyle = theme.edge;
  context.setLineDash([3, 3]);
  context.strokeRect(x0 + 0.5, y + 1.5, x1 - x0 - 1, row.height - 3);
  context.setLineDash([]);
  const said = timeline.waited_for[row.client] ? `waits for ${timeline.waited_for[row.client]}` : "waits";
  text(pen, said, x0 + 6, y + row.height / 2 + 0.5, x1 - x0 - 10, theme.quiet, "10.5px");
}

// Ops and transfers in the colour of the client's task: on a parameter server one sees for whom it works. Where all are one
// client's they have that of their device, a transfer that of its source.
const ofOneClient = (model) => model.training.timeline.clients.length === 1;
function colourOfRecorded(model, row, entry) {
  const { timeline, recorded } = model.training;
  if (!ofOneClient(model)) return timeline.clients[row.times.client[entry]][4];
  return model.cluster.colours[row.kind === "lane" ? row.device : recorded.transfers.source[row.times.transfer[entry]]];
}
function drawRecorded(pen, row, y) {
  const { context, model } = pen;
  const { recorded } = model.training;
  const { start_ns: start, end_ns: end } = row.times;
  eachInSight(pen, row, start, end, (entry, x, width) => {
    const colour = colourOfRecorded(model, row, entry);
    const gap = width > 3 ? 0.7 : 0;
    context.fillStyle = colour;
    context.fillRect(x, y + 1, width - gap, row.height - 2);
    if (width <= 26 || row.height < 14) return;
    const left = Math.max(x, ROW.label) + 5;
    const name = row.kind === "lane" ? recorded.labels[recorded.label[entry]] : recorded.transfers.labels[recorded.transfers.label[row.times.transfer[entry]]];
    text(pen, leafOf(name), left, y + row.height / 2 + 0.5, x + width - left - 4, inkOn(colour), "10.5px");
  });
}

// What the pointer is on, as lines; null where there is nothing to say.
function describeTraining(model, row, entry, time) {
  const band = bandAt(row, time);
  const said = describeEntryOf(model, row, entry, time);
  const happened = band ? describeBand(model, band) : [];
  return said || band ? [...(said ?? []), ...happened] : null;
}

function describeEntryOf(model, row, entry, time) {
  const { timeline, recorded } = model.training;
  if (row.kind === "client") {
    const [name, , task] = timeline.clients[row.client];
    if (entry === undefined) {
      const before = time < timeline.session_ns[row.client];
      return before ? [name, `waits for ${timeline.waited_for[row.client] || "its own task"} to come up, until ${showNanos(timeline.session_ns[row.client])}`] : null;
    }
    const { start_ns: start, end_ns: end, waiting_ns: waited, input_ns: dry, number } = timeline;
    const gate = timeline.cut[entry] !== WHOLE ? cutBy(timeline, timeline.cut[entry]) : waited[entry] ? `${showNanos(waited[entry])} of it waiting for a token or gradients` : "waited for no token";
    return [`${name}, step ${number[entry]}`, `session at ${task}`, `${showNanos(end[entry] - start[entry])}, from ${showNanos(start[entry])}`, gate, ...(dry[entry] > 0 ? [`${showNanos(dry[entry])} of it waiting for input`] : [])];
  }
  if (entry === undefined) return null;
  const { start_ns: start, end_ns: end, client, step } = row.times;
  const whose = `${timeline.clients[client[entry]][0]}, step ${step[entry]}`;
  const when = `${showNanos(end[entry] - start[entry])}, from ${showNanos(start[entry])}`;
  if (row.kind === "lane") return [recorded.labels[recorded.label[entry]], `${recorded.ops[recorded.label[entry]]} on ${recorded.devices[row.device]}, for ${whose}`, when];
  const { transfers } = recorded;
  const transfer = row.times.transfer[entry];
  const ends = `${recorded.devices[transfers.source[transfer]]} → ${recorded.devices[transfers.target[transfer]]}`;
  return [transfers.labels[transfers.label[transfer]], `${ends}, for ${whose}`, `${showBytes(transfers.bytes[transfer])} in ${when}`, `arrives at ${showNanos(transfers.came_ns[transfer])}`];
}

function cutBy(timeline, crash) {
  const band = timeline.bands.find((one) => one.kind === "gone" && one.crash === crash);
  return band ? `cut short by the crash of ${band.name}` : "cut off by the end of the run";
}

// Behind the first steps of the clients there are no ops and transfers, though devices and links go on: shown as unknown.
function drawUnrecorded(pen, from, y, bottom) {
  const { context, theme, xOf, right } = pen;
  const x = Math.max(ROW.label, xOf(from));
  if (x >= right || y >= bottom || !from) return;
  context.fillStyle = theme.soft;
  context.fillRect(x, y, right - x, bottom - y);
  text(pen, "only the first steps of each client are recorded op by op", x + 12, y + ROW.head / 2, right - x - 20, theme.quiet, "10.5px");
}
