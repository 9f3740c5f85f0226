// The boxes that are visible with some scopes open, with their sizes and places. A scope's items stand in columns, and columns
// in lines, as words in a text; between the lines run corridors, in which routes.js leads edges.
// Needs format.js, canvas.js, model.js, layers.js, edges.js, routes.js.

const BOX = {
  op: 26, scope: 46, held: 14, gutter: 30, gapY: 10, pad: 16, title: 26, corridor: 12, track: 6,
  gutterWide: 108, narrow: 64, wide: 230, dummy: 14, tall: 460, longest: 8, // columns that an edge may pass between boxes; a longer one takes a corridor
};
const FONTS = { title: "600 12px", op: "11.5px", small: "11px", edge: "600 11px" };
const SMALLEST = 11; // of these, in the units of boxes
const READABLE = 9; // pixels of the smallest letters that Fit leaves
const enlarged = (scale) => Math.max(1, (READABLE / SMALLEST / scale) * (1 - 1e-9)); // how much larger letters are at a scale

// room: the width and height that the picture should have, by which lines break, how high a column may be, and the scale at
// which it is seen: letters are larger in a small one.
function layoutBoxes(model, open, showIdle, room) {
  const boxes = [];
  const root = visibleBox(model, open, showIdle, 0, null, boxes);
  const boxOf = new Map();
  for (const box of boxes) for (const item of [...box.via, box.item]) boxOf.set(item, box);
  const shown = shownBoxes(model, boxOf);
  const bundles = visibleEdges(model, shown, boxes);
  for (const bundle of bundles) bundle.ways = waysOf(bundle);
  const ways = boxes.flatMap((box) => [...box.ways.values()]);
  for (const way of ways) sumUp(model, way);
  if (model.otherTransfer) markAlone(model, ways);
  measure(model, root, room);
  place(root, 0, 0);
  for (const way of ways) way.path = courseOf(way);
  markPorts(bundles);
  return { boxes, boxOf, root, shown, bundles, ways };
}

// The children of a scope that are drawn: those in the flow of the step, and those below it. Hubs that run are always
// below; what does not run is there only when it is asked for, and what is folded into a reader is in no place.
function childrenOf(model, scope, showIdle) {
  const flow = [];
  const shelf = [];
  for (const child of rowsIn(model.children, scope)) {
    const node = child - model.scopes;
    if (model.flows[child]) flow.push(child);
    else if (node >= 0 && model.hostOf[node] >= 0) continue;
    else if (showIdle || (isScope(model, child) ? totalsOf(model, child).hubs > 0 : model.nodes.runs[node])) shelf.push(child);
  }
  const inOrder = (items) => items.sort((a, b) => model.tree.order[a] - model.tree.order[b]);
  return { flow: inOrder(flow), shelf: inOrder(shelf) };
}

// A box without a size. A scope with one child is passed through: the box is that of the child.
function visibleBox(model, open, showIdle, item, parent, boxes) {
  const via = [];
  let held = null;
  while (isScope(model, item)) {
    held = childrenOf(model, item, showIdle);
    if (item === 0 || held.flow.length + held.shelf.length !== 1) break;
    via.push(item);
    [item] = [...held.flow, ...held.shelf];
  }
  const isOpen = isScope(model, item) && open.has(item);
  const box = { item, via, parent, open: isOpen, depth: parent ? parent.depth + 1 : 0, index: boxes.length, x: 0, y: 0, content: [], ways: new Map(), ports: 0 };
  box.label = [...via, item].map((one) => labelOf(model, one)).filter((label, at, all) => label !== all[at - 1]).join("/");
  boxes.push(box);
  if (isOpen) {
    const inner = (child, shelved) => Object.assign(visibleBox(model, open, showIdle, child, box, boxes), { shelved });
    box.content = [...held.flow.map((child) => inner(child, false)), ...held.shelf.map((child) => inner(child, true))];
  }
  return box;
}

