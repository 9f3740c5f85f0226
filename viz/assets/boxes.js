// The place of every visible box, given the open scopes. Columns and rows come from viz/page/boxes.py. Here boxes get
// sizes, open scopes push their neighbours aside, and edges are bundled between visible boxes.
// Needs format.js, model.js.

const BOX = {
  op: 26, scope: 46, rowUnit: 44, gapX: 36, gapY: 12, pad: 16, title: 28, shelfGap: 22,
  narrow: 92, wide: 190, letter: 6.7, rowSteps: 20,
};

function layoutBoxes(model, open, showIdle) {
  const boxes = [];
  const root = measured(model, open, showIdle, 0);
  place(root, 0, 0, 0, boxes);
  const boxOf = new Map(boxes.map((box) => [box.item, box]));
  return { boxes, boxOf, root, width: root.width, height: root.height, edges: visibleEdges(model, boxOf) };
}

// A box with the sizes of everything in it; x and y of its content are relative to it.
function measured(model, open, showIdle, item) {
  if (!open.has(item)) return closedBox(model, item);
  const flow = [];
  const shelf = [];
  for (const child of rowsIn(model.children, item)) {
    if (model.tree.column[child] >= 0) flow.push(measured(model, open, showIdle, child));
    else if (showIdle || onShelf(model, child)) shelf.push(measured(model, open, showIdle, child));
  }
  const inside = inColumns(model, flow);
  if (shelf.length) onto(inside, shelf);
  const top = item === 0 ? 0 : BOX.title;
  const pad = item === 0 ? 0 : BOX.pad;
  for (const child of inside.boxes) {
    child.x += pad;
    child.y += pad + top;
  }
  const width = Math.max(inside.width + 2 * pad, closedWidth(model, item) + 30);
  return { item, open: true, x: 0, y: 0, width, height: inside.height + 2 * pad + top, content: inside.boxes, shelfTop: inside.shelfTop + pad + top };
}

// Hubs that run are always shown; what does not run only when it is asked for.
const onShelf = (model, item) => (isScope(model, item) ? totalsOf(model, item).running > 0 : model.nodes.runs[item - model.scopes] === 1);

function closedWidth(model, item) {
  const text = labelOf(model, item).length * BOX.letter + 28;
  return Math.min(BOX.wide, Math.max(isScope(model, item) ? 132 : BOX.narrow, Math.ceil(text)));
}
function closedBox(model, item) {
  return { item, open: false, x: 0, y: 0, width: closedWidth(model, item), height: isScope(model, item) ? BOX.scope : BOX.op, content: [] };
}

function inColumns(model, boxes) {
  const columns = new Map();
  for (const box of boxes) {
    const column = model.tree.column[box.item];
    if (!columns.has(column)) columns.set(column, []);
    columns.get(column).push(box);
  }
  let x = 0;
  let top = Infinity;
  let bottom = -Infinity;
  for (const column of [...columns.keys()].sort((a, b) => a - b)) {
    const members = columns.get(column).sort((a, b) => model.tree.row[a.item] - model.tree.row[b.item] || a.item - b.item);
    const width = Math.max(...members.map((box) => box.width));
    const wishes = members.map((box) => (model.tree.row[box.item] / BOX.rowSteps) * BOX.rowUnit);
    spread(wishes, members.map((box) => box.height + BOX.gapY)).forEach((middle, index) => {
      const box = members[index];
      box.x = x + (width - box.width) / 2;
      box.y = middle - box.height / 2;
      top = Math.min(top, box.y);
      bottom = Math.max(bottom, box.y + box.height);
    });
    x += width + BOX.gapX;
  }
  for (const box of boxes) box.y -= top;
  return { boxes, width: Math.max(0, x - BOX.gapX), height: boxes.length ? bottom - top : 0, shelfTop: 0 };
}

// Put boxes that take no part in the flow into lines below it.
function onto(inside, shelf) {
  const limit = Math.max(inside.width, 640);
  let x = 0;
  let y = inside.height + (inside.boxes.length ? BOX.shelfGap : 0);
  inside.shelfTop = y;
  let line = 0;
  for (const box of shelf) {
    if (x > 0 && x + box.width > limit) {
      x = 0;
      y += line + BOX.gapY;
      line = 0;
    }
    box.x = x;
    box.y = y;
    x += box.width + 16;
    line = Math.max(line, box.height);
    inside.width = Math.max(inside.width, x - 16);
    inside.boxes.push(box);
  }
  inside.height = y + line;
}

