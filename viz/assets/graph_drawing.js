// The drawing of boxes and edges of the graph. Each function draws with a pen: the context, the model, the theme, the scale.
// Needs format.js, model.js, boxes.js.

// The parts of a box's bar: [colour, share], by device, or by category or time on request.
function barOf(pen, item) {
  const { model, state, theme } = pen;
  const total = totalsOf(model, item);
  if (state.colourBy === "time") return [[heat(theme, total.nanos / (totalsOf(model, 0).nanos || 1)), 1]];
  const parts = state.colourBy === "category" ? total.byCategory : total.byDevice;
  const colours = state.colourBy === "category" ? model.categories.colours : model.cluster.colours;
  const whole = [...parts.values()].reduce((sum, part) => sum + part, 0);
  return [...parts.entries()]
    .sort((a, b) => a[0] - b[0])
    .map(([key, part]) => [colours[key], whole ? part / whole : 1 / parts.size]);
}

// Share of the whole, on a logarithmic scale from a hundred-thousandth: one hue, more of it the more time.
function heat(theme, share) {
  const strength = share > 0 ? Math.max(0, 1 + Math.log10(share) / 5) : 0;
  return blend(theme.soft, "#d55e00", strength);
}

function isFaded(pen, item) {
  const { model, state } = pen;
  if (isScope(model, item) ? !totalsOf(model, item).running : !model.nodes.runs[item - model.scopes]) return 0.45;
  if (state.critical && !totalsOf(model, item).critical) return 0.35;
  return 1;
}

function drawOpenScope(pen, box) {
  const { context, theme, model } = pen;
  context.globalAlpha = 1;
  rounded(context, box.x, box.y, box.width, box.height, 9);
  context.fillStyle = box.depth % 2 ? theme.raised : theme.paper;
  context.fill();
  outline(pen, box, theme.line, 9);
}

// The title bar of an open scope, over the edges that pass behind it.
function drawScopeTitle(pen, box) {
  const { context, theme, model } = pen;
  const bar = Math.min(54, box.width / 4);
  if (BOX.title * pen.scale <= 9) return drawBar(pen, box, box.x + 10, box.y + 6, bar, 5);
  const left = box.x + 18 + bar;
  const room = box.x + box.width - left - 26;
  context.font = "600 12px " + theme.sans;
  const said = cut(context, labelOf(model, box.item), room);
  context.fillStyle = box.depth % 2 ? theme.raised : theme.paper;
  rounded(context, box.x + 6, box.y + 2, bar + 18 + context.measureText(said).width, 16, 4);
  context.fill();
  drawBar(pen, box, box.x + 10, box.y + 8, bar, 5);
  text(pen, said, left, box.y + 10.5, room + 4, theme.quiet, "600 12px");
  text(pen, "−", box.x + box.width - 18, box.y + 10, 12, theme.faint, "600 13px");
}

function drawClosedBox(pen, box) {
  const { context, theme, model } = pen;
  const faded = isFaded(pen, box.item);
  const scope = isScope(model, box.item);
  context.globalAlpha = faded;
  if (scope && pen.scale > 0.25) {
    rounded(context, box.x + 3, box.y + 3, box.width, box.height, 7);
    context.fillStyle = theme.soft;
    context.fill();
    context.lineWidth = 1;
    context.strokeStyle = theme.line;
    context.stroke();
  }
  rounded(context, box.x, box.y, box.width, box.height, scope ? 7 : 5);
  context.fillStyle = theme.paper;
  context.fill();
  const bar = barOf(pen, box.item);
  if (scope) drawScope(pen, box, bar);
  else drawOp(pen, box, bar[0][0]);
  outline(pen, box, theme.edge, scope ? 7 : 5);
  context.globalAlpha = 1;
}

function drawScope(pen, box, bar) {
  const { context, theme, model } = pen;
  if (pen.scale < 0.25) {
    fillParts(context, bar, box.x, box.y, box.width, box.height);
    return;
  }
  fillParts(context, bar, box.x + 9, box.y + box.height - 10, box.width - 18, 5);
  const total = totalsOf(model, box.item);
  const width = box.width - 18;
  const roomy = pen.scale > 0.62;
  const size = roomy ? 12 : Math.min(9.5 / pen.scale, 23);
  text(pen, labelOf(model, box.item), box.x + 9, box.y + (roomy ? 12 : 18), width, theme.ink, `600 ${size}px`);
  if (roomy) {
    const said = total.running ? `${plural(total.running, "op")} · ${showNanos(total.nanos)}` : `${plural(total.ops, "op")}, not run`;
    text(pen, said, box.x + 9, box.y + 27, width, theme.quiet, "10.5px");
  }
}

