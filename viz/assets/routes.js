// The course of each way through an open scope. Between two columns runs a gutter, between two lines a corridor, beside all
// lines a margin; boxes stand in none of them. A way crosses a gutter in a curve. Where it passes columns, it takes the place
// that was kept for it, or a track of a corridor. So no way runs through a box that is not its own.
//
//     ┌─────┐ gutter ┌─────┐        ┌─────┐
//     │  A  │──╮     │  B  │        │  C  │     line 0
//     └─────┘  │     └─────┘        └─────┘
//     ═════════╰══════════════════╮════════     corridor 1
//     ┌─────┐        ┌─────┐      │ ┌─────┐
//
// Needs boxes.js.

const MOST_TRACKS_OF_CORRIDOR = 8; // further ones share them
const ROUND = 7; // radius of a corner, in the units of boxes

// How each way goes, and how many tracks each corridor needs. Sets plan on ways, and corridors on the box.
function planRoutes(box) {
  const corridors = Array.from({ length: box.lines.length + 1 }, () => ({ groups: new Map(), tracks: 0, height: 0, y: 0 }));
  const degree = new Map(); // ways in corridors by their ends
  for (const way of box.ways.values()) {
    way.plan = planOf(box, way);
    if (way.plan.runs) for (const end of [way.from, way.to]) degree.set(end, (degree.get(end) ?? 0) + 1);
  }
  for (const way of box.ways.values()) {
    for (const [at, from, to] of way.plan.runs ?? []) claim(corridors[at], way, degree, Math.min(from, to), Math.max(from, to));
  }
  corridors.forEach((corridor, at) => {
    assignTracks(corridor);
    const outer = at === 0 || at === box.lines.length;
    const least = box.parent === null && outer ? 6 : BOX.corridor;
    corridor.height = corridor.tracks ? BOX.corridor + 4 + BOX.track * (corridor.tracks - 1) + (outer ? 4 : 8) : least;
  });
  box.corridors = corridors;
}

// Direct, past columns at a kept place, or by corridors: [corridor, from x, to x] each.
function planOf(box, { from, to, back }) {
  const last = (child) => child.column === box.lines[child.line].columns.length - 1;
  if (!from) {
    if (to.column === 0) return { kind: "margin" };
    return { kind: "enter", runs: [[to.line, 0, gutterX(box, to.line, to.column)]] };
  }
  if (!to) {
    if (last(from)) return { kind: "margin" };
    return { kind: "leave", runs: [[from.line + 1, gutterX(box, from.line, from.column + 1), box.inner.right + BOX.pad]] };
  }
  if (from.line === to.line && to.column === from.column + 1) return { kind: "direct" };
  const line = box.lines[from.line];
  if (from.line === to.line && to.column > from.column && passesOf(line, from, to)) return { kind: "passing" };
  const [x0, x1] = [gutterX(box, from.line, from.column + 1), gutterX(box, to.line, to.column)];
  if (Math.abs(to.line - from.line) <= 1) {
    const at = to.line > from.line || (to.line === from.line && (back || to.column <= from.column)) ? from.line + 1 : from.line;
    return { kind: "corridor", runs: [[at, x0, x1]] };
  }
  const down = to.line > from.line;
  const margin = box.inner.left - BOX.pad / 2;
  return { kind: "around", runs: [[down ? from.line + 1 : from.line, x0, margin], [down ? to.line : to.line + 1, margin, x1]] };
}

// The places kept for a way in the columns that it passes, or null.
function passesOf(line, from, to) {
  const places = [];
  for (let at = from.column + 1; at < to.column; at++) {
    const y = line.passes.get(`${from.index} ${at}`);
    if (y === undefined) return null;
    places.push(y);
  }
  return places;
}

// The middle of the gutter before a column, relative to the box; the one behind the last column is as wide as the others.
function gutterX(box, line, column) {
  const { left, widths, gutters } = box.lines[line];
  if (column === 0) return box.inner.left - BOX.pad / 2;
  return box.inner.left + left[column - 1] + widths[column - 1] + (gutters[column] ?? BOX.gutter) / 2;
}

// Ways with one source share a track, or ways with one target where that has more of them.
function claim(corridor, way, degree, from, to) {
  const key = !way.from ? "in" : !way.to ? "out" : degree.get(way.to) > degree.get(way.from) ? `to ${way.to.index}` : `from ${way.from.index}`;
  const group = corridor.groups.get(key) ?? { from, to, usual: false, track: 0 };
  Object.assign(group, { from: Math.min(group.from, from), to: Math.max(group.to, to), usual: group.usual || way.usual });
  corridor.groups.set(key, group);
  (way.groups ??= new Map()).set(corridor, group);
}

