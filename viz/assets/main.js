// The page: it reads the scene, makes the views, and shares the selection among them. Needs all other files.

const byId = (id) => document.getElementById(id);

function makeState() {
  const listeners = [];
  return {
    selection: null, // null, or {kind: "node" | "scope" | "transfer", id}, or {kind: "edges", id: rows, ends: two names}
    critical: false,
    colourBy: "device",
    memory: "own", // the scale of memory curves: each its "own", "one" for all, "none": not drawn
    showIdle: false,
    hits: new Set(), // items that the search found, or a trace
    traced: "", // "inputs" or "outputs", while the hits are those of a trace
    range: null, // {from, to}: measured times
    set(changes, from = "") {
      Object.assign(this, changes);
      for (const listener of listeners) listener(changes, from);
    },
    // `from` is the view that was clicked: it does not move.
    select(selection, from = "panel") {
      const ended = this.traced ? { traced: "", hits: new Set() } : {};
      this.set({ selection, ...ended, ...(selection === null && { range: null }) }, from);
    },
    // What is measured takes the place of what is selected.
    measure(range) {
      this.set(range ? { range, selection: null } : { range }, "measure");
    },
    listen: (listener) => listeners.push(listener),
  };
}

const algorithmOf = ({ used, asked }) => used === asked ? used : `${used} (asked: ${asked})`;

function writeHeader(model, training = false) {
  byId("figures").replaceChildren();
  if (training) return writeTrainingHeader(model);
  const { summary, cluster } = model;
  const { unsized } = summary;
  byId("title").textContent = model.title;
  byId("subtitle").replaceChildren(`${showCount(summary.running)} of ${plural(summary.nodes, "node")} ${summary.running === 1 ? "runs" : "run"} · `, isolated(cluster.name), `, ${plural(cluster.devices.length, "device")} · placed by `, isolated(algorithmOf(summary)));
  const ratio = summary.at_most === 1 ? "the optimum" : summary.at_most && `${summary.at_most}×`;
  const [was, is] = model.against?.makespan_ns ?? [];
  const compared = !model.against ? null : is === was ? `as long as ${model.against.names[0]}` : `${signedNanos(is - was)}${signedShare(is, was)} against ${model.against.names[0]}`;
  const [ordered, turns] = orderOf(summary);
  const profiled = summary.by_profile_ns && `${summary.by_profile_ns.map((ns) => showNanos(ns)).join(" to ")} by the profile`;
  const peaks = model.tables.devices;
  const fullest = peaks.reduce((most, row) => (row.peak_bytes / row.capacity_bytes > most.peak_bytes / most.capacity_bytes ? row : most), peaks[0]);
  const over = peaks.some((row) => row.peak_bytes > row.capacity_bytes);
  byId("figures").append(
    figure("makespan", unsized.least + showNanos(summary.makespan_ns), [compared, unsized.words, profiled, ordered].filter(Boolean).join(", ") || null, "", [sizedOr("From the start of the step to its last end", unsized), turns].filter(Boolean).join(". ")),
    figure("lower bound", showNanos(summary.lower_bound_ns), ratio, "", `No placement on this cluster can be faster, by ${summary.lower_bound_by}. The makespan is at most so many times the optimum`),
    figure("moved", unsized.least + showBytes(summary.moved_bytes), plural(summary.transfers, "transfer"), "", "Bytes that move between devices in one step"),
    fullest && figure("fullest memory", unsized.least_held + showBytes(fullest.peak_bytes), `of ${showBytes(fullest.capacity_bytes)}`, over ? "over" : "", sizedOr(`Peak of ${cluster.devices[fullest.device].name}, of all devices the fullest`, unsized, true)),
  );
}

// The makespan in another order, and a sentence about the one that is shown.
function orderOf({ enforced, another_order_ns: other }) {
  if (enforced) return [`${showNanos(enforced.without_ns)} without ${plural(enforced.edges, "control edge")}`, `Control edges hold TensorFlow to the order of the placement; if transfers had one, too, the step would take ${showNanos(enforced.planned_ns)}`];
  if (other === null) return [null, null];
  return [`${showNanos(other)} in TensorFlow's order`, "Devices take ready ops in the order of the placement; TensorFlow has an order of its own"];
}

// What a figure is, and of a bound what would make it exact: a time by all tensors, memory alone by tables.
const sizedOr = (what, unsized, held = false) => [what, held === !unsized.words && unsized.cure].filter(Boolean).join(". ");

