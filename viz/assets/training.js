// Cards, charts and the tab of a training. Needs format.js, cards.js, training_charts.js,
// timeline_training.js.

function rateCard(training) {
  const sure = asWritten(training.half_width ? `${training.sure}, half of a 95 % confidence interval` : training.sure);
  const unmet = training.narrow === false ? `; not within the requested ${showShare(training.until_ci)}` : "";
  const { unsized } = training;
  const rate = (value) => (value === null ? "unknown" : unsized.most + showFigure(value));
  return card(
    "Rates",
    facts(
      ["steps/s", rate(training.steps_per_s), sure + unmet],
      training.between_upsets_per_s === null ? null : ["undisturbed", rate(training.between_upsets_per_s), "without the disturbances that come once"],
      ["examples/s", rate(training.examples_per_s), "whose gradients were applied"],
      unsized.words ? ["sizes", unsized.words, unsized.cure] : null,
      ...training.quantiles.map(([q, nanos]) => [`p${q} step`, unsized.least + showNanos(nanos), q === 50 ? "of the workers' steps after the warm-up" : null]),
      training.gate_share ? ["for tokens", showShare(training.gate_share), "of a worker's step"] : null,
      training.input_share ? ["for input", showShare(training.input_share), "of a worker's step"] : null,
      ...training.inputs.map((said) => ["input", asWritten(said)]),
      ["staleness", training.staleness_in_words, "updates by others since the worker read the variables"],
      ["dropped", plural(training.dropped, "gradient"), training.dropped ? "too late; each worker's step makes one per variable" : null],
      training.lost ? ["lost", plural(training.lost, "update"), "taken back by crashes"] : null,
      ["warm-up", asWritten(training.warm_up)],
    ),
  );
}

// Long text continues in the next line.
function wrapping(made) {
  made.classList.add("wrapping");
  return made;
}

function regimeCard(training) {
  return card("Regime", facts(["regime", training.regime], ["trained by", training.size], training.filters && ["device_filters", training.filters]), element("p", "said", training.words), element("p", "more", `${training.replication[0].toUpperCase()}${training.replication.slice(1)}.`));
}

function heldCard(training) {
  const { sentence, tried } = training.bottleneck;
  const rows = tried.map(([what, change, before, after, gain]) => [
    [named(asWritten(what), asWritten(change), asWritten(change)), training.unsized.most + showFigure(before), training.unsized.most + showFigure(after), `${Number(gain.toPrecision(3))}×`], null, `${what}, ${change}`,
  ]);
  return card(
    "Bottleneck",
    element("p", "said", asWritten(sentence)),
    rows.length ? element("p", "more", "Each row is another simulation with one relief; steps per second over the same updates:") : null,
    rows.length ? wrapping(table(["relief|change", "before#", "after#", "gain#"], [], rows)) : null,
  );
}

function tasksCard(model) {
  const { training } = model;
  const colours = training.kinds.map(([, colour]) => colour || "var(--waiting)");
  const shown = training.tasks.slice(0, 40);
  const rows = shown.map(([task, ...shares]) => [
    [task, stack(shares.map((share, at) => [colours[at], share])), ...shares.map(showShare)], null,
    `${task}: ${training.kinds.map(([kind], at) => `${kind} ${showShare(shares[at])}`).join(", ")}`,
  ]);
  const heads = training.kinds.map(([kind], at) => element("span", "", chip(colours[at]), kind));
  const legend = element("p", "legend", ...heads);
  const more = training.tasks.length > shown.length ? element("p", "more", `and ${plural(training.tasks.length - shown.length, "task")} more, in the JSON`) : null;
  return card("Tasks", legend, table(["task", "", "comp.#", "hand.#", "send#", "wait#"], ["22%"], rows), more);
}

function linksCard(training) {
  const { rows, more } = training.links;
  if (!rows.length) return null;
  const lines = rows.map(([name, share, bytes]) => [[name, element("span", "", showShare(share), meter(share, "var(--accent)")), training.unsized.least + showBytes(bytes)], null, name]);
  return card("Busiest links", table(["link", "busy#", "bytes#"], [], lines), more ? element("p", "more", `and ${plural(more, "link")} less busy`) : null);
}