// The first track that is free along the whole group, groups from left to right; what is drawn on demand takes no track of its own.
function assignTracks(corridor) {
  const free = []; // where each track ends so far
  const usual = [...corridor.groups.values()].filter((group) => group.usual);
  for (const group of usual.sort((a, b) => a.from - b.from || b.to - a.to)) {
    let track = free.findIndex((end) => end + 8 < group.from);
    if (track < 0) track = free.length;
    free[track] = group.to;
    group.track = track % MOST_TRACKS_OF_CORRIDOR;
  }
  corridor.tracks = Math.min(free.length, MOST_TRACKS_OF_CORRIDOR);
}

// Where edges enter and leave the box: at the height of the items that they lead to, if all stand at the border, or else of the
// corridor that leads to them. Sets y of corridors too.
function meetPorts(box) {
  box.lines.forEach((line, at) => (box.corridors[at].y = line.y - box.corridors[at].height));
  box.corridors[box.lines.length].y = box.height - box.corridors[box.lines.length].height;
  const usual = [...box.ways.values()].filter((way) => way.usual);
  const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;
  const into = usual.filter((way) => !way.from);
  const out = usual.filter((way) => !way.to);
  const first = box.corridors[0];
  const final = box.corridors[box.lines.length];
  const low = box.title + 6;
  const high = box.height - 8;
  const within = (y) => Math.min(Math.max(y, low), high);
  const atStart = into.length > 0 && into.every(({ to }) => to.line === 0 && to.column === 0);
  const atEnd = out.length > 0 && out.every(({ from }) => from.line === out[0].from.line && out[0].plan.kind === "margin" && from.column === out[0].from.column);
  box.arrives = within(atStart ? mean(into.map(({ to }) => to.y + to.arrives)) : trackOf(first, first.groups.get("in")));
  box.leaves = within(atEnd ? mean(out.map(({ from }) => from.y + from.leaves)) : trackOf(final, final.groups.get("out")));
}

const trackOf = (corridor, group) => corridor.y + (corridor.tracks ? BOX.corridor / 2 + 2 + BOX.track * (group?.track ?? 0) : corridor.height / 2);

// ---- the courses themselves, once all places are known

// The course of a way: commands of a path, ["M" | "L" | "C", ...numbers].
function courseOf(way) {
  const { scope: box, from, to, plan } = way;
  const left = box.x;
  const right = box.x + box.width;
  const start = from ? [from.x + from.width, from.y + from.leaves] : [left, box.y + box.arrives];
  const end = to ? [to.x, to.y + to.arrives] : [right, box.y + box.leaves];
  const track = (at) => {
    const corridor = box.corridors[at];
    return box.y + trackOf(corridor, way.groups?.get(corridor));
  };
  const shift = (at) => (((way.groups?.get(box.corridors[at])?.track ?? 0) % 5) - 2) * 3; // apart in a shared gutter
  const middle = (line, column, at) => box.x + gutterX(box, line, column) + shift(at);
  const inner = box.x + box.inner.left;
  if (plan.kind === "margin") {
    if (!from) return curved([start, [inner, end[1]], end]);
    return curved([start, [box.x + box.inner.right, start[1]], end]);
  }
  if (plan.kind === "direct") return curved([start, ...gutterEnds(box, to, start[1], end[1]), end]);
  if (plan.kind === "passing") {
    const line = box.lines[from.line];
    const points = [start];
    const base = box.y + line.y;
    let y = start[1];
    passesOf(line, from, to).forEach((place, at) => {
      const column = from.column + 1 + at;
      const x = inner + line.left[column];
      points.push([x - line.gutters[column], y], [x, base + place]);
      y = base + place;
    });
    const x = inner + line.left[to.column];
    points.push([x - line.gutters[to.column], y], [x, end[1]], end);
    return curved(points);
  }
  const [[at], last] = [plan.runs[0], plan.runs[plan.runs.length - 1]];
  const y0 = track(at);
  if (plan.kind === "enter") {
    const x = middle(to.line, to.column, at);
    const margin = inner - BOX.pad / 2;
    return cornered([start, [margin, start[1]], [margin, y0], [x, y0], [x, end[1]], end]);
  }
  const x0 = middle(from.line, from.column + 1, at);
  if (plan.kind === "leave") {
    const margin = box.x + box.inner.right + BOX.pad / 2;
    return cornered([start, [x0, start[1]], [x0, y0], [margin, y0], [margin, end[1]], end]);
  }
  const x1 = middle(to.line, to.column, last[0]);
  if (plan.kind === "corridor") return cornered([start, [x0, start[1]], [x0, y0], [x1, y0], [x1, end[1]], end]);
  const y1 = track(last[0]);
  const margin = inner - BOX.pad / 2 + shift(at);
  return cornered([start, [x0, start[1]], [x0, y0], [margin, y0], [margin, y1], [x1, y1], [x1, end[1]], end]);
}