function figure(term, value, small, className, title) {
  const group = element("div", "", element("dt", "", term), element("dd", className, value, small && element("small", "", small)));
  group.title = [small && `${value} ${small}`, title].filter(Boolean).join("\n"); // in a narrow window it is cut
  return group;
}

function writeTrainingHeader(model) {
  const { training, cluster } = model;
  const median = training.quantiles[0];
  const idle = training.tasks.map(([task, ...shares]) => ({ task, share: shares.pop(), used: shares.some((share) => share > 0) }));
  const used = idle.filter((row) => row.used); // others are idle all the time
  const waits = used.reduce((most, row) => (row.share > most.share ? row : most), used[0] ?? idle[0]);
  const { unsized } = training;
  const rate = (value) => (value === null ? "?" : unsized.most + showFigure(value));
  byId("title").textContent = model.title;
  byId("subtitle").replaceChildren(`${training.regime} · ${training.size} · `, isolated(cluster.name), " · placed by ", isolated(algorithmOf(model.summary)));
  const [, , before, after] = model.training_against?.figures.find(([what]) => what === "examples/s") ?? [];
  const compared = before && after !== null ? `${signedPercent(after / before - 1)} against ${model.training_against.names[0]}` : null;
  byId("figures").append(
    figure("steps/s", rate(training.steps_per_s), unsized.words || asWritten(training.sure), "", sizedOr("Updates of the global step per second, after the warm-up", unsized)),
    figure("examples/s", rate(training.examples_per_s), compared, "", "Examples whose gradients were applied"),
    ...(median ? [figure("median step", unsized.least + showNanos(median[1]), null, "", "Median time of a worker's step after the warm-up")] : []),
    ...(waits.share >= 0.005 ? [figure("waits most", showShare(waits.share), waits.task, "", "The task that spends the largest share of the time without computing, handling a message or sending")] : []),
  );
}

// The item that is selected or made what is; 0, the whole, where there is none.
function itemSelected(model, selection) {
  if (selection === null || selection.kind === "edges") return 0;
  if (selection.kind === "scope") return selection.id;
  return itemOfNode(model, selection.kind === "node" ? selection.id : model.transferNode[selection.id]);
}

// What is selected, for who hears the page.
function saidOf(model, selection) {
  if (selection === null) return "nothing is selected";
  if (selection.kind === "edges") return selection.ends.join(" → ");
  if (selection.kind !== "transfer") return describeItem(model, itemSelected(model, selection)).join(", ");
  const { src, dst, bytes } = model.transfers;
  const [from, to] = [src, dst].map((ends) => model.cluster.devices[ends[selection.id]].short);
  return `transfer of ${transferName(model, selection.id)}, ${from} → ${to}, ${showBytes(bytes[selection.id])}`;
}

function writeCrumbs(model, state) {
  const item = itemSelected(model, state.selection);
  byId("crumbs").replaceChildren(
    ...pathTo(model, item).flatMap((part, depth) => {
      const button = element("button", "", isolated(labelOf(model, part)));
      button.type = "button";
      button.addEventListener("click", () => state.select(isScope(model, part) ? { kind: "scope", id: part } : { kind: "node", id: part - model.scopes }));
      return depth ? [element("span", "", "/"), button] : [button];
    }),
  );
}

function wire(model, state, graph, timelines, panel) {
  state.listen((changes, from) => {
    if ("showIdle" in changes) {
      byId("show-idle").checked = state.showIdle;
      graph.relayout(0);
    }
    if ("colourBy" in changes) {
      byId("colour").value = state.colourBy;
      byId("colours").replaceChildren(...coloursLegend(model, state.colourBy));
      panel.draw();
    }
    if ("memory" in changes) {
      byId("memory").value = state.memory;
      for (const timeline of timelines) timeline.rebuild();
    }
    if ("critical" in changes) byId("critical").setAttribute("aria-pressed", String(state.critical));
    if ("selection" in changes || "range" in changes || "traced" in changes) panel.draw(from === "trace");
    if (("selection" in changes || "range" in changes) && from !== "link") writeLink(model, state);
    if ("selection" in changes) {
      writeCrumbs(model, state);
      byId("said").textContent = saidOf(model, state.selection);
      const item = itemSelected(model, state.selection);
      if (item && from !== "graph") graph.show(item);
      for (const timeline of timelines) if (from !== timeline.name) timeline.showSelection();
    }
    if (changes.range && from === "link") timelines[0].look(changes.range.from, changes.range.to);
    graph.changed();
    for (const timeline of timelines) timeline.draw();
  });
  byId("show-idle").addEventListener("change", (event) => state.set({ showIdle: event.target.checked }));
  byId("critical").addEventListener("click", () => state.set({ critical: !state.critical }));
  byId("critical").hidden = model.critical === null;
  byId("colour-moved").hidden = !model.elsewhere;
  byId("colour").addEventListener("change", (event) => state.set({ colourBy: event.target.value }));
  byId("memory").addEventListener("change", (event) => state.set({ memory: event.target.value }));
  byId("graph-fit").addEventListener("click", () => graph.fit());
  byId("graph-close").addEventListener("click", () => graph.closeAll());
  byId("timeline-fit").addEventListener("click", () => timelines.forEach((timeline) => timeline.fit()));
  byId("timeline-measure").addEventListener("click", () => measureSight(model, state, timelines));
  byId("help").addEventListener("click", () => byId("keys").showModal());
}