function sharedMemoryCard(training) {
  if (!training.memory.length) return null;
  const lines = training.memory.map(([name, always, most, capacity]) => [
    [name, showBytes(always), element("span", most > capacity ? "over" : "", showBytes(most)), showBytes(capacity)], null,
    `${name}: ${showBytes(always)} resident, at most ${showBytes(most)} of ${showBytes(capacity)}`,
  ]);
  return card(
    "Memory of devices that clients share",
    table(["device", "resident#", "at most#", "of#"], [], lines),
    element("p", "more", "At most: all that one step of each client allocates, as if it freed nothing. The steps overlap differently each time, so this is a bound" + (training.unsized.least_held ? ", but for tensors of unknown size, which count nothing." : ".")),
  );
}

function stalenessCard(training) {
  if (training.staleness.every(([late]) => late === 0)) return null;
  const bars = training.staleness.map(([late, count]) => [String(late), count, `${plural(count, "update")} with staleness ${late}`]);
  return card("Staleness: number of updates by how many others came since the worker read the variables", barChart("Staleness of updates", bars, 12));
}

function timesCard(training) {
  const { edges_ns: edges, counts } = training.step_times;
  if (counts.length < 2) return null; // all equal, as the quantiles say
  const said = edges.map((ns) => showTick(ns, edges[1] - edges[0], edges[edges.length - 1])); // told apart however near they are
  const bars = counts.map((count, at) => [said[at], count, `${plural(count, "step")} of ${said[at]} to ${said[at + 1]}`]);
  return card("Number of the workers' steps by their time", barChart("Times of steps", bars, 4));
}

function scalingCard(training) {
  if (!training.scaling.length) return null;
  const examples = training.scaling.every((row) => row[3] !== null);
  const rows = training.scaling.map(([workers, rate, half, per_s]) => ({ workers, rate: examples ? per_s : rate, half }));
  const number = (value) => (value === null ? "?" : training.unsized.most + showFigure(value));
  const lines = training.scaling.map(([workers, rate, half, per_s, efficiency, link]) => [
    [String(workers), number(rate), number(per_s), efficiency === null ? "?" : showShare(efficiency)], null,
    `${plural(workers, "worker")}${half === null ? "" : `, ± ${showShare(half)}`}${link ? `; busiest link ${link}` : ""}`,
  ]);
  const linked = training.scaling.filter((row) => row[5]); // a table of their own, as names of links are long
  const links = linked.map(([workers, , , , , link, share]) => [[String(workers), link, showShare(share)], null]);
  return card(
    `Scaling: ${examples ? "examples" : "steps"} per second over workers; dashed: perfect scaling from the first`,
    scalingChart(rows),
    table(["workers", "steps/s#", "examples/s#", "efficiency#"], [], lines),
    links.length ? wrapping(table(["workers", "busiest link", "busy#"], ["24%"], links)) : "",
  );
}

function fullCard(training) {
  return training.full ? card("Out of memory", element("p", "bad", asWritten(training.full))) : null;
}

function disturbancesCard(training) {
  if (!training.disturbances.length) return null;
  return card("Disturbed by", element("ul", "notes", ...training.disturbances.map(([text, meaning]) => element("li", "", element("b", "", text), `: ${meaning}`))));
}

function trainingNotes(training) {
  const { left_out: left } = training.timeline;
  const lines = [...training.notes, training.steps.left_out, left && `the ${showCount(left)} shortest ops and transfers of the first steps are not drawn`].filter(Boolean);
  return lines.length ? card("Notes", notesList(lines)) : null;
}

