// The graph on its canvas: boxes, edges, what is selected, the critical path; pan, zoom, open and close.
// Needs format.js, model.js, boxes.js, canvas.js, graph_drawing.js.

// One closure, as long as it is: what is open, where the reader looks and what was drawn last are nobody else's.
function graphView(canvas, model, state, tip) {
  const context = canvas.getContext("2d");
  const open = new Set([0]);
  const view = { x: 0, y: 0, scale: 1 };
  let picture = null;
  let theme = null;
  let hovered = -1;

  function relayout(anchor) {
    const before = picture?.boxOf.get(anchor);
    picture = layoutBoxes(model, open, state.showIdle);
    const after = picture.boxOf.get(anchor);
    if (before && after) {
      view.x += (before.x - after.x) * view.scale;
      view.y += (before.y - after.y) * view.scale;
    }
    draw();
  }

  function fit(item = 0) {
    const box = picture.boxOf.get(item) ?? picture.root;
    const scale = Math.min((canvas.clientWidth - 40) / box.width, (canvas.clientHeight - 40) / box.height, 1.1);
    view.scale = Math.max(scale, 0.02);
    view.x = canvas.clientWidth / 2 - (box.x + box.width / 2) * view.scale;
    view.y = canvas.clientHeight / 2 - (box.y + box.height / 2) * view.scale;
    draw();
  }

  function zoom(factor, x = canvas.clientWidth / 2, y = canvas.clientHeight / 2) {
    const scale = Math.min(4, Math.max(0.01, view.scale * factor));
    view.x = x - ((x - view.x) / view.scale) * scale;
    view.y = y - ((y - view.y) / view.scale) * scale;
    view.scale = scale;
    draw();
  }
  function move(dx, dy) {
    view.x += dx;
    view.y += dy;
    draw();
  }

  function toggle(scope) {
    if (open.has(scope)) open.delete(scope);
    else open.add(scope);
    relayout(scope);
  }
  function closeAll() {
    open.clear();
    open.add(0);
    relayout(0);
    fit();
  }

  // Open what lies around an item and bring it into the middle.
  function reveal(item) {
    for (const scope of pathTo(model, item).slice(0, -1)) open.add(scope);
    if (!isScope(model, item) && !model.nodes.runs[item - model.scopes]) state.set({ showIdle: true });
    relayout(item);
    const box = picture.boxOf.get(item);
    if (!box) return;
    if (view.scale < 0.7) view.scale = 1;
    view.x = canvas.clientWidth / 2 - (box.x + box.width / 2) * view.scale;
    view.y = canvas.clientHeight / 2 - (box.y + Math.min(box.height, canvas.clientHeight) / 2) * view.scale;
    draw();
  }
  // The same, but only if the item is out of sight: a click must not move what it hit.
  function show(item) {
    const box = picture.boxOf.get(item);
    const seen = box && screenOf(box);
    if (!seen || seen.x < 0 || seen.y < 0 || seen.x + seen.width > canvas.clientWidth || seen.y + seen.height > canvas.clientHeight || view.scale < 0.45) reveal(item);
    else draw();
  }

  const screenOf = (box) => ({ x: box.x * view.scale + view.x, y: box.y * view.scale + view.y, width: box.width * view.scale, height: box.height * view.scale });

  // The innermost box at a point; an open scope counts only at its title.
  function hit(x, y) {
    const px = (x - view.x) / view.scale;
    const py = (y - view.y) / view.scale;
    for (let index = picture.boxes.length - 1; index > 0; index--) {
      const box = picture.boxes[index];
      if (px < box.x || py < box.y || px > box.x + box.width || py > box.y + box.height) continue;
      if (box.open && py > box.y + BOX.title) continue;
      return box;
    }
    return null;
  }

  function selectedItem() {
    const { selection } = state;
    if (!selection) return -1;
    if (selection.kind === "scope") return selection.id;
    return itemOfNode(model, selection.kind === "node" ? selection.id : model.transferNode[selection.id]);
  }

  let waiting = false;
  function draw() {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      paint();
    });
  }

  function paint() {
    theme ??= readTheme();
    sized(canvas, context);
    context.clearRect(0, 0, canvas.clientWidth, canvas.clientHeight);
    context.translate(view.x, view.y);
    context.scale(view.scale, view.scale);
    const visible = {
      left: -view.x / view.scale, top: -view.y / view.scale,
      right: (canvas.clientWidth - view.x) / view.scale, bottom: (canvas.clientHeight - view.y) / view.scale,
    };
    const pen = { context, model, state, theme, scale: view.scale, visible, selected: selectedItem(), hovered, boxOf: picture.boxOf };
    const inSight = picture.boxes.filter((box) => box.item > 0 && touches(box, visible));
    for (const box of inSight) if (box.open) drawOpenScope(pen, box);
    drawEdges(pen, picture.edges);
    for (const box of inSight) if (box.open) drawScopeTitle(pen, box);
    for (const box of inSight) if (!box.open) drawClosedBox(pen, box);
    drawEdgeLabels(pen, picture.edges, inSight);
  }

  watchPointer(canvas, {
    drag: move,
    wheel: (x, y, turn) => zoom(Math.exp(-turn * 0.0016), x, y),
    hover: (x, y, event) => {
      const box = hit(x, y);
      canvas.style.cursor = box ? "pointer" : "grab";
      const item = box?.item ?? -1;
      if (item >= 0) tip.show(event, ...describeItem(model, item));
      else tip.hide();
      if (item !== hovered) {
        hovered = item;
        draw();
      }
    },
    leave: () => {
      tip.hide();
      hovered = -1;
      draw();
    },
    click: (x, y) => {
      const box = hit(x, y);
      if (!box) return state.select(null);
      if (isScope(model, box.item)) {
        toggle(box.item);
        state.select({ kind: "scope", id: box.item }, "graph");
      } else {
        state.select({ kind: "node", id: box.item - model.scopes }, "graph");
      }
    },
  });

  // A graph whose only flowing box is one scope opens it: an only box says nothing.
  function openLoneScopes() {
    for (let scope = 0; ; ) {
      const flowing = [...rowsIn(model.children, scope)].filter((child) => model.tree.column[child] >= 0);
      if (flowing.length !== 1 || !isScope(model, flowing[0])) return;
      open.add((scope = flowing[0]));
    }
  }

  openLoneScopes();
  relayout(0);
  fit();
  return {
    draw, fit, zoom, move, reveal, show, toggle, closeAll, relayout,
    isOpen: (item) => open.has(item),
    boxOnScreen: (item) => (picture.boxOf.has(item) ? screenOf(picture.boxOf.get(item)) : null),
    boxInWorld: (item) => picture.boxOf.get(item) ?? null,
    retheme: () => {
      theme = null;
      draw();
    },
  };
}

const touches = (box, area) => box.x < area.right && box.y < area.bottom && box.x + box.width > area.left && box.y + box.height > area.top;

function describeItem(model, item) {
  const total = totalsOf(model, item);
  if (isScope(model, item)) {
    const parts = pathTo(model, item).map((scope) => model.tree.labels[scope]);
    return [parts.join(" / "), `${plural(total.ops, "op")}, ${showCount(total.running)} run in this step`, `${showNanos(total.nanos)} of device time`];
  }
  const node = item - model.scopes;
  const device = model.cluster.devices[model.nodes.device[node]].short;
  const how = model.nodes.fed.includes(node) ? "fed by the client" : model.nodes.runs[node] ? showNanos(total.nanos) : "does not run in this step";
  return [model.nodes.names[node], `${opOf(model, node)} on ${device}`, how];
}
