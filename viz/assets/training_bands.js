// Disturbances on the timeline of a training: late starts, pauses, crashes and restores. Needs format.js, canvas.js, timeline.js.

const BANDS = {
  late: { said: "has not started", brief: "not started", colour: "quiet", leans: 1 },
  pause: { said: "pauses", brief: "pauses", colour: "ink", leans: 1 },
  gone: { said: "is gone", brief: "gone", colour: "bad", leans: -1 },
  restores: { said: "restores its checkpoint", brief: "restores", colour: "accent", leans: -1 },
};

// The bands of each row: of a task and its devices its own, of a client also the crashes that ended a step of it.
function bandsOfTask(training, task) {
  return training.steps.bands.filter((band) => band.task === task);
}
function bandsOfClient(training, client) {
  const { bands, clients } = training.steps;
  const hit = new Set(bands.filter((band) => band.cut.some(([whose]) => whose === client)).map((band) => band.crash));
  return bands.filter((band) => (band.task === clients[client][1] && band.kind !== "late") || (band.crash >= 0 && hit.has(band.crash)));
}

// The band of a row at a time; of those that overlap the one that began last.
const bandAt = (row, time) => row.bands?.findLast((band) => band.start_ns <= time && time < band.end_ns);

// A pattern of slanting lines: what is below stays to be seen.
const hatches = new Map();
function hatch(context, colour, leans) {
  const key = colour + leans;
  if (!hatches.has(key)) {
    const tile = document.createElement("canvas");
    tile.width = tile.height = 6;
    const pen = tile.getContext("2d");
    pen.strokeStyle = colour;
    pen.lineWidth = 1.1;
    for (const shift of [-6, 0, 6]) {
      pen.moveTo(shift, leans > 0 ? 6 : 0);
      pen.lineTo(shift + 6, leans > 0 ? 0 : 6);
    }
    pen.stroke();
    hatches.set(key, context.createPattern(tile, "repeat"));
  }
  return hatches.get(key);
}

function drawBands(pen, row, y) {
  const { context, theme, xOf, right } = pen;
  let painted = -Infinity;
  for (const band of row.bands) {
    const x0 = Math.max(ROW.label - 2, xOf(band.start_ns));
    const x1 = Math.min(right + 2, Math.max(xOf(band.end_ns), xOf(band.start_ns) + 1));
    const shown = Math.min(1, Math.max(0.2, xOf(band.end_ns) - xOf(band.start_ns))); // what takes no whole pixel is fainter
    if (x1 <= ROW.label || x0 >= right || x1 - painted < 0.5) continue;
    painted = x1;
    const { said, brief, colour, leans } = BANDS[band.kind];
    const named = row.kind === "task" || (row.kind === "client" && band.kind !== "pause"); // nothing else is written there
    context.fillStyle = theme[colour];
    context.globalAlpha = (named ? 0.1 : 0.16) * shown;
    context.fillRect(x0, y + 1, x1 - x0, row.height - 2);
    context.globalAlpha = (named ? 0.28 : 0.6) * shown;
    context.fillStyle = hatch(context, theme[colour], leans);
    context.fillRect(x0, y + 1, x1 - x0, row.height - 2);
    context.globalAlpha = 1;
    context.fillStyle = theme[colour];
    if (band.kind === "gone" || x1 - x0 > 3) context.fillRect(x0, y + 1, band.kind === "gone" ? 2 : 1, row.height - 2);
    if (!named || x1 - x0 < 34) continue;
    const whole = `${band.name} ${said}`;
    context.font = `10.5px ${theme.sans}`;
    const fits = context.measureText(whole).width <= x1 - x0 - 9;
    text(pen, fits ? whole : brief, x0 + 6, y + row.height / 2 + 0.5, x1 - x0 - 9, theme.ink, "10.5px");
  }
}

// A crash hits many: a line through all rows.
function drawCrashes(pen, model, top, bottom) {
  const { context, theme, xOf, right } = pen;
  context.strokeStyle = theme.bad;
  context.lineWidth = 1;
  context.setLineDash([4, 3]);
  for (const band of model.training.steps.bands) {
    const x = Math.round(xOf(band.start_ns)) + 0.5;
    if (band.kind !== "gone" || x < ROW.label || x > right) continue;
    context.beginPath();
    context.moveTo(x, top);
    context.lineTo(x, bottom);
    context.stroke();
  }
  context.setLineDash([]);
}

// What there is to say of a band, as lines.
function describeBand(model, band) {
  const { clients } = model.training.steps;
  const lines = [`${band.name} ${BANDS[band.kind].said}`, `for ${showNanos(band.end_ns - band.start_ns)}, from ${showNanos(band.start_ns)}`];
  if (band.kind !== "gone") return lines;
  const [first] = band.cut;
  if (first) {
    const spent = band.cut.reduce((sum, [, , start]) => sum + band.start_ns - start, 0);
    const whose = `step ${first[1]} of ${clients[first[0]][0]}`;
    lines.push(band.cut.length === 1 ? `lost: ${whose}, begun ${showNanos(spent)} before` : `lost: ${whose} and ${plural(band.cut.length - 1, "step")} more under way, begun ${showNanos(spent)} before in all`);
  } else lines.push("no step was under way");
  if (band.lost) lines.push(`lost: ${plural(band.lost, "update")} since the checkpoint at ${showNanos(band.saved_ns)}`);
  return lines;
}