// For each node the innermost visible box that is the node or holds it; null if none is drawn.
function shownBoxes(model, boxOf) {
  const { parent } = model.tree;
  const within = Array(model.scopes).fill(null); // the closed box that a scope is or is in; parents come first
  for (let scope = 0; scope < model.scopes; scope++) {
    const box = boxOf.get(scope);
    within[scope] = box ? (box.open ? null : box) : scope > 0 ? within[parent[scope]] : null;
  }
  const shown = Array(model.count);
  for (let node = 0; node < model.count; node++) shown[node] = boxOf.get(model.scopes + node) ?? within[parent[model.scopes + node]];
  for (const node of model.tree.folded) {
    const host = model.hostOf[node];
    shown[node] = shown[host];
    const box = boxOf.get(itemOfNode(model, host));
    if (box) boxOf.set(itemOfNode(model, node), box);
  }
  return shown;
}

// ---- sizes

let measuring = null;
let family = "";
const widths = new Map();
function textWidth(said, font) {
  const key = font + said;
  if (!widths.has(key)) {
    measuring ??= document.createElement("canvas").getContext("2d");
    family ||= readTheme().sans;
    measuring.font = `${font} ${family}`;
    widths.set(key, Math.ceil(measuring.measureText(said.slice(0, 80)).width));
  }
  return widths.get(key);
}

function sizeClosed(model, box, seen) {
  const scope = isScope(model, box.item);
  const larger = enlarged(seen);
  const roomy = larger === 1; // else there is room for the name alone
  const hub = !scope && model.isHub[box.item - model.scopes] ? "9,999 ⤳ " : ""; // its number is counted when it is drawn
  const lines = scope ? [[box.label, FONTS.title], [roomy ? contentOf(model, box.item) : "", FONTS.small]] : [[hub + box.label, FONTS.op], [roomy ? heldBy(model, box) : "", FONTS.small]];
  const text = Math.max(...lines.map(([said, font]) => textWidth(said, font))) * larger;
  box.held = scope ? "" : lines[1][0];
  box.width = Math.min(BOX.wide, Math.max(BOX.narrow, text + 26));
  box.height = scope ? BOX.scope : BOX.op + (box.held ? BOX.held : 0);
  box.arrives = box.leaves = box.height / 2;
}

const contentOf = (model, scope) => {
  const { running, ops, nanos, moved } = totalsOf(model, scope);
  return running ? `${plural(running, "op")} · ${showNanos(nanos)}${moved ? ` · ${showCount(moved)} moved` : ""}` : `${plural(ops, "op")}, not run`;
};

// The variables that a node reads from its own device: "kernel [3, 3, 64, 64]", or the number of several.
function heldBy(model, box) {
  const held = [...new Set([...rowsIn(model.heldBy, box.item - model.scopes)].map((node) => variableOf(model, node)))].filter((node) => node >= 0);
  if (!held.length) return "";
  const [first] = held;
  const name = model.nodes.names[first].split("/").pop();
  return held.length > 1 ? `${name} + ${held.length - 1} more` : [name, shapeOfVariable(model, first)].filter(Boolean).join(" ");
}

// ---- lines of columns

// Give the box a size and everything in it a place relative to it, from the inside out.
function measure(model, box, room) {
  if (!box.open) return sizeClosed(model, box, room.scale);
  const isRoot = box.parent === null;
  const pad = BOX.pad;
  const inner = { ...room, width: room.width - 2 * pad };
  for (const child of box.content) measure(model, child, inner);
  box.lines = linesOf(model, box, inner);
  box.content.forEach((child) => (child.after = child.column));
  const width = Math.max(0, ...box.lines.map((line) => line.width));
  box.inner = { left: pad, right: pad + width };
  box.title = isRoot ? 0 : BOX.title;
  const titled = isRoot ? 0 : textWidth(box.label, FONTS.title) + 110;
  box.width = Math.max(width + 2 * pad, Math.min(titled, BOX.wide + 110));
  planRoutes(box); // tells each corridor how many tracks it needs
  let y = box.title;
  box.lines.forEach((line, at) => {
    y += box.corridors[at].height;
    line.y = y;
    for (const child of line.columns.flat()) {
      child.x = pad + line.left[child.column] + (line.widths[child.column] - child.width) / 2;
      child.y = y + child.top;
    }
    y += line.height;
  });
  box.height = y + box.corridors[box.lines.length].height;
  meetPorts(box);
}

