// What the address of the page says: "#node=tower/Conv2D&run=heft&range=1000-2000" opens it at that node, run and range of times,
// and follows what is selected, so that it can be handed on. Needs format.js, model.js, comparison.js.

// The parts of the address by name. Whoever wrote it: what is no escape stays as it is.
function linkedParts() {
  const said = (text) => {
    try {
      return decodeURIComponent(text);
    } catch {
      return "";
    }
  };
  return new Map(location.hash.slice(1).split("&").filter((part) => part.includes("=")).map((part) => [part.slice(0, part.indexOf("=")), said(part.slice(part.indexOf("=") + 1))]));
}

const scopePath = (model, scope) => pathTo(model, scope).map((part) => model.tree.labels[part]).join("/");
// A transfer by its tensor, its iteration and the device that gets it.
const transferLink = (model, row) => `${transferName(model, row)}@${model.cluster.devices[model.transfers.dst[row]].name}`;

function selectionLinked(model, parts) {
  const path = parts.get("node");
  const transfer = parts.get("transfer");
  if (transfer) {
    const row = [...model.transfers.tensor.keys()].find((one) => transferLink(model, one) === transfer);
    return row === undefined ? null : { kind: "transfer", id: row };
  }
  if (!path) return null;
  const node = model.nodes.names.indexOf(path);
  if (node >= 0) return { kind: "node", id: node };
  for (let scope = 1; scope < model.scopes; scope++) if (scopePath(model, scope) === path) return { kind: "scope", id: scope };
  return null;
}

function rangeLinked(parts) {
  const [, from, to] = /^(\d{1,15})-(\d{1,15})$/.exec(parts.get("range") ?? "") ?? [];
  return from && Number(from) < Number(to) ? { from: Number(from), to: Number(to) } : null;
}

// `views`: a function for each part that is no selection: the run, the tab, the table that is open.
function followLink(model, state, views) {
  const parts = linkedParts();
  for (const [name, show] of Object.entries(views)) if (parts.has(name)) show?.(parts.get(name));
  const [selection, range] = [selectionLinked(model, parts), rangeLinked(parts)];
  if (range) state.set({ range }, "link");
  if (selection) state.select(selection, "link");
}

function writeLink(model, { selection, range }) {
  const kinds = { node: () => ["node", model.nodes.names[selection.id]], scope: () => ["node", scopePath(model, selection.id)], transfer: () => ["transfer", transferLink(model, selection.id)] };
  const parts = [
    kinds[selection?.kind]?.(),
    range && ["range", `${range.from}-${range.to}`],
    model.compared?.at === 0 && ["run", model.compared.names[0]],
  ].filter(Boolean);
  try {
    history.replaceState(null, "", parts.length ? "#" + parts.map(([name, value]) => `${name}=${encodeURIComponent(value)}`).join("&") : location.pathname + location.search);
  } catch {
    // a frame without an address of its own, as in a notebook, or a name with half a character
  }
}