function drawOp(pen, box, colour) {
  const { context, theme, model } = pen;
  context.save();
  rounded(context, box.x, box.y, box.width, box.height, 5);
  context.clip();
  context.fillStyle = colour;
  if (pen.scale < 0.3) context.fillRect(box.x, box.y, box.width, box.height);
  else {
    context.globalAlpha *= 0.16;
    context.fillRect(box.x, box.y, box.width, box.height);
    context.globalAlpha /= 0.16;
    context.fillRect(box.x, box.y, 5, box.height);
  }
  context.restore();
  const hub = model.isHub[box.item - model.scopes];
  text(pen, (hub ? "⤳ " : "") + labelOf(model, box.item), box.x + 12, box.y + box.height / 2, box.width - 18, theme.ink, `${pen.scale > 0.7 ? 11.5 : Math.min(8.5 / pen.scale, 20)}px`);
}

function drawBar(pen, box, x, y, width, height) {
  fillParts(pen.context, barOf(pen, box.item), x, y, width, height);
}

function fillParts(context, parts, x, y, width, height) {
  let left = x;
  for (const [colour, share] of parts) {
    context.fillStyle = colour;
    context.fillRect(left, y, share * width, height);
    left += share * width;
  }
}

// The border of a box: quiet, or strong where it is selected, hovered, or on the critical path.
function outline(pen, box, quiet, radius) {
  const { context, theme, state, model } = pen;
  const critical = state.critical && totalsOf(model, box.item).critical > 0;
  const selected = box.item === pen.selected;
  rounded(context, box.x, box.y, box.width, box.height, radius);
  context.lineWidth = (selected ? 3 : critical && !box.open ? 2.2 : 1) / Math.min(1, Math.max(pen.scale, 0.4));
  context.strokeStyle = selected ? theme.accent : critical ? theme.ink : box.item === pen.hovered ? theme.quiet : quiet;
  context.stroke();
}

function drawEdges(pen, bundles) {
  const { context, state } = pen;
  const faint = [];
  const strong = [];
  for (const bundle of bundles) {
    if (!isDrawn(pen, bundle) || !edgeInSight(pen, bundle)) continue;
    (bundle.transfers || isEmphasised(pen, bundle) ? strong : faint).push(bundle);
  }
  context.globalAlpha = state.critical ? 0.3 : faint.length > 1500 ? 0.45 : 0.9;
  for (const bundle of faint) strokeEdge(pen, bundle);
  for (const bundle of strong) {
    context.globalAlpha = state.critical && !isEmphasised(pen, bundle) ? 0.25 : 1;
    strokeEdge(pen, bundle);
  }
  context.globalAlpha = 1;
}

const touchesItem = (pen, bundle, item) => item > 0 && (bundle.from === item || bundle.to === item);
const isEmphasised = (pen, bundle) => isTouched(pen, bundle) || isCriticalEdge(pen, bundle);
// Edges of hubs and of what does not run would hide all others: only on demand.
const isDrawn = (pen, bundle) => !(bundle.hub || bundle.idle) || isCriticalEdge(pen, bundle) || (bundle.count > 0 && isTouched(pen, bundle));
const isTouched = (pen, bundle) => touchesItem(pen, bundle, pen.selected) || touchesItem(pen, bundle, pen.hovered);

const isCriticalEdge = (pen, bundle) => pen.state.critical && bundle.critical;

function edgeInSight(pen, bundle) {
  const from = pen.boxOf.get(bundle.from);
  const to = pen.boxOf.get(bundle.to);
  const { visible } = pen;
  if (Math.max(from.x + from.width, to.x + to.width) < visible.left || Math.min(from.x, to.x) > visible.right) return false;
  return Math.max(from.y + from.height, to.y + to.height) >= visible.top && Math.min(from.y, to.y) <= visible.bottom;
}

function curveOf(pen, bundle) {
  const from = pen.boxOf.get(bundle.from);
  const to = pen.boxOf.get(bundle.to);
  const x0 = from.x + from.width;
  const y0 = from.y + from.height / 2;
  const x1 = to.x;
  const y1 = to.y + to.height / 2;
  const bend = x1 > x0 ? Math.min(Math.max((x1 - x0) / 2, 12), 160) : Math.min(60 + (x0 - x1) / 8, 160);
  return [x0, y0, x0 + bend, y0, x1 - bend, y1, x1, y1];
}