// Places in the given order, at least half the sum of two sizes apart, nearest to the wishes: pool adjacent violators.
function spread(wishes, sizes) {
  const offsets = [];
  let reached = 0;
  for (const size of sizes) {
    offsets.push(reached + size / 2);
    reached += size;
  }
  const pools = [];
  wishes.forEach((wish, index) => {
    let pool = [wish - offsets[index], 1];
    while (pools.length && pools[pools.length - 1][0] * pool[1] >= pool[0] * pools[pools.length - 1][1]) {
      const before = pools.pop();
      pool = [pool[0] + before[0], pool[1] + before[1]];
    }
    pools.push(pool);
  });
  return pools.flatMap(([total, members]) => Array(members).fill(total / members)).map((at, index) => at + offsets[index]);
}

// Absolute places, outer boxes before inner ones.
function place(box, x, y, depth, boxes) {
  box.x += x;
  box.y += y;
  box.depth = depth;
  boxes.push(box);
  for (const child of box.content) place(child, box.x, box.y, depth + 1, boxes);
}

// Edges between visible boxes: each with how many edges of the graph it stands for, and what it carries across devices.
function visibleEdges(model, boxOf) {
  const shown = shownItems(model, boxOf);
  const { src, dst, tensor, transfer } = model.edges;
  const found = new Map();
  for (let edge = 0; edge < src.length; edge++) {
    const from = shown[src[edge]];
    const to = shown[dst[edge]];
    if (from === to || from < 0 || to < 0) continue;
    const key = from * model.items + to;
    let bundle = found.get(key);
    if (!bundle) found.set(key, (bundle = { from, to, count: 0, transfers: null, data: false, back: true, hub: true, idle: true }));
    bundle.count++;
    if (tensor[edge] >= 0) bundle.data = true;
    if (!model.isBack[edge]) bundle.back = false;
    if (!model.isHub[src[edge]] && !model.isHub[dst[edge]]) bundle.hub = false;
    if (model.nodes.runs[src[edge]] && model.nodes.runs[dst[edge]]) bundle.idle = false;
    if (transfer[edge] >= 0) (bundle.transfers ??= new Set()).add(transfer[edge]);
  }
  const critical = criticalKeys(model, shown);
  for (const key of critical) {
    // No edge: the later one waited for the device or the link that the earlier one held. Shown with the path alone.
    const [from, to] = [Math.floor(key / model.items), key % model.items];
    if (!found.has(key)) found.set(key, { from, to, count: 0, transfers: null, data: false, back: false, hub: false, idle: true });
  }
  const bundles = [...found.values()];
  for (const bundle of bundles) {
    bundle.critical = critical.has(bundle.from * model.items + bundle.to);
    bundle.bytes = 0;
    for (const row of bundle.transfers ?? []) for (const each of repeats(model, row)) bundle.bytes += Math.max(0, model.transfers.bytes[each]);
    if (bundle.transfers) bundle.said = carriedBy(model, [...bundle.transfers], bundle.bytes);
  }
  return bundles;
}

// For each node the innermost visible item that is the node or holds it; -1 if none is drawn.
function shownItems(model, boxOf) {
  const shown = new Int32Array(model.items).fill(-1);
  for (const box of boxOf.values()) {
    if (box.open) continue;
    const pending = [box.item];
    while (pending.length) {
      const item = pending.pop();
      shown[item] = box.item;
      if (isScope(model, item)) pending.push(...rowsIn(model.children, item));
    }
  }
  return shown.subarray(model.scopes);
}

// The transfer of every iteration, where an edge names that of the first.
const repeats = (model, transfer) => rowsIn(model.transfersOf, model.transfers.pair[transfer]);

// "1.2 MiB · 3": how much, in how many transfers; what is of unknown size is more than that, and control is no value.
function carriedBy(model, transfers, bytes) {
  const { tensor, bytes: sizes } = model.transfers;
  const size = transfers.every((row) => tensor[row] < 0) ? "control" : showBytes(bytes);
  const more = transfers.some((row) => sizes[row] < 0) ? "≥ " : "";
  const count = transfers.reduce((sum, row) => sum + repeats(model, row).length, 0);
  return more + size + (count > 1 ? ` · ${showCount(count)}` : "");
}

// Keys of the visible pairs of boxes that follow each other on the critical path, transfers left out.
function criticalKeys(model, shown) {
  const keys = new Set();
  let before = -1;
  for (const row of model.critical ?? []) {
    if (row < 0) continue;
    const at = shown[model.slices.node[row]];
    if (before >= 0 && at >= 0 && before !== at) keys.add(before * model.items + at);
    before = at;
  }
  return keys;
}
