// What a node or a scope needs, and what needs it: all that lies before or behind it, by data and control. Needs model.js.

// Items of the nodes that run and lie before ("inputs") or behind ("outputs") the selected one, itself included.
function tracedFrom(model, selection, way) {
  const starts = selection.kind === "node" ? [selection.id] : selection.kind === "scope" ? nodesIn(model, selection.id) : [];
  const [edges, ends] = way === "inputs" ? [model.inEdges, model.edges.src] : [model.outEdges, model.edges.dst];
  const seen = new Uint8Array(model.count);
  const pending = starts.filter((node) => !seen[node] && (seen[node] = 1));
  const found = new Set();
  while (pending.length) {
    const node = pending.pop();
    found.add(itemOfNode(model, node));
    for (const edge of rowsIn(edges, node)) {
      const other = ends[edge];
      if (seen[other] || !model.nodes.runs[other]) continue;
      seen[other] = 1;
      pending.push(other);
    }
  }
  return found;
}

function nodesIn(model, scope) {
  const [found, pending] = [[], [scope]];
  while (pending.length) {
    const item = pending.pop();
    if (isScope(model, item)) pending.push(...rowsIn(model.children, item));
    else found.push(item - model.scopes);
  }
  return found;
}

// The same again ends it.
function trace(model, state, way) {
  if (!["node", "scope"].includes(state.selection?.kind)) return;
  if (state.traced === way) return state.set({ traced: "", hits: new Set() }, "trace");
  state.set({ traced: way, hits: tracedFrom(model, state.selection, way) }, "trace");
}

function traceButtons(model, state) {
  const button = (way, key) => {
    const made = element("button", "toggle", `Trace ${way}`);
    made.type = "button";
    made.title = `Mark all that ${way === "inputs" ? "it needs" : "needs it"}, in graph and timeline (${key})`;
    made.setAttribute("aria-pressed", String(state.traced === way));
    made.addEventListener("click", () => trace(model, state, way));
    return made;
  };
  const said = () => {
    const nanos = [...state.hits].reduce((sum, item) => sum + totalsOf(model, item).nanos, 0);
    return element("p", "more", `${plural(state.hits.size, "node")}, ${showNanos(nanos)} of device time`);
  };
  return element("div", "traces", button("inputs", "i"), button("outputs", "o"), state.traced ? said() : null);
}
