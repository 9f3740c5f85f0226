// Two trainings of one graph: their figures, steps, tasks and use side by side, and both timelines on one clock.
// In each pair the other run comes first, then the run of the page. Needs format.js, cards.js, comparison.js, training_charts.js.

const shownAs = {
  per_s: [(value) => showFigure(value), (was, is) => signedPercent(is / was - 1)],
  ns: [(value) => showNanos(value), (was, is) => signedNanos(is - was)],
  share: [(value) => showShare(value), (was, is) => signedPoints(is - was)],
  "": [(value) => showFigure(value), (was, is) => `${is < was ? "−" : "+"}${showFigure(Math.abs(is - was))}`],
};
const signedPoints = (share) => (Math.abs(share) < 0.0005 ? "<0.1 pt" : `${share < 0 ? "−" : "+"}${(Math.abs(share) * 100).toFixed(1)} pt`);

// The model of the other training, as far as its timeline and its charts read it.
const otherTraining = (model) => (model.training_against ? { training: model.training_against.training, cluster: model.training_against.cluster } : null);

function trainingsCards(model) {
  const { training_against: against } = model;
  if (!against) return [];
  const unsized = [against.training.unsized, model.training.unsized];
  return [figuresOfBoth(against, unsized), partsOfStep(against, unsized)];
}
function trainingsCharts(model) {
  const { training_against: against } = model;
  if (!against) return [];
  return [tasksOfBoth(model, against), stalenessOfBoth(model, against), useOfBoth("Devices: busy share", "device", against.devices, against.names), useOfBoth("Links: busy share", "link", against.links, against.names)];
}

const marked = { per_s: "most", ns: "least" }; // units whose figures are bounds where sizes are unknown

function figuresOfBoth({ names, sentences, figures }, unsized) {
  const rows = figures.map(([what, unit, was, is]) => {
    const [show, change] = shownAs[unit];
    const side = (value, at) => (value === null ? "?" : (unsized[at][marked[unit]] ?? "") + show(value));
    const moved = was === null || is === null || (unit === "per_s" && !was) ? "" : was === is ? "=" : change(was, is);
    return [[shortly(what), side(was, 0), side(is, 1), moved], null, what, [what, was ?? -1, is ?? -1, (is ?? 0) - (was ?? 0)]];
  });
  const [first, ...others] = sentences;
  return card(
    `Against ${names[0]}`,
    element("p", "said", asWritten(first.slice(`Against ${names[0]}: `.length))),
    others.length ? notesList(others) : null,
    wrapping(table(["figure", ...bothColumns(names), "change#"], [], rows)),
  );
}

// The time from the start of a worker's step to that of the next: two bars on one scale, and the parts, which add up.
function partsOfStep({ names, parts }, unsized) {
  if (!parts.length) return null;
  const shades = parts.map((_, rank) => `color-mix(in srgb, var(--ink) ${Math.round(74 * 0.55 ** rank)}%, var(--paper))`);
  const whole = [1, 2].map((at) => parts.reduce((sum, part) => sum + part[at], 0));
  const bars = whole.map((total, at) => {
    const bar = stack(parts.map((part, rank) => [shades[rank], part[1 + at]]));
    bar.style.width = `${(100 * total) / Math.max(...whole, 1)}%`;
    return element("div", "both", element("span", "", ...lined(columnNames(names)[at])), element("div", "", bar), element("span", "n", unsized[at].least + showNanos(total)));
  });
  const rows = [...parts, ["in all", ...whole]].map(([what, was, is], rank) => {
    const said = rank < parts.length ? shortly(what, chip(shades[rank])) : element("b", "", what);
    return [[said, showNanos(was), showNanos(is), was === is ? "=" : signedNanos(is - was)], null, what, [what, was, is, is - was]];
  });
  return card("A worker's step, from its start to the next one's", ...bars, wrapping(table(["part", ...bothColumns(names), "change#"], [], rows)));
}

