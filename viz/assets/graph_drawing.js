// The drawing of boxes and edges of the graph. Each function draws with a pen: the context, the model, the theme, the scale.
// Needs format.js, model.js, boxes.js, routes.js.

// The parts of a box's bar: [colour, share], by device, or by category or time on request.
function barOf(pen, item) {
  const { model, state, theme } = pen;
  const total = totalsOf(model, item);
  if (state.colourBy === "time") return [[heat(theme, total.nanos / (totalsOf(model, 0).nanos || 1)), 1]];
  if (state.colourBy === "moved" && !isScope(model, item)) return [[total.moved ? model.cluster.colours[model.nodes.device[item - model.scopes]] : theme.line, 1]];
  if (state.colourBy === "moved") return [[theme.ink, total.moved / (total.running || 1)], [theme.line, 1 - total.moved / (total.running || 1)]];
  const parts = state.colourBy === "category" ? total.byCategory : total.byDevice;
  const colours = state.colourBy === "category" ? model.categories.colours : model.cluster.colours;
  const whole = [...parts.values()].reduce((sum, part) => sum + part, 0);
  return [...parts.entries()]
    .sort((a, b) => a[0] - b[0])
    .map(([key, part]) => [colours[key], whole ? part / whole : 1 / parts.size]);
}

// Share of the whole, on a logarithmic scale from a hundred-thousandth: one hue, more of it the more time, in 64 shades.
const [HOT, COOLEST] = ["#d55e00", 1e-5]; // of all time, and of its least share that has a colour
function heat(theme, share) {
  const strength = share > 0 ? Math.max(0, 1 - Math.log10(share) / Math.log10(COOLEST)) : 0;
  return blend(theme.soft, HOT, Math.round(strength * 64) / 64);
}

function isFaded(pen, box) {
  const { model, state } = pen;
  const { item } = box;
  if (isScope(model, item) ? !totalsOf(model, item).running : !model.nodes.runs[item - model.scopes]) return 0.45;
  if (state.critical && !totalsOf(model, item).critical) return 0.35;
  if (state.traced && !pen.found.has(box)) return 0.35;
  return 1;
}

function drawOpenScope(pen, box) {
  const { context, theme } = pen;
  context.globalAlpha = 1;
  rounded(context, box.x, box.y, box.width, box.height, 9);
  context.fillStyle = box.depth % 2 ? theme.raised : theme.paper;
  context.fill();
  outline(pen, box, theme.line, 9);
}

// The title bar of an open scope, over the edges that pass behind it.
function drawScopeTitle(pen, box) {
  const { context, theme } = pen;
  const bar = Math.min(54, box.width / 4);
  const size = letters(pen, 12, BOX.title - 6);
  box.titled = box.width;
  if (!size) return drawBar(pen, box, box.x + 10, box.y + 6, bar, 5);
  const left = box.x + 18 + bar;
  const room = box.x + box.width - left - 26;
  context.font = `600 ${size}px ` + theme.sans;
  const said = cut(context, box.label, room);
  box.titled = bar + 28 + context.measureText(said).width;
  drawBar(pen, box, box.x + 10, box.y + 10, bar, 5);
  text(pen, said, left, box.y + 13, room + 4, theme.quiet, `600 ${size}px`);
  text(pen, "−", box.x + box.width - 18, box.y + 12, 12, theme.faint, "600 13px");
}

// A label cut where it is too long: each part of a path in its middle, as names often differ in their last letters.
function labelled(context, said, width, font, family) {
  context.font = `${font} ${family}`;
  if (context.measureText(said).width <= width) return said;
  const whole = said.length > 120 ? said.slice(0, 60) + said.slice(-60) : said;
  let [low, high] = [0, whole.length - 1];
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (context.measureText(abridged(whole, middle)).width <= width) low = middle;
    else high = middle - 1;
  }
  const least = /(^|\/)…\/…/.test(abridged(whole, low)) ? "" : abridged(whole, low); // parts of no letter say nothing
  const [first, last] = [whole.slice(0, whole.indexOf("/") + 1), whole.slice(whole.lastIndexOf("/") + 1)];
  return [least, `${first}…/${last}`, last].find((one) => one && context.measureText(one).width <= width) ?? cut(context, last, width); // of many parts both ends
}

