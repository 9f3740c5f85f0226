// The edges between visible boxes. A bundle is all edges from one box to another. It follows ways: from its box to the border
// of each open scope around it, across the scope that holds both ends, and in from border to border. Bundles share ways.
// Needs format.js, model.js.

function visibleEdges(model, shown, boxes) {
  const { src, dst, tensor, transfer } = model.edges;
  const there = model.otherTransfer;
  const found = new Map();
  const bundleOf = (from, to) => {
    const key = from.index * boxes.length + to.index;
    let bundle = found.get(key);
    if (!bundle) found.set(key, (bundle = { from, to, edges: [], transfers: new Set(), data: false, back: true, hub: true, idle: true, critical: false, elsewhere: false }));
    return bundle;
  };
  for (let edge = 0; edge < src.length; edge++) {
    const from = shown[src[edge]];
    const to = shown[dst[edge]];
    if (from === to || !from || !to || model.hostOf[src[edge]] >= 0 || model.hostOf[dst[edge]] >= 0) continue;
    const bundle = bundleOf(from, to);
    bundle.edges.push(edge);
    if (tensor[edge] >= 0) bundle.data = true;
    if (!model.isBack[edge]) bundle.back = false;
    if (!model.isHub[src[edge]] && !model.isHub[dst[edge]]) bundle.hub = false;
    if (model.nodes.runs[src[edge]] && model.nodes.runs[dst[edge]]) bundle.idle = false;
    if (transfer[edge] >= 0) bundle.transfers.add(transfer[edge]);
    else if (there && there[edge] >= 0) bundle.elsewhere = true;
  }
  // Where no edge joins two boxes of the critical path, the later one waited for what the earlier one held.
  for (const [from, to] of criticalPairs(model, shown)) bundleOf(from, to).critical = true;
  const bundles = [...found.values()];
  for (const bundle of bundles) bundle.usual = bundle.edges.length > 0 && !bundle.hub && !bundle.idle; // others would hide them: on demand
  return bundles;
}

// Visible boxes that follow each other on the critical path, transfers left out.
function* criticalPairs(model, shown) {
  let before = null;
  for (const row of model.critical ?? []) {
    if (row < 0) continue;
    const at = shown[model.slices.node[row]];
    if (before && at && before !== at) yield [before, at];
    before = at;
  }
}

// The ways of a bundle in order. A way belongs to one open scope; its ends are children of that, or null for the border.
function waysOf(bundle) {
  const ways = [];
  const take = (scope, from, to) => {
    const key = `${from?.index ?? ""}>${to?.index ?? ""}`;
    let way = scope.ways.get(key);
    if (!way) scope.ways.set(key, (way = { scope, from, to, bundles: [], usual: false, back: true, data: false, critical: false, elsewhere: false }));
    way.bundles.push(bundle);
    way.usual ||= bundle.usual;
    way.data ||= bundle.data;
    way.critical ||= bundle.critical;
    way.elsewhere ||= bundle.usual && bundle.elsewhere;
    if (!bundle.back && bundle.edges.length) way.back = false;
    return way;
  };
  let { from, to } = bundle;
  const inward = [];
  while (from.parent !== to.parent) {
    if (from.depth >= to.depth) {
      ways.push(take(from.parent, from, null));
      from = from.parent;
    } else {
      inward.unshift(take(to.parent, null, to));
      to = to.parent;
    }
  }
  return [...ways, take(from.parent, from, to), ...inward];
}

// What a way carries across devices: its transfers, their bytes, and words for both.
function sumUp(model, way) {
  const rows = way.bundles.filter((bundle) => bundle.usual).flatMap((bundle) => [...bundle.transfers]);
  [way.transfers, way.bytes, way.device] = summedUp(model, rows);
  way.said = way.transfers.length ? carriedBy(model, way.transfers, way.bytes) : "";
}

// Each of these transfers once, the bytes of all, and the device that the largest leaves.
function summedUp(model, rows) {
  const transfers = [...new Set(rows)];
  let [whole, most, device] = [0, -1, undefined];
  for (const row of transfers) {
    let bytes = 0;
    for (const each of repeats(model, row)) bytes += Math.max(0, model.transfers.bytes[each]);
    whole += bytes;
    if (bytes > most) [most, device] = [bytes, model.transfers.src[row]];
  }
  return [transfers, whole, device];
}

// Say of the ways that cross devices in this run alone that they do, unless most of them do.
function markAlone(model, ways) {
  const { transfer } = model.edges;
  const crossing = ways.filter((way) => way.said);
  const alone = crossing.filter((way) => !way.bundles.some((bundle) => bundle.usual && bundle.edges.some((edge) => transfer[edge] >= 0 && model.otherTransfer[edge] >= 0)));
  if (2 * alone.length <= crossing.length) for (const way of alone) way.said += " · only here";
}

// Boxes that a hub reads or feeds have a port for it, in place of a line.
function markPorts(bundles) {
  for (const bundle of bundles) {
    if (!bundle.hub || bundle.idle) continue;
    bundle.from.ports |= 1;
    bundle.to.ports |= 2;
  }
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
