// Cards of the devices: their busy shares, and the allocations at the peak of each; the legend of other colours than theirs.
// Needs format.js, cards.js, graph_drawing.js.

const PEAKS_SHOWN = 8; // devices: the fullest, when there are more

function devicesCard(model) {
  const { devices, colours } = model.cluster;
  const heldBy = (row) => (model.idleDevices.has(row.device) ? "" : model.summary.unsized.least_held) + showBytes(row.peak_bytes);
  const named = model.tables.devices.filter((row) => model.namesIdle || !model.idleDevices.has(row.device));
  const rows = named.map((row) => {
    const over = row.peak_bytes > row.capacity_bytes;
    const busy = element("span", "", showShare(row.busy_share), meter(row.busy_share, colours[row.device]));
    const memory = element("span", over ? "over" : "", heldBy(row), meter(row.peak_bytes / Math.max(1, row.capacity_bytes), colours[row.device]));
    const title = `${devices[row.device].name}\n${devices[row.device].kind}, ${plural(row.ops, "op")}, busy ${showNanos(row.busy_ns)}\npeak ${heldBy(row)} of ${showBytes(row.capacity_bytes)}`;
    return [[deviceName(model, row.device), showCount(row.ops), busy, memory], null, title];
  });
  const passing = named.filter((row) => row.busy_ns && !row.ops);
  return card(
    "Devices",
    table(["device", "ops#", "busy#", "peak#"], [], rows),
    passing.length ? element("p", "more", passingOn(passing.map((row) => devices[row.device].short))) : null,
    model.namesIdle ? null : element("p", "more", `and ${plural(model.idleDevices.size, "device")} that do nothing in this step`),
  );
}

// Their table says "0 ops" and a busy share.
const passingOn = (names) => `${names.slice(0, 3).join(", ")}${names.length > 3 ? ` and ${names.length - 3} more` : ""} ${names.length > 1 ? "run no op; they pack and unpack" : "runs no op; it packs and unpacks"} what is sent`;

// Colours of devices are beside their names, here and in the timeline.
function coloursLegend(model, by) {
  const entry = (colour, ...said) => element("span", "", chip(colour), ...said);
  const { names, colours } = model.categories;
  if (by === "category") return model.tables.categories.map(([name]) => entry(colours[names.indexOf(name)], name));
  if (by === "moved") return [entry(`linear-gradient(90deg, ${model.cluster.colours.slice(0, 3).join(", ")})`, "on another device in the other run"), entry("var(--line)", "on the same")];
  if (by !== "time") return [];
  const scale = element("span", "chip scale");
  scale.style.background = `linear-gradient(90deg, var(--soft), ${HOT})`;
  return [element("span", "", `${100 * COOLEST} % `, scale, "100 % of all time on devices, in the timeline of the longest op; logarithmic")];
}

// The fullest devices first, by the share of their memory.
function memoryCard(model, state) {
  const share = (row) => row.peak_bytes / Math.max(1, model.cluster.devices[row.device].memory_bytes);
  const rows = [...model.tables.peaks].sort((a, b) => share(b) - share(a) || a.device - b.device);
  if (!rows.length) return null;
  const more = rows.length > PEAKS_SHOWN ? element("p", "more", `and ${plural(rows.length - PEAKS_SHOWN, "device")} less full`) : null;
  const full = model.tables.full ? element("p", "bad", asWritten(model.tables.full)) : null;
  return card("Memory at its peak", full, ...rows.slice(0, PEAKS_SHOWN).map((row) => peakOf(model, state, row)), more);
}

function peakOf(model, state, row) {
  const caused = row.cause ? `at ${showNanos(row.time_ns)}, when ${row.cause} began to hold ${showBytes(row.cause_bytes)}` : "all of it resident";
  const kinds = Object.entries(row.kinds).map(([kind, bytes]) => `${kind} ${showBytes(bytes)}`).join(", ");
  const lines = row.live.map((one) => [[named(one.what, one.kind, one.kind), showBytes(one.nbytes)], () => state.select({ kind: "node", id: one.origin }), one.what]);
  return element(
    "details",
    "peak",
    element("summary", "", deviceName(model, row.device), " ", model.summary.unsized.least_held + showBytes(row.peak_bytes), element("small", "", caused)),
    element("p", "more", kinds),
    table(["what|kind", "size#"], [], lines),
    row.rest ? element("p", "more", `and ${showCount(row.rest)} more, together ${showBytes(row.rest_bytes)}`) : null,
  );
}

// The effect of delayed Recvs.
function lateCard(model) {
  const { late } = model.tables;
  if (!late) return null;
  const changed = late.peak_bytes.map(([before, after], device) => [before, after, device]).filter(([before, after]) => before !== after);
  const [before, after] = late.makespan_ns;
  return card(
    "Delayed Recvs",
    facts(
      ["Recvs", `${showCount(late.delayed)} of ${showCount(late.transfers)} wait`, `by the rule of ${late.rule === "tensorflow" ? "TensorFlow's option" : "the white paper"}`],
      ["makespan", showNanos(after), before === after ? "as without" : `${showNanos(before)} without`],
      ["copies", `held ${showShare(Math.abs(1 - late.held_byte_ns[1] / (late.held_byte_ns[0] || 1)))} ${late.held_byte_ns[1] <= late.held_byte_ns[0] ? "less" : "more"}`, "in bytes times time"],
    ),
    changed.length
      ? table(["device", "peak without#", "with#"], [], changed.map(([old, now, device]) => [[deviceName(model, device), showBytes(old), showBytes(now)]]))
      : element("p", "more", "no peak changes"),
  );
}