// Where a curve begins and ends in the gutter before a box.
function gutterEnds(box, to, y0, y1) {
  const { left, gutters } = box.lines[to.line];
  const x = box.x + box.inner.left + left[to.column];
  return [[x - gutters[to.column], y0], [x, y1]];
}

// Points to the right: level where two have one y, else a curve that is level at both of its ends.
function curved(points) {
  const path = [["M", ...points[0]]];
  points.slice(1).forEach(([x, y], at) => {
    const [before, level] = points[at];
    if (Math.abs(level - y) < 0.01) {
      if (x !== before) path.push(["L", x, y]);
    } else path.push(["C", (before + x) / 2, level, (before + x) / 2, y, x, y]);
  });
  return path;
}

// Points joined by upright and level stretches, with round corners.
function cornered(points) {
  const kept = points.filter(([x, y], at) => at === 0 || Math.hypot(x - points[at - 1][0], y - points[at - 1][1]) > 0.01);
  const path = [["M", ...kept[0]]];
  for (let at = 1; at < kept.length - 1; at++) {
    const [a, b, c] = [kept[at - 1], kept[at], kept[at + 1]];
    const length = (p, q) => Math.hypot(p[0] - q[0], p[1] - q[1]);
    const radius = Math.min(ROUND, length(a, b) / 2, length(b, c) / 2);
    const towards = (p, by) => [b[0] + ((p[0] - b[0]) * by) / length(p, b), b[1] + ((p[1] - b[1]) * by) / length(p, b)];
    const [enter, near, far, leave] = [towards(a, radius), towards(a, radius * 0.45), towards(c, radius * 0.45), towards(c, radius)];
    path.push(["L", ...enter], ["C", ...near, ...far, ...leave]);
  }
  path.push(["L", ...kept[kept.length - 1]]);
  return path;
}

// Points along a course, close enough to find what the pointer is on; made when first asked for.
function pointsOf(way) {
  if (way.points) return way.points;
  const points = [];
  for (const [kind, ...values] of way.path) {
    const start = points[points.length - 1];
    if (kind === "C") for (let step = 1; step < 10; step++) points.push(pointOn([...start, ...values], step / 10));
    points.push(values.slice(-2));
  }
  return (way.points = points);
}

function pointOn([x0, y0, x1, y1, x2, y2, x3, y3], t) {
  const s = 1 - t;
  const weights = [s * s * s, 3 * s * s * t, 3 * s * t * t, t * t * t];
  return [
    weights[0] * x0 + weights[1] * x1 + weights[2] * x2 + weights[3] * x3,
    weights[0] * y0 + weights[1] * y1 + weights[2] * y2 + weights[3] * y3,
  ];
}

// The distance of a point from a course.
function distanceTo(way, x, y) {
  const points = pointsOf(way);
  let least = Infinity;
  for (let at = 1; at < points.length; at++) {
    const [[ax, ay], [bx, by]] = [points[at - 1], points[at]];
    const [dx, dy] = [bx - ax, by - ay];
    const share = Math.min(1, Math.max(0, ((x - ax) * dx + (y - ay) * dy) / (dx * dx + dy * dy || 1)));
    least = Math.min(least, Math.hypot(x - ax - share * dx, y - ay - share * dy));
  }
  return least;
}

// The point at a share of the whole length.
function alongPoints(points, share) {
  const lengths = points.slice(1).map(([x, y], at) => Math.hypot(x - points[at][0], y - points[at][1]));
  let left = share * lengths.reduce((sum, length) => sum + length, 0);
  for (let at = 0; at < lengths.length; at++) {
    if (left <= lengths[at]) {
      const part = lengths[at] ? left / lengths[at] : 0;
      return [0, 1].map((axis) => points[at][axis] + (points[at + 1][axis] - points[at][axis]) * part);
    }
    left -= lengths[at];
  }
  return points[points.length - 1];
}

function boundsOf(way) {
  if (way.bounds) return way.bounds;
  const points = pointsOf(way);
  const [xs, ys] = [points.map(([x]) => x), points.map(([, y]) => y)];
  return (way.bounds = { left: Math.min(...xs), right: Math.max(...xs), top: Math.min(...ys), bottom: Math.max(...ys) });
}
