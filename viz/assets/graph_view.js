// The graph on its canvas: boxes, edges, what is selected, the critical path; pan, zoom, open and close.
// Needs format.js, model.js, boxes.js, edges.js, routes.js, canvas.js, graph_drawing.js.

const FITTED = { least: READABLE / SMALLEST, most: 1.2, border: 4 };
const DEALT = [0.9, 0.75, 0.6, 0.45, 0.3]; // shares of the pane's height that a column may take, tried in turn
const CLOSE = [0.72, 0.64, 0.56, 0.5, 0.44]; // scales at which boxes have their names alone, in letters that can be read
const MOST_OPENED = 60; // boxes up to which scopes open by themselves
const DOMINATING = 0.25; // the share of the step's ops or time from which a scope may
const NEAR = 6; // pixels from an edge at which the pointer is on it
const TOGETHER = 1.5; // pixels: edges no further apart share a way there, and are asked together

// One closure, as long as it is: what is open, where the reader looks and what was drawn last are nobody else's.
function graphView(canvas, model, state, tip) {
  const context = canvas.getContext("2d");
  const open = new Set([0]);
  const view = { x: 0, y: 0, scale: 1 };
  let density = { scale: 1 }; // for which lines and columns are broken: see paneRoom
  let fitted = true; // until the reader moves or zooms
  let begun = false;
  let size = [0, 0]; // of the pane for which the picture was made
  let picture = null;
  let theme = null;
  let hovered = null; // a box, or ways that lie on each other
  let emphasis = null; // {marked, chosen}: ways, {found}: boxes, found when first needed

  // The pane in the units of boxes, and how high a column may be.
  function paneRoom({ scale, tallest = 0 }) {
    const [width, height] = [canvas.clientWidth, canvas.clientHeight].map((length) => Math.max(120, length - 2 * FITTED.border) / scale);
    return { width, height, tallest: tallest || Math.max(height, BOX.tall), scale: Math.min(1, scale) };
  }
  const fits = (one, how) => one.root.width <= paneRoom(how).width + 1 && one.root.height <= paneRoom(how).height + 1;
  const pictured = (how) => ({ how, picture: layoutBoxes(model, open, state.showIdle, paneRoom(how)) });

  // The picture whose boxes are largest of those that fit the pane whole. If none does, high columns become several, then
  // boxes stand closer, with names alone. If that does not help either, they stay as they are.
  function bestPicture(deals = true, closer = true) {
    let best = null;
    for (const scale of [1, 0.9, FITTED.least]) {
      best = pictured({ scale });
      if (fits(best.picture, best.how)) return best;
    }
    if (best.picture.boxes.length > MOST_OPENED) return best;
    for (const how of [...(deals ? dealt(FITTED.least) : []), ...(closer ? CLOSE.flatMap((scale) => [{ scale }, ...dealt(scale)]) : [])]) {
      const tried = pictured(how);
      if (fits(tried.picture, how)) return tried;
    }
    return best;
  }
  const dealt = (scale) => DEALT.map((share) => ({ scale, tallest: share * paneRoom({ scale }).height }));

  function use(next) {
    picture = next;
    emphasis = null;
    hovered = null;
  }

  function relayout(anchor) {
    const before = picture?.boxOf.get(anchor);
    use(layoutBoxes(model, open, state.showIdle, paneRoom(density)));
    const after = picture.boxOf.get(anchor);
    if (before && after) {
      view.x += (before.x - after.x) * view.scale;
      view.y += (before.y - after.y) * view.scale;
    }
    draw();
  }

  // The whole picture if it can be read, else its beginning. The first time that there is a pane, what dominates opens.
  // closer: boxes may stand closer for it.
  function fit(closer = true) {
    size = [canvas.clientWidth, canvas.clientHeight];
    const best = begun || !size[0] ? bestPicture(true, closer) : openDominating(closer);
    density = best.how;
    use(best.picture);
    const { width, height } = picture.root;
    const room = paneRoom({ scale: 1 });
    view.scale = Math.min(Math.max(Math.min(room.width / width, room.height / height), Math.min(FITTED.least, density.scale)), FITTED.most);
    view.x = FITTED.border + Math.max(0, room.width - width * view.scale) / 2;
    view.y = FITTED.border + Math.max(0, room.height - height * view.scale) / 2;
    fitted = true;
    draw();
  }

  // What is fitted stays so; else the middle of the pane stays where it is.
  function resize() {
    const now = [canvas.clientWidth, canvas.clientHeight];
    const [dx, dy] = [now[0] - size[0], now[1] - size[1]];
    size = now;
    if (!dx && !dy) return draw();
    if (fitted) return fit();
    if (dx) relayout(boxInMiddle());
    move(dx / 2, dy / 2);
  }
  const boxInMiddle = () => hit(canvas.clientWidth / 2, canvas.clientHeight / 2)?.item ?? 0;

  function zoom(factor, x = canvas.clientWidth / 2, y = canvas.clientHeight / 2) {
    const scale = Math.min(4, Math.max(0.01, view.scale * factor));
    view.x = x - ((x - view.x) / view.scale) * scale;
    view.y = y - ((y - view.y) / view.scale) * scale;
    view.scale = scale;
    fitted = false;
    draw();
  }
  function move(dx, dy) {
    view.x += dx;
    view.y += dy;
    fitted = false;
    draw();
  }

  function toggle(scope) {
    if (open.has(scope)) open.delete(scope);
    else open.add(scope);
    relayout(scope);
    const box = picture.boxOf.get(scope);
    if (fitted && fits(picture, { scale: view.scale })) fit();
    else if (box?.open) bringIn(box);
  }
  function closeAll() {
    open.clear();
    open.add(0);
    fit();
  }

  // Move as little as it takes for a box to be in sight, or for its beginning if it is larger than the pane.
  function bringIn(box) {
    const seen = screenOf(box);
    const by = (at, length, pane) => (at < 8 || length > pane - 16 ? 8 - at : Math.min(0, pane - 8 - (at + length)));
    const [dx, dy] = [by(seen.x, seen.width, canvas.clientWidth), by(seen.y, seen.height, canvas.clientHeight)];
    if (dx || dy) move(dx, dy);
  }

  // Open what lies around an item and bring it into the middle.
  function reveal(item) {
    const host = hostItem(item);
    for (const scope of pathTo(model, host).slice(0, -1)) open.add(scope);
    if (!isScope(model, item) && !model.nodes.runs[item - model.scopes] && !state.showIdle) state.set({ showIdle: true });
    relayout(host);
    const box = picture.boxOf.get(host);
    if (!box) return;
    if (view.scale < 0.7) view.scale = 1;
    view.x = canvas.clientWidth / 2 - (box.x + box.width / 2) * view.scale;
    view.y = canvas.clientHeight / 2 - (box.y + Math.min(box.height, canvas.clientHeight) / 2) * view.scale;
    fitted = false;
    draw();
  }
  const hostItem = (item) => (isScope(model, item) || model.hostOf[item - model.scopes] < 0 ? item : itemOfNode(model, model.hostOf[item - model.scopes]));
  // The same, but only if the item is out of sight: a click must not move what it hit.
  function show(item) {
    const box = picture.boxOf.get(item);
    const seen = box && screenOf(box);
    if (!seen || seen.x < 0 || seen.y < 0 || seen.x + seen.width > canvas.clientWidth || seen.y + seen.height > canvas.clientHeight || view.scale < 0.45) reveal(item);
    else draw();
  }

  const screenOf = (box) => ({ x: box.x * view.scale + view.x, y: box.y * view.scale + view.y, width: box.width * view.scale, height: box.height * view.scale });
  const worldOf = (x, y) => [(x - view.x) / view.scale, (y - view.y) / view.scale];

  // The innermost box at a point; an open scope counts only at its title.
  function hit(x, y) {
    const [px, py] = worldOf(x, y);
    for (let index = picture.boxes.length - 1; index > 0; index--) {
      const box = picture.boxes[index];
      if (px < box.x || py < box.y || px > box.x + box.width || py > box.y + box.height) continue;
      if (box.open && py > box.y + BOX.title) continue;
      return box;
    }
    return null;
  }
  // The drawn way nearest to a point, if it is near, and all of its scope that lie on it there; else null.
  function hitWays(x, y) {
    const [px, py] = worldOf(x, y);
    const pen = penNow();
    const reach = NEAR / view.scale;
    const near = [];
    for (const way of picture.ways) {
      const { left, right, top, bottom } = boundsOf(way);
      if (px < left - reach || px > right + reach || py < top - reach || py > bottom + reach || !isDrawn(pen, way)) continue;
      const distance = distanceTo(way, px, py);
      if (distance < reach) near.push({ way, distance });
    }
    if (!near.length) return null;
    const nearest = near.reduce((least, one) => (one.distance < least.distance ? one : least));
    return near.filter(({ way, distance }) => way.scope === nearest.way.scope && distance <= nearest.distance + TOGETHER / view.scale).map(({ way }) => way);
  }

  function selectedBox() {
    const { selection } = state;
    if (!selection || selection.kind === "edges") return null;
    const item = selection.kind === "scope" ? selection.id : itemOfNode(model, selection.kind === "node" ? selection.id : model.transferNode[selection.id]);
    return picture.boxOf.get(item) ?? null;
  }

  // The ways of what is selected, and of what is under the pointer.
  function emphasised() {
    const chosen = new Set();
    const marked = new Set();
    const edges = new Set(state.selection?.kind === "edges" ? state.selection.id : []);
    const box = selectedBox();
    for (const bundle of picture.bundles) {
      if (!bundle.edges.length) continue;
      const touched = (one) => one && bundle.ways.some((way) => way.from === one || way.to === one) && (bundle.usual || bundle.from === one || bundle.to === one);
      if (touched(box) || (edges.size && bundle.edges.some((edge) => edges.has(edge)))) for (const way of bundle.ways) chosen.add(way).has(marked.add(way));
      if (hovered && (touched(hovered) || (Array.isArray(hovered) && bundle.ways.some((way) => hovered.includes(way))))) for (const way of bundle.ways) marked.add(way);
    }
    return { chosen, marked, found: foundBoxes() };
  }
  // The boxes that are or hold what the search found.
  function foundBoxes() {
    const boxes = new Set();
    for (const item of state.hits) {
      const box = isScope(model, item) ? picture.boxOf.get(item) : picture.shown[item - model.scopes];
      if (box) boxes.add(box);
    }
    return boxes;
  }

  function penNow() {
    emphasis ??= emphasised();
    const visible = {
      left: -view.x / view.scale, top: -view.y / view.scale,
      right: (canvas.clientWidth - view.x) / view.scale, bottom: (canvas.clientHeight - view.y) / view.scale,
    };
    return { context, model, state, theme, scale: view.scale, smallest: READABLE, visible, selected: selectedBox(), hovered, ...emphasis };
  }

  let waiting = false;
  function draw() {
    if (waiting || isPrinted()) return;
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
    const pen = penNow();
    const seen = picture.boxes.filter((box) => box.item > 0 && touches(box, pen.visible));
    for (const box of seen) if (box.open) drawOpenScope(pen, box);
    drawWays(pen, picture.ways);
    for (const box of seen) if (box.open) drawScopeTitle(pen, box);
    for (const box of seen) if (!box.open) drawClosedBox(pen, box);
    drawWayLabels(pen, picture.ways, seen);
  }

  function hover(found) {
    const same = Array.isArray(found) && Array.isArray(hovered) && found.length === hovered.length && found.every((way, at) => way === hovered[at]);
    if (found === hovered || same) return;
    hovered = found;
    emphasis = null;
    draw();
  }

  watchPointer(canvas, {
    drag: move,
    wheel: (x, y, turn) => zoom(Math.exp(-turn * 0.0016), x, y),
    hover: (x, y, event) => {
      const box = hit(x, y);
      const ways = box ? null : hitWays(x, y);
      canvas.style.cursor = box || ways ? "pointer" : "grab";
      if (box) tip.show(event, ...describeItem(model, box.item));
      else if (ways) tip.show(event, ...describeWays(model, ways));
      else tip.hide();
      hover(box ?? ways);
    },
    leave: () => {
      tip.hide();
      hover(null);
    },
    click: (x, y) => {
      const box = hit(x, y);
      const ways = box ? null : hitWays(x, y);
      if (ways) return state.select({ kind: "edges", id: edgesOf(ways), ends: endsOf(ways) }, "graph");
      if (!box) return state.select(null);
      if (isScope(model, box.item)) {
        toggle(box.item);
        state.select({ kind: "scope", id: box.item }, "graph");
      } else {
        state.select({ kind: "node", id: box.item - model.scopes }, "graph");
      }
    },
  });

  // Open what dominates the step, the largest first, as long as the whole picture can still be read; returns it.
  function openDominating(closer) {
    begun = true;
    const whole = totalsOf(model, 0);
    const shareOf = (item) => Math.max(totalsOf(model, item).nanos / (whole.nanos || 1), totalsOf(model, item).running / (whole.running || 1));
    const tried = new Set();
    let now = bestPicture(true, closer);
    for (let attempts = 0; attempts < 12; attempts++) {
      const closed = now.picture.boxes.filter((box) => !box.open && isScope(model, box.item) && !tried.has(box.item) && shareOf(box.item) >= DOMINATING);
      if (!closed.length) break;
      const { item } = closed.reduce((most, box) => (shareOf(box.item) > shareOf(most.item) ? box : most));
      tried.add(item);
      if (childrenOf(model, item, false).flow.length + now.picture.boxes.length > MOST_OPENED) continue;
      open.add(item);
      const next = bestPicture(now.how.tallest !== undefined, false);
      if (fits(next.picture, next.how)) now = next;
      else open.delete(item);
    }
    return now;
  }

  // Select the next box: along the edges that carry most, or in reading order. Without a selection the first one.
  function walk(way) {
    const boxes = picture.boxes.filter((box) => box.item > 0);
    const now = selectedBox();
    const at = boxes.indexOf(now);
    const carries = (bundle) => bundle.edges.reduce((sum, edge) => sum + 1 + Math.max(0, model.tensors.bytes[model.edges.tensor[edge]] ?? 0), 0);
    const along = (here, there) => picture.bundles.filter((bundle) => bundle.edges.length && bundle[here] === now).reduce((most, bundle) => (most && carries(most) >= carries(bundle) ? most : bundle), null)?.[there];
    const next = !now ? boxes[0] : way === "out" ? along("from", "to") : way === "in" ? along("to", "from") : boxes[at + (way === "after" ? 1 : -1)];
    if (next) state.select(isScope(model, next.item) ? { kind: "scope", id: next.item } : { kind: "node", id: next.item - model.scopes }, "keyboard");
  }

  use(layoutBoxes(model, open, state.showIdle, paneRoom(density)));
  return {
    walk,
    draw, fit, zoom, move, reveal, show, toggle, closeAll, relayout, resize,
    changed: () => {
      emphasis = null;
      draw();
    },
    isOpen: (item) => open.has(item),
    isWhole: () => fits(picture, { scale: view.scale }),
    isRoomy: () => fits(picture, { scale: view.scale }) && view.scale >= FITTED.least,
    boxOnScreen: (item) => (picture.boxOf.has(item) ? screenOf(picture.boxOf.get(item)) : null),
    boxInWorld: (item) => picture.boxOf.get(item) ?? null,
    picture: () => picture,
    onScreen: ([x, y]) => [x * view.scale + view.x, y * view.scale + view.y],
    retheme: () => {
      theme = null;
      draw();
    },
    onPaper: () => {
      theme = null;
      if (canvas.clientWidth) paint();
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
  const elsewhere = model.elsewhere?.get(node);
  return [model.nodes.names[node], `${opOf(model, node)} on ${device}`, elsewhere ? `on ${elsewhere.short} in ${model.compared.names[1 - model.compared.at]}` : null, how].filter(Boolean);
}

// The edges that take some ways, and the words for their ends: of the ways' own, or of all that pass a border.
const edgesOf = (ways) => [...new Set(ways.flatMap((way) => way.bundles.filter((bundle) => bundle.usual || !way.usual).flatMap((bundle) => bundle.edges)))];
function endsOf(ways) {
  const named = (end) => {
    const labels = [...new Set(ways.flatMap((way) => (way[end] ? [way[end]] : way.bundles.map((bundle) => bundle[end]))).map((box) => box.label))];
    return labels.length > 1 ? `${labels[0]} and ${labels.length - 1} more` : labels[0];
  };
  return [named("from"), named("to")];
}

function describeWays(model, ways) {
  const carried = carriedOn(model, edgesOf(ways));
  const said = [`${plural(carried.tensors.length, "tensor")}, ${showBytes(carried.bytes)}`];
  if (carried.controls) said.push(plural(carried.controls, "control edge"));
  const crossing = ways.filter((way) => way.transfers.length);
  if (crossing.length) said.push(`crosses devices: ${crossing.length > 1 ? carriedBy(model, ...summedUp(model, crossing.flatMap((way) => way.transfers))) : crossing[0].said}`);
  else if (ways.every((way) => way.elsewhere)) said.push(`crosses devices in ${model.compared.names[1 - model.compared.at]} alone`);
  return [endsOf(ways).join(" → "), carried.tensors.length ? said[0] : null, ...said.slice(1)].filter(Boolean);
}