function linesOf(model, box, room) {
  const flow = box.content.filter((child) => !child.shelved);
  const rowOf = new Map(flow.map((child, at) => [child, at]));
  const pairs = [...box.ways.values()].filter((way) => way.usual && !way.back && rowOf.has(way.from) && rowOf.has(way.to)).map((way) => [rowOf.get(way.from), rowOf.get(way.to)]);
  const rank = ranksOf(flow.length, pairs, flow.map((_, at) => at));
  const joined = new Set(pairs.flat());
  const columns = [];
  const linked = flow.filter((_, at) => joined.has(at));
  for (const child of linked) (columns[rank[rowOf.get(child)]] ??= []).push(child);
  const placed = columns.filter(Boolean).flatMap((column) => dealt(column, room.tallest));
  const lines = inLines(placed, guttersBefore(box, placed), room, pairs.map(([a, b]) => [flow[a], flow[b]]));
  const loose = flow.filter((_, at) => !joined.has(at));
  const shelf = box.content.filter((child) => child.shelved);
  // What no edge joins stands beside the hubs below the flow, if there is room in a row; else in a grid of its own.
  const all = [...loose, ...shelf];
  const inRow = linked.length && all.reduce((sum, child) => sum + child.width + BOX.gutter, -BOX.gutter) <= room.width ? all : shelf;
  if (loose.length && inRow === shelf) lines.push(inGrid(loose, room));
  const starts = brokenLines(inRow.map((child) => child.width), BOX.gutter, Math.max(room.width, 480));
  starts.forEach((start, at) => lines.push(stacked(inRow.slice(start, starts[at + 1]).map((child) => [child]))));
  lines.forEach((line, at) => line.columns.forEach((column, number) => column.forEach((child) => Object.assign(child, { line: at, column: number }))));
  return lines;
}

// A column in as many of equal length as it takes for none to be higher than the limit.
function dealt(column, limit) {
  const height = column.reduce((sum, child) => sum + child.height + BOX.gapY, 0);
  const count = Math.min(column.length, Math.ceil(height / limit));
  const size = Math.ceil(column.length / count);
  return count < 2 ? [column] : [...Array(Math.ceil(column.length / size)).keys()].map((at) => column.slice(at * size, (at + 1) * size));
}

// The width of the gutter before each column: wide enough for what is written on the edges that cross it.
function guttersBefore(box, columns) {
  const rank = new Map(columns.flatMap((column, at) => column.map((child) => [child, at])));
  const gutters = columns.map(() => BOX.gutter);
  for (const { from, to, usual, said } of box.ways.values()) {
    if (!said || !usual || rank.get(to) !== rank.get(from) + 1) continue;
    const at = rank.get(to);
    gutters[at] = Math.min(BOX.gutterWide, Math.max(gutters[at], textWidth(said, FONTS.edge) + 24));
  }
  return gutters;
}

const widthOf = (column) => Math.max(...column.map((child) => child.width));

// The lines of a flow: columns broken like words, each line with its edges within it as straight as can be.
function inLines(columns, gutters, room, pairs) {
  const starts = brokenLines(columns.map(widthOf), BOX.gutter, room.width);
  return starts.map((start, at) => {
    const line = columns.slice(start, starts[at + 1]);
    const wide = gutters.slice(start, starts[at + 1]);
    const width = line.reduce((sum, column) => sum + widthOf(column), 0) + wide.slice(1).reduce((sum, gutter) => sum + gutter, 0);
    return settledLine(line, width <= room.width ? wide : wide.map(() => BOX.gutter), pairs); // no line breaks for a label
  });
}

