// A measured range of times: what ran in it, by device, category and op, what waited, and what crossed. Needs format.js, model.js, cards.js.

// The range of two times in any order, within the run; null where it is empty.
function rangeOf(one, other, whole) {
  const [from, to] = [Math.min(one, other), Math.max(one, other)].map((ns) => Math.round(Math.min(Math.max(ns, 0), whole)));
  return from < to ? { from, to } : null;
}

// Nanoseconds of each slice of a device within the range, summed by device, category and op; bytes of what was on links.
function totalsIn(model, { from, to }) {
  const { timeline, slices, transfers } = model;
  const found = { devices: new Map(), categories: new Map(), ops: new Map(), crossing: new Map(), begun: 0 };
  const add = (totals, key, nanos) => {
    const known = totals.get(key) ?? { nanos: 0, count: 0 };
    totals.set(key, { nanos: known.nanos + nanos, count: known.count + 1 });
  };
  for (let slice = 0; slice < timeline.lane.length; slice++) {
    const nanos = Math.min(to, timeline.end_ns[slice]) - Math.max(from, timeline.start_ns[slice]);
    if (nanos <= 0) continue;
    const [kind, place] = laneOf(timeline, slice);
    const transfer = timeline.transfer[slice];
    if (kind === "link") add(found.crossing, place, nanos);
    else {
      add(found.devices, place, nanos);
      add(found.categories, transfer < 0 ? model.categories.names[categoryOf(model, slices.node[slice])] : model.packs[slice] ? "packing" : "unpacking", nanos);
      if (transfer < 0) add(found.ops, opOf(model, slices.node[slice]), nanos);
    }
  }
  found.moved = [...transfers.tensor.keys()].filter((row) => transfers.sent_ns[row] < to && transfers.arrived_ns[row] > from);
  return found;
}

function rangeCards(model, state) {
  const { range } = state;
  const { cluster } = model;
  const found = totalsIn(model, range);
  const length = range.to - range.from;
  const bytes = found.moved.reduce((sum, row) => sum + Math.max(0, model.transfers.bytes[row]), 0);
  const byTime = (totals) => [...totals].sort((a, b) => b[1].nanos - a[1].nanos);
  const busy = cluster.devices.map((one, device) => [device, (found.devices.get(device)?.nanos ?? 0), length * Math.max(1, one.lanes)]).filter(([device]) => !model.idleDevices.has(device));
  const rows = busy.map(([device, nanos, room]) => [[deviceName(model, device), showCount(found.devices.get(device)?.count ?? 0), showNanos(nanos), showNanos(Math.max(0, room - nanos))], null, cluster.devices[device].name, [cluster.devices[device].short, found.devices.get(device)?.count ?? 0, nanos, room - nanos]]);
  const plain = (totals, named) => byTime(totals).slice(0, 40).map(([key, { nanos, count }]) => [[named(key), showCount(count), showNanos(nanos)], null, named(key), [named(key), count, nanos]]);
  return [
    element("section", "card", element("h3", "name", "Measured range"),
      facts(
        model.compared ? ["run", model.compared.names[model.compared.at]] : null,
        ["times", showSpan(range.from, range.to)],
        ["length", showNanos(length), `${showShare(length / (model.summary.makespan_ns || 1))} of the makespan`],
        ["transfers", showCount(found.moved.length), found.moved.length ? `${showBytes(bytes)} under way in it, at least in part` : null],
      ),
    ),
    card("By device", table(["device", "slices#", "busy#", "waits#"], [], rows)),
    found.categories.size ? card("By category", table(["category", "slices#", "time#"], [], plain(found.categories, String))) : null,
    found.ops.size ? card("By op", table(["op", "times#", "time#"], [], plain(found.ops, String))) : null,
    found.crossing.size ? card("By link", table(["link", "transfers#", "time#"], [], plain(found.crossing, (link) => (link < 0 ? "in memory" : cluster.links[link].name)))) : null,
  ];
}

// The range over the rows of a timeline: what is outside is paler.
function drawRange(pen, range) {
  const { context, theme, xOf, right, bottom } = pen;
  const [x0, x1] = [Math.max(ROW.label, xOf(range.from)), Math.min(right, xOf(range.to))];
  context.fillStyle = theme.paper;
  context.globalAlpha = 0.55;
  if (x0 > ROW.label) context.fillRect(ROW.label, ROW.axis, Math.min(right, x0) - ROW.label, bottom);
  if (x1 < right) context.fillRect(Math.max(ROW.label, x1), ROW.axis, right - Math.max(ROW.label, x1), bottom);
  context.globalAlpha = 1;
  context.fillStyle = theme.accent;
  for (const x of [x0, x1]) if (x >= ROW.label && x <= right) context.fillRect(x - 0.75, ROW.axis, 1.5, bottom);
}
