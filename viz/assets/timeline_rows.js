// The rows of the timeline: for each device its lanes and its memory, then a lane for each link that was used.
// Each row holds its bars or transfers in order of start, and no two of them overlap but in a row that says so.
// Needs format.js, model.js.

const ROW = { head: 22, lane: 20, memory: 34, link: 15, track: 7, gap: 8, label: 168, axis: 24 };
const MOST_TRACKS = 12; // of one link; what does not fit shares the last

function timelineRows(model) {
  const rows = [];
  let y = 0;
  const add = (row, height, after = 0) => {
    rows.push({ ...row, y, height });
    y += height + after;
  };
  const lanes = barsByLane(model);
  model.cluster.devices.forEach((device, index) => {
    const used = lanes[index];
    if (model.idleDevices.has(index)) {
      if (model.namesIdle) add({ kind: "idle", device: index, label: device.short, rows: [] }, ROW.link, 4);
      return;
    }
    used.forEach((bars, lane) => add({ kind: "lane", device: index, lane, label: lane ? "" : device.short, rows: bars }, ROW.lane, 1));
    if (!used.length) add({ kind: "lane", device: index, lane: 0, label: device.short, rows: [] }, ROW.lane, 1);
    add({ kind: "memory", device: index, label: "memory", rows: [] }, ROW.memory, ROW.gap);
  });
  if (!model.namesIdle) add({ kind: "rest", label: `${plural(model.idleDevices.size, "more device")} idle`, rows: [] }, ROW.link, 4);
  const links = transfersByLink(model);
  if (links.length) add({ kind: "heading", label: "links", rows: [] }, ROW.head);
  for (const { link, transfers } of links) {
    const label = link < 0 ? "handed over in memory" : model.cluster.links[link].name;
    const tracks = tracksOf(model, transfers);
    tracks.forEach((rows, track) => {
      const last = track === tracks.length - 1;
      add({ kind: "link", link, label: track ? "" : label, rows, overlap: track === MOST_TRACKS - 1 }, track ? ROW.track : ROW.link, last ? 2 : 1);
    });
  }
  return { rows, height: y };
}

// [device][n] bars of each lane that was used, in order of start.
function barsByLane(model) {
  const { device, lane, start_ns: start, end_ns: end } = model.bars;
  const found = model.cluster.devices.map(() => new Map());
  device.forEach((owner, row) => {
    if (!found[owner].has(lane[row])) found[owner].set(lane[row], []);
    found[owner].get(lane[row]).push(row);
  });
  return found.map((lanes) =>
    [...lanes.keys()].sort((a, b) => a - b).map((key) => lanes.get(key).sort((a, b) => start[a] - start[b] || end[a] - end[b] || a - b)),
  );
}

// The transfers of one link on as few tracks as hold them without overlap; the lowest free one first.
function tracksOf(model, transfers) {
  const { start_ns: start, end_ns: end } = model.transfers;
  const tracks = [];
  const until = [];
  for (const row of transfers) {
    let track = until.findIndex((time) => time <= start[row]);
    if (track < 0) track = Math.min(tracks.length, MOST_TRACKS - 1);
    (tracks[track] ??= []).push(row);
    until[track] = Math.max(until[track] ?? 0, end[row]);
  }
  return tracks;
}

// The transfers that held each link, links in the cluster's order; link -1: handed over within a process, no link held.
function transfersByLink(model) {
  const { src, dst, start_ns: start, end_ns: end } = model.transfers;
  const found = new Map();
  src.forEach((from, row) => {
    const route = model.routes.get(from * model.cluster.devices.length + dst[row]);
    for (const link of route.length ? route : [-1]) {
      if (!found.has(link)) found.set(link, []);
      found.get(link).push(row);
    }
  });
  const order = [...found.keys()].sort((a, b) => (a < 0) - (b < 0) || a - b);
  return order.map((link) => ({ link, transfers: found.get(link).sort((a, b) => start[a] - start[b] || end[a] - end[b] || a - b) }));
}

// The place of the first of a row's entries that ends behind a time. Where none overlap, their ends are in order.
function firstAfter({ rows: entries, overlap }, end, time) {
  if (overlap) return 0;
  let low = 0;
  let high = entries.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (end[entries[middle]] <= time) low = middle + 1;
    else high = middle;
  }
  return low;
}