// About so many letters of a path, of each part as large a share as of the others; a part that is cut keeps both of its ends.
function abridged(path, letters) {
  const share = letters / path.length;
  const kept = (part) => {
    const count = Math.floor(part.length * share);
    return count >= part.length - 1 ? part : `${part.slice(0, Math.ceil(count * 0.6))}…${part.slice(part.length - Math.floor(count * 0.4))}`;
  };
  return path.split("/").map(kept).join("/");
}

// The size of letters that stay readable when the picture gets small, up to the height that there is; 0 where there is none.
function letters(pen, size, most) {
  const wanted = Math.max(size, pen.smallest / pen.scale);
  return wanted <= most ? wanted : 0;
}

function drawClosedBox(pen, box) {
  const { context, theme, model } = pen;
  const faded = isFaded(pen, box);
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
  drawPorts(pen, box);
  context.globalAlpha = 1;
}

function drawScope(pen, box, bar) {
  const { context, theme, model } = pen;
  const size = letters(pen, 12, box.height - 18);
  if (!size) return fillParts(context, bar, box.x, box.y, box.width, box.height);
  fillParts(context, bar, box.x + 9, box.y + box.height - 9, box.width - 18, 4);
  const width = box.width - 18;
  const content = contentOf(model, box.item);
  const small = letters(pen, 11, 13);
  context.font = `${small}px ${theme.sans}`;
  const roomy = small && (box.width >= BOX.wide || context.measureText(content).width <= width); // it is said whole, or not at all
  const said = labelled(context, box.label, width, `600 ${size}px`, theme.sans);
  text(pen, said, box.x + 9, box.y + (roomy ? 12 : (box.height - 9) / 2), width + 4, theme.ink, `600 ${size}px`);
  if (roomy) text(pen, content, box.x + 9, box.y + 27, width, theme.quiet, `${small}px`);
}

function drawOp(pen, box, colour) {
  const { context, theme, model } = pen;
  const size = letters(pen, 11.5, box.height - 5);
  context.save();
  rounded(context, box.x, box.y, box.width, box.height, 5);
  context.clip();
  context.fillStyle = colour;
  if (!size) context.fillRect(box.x, box.y, box.width, box.height);
  else {
    context.globalAlpha *= 0.16;
    context.fillRect(box.x, box.y, box.width, box.height);
    context.globalAlpha /= 0.16;
    context.fillRect(box.x, box.y, 5, box.height);
    const elsewhere = model.elsewhere?.get(box.item - model.scopes);
    if (elsewhere) {
      context.fillStyle = elsewhere.colour;
      context.fillRect(box.x + box.width - 5, box.y, 5, box.height);
    }
  }
  context.restore();
  const hub = model.isHub[box.item - model.scopes] ? `${showCount(neighbours(model, box.item - model.scopes))} ⤳ ` : "";
  const held = box.held && letters(pen, 11, 13);
  const strip = model.elsewhere?.has(box.item - model.scopes) ? 6 : 0; // of its device in the other run
  const said = labelled(context, hub + box.label, box.width - 18 - strip, `${size}px`, theme.sans);
  text(pen, said, box.x + 12, box.y + (held ? BOX.op / 2 + 1 : box.height / 2), box.width - 14, theme.ink, `${size}px`);
  if (held) text(pen, box.held, box.x + 12, box.y + BOX.op + 4, box.width - 18, theme.quiet, `${held}px`);
}