// Measure what is in sight of the timelines, or end it.
function measureSight(model, state, timelines) {
  const { from, to } = timelines.at(-1).view;
  state.measure(state.range ? null : rangeOf(from, to, model.summary.makespan_ns));
}

// Keys act on the view that was used last.
function wireKeys(model, state, graph, timelines, { steps, otherRun, tables }) {
  let used = graph;
  let lane = timelines.at(-1); // the timeline that was used last
  const view = {};
  for (const action of ["zoom", "fit", "move"]) view[action] = (...how) => (steps && !byId("training").hidden ? steps : used)[action](...how);
  byId("graph").addEventListener("focus", () => (used = graph));
  for (const one of timelines) byId(one.name).addEventListener("focus", () => (used = lane = one));
  const keys = {
    "/": () => byId("search").focus(),
    "?": () => byId("keys").showModal(),
    Escape: () => state.select(null),
    c: () => model.critical && state.set({ critical: !state.critical }),
    "+": () => view.zoom(1.4), "=": () => view.zoom(1.4), "-": () => view.zoom(1 / 1.4), 0: () => view.fit(),
    ArrowLeft: () => view.move(60, 0), ArrowRight: () => view.move(-60, 0),
    ArrowUp: () => view.move(0, 60), ArrowDown: () => view.move(0, -60),
    n: () => lane.neighbour(true), p: () => lane.neighbour(false),
    x: () => otherRun?.(),
    i: () => trace(model, state, "inputs"), o: () => trace(model, state, "outputs"),
    m: () => measureSight(model, state, timelines),
    h: () => lane.hideSelected(),
    t: () => tables.open(),
    Enter: () => state.selection?.kind === "scope" && graph.toggle(state.selection.id),
  };
  // With Shift: along an edge of the graph, or to the box before or after in reading order.
  const walks = { ArrowLeft: () => graph.walk("in"), ArrowRight: () => graph.walk("out"), ArrowUp: () => graph.walk("before"), ArrowDown: () => graph.walk("after") };
  document.addEventListener("keydown", (event) => {
    const typing = event.target.matches?.("input:not([type=checkbox]), select, textarea");
    const pressing = event.key === "Enter" && event.target.matches?.("button, tr, th, summary, input");
    if (typing || pressing || event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]") || event.target === byId("splitter")) return;
    const action = (event.shiftKey && walks[event.key]) || keys[event.key];
    if (!action) return;
    event.preventDefault();
    action();
  });
}

// The bar between graph and timeline: drag it, or move it with the arrow keys.
function wireSplitter(wanted, least) {
  const board = byId("board");
  const splitter = byId("splitter");
  const set = (wanted) => {
    const share = Math.min(0.85, Math.max(0.15, wanted));
    board.style.setProperty("--share", share / (1 - share) + "fr");
    splitter.setAttribute("aria-valuenow", Math.round(100 * share));
  };
  // What the timeline does not need goes to the graph, at least this share and at most seven tenths.
  set(Math.min(0.7, Math.max(least, 1 - (wanted + 80) / Math.max(1, board.clientHeight))));
  const shareNow = () => byId("graph").closest(".pane").clientHeight / (board.clientHeight - 22);
  splitter.addEventListener("pointerdown", (event) => splitter.setPointerCapture(event.pointerId));
  splitter.addEventListener("pointermove", (event) => {
    if (!splitter.hasPointerCapture(event.pointerId)) return;
    const area = board.getBoundingClientRect();
    set((event.clientY - area.top) / (area.height - 12));
  });
  splitter.addEventListener("keydown", (event) => {
    const steps = { ArrowUp: -0.04, ArrowDown: 0.04 };
    if (event.key in steps) set(shareNow() + steps[event.key]);
  });
  return { set, shareNow };
}

