// Records what one repaint of the graph strokes and writes, in CSS pixels of the canvas, then scores it: see page.py.
const done = arguments[0];
const { graph, model } = window.simviz;
const canvas = document.getElementById("graph");
const made = CanvasRenderingContext2D.prototype;
const kept = {};
const edges = [], labels = [];
let path = [], pure = true;
const ratio = window.devicePixelRatio || 1;
const at = (context, x, y) => {
  const m = context.getTransform();
  return [(m.a * x + m.c * y + m.e) / ratio, (m.b * x + m.d * y + m.f) / ratio];
};
const wrap = (name, before) => {
  kept[name] = made[name];
  made[name] = function (...given) {
    if (this.canvas === canvas) before(this, ...given);
    return kept[name].apply(this, given);
  };
};
let pen = [0, 0];
wrap("beginPath", () => { path = []; pure = true; });
for (const name of ["roundRect", "rect", "arc"]) wrap(name, () => (pure = false));
wrap("moveTo", (context, x, y) => { path.push([at(context, x, y)]); pen = [x, y]; });
wrap("lineTo", (context, x, y) => {
  for (let t = 1; t <= 16; t++) path.at(-1).push(at(context, pen[0] + ((x - pen[0]) * t) / 16, pen[1] + ((y - pen[1]) * t) / 16));
  pen = [x, y];
});
wrap("bezierCurveTo", (context, a, b, c, d, x, y) => {
  const [x0, y0] = pen;
  for (let t = 1; t <= 24; t++) {
    const u = t / 24, v = 1 - u;
    const w = [v * v * v, 3 * v * v * u, 3 * v * u * u, u * u * u];
    path.at(-1).push(at(context, w[0] * x0 + w[1] * a + w[2] * c + w[3] * x, w[0] * y0 + w[1] * b + w[2] * d + w[3] * y));
  }
  pen = [x, y];
});
wrap("stroke", () => { if (pure) edges.push(...path.filter((points) => points.length > 1)); });
wrap("fillText", (context, said, x, y) => {
  const m = context.getTransform();
  const size = (parseFloat(/([0-9.]+)px/.exec(context.font)[1]) * m.a) / ratio;
  const ink = context.measureText(said);
  const [left, top] = at(context, x - ink.actualBoundingBoxLeft, y - ink.actualBoundingBoxAscent);
  const [right, bottom] = at(context, x + ink.actualBoundingBoxRight, y + ink.actualBoundingBoxDescent);
  if (said.trim()) labels.push({ said, size, left, top, right, bottom });
});
graph.draw();
requestAnimationFrame(() => requestAnimationFrame(() => {
  Object.assign(made, kept);
  const width = canvas.clientWidth, height = canvas.clientHeight;
  const closed = new Map(), all = [];
  for (let item = 1; item < model.items; item++) {
    const box = graph.boxOnScreen(item);
    if (!box) continue;
    all.push(box);
    if (item >= model.scopes || !graph.isOpen(item)) closed.set([box.x, box.y].join(), box);
  }
  const boxes = [...closed.values()];
  const inside = (box, [x, y], by) => x > box.x + by && y > box.y + by && x < box.x + box.width - by && y < box.y + box.height - by;
  const bendsOf = (points) => {
    let turned = 0, before = null;
    for (let i = 1; i < points.length; i++) {
      const [dx, dy] = [points[i][0] - points[i - 1][0], points[i][1] - points[i - 1][1]];
      if (Math.hypot(dx, dy) < 0.05) continue;
      const angle = Math.atan2(dy, dx);
      if (before !== null) turned += Math.abs(Math.atan2(Math.sin(angle - before), Math.cos(angle - before)));
      before = angle;
    }
    return turned / (Math.PI / 2);
  };
  const foreign = edges.filter((points) => {
    const ends = boxes.filter((box) => inside(box, points[0], -3) || inside(box, points.at(-1), -3));
    return boxes.some((box) => !ends.includes(box) && points.some((point) => inside(box, point, 1.5)));
  });
  let overlaps = 0;
  const lying = [];
  labels.forEach((a, i) => labels.slice(i + 1).forEach((b) => {
    if (Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1 && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 1) {
      overlaps++;
      lying.push([a.said, b.said]);
    }
  }));
  const seen = labels.filter((one) => one.right > 0 && one.bottom > 0 && one.left < width && one.top < height);
  const left = Math.max(0, Math.min(...all.map((box) => box.x))), top = Math.max(0, Math.min(...all.map((box) => box.y)));
  const right = Math.min(width, Math.max(...all.map((box) => box.x + box.width))), bottom = Math.min(height, Math.max(...all.map((box) => box.y + box.height)));
  const covered = boxes.reduce((sum, box) => sum + Math.max(0, Math.min(width, box.x + box.width) - Math.max(0, box.x)) * Math.max(0, Math.min(height, box.y + box.height) - Math.max(0, box.y)), 0);
  const whole = all.every((box) => box.x > -1 && box.y > -1 && box.x + box.width < width + 1 && box.y + box.height < height + 1);
  done({
    whole, boxes: boxes.length, edges: edges.length, foreign: foreign.length, overlaps, lying: lying.slice(0, 5),
    font: seen.length ? Math.min(...seen.map((one) => one.size)) : null,
    spanned: ((right - left) * (bottom - top)) / (width * height), covered: covered / (width * height),
    bends: edges.length ? edges.reduce((sum, points) => sum + bendsOf(points), 0) / edges.length : 0,
    cut: seen.filter((one) => one.said.includes("…")).length,
  });
}));