function tasksOfBoth(model, { names, tasks, training }) {
  const kinds = model.training.kinds.map(([kind]) => kind);
  const colours = model.training.kinds.map(([, colour]) => colour || "var(--waiting)");
  const waiting = kinds.length - 1;
  const bar = (shares) => (shares ? stack(shares.map((share, at) => [colours[at], share])) : element("span", "", "absent"));
  const of = (shares, at) => (shares ? showShare(shares[at]) : "–");
  const rows = tasks.map(([task, was, is]) => {
    const said = (name, shares) => `${name}: ${shares ? kinds.map((kind, at) => `${kind} ${showShare(shares[at])}`).join(", ") : "absent"}`;
    return [[task, element("div", "pair", bar(was), bar(is)), of(was, waiting), of(is, waiting)], null, [task, said(names[0], was), said(names[1], is)].join("\n"), [task, (is?.[waiting] ?? 0) - (was?.[waiting] ?? 0), was?.[waiting] ?? -1, is?.[waiting] ?? -1]];
  });
  const legend = element("p", "legend", ...kinds.map((kind, at) => element("span", "", chip(colours[at]), kind)));
  return card(`Tasks: above ${names[0]}, below ${names[1]}`, legend, wrapping(table(["task", "", ...bothColumns(names).map((name) => `waits, ${name}`)], ["24%"], rows)));
}

function stalenessOfBoth(model, { names, training }) {
  const both = [training.staleness, model.training.staleness];
  if (both.every((rows) => rows.every(([late]) => late === 0))) return null;
  const total = both.map((rows) => rows.reduce((sum, [, count]) => sum + count, 0) || 1);
  const most = Math.max(...both.flat().map(([late]) => late));
  const counts = both.map((rows) => new Map(rows));
  const bars = Array.from({ length: most + 1 }, (_, late) => [String(late), ...counts.map((rows, at) => (rows.get(late) ?? 0) / total[at])]);
  return card("Staleness: updates by others since the worker read the variables", pairChart("Staleness of updates in both runs", bars, names), pairLegend(names));
}
const pairLegend = (names) => element("p", "legend", element("span", "", chip("var(--faint)"), ...lined(names[0])), element("span", "", chip("var(--accent)"), ...lined(names[1])));

// Bars side by side [label, share of the other run, share of this run].
function pairChart(label, bars, names) {
  const svg = chartFrame(label);
  const { width, height, left, right, bottom } = CHART;
  const most = Math.max(0.01, ...bars.flatMap(([, was, is]) => [was, is]));
  const y = heights(svg, most, showShare);
  const each = (width - left - right) / bars.length;
  const every = Math.max(1, Math.ceil(bars.length / 12));
  bars.forEach(([said, ...shares], at) => {
    const wide = Math.min(each * 0.42, 22);
    shares.forEach((share, side) => {
      const bar = drawn("rect", { x: left + at * each + side * wide, y: y(share), width: Math.max(0.5, wide - 0.5), height: Math.max(0, height - bottom - y(share)), class: side ? "bar-of" : "bar-other" });
      bar.append(drawn("title", {}, `${names[side]}: ${showShare(share)} of the updates with ${said}`));
      svg.append(bar);
    });
    if (at % every === 0) svg.append(drawn("text", { x: left + at * each + wide, y: height - bottom + 15, class: "tick middle" }, said));
  });
  return svg;
}

function useOfBoth(heading, what, uses, names) {
  if (!uses.length) return null;
  const rows = [...uses].sort((a, b) => Math.abs(b[2] - b[1]) - Math.abs(a[2] - a[1])).slice(0, MOST_ROWS).map(([name, was, is]) => [
    [shortDevice(name), showShare(was), showShare(is), was === is ? "=" : signedPoints(is - was)], null, name, [name, was, is, is - was],
  ]);
  return card(heading, wrapping(table([what, ...bothColumns(names), "change#"], [], rows)), shortened(uses));
}

// The timelines of one training or of two, the run of the page last; two show the same times.
function trainingTimelines(model, tip, onRange) {
  const other = otherTraining(model);
  const runs = [[other, "steps-other"], [model, "steps"]].filter(([run]) => run);
  const clock = Math.max(...runs.map(([run]) => run.training.steps.whole_ns));
  const views = [];
  runs.forEach(([run, name], at) => {
    const label = byId(`${name}-run`);
    byId(name).hidden = false;
    label.hidden = !other;
    if (other) label.replaceChildren(element("b", "", model.training_against.names[at]), ` ${run.training.steps_per_s === null ? "?" : run.training.unsized.most + showFigure(run.training.steps_per_s)} steps/s`);
    const view = trainingTimeline(byId(name), run, tip, (from, to) => {
      onRange(from, to, clock);
      for (const one of views) if (one.name !== name) one.follow(from, to);
    }, clock);
    views.push({ ...view, name });
  });
  return views;
}
