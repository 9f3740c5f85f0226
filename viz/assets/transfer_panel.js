// The side panel's cards of one transfer. Needs format.js, model.js, cards.js, devices.js.

// The stretches of a transfer, one after the other.
function stretchFacts(model, transfer) {
  const { asked_ns: asked, packed_ns: packed, sent_ns: start, through_ns: end, arrived_ns: came, unpacked_ns: unpacked, bytes } = model.transfers;
  const wire = model.transfers.crossing_ns[transfer];
  const critical = (on) => (on ? "on the critical path" : "");
  const waited = (nanos, what) => (nanos > 0 ? `waited ${showNanos(nanos)} for ${what}` : "");
  const said = (...words) => words.filter(Boolean).join("; ") || null;
  const rate = bytes[transfer] > 0 && wire > 0 ? `${showRate((bytes[transfer] * 1e9) / wire)} on average` : "";
  const { timeline, criticalSlices } = model;
  const [onLinks, work] = [linkSlices(model, transfer), {}];
  for (const slice of rowsIn(model.slicesOfTransfer, transfer)) if (laneOf(timeline, slice)[0] === "device") work[model.packs[slice] ? "packed" : "unpacked"] = slice;
  const handled = (verb) => {
    const slice = work[verb];
    if (slice === undefined) return null;
    const { ready_ns: ready, start_ns: begin, end_ns: ended } = timeline;
    const by = model.cluster.devices[laneOf(timeline, slice)[1]].short;
    return [verb, showSpan(begin[slice], ended[slice]), said(`by ${by}`, waited(begin[slice] - ready[slice], "it"), critical(criticalSlices.has(slice)))];
  };
  return [
    ["requested", showNanos(asked[transfer]), "the value exists and a reader has requested it"],
    handled("packed"),
    ["on the wire", showSpan(start[transfer], end[transfer]), said(waited(end[transfer] - wire - packed[transfer], "links"), rate, critical(onLinks.some((slice) => criticalSlices.has(slice))))],
    came[transfer] > end[transfer] ? ["arrives", showNanos(came[transfer]), `${showNanos(came[transfer] - end[transfer])} of latency, in which its links are free`] : null,
    handled("unpacked"),
    ["takes", showNanos(unpacked[transfer] - asked[transfer]), "from the request until its readers have it"],
  ];
}

function transferCards(model, state, transfer) {
  const { transfers, cluster } = model;
  const route = linkSlices(model, transfer).map((slice) => laneOf(model.timeline, slice)[1]).filter((link) => link >= 0);
  const node = model.transferNode[transfer];
  const [first] = rowsIn(model.transfersOf, transfers.pair[transfer]); // edges name that of the first iteration
  const readers = [];
  model.edges.transfer.forEach((row, edge) => row === first && readers.push(model.edges.dst[edge]));
  const tensor = transfers.tensor[transfer];
  const carries = model.isDead[transfer] ? "dead: a message without a value" : tensor >= 0 ? model.tensors.shapes[model.tensors.shape[tensor]] : "control: a message without a value";
  const tag = model.slices.iterations[transfers.iteration[transfer]];
  const link = (other) => [model.nodes.names[other], opOf(model, other), () => state.select({ kind: "node", id: other }), chip(cluster.colours[model.nodes.device[other]])];
  return [
    element("section", "card", element("h3", "name", "Transfer of " + leafOf(transferName(model, transfer))),
      element("p", "path", tensorName(model, tensor)),
      facts(
        ["from", deviceName(model, transfers.src[transfer])],
        ["to", deviceName(model, transfers.dst[transfer]), readers.length ? null : "the client fetches it there"],
        ["size", showBytes(transfers.bytes[transfer]), carries],
        tag.length ? ["iteration", tag.join(", "), "of each loop around it, outermost first"] : null,
        ...stretchFacts(model, transfer),
        ["by", route.map((row) => cluster.links[row].name).join(", ") || "a hand-over in memory"],
      ),
    ),
    card("Made by", links([link(node)])),
    readers.length ? card(`Read by (${showCount(readers.length)})`, links([...new Set(readers)].map(link))) : null,
  ];
}