// The other nodes that a hub reads or feeds.
const neighbours = (model, node) =>
  new Set([...[...rowsIn(model.inEdges, node)].map((edge) => model.edges.src[edge]), ...[...rowsIn(model.outEdges, node)].map((edge) => model.edges.dst[edge])]).size;

// Small rings where a hub is read (at the left) or fed (at the right): its edges are drawn on demand alone.
function drawPorts(pen, box) {
  const { context, theme } = pen;
  if (!box.ports || pen.scale < 0.5 || box.shelved) return;
  context.lineWidth = 1.2;
  context.strokeStyle = theme.faint;
  context.fillStyle = theme.paper;
  for (const [bit, x] of [[2, box.x], [1, box.x + box.width]]) {
    if (!(box.ports & bit)) continue;
    context.beginPath();
    context.arc(x, box.y + 6, 2.6, 0, 2 * Math.PI);
    context.fill();
    context.stroke();
  }
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

// A frame around what the search found.
function drawHit({ context, theme, scale }, box) {
  const by = 3.5 / Math.min(1, Math.max(scale, 0.4));
  rounded(context, box.x - by, box.y - by, box.width + 2 * by, box.height + 2 * by, 9);
  context.lineWidth = 0.6 * by;
  context.strokeStyle = theme.accent;
  context.setLineDash([by, by * 0.7]);
  context.stroke();
  context.setLineDash([]);
}

// The border of a box: quiet, or strong where it is selected, hovered, or on the critical path.
function outline(pen, box, quiet, radius) {
  const { context, theme, state, model } = pen;
  const critical = state.critical && totalsOf(model, box.item).critical > 0;
  const selected = box === pen.selected;
  if (pen.found.has(box) && !state.traced) drawHit(pen, box);
  rounded(context, box.x, box.y, box.width, box.height, radius);
  context.lineWidth = (selected ? 3 : critical && !box.open ? 2.2 : 1) / Math.min(1, Math.max(pen.scale, 0.4));
  context.strokeStyle = selected ? theme.accent : critical ? theme.ink : box === pen.hovered ? theme.quiet : quiet;
  context.stroke();
}

function drawWays(pen, ways) {
  const { context, state } = pen;
  const [faint, strong] = [[], []];
  for (const way of ways) {
    if (!isDrawn(pen, way) || !inSight(pen, way)) continue;
    (way.transfers.length || isEmphasised(pen, way) ? strong : faint).push(way);
  }
  strong.sort((a, b) => isEmphasised(pen, a) - isEmphasised(pen, b));
  context.globalAlpha = state.critical ? 0.35 : faint.length > 1500 ? 0.5 : 1;
  for (const way of faint) strokeWay(pen, way);
  for (const way of strong) {
    context.globalAlpha = (state.critical || pen.chosen.size) && !isEmphasised(pen, way) ? 0.35 : 1;
    strokeWay(pen, way);
  }
  context.globalAlpha = 1;
}

const isEmphasised = (pen, way) => pen.marked.has(way) || isCritical(pen, way);
// Edges of hubs and of what does not run would hide all others: only on demand.
const isDrawn = (pen, way) => way.usual || isEmphasised(pen, way);
const isCritical = (pen, way) => pen.state.critical && way.critical;

function inSight({ visible }, way) {
  const { left, top, right, bottom } = boundsOf(way);
  return left <= visible.right && right >= visible.left && top <= visible.bottom && bottom >= visible.top;
}

function strokeWay(pen, way) {
  const { context, theme, model } = pen;
  const thin = 1 / Math.max(pen.scale, 0.6);
  const strong = isEmphasised(pen, way);
  context.strokeStyle = pen.chosen.has(way) ? theme.accent : isCritical(pen, way) ? theme.ink
    : way.transfers.length ? model.cluster.colours[way.device] : strong ? theme.quiet : theme.edge;
  context.lineWidth = thin * (way.transfers.length ? 1.6 + Math.min(2.6, Math.log10(1 + way.bytes) / 3.4) : strong ? 1.8 : 1);
  const elsewhere = way.elsewhere && !way.transfers.length; // it crosses devices in the other run alone
  if (elsewhere) context.lineWidth = 2 * thin;
  context.setLineDash(elsewhere ? [1.5 * thin, 4 * thin] : way.data ? [] : [4 * thin, 3 * thin]);
  context.beginPath();
  for (const [kind, ...values] of way.path) {
    if (kind === "M") context.moveTo(...values);
    else if (kind === "L") context.lineTo(...values);
    else context.bezierCurveTo(...values);
  }
  context.stroke();
  context.setLineDash([]);
  if (pen.scale > 0.35 && way.to && !way.to.open) drawHead(context, ...way.path[way.path.length - 1].slice(-2));
}

function drawHead(context, x, y) {
  context.fillStyle = context.strokeStyle;
  context.beginPath();
  context.moveTo(x, y);
  context.lineTo(x - 6, y - 3);
  context.lineTo(x - 6, y + 3);
  context.fill();
}

const FEW_LABELS = 6;
// Shares of the length at which a label is tried: where ways of a fan are apart from each other.
const [ALONE, FAN_OUT, FAN_IN] = [[0.5, 0.35, 0.65, 0.2, 0.8, 0.1, 0.9], [0.75, 0.65, 0.85, 0.5, 0.35, 0.92], [0.25, 0.35, 0.15, 0.5, 0.65, 0.08]];

// What crosses devices: bytes and number of transfers, the largest first, none over a box, a title or another label.
function drawWayLabels(pen, ways, boxes) {
  const { context, theme } = pen;
  if (pen.scale < 0.3) return;
  const size = Math.min(26, Math.max(10.5, 9.2 / pen.scale)); // small on a small picture, but never too small to read
  const crossing = ways.filter((way) => way.from && way.to && way.transfers.length && isDrawn(pen, way) && inSight(pen, way));
  crossing.sort((a, b) => b.bytes - a.bytes || b.transfers.length - a.transfers.length);
  const least = crossing.length ? crossing[0].bytes / (crossing.length > FEW_LABELS ? 1e3 : 1e6) : 0; // a scalar beside gigabytes says nothing
  const taken = boxes.map((box) => (box.open ? { x: box.x, y: box.y, width: box.titled ?? box.width, height: BOX.title } : box));
  context.font = `600 ${size}px ` + theme.sans;
  const ends = new Map(); // how many labelled ways begin or end at a box
  for (const { from, to } of crossing) for (const end of [from, to]) ends.set(end, (ends.get(end) ?? 0) + 1);
  for (const way of crossing.slice(0, 150)) {
    if (way.bytes < least && !isEmphasised(pen, way)) continue;
    const apart = ends.get(way.from) > ends.get(way.to) ? FAN_OUT : ends.get(way.from) < ends.get(way.to) ? FAN_IN : ALONE;
    const label = freePlace(way, apart, context.measureText(way.said).width + size, size * 1.5, taken, pen.visible);
    if (!label) continue;
    taken.push(label);
    drawPill(pen, label, way.said);
  }
}

// A place for a label on its course, or just above or below it; nothing where there is none.
function freePlace(way, shares, width, height, taken, visible) {
  const points = pointsOf(way);
  for (const share of shares) {
    const [x, y] = alongPoints(points, share);
    for (const rows of [0, -0.8, 0.8]) { // farther away it seems to belong to nothing
      const place = { x: x - width / 2, y: y + (rows - 0.5) * height, width, height };
      const area = { left: place.x - 2, right: place.x + width + 2, top: place.y - 1, bottom: place.y + height + 1 };
      if (area.left < visible.left || area.right > visible.right || area.top < visible.top || area.bottom > visible.bottom) continue;
      if (!taken.some((other) => touches(other, area))) return place;
    }
  }
  return null;
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
