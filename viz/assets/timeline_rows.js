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
  const links = barsByLink(model.carried);
  if (links.length) add({ kind: "heading", label: "links", rows: [] }, ROW.head);
  for (const [link, bars] of links) {
    const label = link < 0 ? "handed over in memory" : model.cluster.links[link].name;
    const tracks = tracksOf(model.carried, bars);
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

// What every link carried: a bar for each transfer on each of its links, while that has it; where nothing is said, from its
// start for as long as its bytes take. Link -1: handed over within a process, on no link.
function onLinks(transfers, linksOf) {
  const turns = new Map(transfers.turns.map(([transfer, link, ...span]) => [`${transfer} ${link}`, span]));
  const found = { transfer: [], link: [], start_ns: [], end_ns: [] };
  transfers.start_ns.forEach((first, transfer) => {
    const links = linksOf(transfer);
    for (const link of links.length ? links : [-1]) {
      const [start, end] = turns.get(`${transfer} ${link}`) ?? [first, first + transfers.crossing_ns[transfer]];
      found.transfer.push(transfer);
      found.link.push(link);
      found.start_ns.push(start);
      found.end_ns.push(end);
    }
  });
  return found;
}

// [link, bars in order of start], links in the cluster's order, what was handed over last.
function barsByLink({ link, start_ns: start, end_ns: end }) {
  const found = new Map();
  link.forEach((owner, bar) => {
    if (!found.has(owner)) found.set(owner, []);
    found.get(owner).push(bar);
  });
  for (const bars of found.values()) bars.sort((a, b) => start[a] - start[b] || end[a] - end[b] || a - b);
  return [...found].sort(([a], [b]) => (a < 0) - (b < 0) || a - b);
}

// The bars of one link on as few tracks as hold them without overlap; the lowest free one first.
function tracksOf({ start_ns: start, end_ns: end }, bars) {
  const tracks = [];
  const until = [];
  for (const bar of bars) {
    let track = until.findIndex((time) => time <= start[bar]);
    if (track < 0) track = Math.min(tracks.length, MOST_TRACKS - 1);
    (tracks[track] ??= []).push(bar);
    until[track] = Math.max(until[track] ?? 0, end[bar]);
  }
  return tracks;
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