function strokeEdge(pen, bundle) {
  const { context, theme, model } = pen;
  const curve = curveOf(pen, bundle);
  const thin = 1 / Math.max(pen.scale, 0.6);
  const [first] = bundle.transfers ?? [];
  const emphasised = isEmphasised(pen, bundle);
  context.strokeStyle = isCriticalEdge(pen, bundle) ? theme.ink : touchesItem(pen, bundle, pen.selected) ? theme.accent
    : first !== undefined ? model.cluster.colours[model.transfers.src[first]] : emphasised ? theme.quiet : theme.edge;
  context.lineWidth = thin * (bundle.transfers ? 1.6 + Math.min(2.6, Math.log10(1 + bundle.bytes) / 3.4) : emphasised ? 1.8 : 1);
  context.setLineDash(bundle.data ? [] : [4 * thin, 3 * thin]);
  context.beginPath();
  context.moveTo(curve[0], curve[1]);
  context.bezierCurveTo(...curve.slice(2));
  context.stroke();
  context.setLineDash([]);
  if (pen.scale > 0.35) {
    context.fillStyle = context.strokeStyle;
    context.beginPath();
    context.moveTo(curve[6], curve[7]);
    context.lineTo(curve[6] - 7, curve[7] - 3.4);
    context.lineTo(curve[6] - 7, curve[7] + 3.4);
    context.fill();
  }
}

// What crosses devices: bytes and number of transfers, the largest first, none over a box, a title or another label.
function drawEdgeLabels(pen, bundles, inSight) {
  const { context, theme } = pen;
  if (pen.scale < 0.3) return;
  const size = Math.min(26, Math.max(10, 9 / pen.scale)); // small on a small picture, but never too small to read
  const crossing = bundles.filter((bundle) => bundle.transfers && isDrawn(pen, bundle) && edgeInSight(pen, bundle));
  crossing.sort((a, b) => b.bytes - a.bytes || b.transfers.size - a.transfers.size);
  const taken = inSight.map((box) => (box.open ? { x: box.x, y: box.y, width: Math.min(box.width, 180), height: 20 } : box));
  context.font = `600 ${size}px ` + theme.sans;
  for (const bundle of crossing.slice(0, 150)) {
    const label = freePlace(curveOf(pen, bundle), context.measureText(bundle.said).width + size, size * 1.6, taken, pen.visible);
    if (!label) continue;
    taken.push(label);
    drawPill(pen, label, bundle.said);
  }
}

// A place for a label on its curve, or just above or below it; nothing where there is none.
function freePlace(curve, width, height, taken, visible) {
  for (const share of [0.5, 0.35, 0.65, 0.2, 0.8]) {
    const [x, y] = pointOn(curve, share);
    for (const rows of [0, -1.1, 1.1, -1.5, 1.5]) {
      const place = { x: x - width / 2, y: y + (rows - 0.5) * height, width, height };
      const area = { left: place.x - 2, right: place.x + width + 2, top: place.y - 1, bottom: place.y + height + 1 };
      if (touches(place, visible) && !taken.some((other) => touches(other, area))) return place;
    }
  }
  return null;
}

function pointOn([x0, y0, x1, y1, x2, y2, x3, y3], t) {
  const s = 1 - t;
  const weights = [s * s * s, 3 * s * s * t, 3 * s * t * t, t * t * t];
  return [
    weights[0] * x0 + weights[1] * x1 + weights[2] * x2 + weights[3] * x3,
    weights[0] * y0 + weights[1] * y1 + weights[2] * y2 + weights[3] * y3,
  ];
}

function drawPill(pen, place, said) {
  const { context, theme } = pen;
  rounded(context, place.x, place.y, place.width, place.height, place.height / 2);
  context.fillStyle = theme.paper;
  context.globalAlpha = 0.92;
  context.fill();
  context.globalAlpha = 1;
  context.lineWidth = 0.7;
  context.strokeStyle = theme.line;
  context.stroke();
  context.fillStyle = theme.ink;
  context.textAlign = "center";
  context.textBaseline = "middle";
  context.fillText(said, place.x + place.width / 2, place.y + place.height * 0.53);
  context.textAlign = "left";
}