function settledLine(columns, gutters, pairs) {
  const boxes = columns.flat();
  const rowOf = new Map(boxes.map((box, row) => [box, row]));
  const column = new Map(columns.flatMap((members, at) => members.map((box) => [box, at])));
  const left = boxes.map(() => []);
  const right = boxes.map(() => []);
  const rows = columns.map((members) => members.map((box) => rowOf.get(box)));
  const join = (a, b) => {
    right[a].push(b);
    left[b].push(a);
  };
  const passing = new Map(); // "source column" -> the dummy there; edges of one source share them
  for (const [from, to] of pairs) {
    if (!rowOf.has(from) || !rowOf.has(to)) continue;
    const [first, last] = [column.get(from), column.get(to)];
    if (last <= first || last - first > BOX.longest) continue;
    let behind = rowOf.get(from);
    for (let at = first + 1; at < last; at++) {
      const key = `${rowOf.get(from)} ${at}`;
      if (!passing.has(key)) {
        passing.set(key, left.length);
        rows[at].push(left.length);
        left.push([]);
        right.push([]);
        join(behind, left.length - 1);
      }
      behind = passing.get(key);
    }
    join(behind, rowOf.get(to));
  }
  sweep(rows, left, right);
  const sizeOf = (row) => (row < boxes.length ? boxes[row].height + BOX.gapY : BOX.dummy);
  const sizes = left.map((_, row) => sizeOf(row));
  const arrives = left.map((_, row) => (row < boxes.length ? boxes[row].arrives - boxes[row].height / 2 : 0));
  const leaves = left.map((_, row) => (row < boxes.length ? boxes[row].leaves - boxes[row].height / 2 : 0));
  const places = settledPlaces(rows, left, right, sizes, arrives, leaves);
  const top = Math.min(...places.map((middle, row) => middle - (sizes[row] - (row < boxes.length ? BOX.gapY : 0)) / 2));
  boxes.forEach((box, row) => (box.top = places[row] - box.height / 2 - top));
  const bottom = Math.max(...places.map((middle, row) => middle + (sizes[row] - (row < boxes.length ? BOX.gapY : 0)) / 2));
  const passes = new Map([...passing].map(([key, row]) => [`${boxes[+key.split(" ")[0]].index} ${key.split(" ")[1]}`, places[row] - top]));
  return finished(rows.map((members) => members.filter((row) => row < boxes.length).map((row) => boxes[row])), bottom - top, { gutters, passes });
}

// Boxes that no edge joins: rows and columns, to be read line by line.
function inGrid(boxes, room) {
  const width = widthOf(boxes) + BOX.gutter;
  const height = Math.max(...boxes.map((box) => box.height)) + BOX.gapY;
  const most = Math.max(1, Math.floor((room.width + BOX.gutter) / width));
  const wanted = Math.ceil(Math.sqrt((boxes.length * room.width * height) / (room.height * width)));
  const count = Math.min(boxes.length, most, Math.max(wanted, 3));
  return stacked([...Array(count).keys()].map((at) => boxes.filter((_, row) => row % count === at)));
}

function stacked(columns) {
  let height = 0;
  for (const column of columns) {
    let y = 0;
    for (const box of column) {
      box.top = y;
      y += box.height + BOX.gapY;
    }
    height = Math.max(height, y - BOX.gapY);
  }
  return finished(columns, height, {});
}

function finished(columns, height, more) {
  const gutters = more.gutters ?? columns.map(() => BOX.gutter);
  const widths = columns.map(widthOf);
  let x = 0;
  const left = widths.map((width, at) => {
    if (at) x += gutters[at];
    x += width;
    return x - width;
  });
  return { columns, widths, left, width: x, height, y: 0, passes: new Map(), ...more, gutters };
}

// Absolute places.
function place(box, x, y) {
  box.x += x;
  box.y += y;
  for (const child of box.content) place(child, box.x, box.y);
}