// Fit the graph. Give it up to this share of the board, if only then its picture is whole, or whole without standing closer.
function fitFirst(splitter, graph, most) {
  const share = splitter.shareNow();
  let given = share;
  const fitted = (room, closer) => {
    if (room !== given) splitter.set((given = room));
    graph.fit(closer);
    return graph;
  };
  const wider = share < most;
  if (fitted(share, false).isRoomy() || (wider && fitted(most, false).isRoomy())) return;
  if (fitted(share, true).isWhole() || !wider || fitted(most, true).isWhole()) return;
  fitted(share, true);
}

// The timeline of the run, and above it that of the run beside it. Both show the same times.
function stepTimelines(model, runs, state, tip) {
  const clock = Math.max(runs.own.summary.makespan_ns, runs.other?.summary.makespan_ns ?? 0);
  const shown = [[runs.other, "timeline-other"], [runs.own, "timeline"]].filter(([run]) => run);
  const views = [];
  for (const [run, name] of shown) {
    const theirs = runs.other ? stateOfRun(state, () => (model.compared.at === run.compared.at ? run : shown.find(([one]) => one !== run)[0]), run, name) : state;
    const label = byId(`${name}-run`);
    label.hidden = byId(name).hidden = false;
    if (runs.other) label.replaceChildren(element("b", "", run.compared.names[run.compared.at]), ` ${run.summary.unsized.least}${showNanos(run.summary.makespan_ns)}`);
    else label.hidden = true;
    const view = stepTimeline(byId(name), run, theirs, tip, (from, to) => {
      byId("timeline-range").textContent = showSpan(Math.round(Math.max(0, from)), Math.round(Math.min(to, clock)));
      for (const other of views) if (other.name !== name) other.follow(from, to);
    }, clock);
    views.push({ ...view, name, height: view.height + label.offsetHeight });
  }
  return views;
}

// Canvases are drawn for paper before it is printed, in its colours.
function wirePaper(canvases, retheme) {
  const { classList } = document.documentElement;
  addEventListener("beforeprint", () => {
    classList.add("paper");
    for (const one of canvases) one.onPaper();
  });
  addEventListener("afterprint", () => {
    classList.remove("paper");
    retheme();
  });
}

async function start() {
  const scene = await readScene();
  const runs = comparedModels(scene);
  const model = { ...runs.own, runs }; // the run that graph and panel show
  const state = makeState();
  const tip = tooltip(byId("tip"));
  writeHeader(model);
  const graph = graphView(byId("graph"), model, state, tip);
  const timelines = stepTimelines(model, runs, state, tip);
  const timeline = timelines.at(-1); // of this run
  const panel = sidePanel(byId("panel"), model, state);
  wire(model, state, graph, timelines, panel);
  const otherRun = wireRuns(byId("runs"), model, state, () => graph.relayout(0));
  searchBox(byId("search"), byId("matches"), model, state);
  const splitter = wireSplitter(timelines.reduce((sum, one) => sum + one.height, 0), timelines.length > 1 ? 0.38 : 0.5);
  fitFirst(splitter, graph, timelines.length > 1 ? 0.5 : 0.65);
  panel.draw();
  const steps = model.training ? trainingView(model, tip) : null;
  const showTab = steps && wireTabs(model, (training) => {
    if (training) steps.draw();
    else graph.fit();
  });
  const tables = tablesDialog(byId("tables"), model, state);
  for (const name of ["tables-open", "tables-steps"]) byId(name).addEventListener("click", () => tables.open());
  new ResizeObserver(() => graph.resize()).observe(byId("graph"));
  for (const one of timelines) new ResizeObserver(() => one.draw()).observe(byId(one.name));
  const canvases = [graph, ...timelines, ...(steps?.all ?? [])];
  const retheme = () => canvases.forEach((one) => one.retheme());
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", retheme);
  wirePaper(canvases, retheme);
  wireKeys(model, state, graph, timelines, { steps, otherRun, tables });
  const follow = () => followLink(model, state, { run: (name) => model.compared && name !== model.compared.names[model.compared.at] && model.compared.names.includes(name) && otherRun?.(), tab: (name) => showTab?.(name === "training"), table: tables.open });
  follow();
  addEventListener("hashchange", follow);
  window.simviz = { model, state, graph, timeline, timelines, steps, tables }; // for the console and the tests
  document.documentElement.dataset.ready = "yes";
}

start().catch((error) => {
  byId("failed").textContent = `The report could not be drawn: ${error.message}. It needs a browser of 2023 or later.`;
  byId("failed").hidden = false;
  throw error;
});
