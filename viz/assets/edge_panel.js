// The side panel's cards of an edge of the picture: the tensors that it stands for. Needs format.js, model.js, cards.js.

// The tensors of edges, largest first, with their readers and transfers; bytes that all of them have; and control edges.
function carriedOn(model, edges) {
  const { src, dst, tensor, transfer } = model.edges;
  const tensors = new Map();
  let controls = 0;
  for (const edge of edges) {
    if (tensor[edge] < 0) controls++;
    const key = tensor[edge] < 0 ? -1 - src[edge] : tensor[edge];
    if (tensor[edge] < 0 && transfer[edge] < 0) continue;
    if (!tensors.has(key)) tensors.set(key, { tensor: key, node: src[edge], bytes: key < 0 ? 0 : model.tensors.bytes[key], readers: new Set(), transfers: new Set() });
    tensors.get(key).readers.add(dst[edge]);
    if (transfer[edge] >= 0) tensors.get(key).transfers.add(transfer[edge]);
  }
  const rows = [...tensors.values()].sort((a, b) => b.bytes - a.bytes || a.tensor - b.tensor);
  return { tensors: rows.filter((row) => row.tensor >= 0), signals: rows.filter((row) => row.tensor < 0), controls, bytes: rows.reduce((sum, row) => sum + Math.max(0, row.bytes), 0) };
}

function edgeCards(model, state, { id: edges, ends: [from, to] }) {
  const { tensors, signals, controls, bytes } = carriedOn(model, edges);
  const rows = [...tensors, ...signals].flatMap(({ transfers }) => [...transfers]);
  const { unpacked_ns: had, asked_ns: asked } = model.transfers;
  const times = rows.flatMap((row) => [...repeats(model, row)]).map((row) => had[row] - asked[row]);
  return [
    element("section", "card", element("h3", "name", "Edge"),
      facts(
        ["from", isolated(from)],
        ["to", isolated(to)],
        ["tensors", showCount(tensors.length), tensors.length ? `${showBytes(bytes)} in all` : null],
        controls ? ["control", plural(controls, "edge"), "order alone, without a value"] : null,
        rows.length ? ["crosses", plural(times.length, "transfer"), `the longest takes ${showNanos(Math.max(...times))}`] : ["crosses", "no devices"],
      ),
    ),
    ...[["Tensors", tensors], ["Control messages", signals]].map(([heading, list]) => (list.length ? tensorsCard(model, state, heading, list) : null)),
  ];
}

// Each tensor with its size, and its time where it crosses devices. A row leads to the transfer, else to the node.
function tensorsCard(model, state, heading, list) {
  const { unpacked_ns: had, asked_ns: asked, src, dst } = model.transfers;
  const { shapes, shape } = model.tensors;
  const { colours, devices } = model.cluster;
  const lines = list.slice(0, 200).map((row) => {
    const [transfer] = row.transfers;
    const name = row.tensor < 0 ? model.nodes.names[row.node] : tensorName(model, row.tensor);
    const crossing = transfer !== undefined;
    const [from, to] = crossing ? [src[transfer], dst[transfer]] : [model.nodes.device[row.node], null];
    const below = crossing ? ends(colours[from], colours[to]) : chip(colours[from]);
    const places = [from, to].map((device) => (device === null ? "" : devices[device].short));
    const go = () => state.select(crossing ? { kind: "transfer", id: transfer } : { kind: "node", id: row.node });
    const title = [name, row.tensor < 0 ? "" : shapes[shape[row.tensor]], crossing ? places.join(" → ") : "", `read by ${plural(row.readers.size, "node")}`];
    return [[named(name, below, ...places), row.tensor < 0 ? "control" : showBytes(row.bytes), crossing ? showNanos(had[transfer] - asked[transfer]) : "–"], go, title.filter(Boolean).join("\n")];
  });
  const more = list.length > lines.length ? element("p", "more", `and ${showCount(list.length - lines.length)} more`) : null;
  return card(`${heading} (${showCount(list.length)})`, table(["tensor|from|to", "size#", "time#"], [], lines), more);
}