// The legend of what the timelines draw.
function stepsLegend(model) {
  const runs = [model, otherTraining(model)].filter(Boolean).map(({ training }) => training);
  const colours = model.cluster.colours.slice(0, 3);
  const striped = colours.map((colour, at) => `${colour} ${(100 * at) / colours.length}% ${(100 * (at + 1)) / colours.length}%`);
  const slanting = (colour, ground = "transparent") => `repeating-linear-gradient(-45deg, ${colour} 0 1px, ${ground} 1px 3px)`;
  const there = (kind) => runs.some(({ steps }) => steps.bands.some((band) => band.kind === kind));
  const pale = "color-mix(in srgb, var(--accent) 32%, var(--paper))";
  const entries = [
    [true, `linear-gradient(90deg, ${striped.join(", ")})`, "device; of a client its busiest"],
    [runs.some(({ steps, timeline }) => steps.clients.length > 1 && timeline.start_ns.length), `linear-gradient(${colours[0]} 60%, ${colours[1] ?? colours[0]} 60%)`, "strip below: for whom"],
    [runs.some(({ steps }) => steps.waiting_ns.some((nanos) => nanos > 0)), pale, "pale: waits for tokens or gradients"],
    [runs.some(({ steps }) => steps.input_ns.some((nanos) => nanos > 0)), slanting("var(--paper)", pale), "pale, hatched: waits for input"],
    [runs.some(({ steps }) => steps.cut.some((by) => by !== WHOLE)), slanting("var(--paper)", "var(--accent)"), "cut off"],
    [there("late"), slanting("var(--quiet)"), "not started"],
    [there("gone"), slanting("var(--bad)"), "gone"],
    [there("restores"), slanting("var(--accent)"), "restores"],
    [there("pause"), slanting("var(--ink)"), "pauses"],
    [runs.some(({ steps }) => steps.cut_ns > 0), "color-mix(in srgb, var(--edge) 30%, var(--paper))", "warm-up"],
  ];
  return entries.filter(([shown]) => shown).map(([, colour, said]) => element("span", "", chip(colour), said));
}

// The page of the training: timeline above charts, words beside them. Returns its timelines as one, that of the run first.
function trainingView(model, tip) {
  const { training } = model;
  const timelines = trainingTimelines(model, tip, (from, to, clock) => {
    byId("steps-range").textContent = `${showSpan(Math.round(Math.max(0, from)), Math.round(Math.min(to, clock)))}${training.steps.left_out ? `; ${training.steps.left_out}` : ""}`;
  });
  const timeline = timelines.at(-1);
  const filled = (id, cards) => byId(id).append(...cards.filter(Boolean));
  filled("training-charts", [...trainingsCharts(model), scalingCard(training), model.training_against ? null : tasksCard(model), timesCard(training), model.training_against ? null : stalenessCard(training), linksCard(training), sharedMemoryCard(training)]);
  filled("training-words", [...trainingsCards(model), fullCard(training), heldCard(training), disturbancesCard(training), rateCard(training), regimeCard(training), trainingNotes(training)]);
  byId("steps-legend").append(...stepsLegend(model));
  // No taller than its rows. Of a whole run the steps are looked at, and the charts below; of the first steps all rows.
  const tall = (most) => byId("training").style.setProperty("--steps", `min(${most}, ${timelines.reduce((sum, one) => sum + one.height + 24, 36)}px)`);
  const wide = () => tall(`min(60vh, max(42vh, ${timelines.reduce((sum, one) => sum + one.top + 24, 86)}px))`);
  wide();
  const wired = (id, room, look) => byId(id).addEventListener("click", () => (room(), look()));
  wired("steps-fit", wide, timeline.fit);
  wired("steps-first", () => tall("72vh"), timeline.showSlices);
  byId("steps-first").hidden = !training.timeline.start_ns.length;
  for (const one of timelines) new ResizeObserver(() => one.draw()).observe(byId(one.name));
  return { ...timeline, all: timelines, draw: () => timelines.forEach((one) => one.draw()) };
}

// Two tabs: the training, and one step of its first client.
function wireTabs(model, shown) {
  byId("tabs").hidden = false;
  byId("tab-step").textContent = `One step of ${model.training.steps.clients[0][0]}`;
  const choose = (training) => {
    byId("training").hidden = !training;
    byId("board").hidden = training;
    for (const [tab, chosen] of [["tab-training", training], ["tab-step", !training]]) {
      byId(tab).setAttribute("aria-selected", String(chosen));
      byId(tab).tabIndex = chosen ? 0 : -1;
    }
    writeHeader(model, training);
    shown(training);
  };
  const tabs = [byId("tab-training"), byId("tab-step")];
  tabs.forEach((tab, at) => {
    tab.addEventListener("click", () => choose(at === 0));
    tab.addEventListener("keydown", (event) => {
      if (event.key !== "ArrowLeft" && event.key !== "ArrowRight") return;
      event.stopPropagation(); // arrows move the views
      choose(at === 1);
      tabs[1 - at].focus();
    });
    const view = byId(tab.getAttribute("aria-controls"));
    view.setAttribute("role", "tabpanel");
    view.setAttribute("aria-labelledby", tab.id);
  });
  choose(true);
  return choose;
}
