// What is wrong with the picture when these scopes are open, in a pane of a width: sentences.
const [open, width, idle] = arguments;
const { graph, state, model } = window.simviz;
if (state.showIdle !== idle) state.set({ showIdle: idle });
for (let scope = 1; scope < model.scopes; scope++) if (graph.isOpen(scope) !== open.includes(scope)) graph.toggle(scope);
const canvas = document.getElementById("graph");
canvas.style.maxWidth = width + "px";
graph.resize();
const { boxes, ways } = graph.picture();
const faults = [];
const apart = (a, b) => a.x + a.width <= b.x || b.x + b.width <= a.x || a.y + a.height <= b.y || b.y + b.height <= a.y;
for (const box of boxes) {
  box.content.forEach((a, at) => {
    if (a.x < box.x || a.y < box.y || a.x + a.width > box.x + box.width || a.y + a.height > box.y + box.height) faults.push(`${a.label} leaves ${box.label}`);
    for (const b of box.content.slice(at + 1)) if (!apart(a, b)) faults.push(`${a.label} lies on ${b.label}`);
  });
}
const closed = boxes.filter((box) => !box.open);
const cubic = (p, t) => [0, 1].map((axis) => (1 - t) ** 3 * p[axis] + 3 * (1 - t) ** 2 * t * p[2 + axis] + 3 * (1 - t) * t * t * p[4 + axis] + t ** 3 * p[6 + axis]);
for (const way of ways) {
  let at = null;
  const points = [];
  for (const [kind, ...values] of way.path) {
    const control = kind === "C" ? values : [...(at ?? values), ...values.slice(-2), ...values.slice(-2)];
    for (let step = at ? 1 : 20; step <= 20; step++) points.push(cubic([...(at ?? values), ...control], step / 20));
    at = values.slice(-2);
  }
  for (const box of closed) {
    if (box === way.from || box === way.to) continue;
    if (points.some(([x, y]) => x > box.x + 1 && y > box.y + 1 && x < box.x + box.width - 1 && y < box.y + box.height - 1)) {
      faults.push(`${way.from?.label} to ${way.to?.label} runs through ${box.label}`);
    }
  }
}
return faults;
