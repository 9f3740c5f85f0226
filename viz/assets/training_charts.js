// Small charts of a training as SVG, in the colours of the page. Needs format.js.

// The namespace comes from an empty picture of the page, so that the page holds no address.
function drawn(tag, attributes, ...content) {
  const made = document.createElementNS(document.getElementById("no-chart").namespaceURI, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...content);
  return made;
}

const CHART = { width: 360, height: 150, left: 44, right: 10, top: 10, bottom: 26 };

function chartFrame(label) {
  return drawn("svg", { viewBox: `0 0 ${CHART.width} ${CHART.height}`, class: "chart", role: "img", "aria-label": label });
}

// Steps of 1, 2 or 5 times a power of ten, about four of them.
function niceStep(most) {
  const rough = Math.max(1e-12, most / 4);
  const power = 10 ** Math.floor(Math.log10(rough));
  return [1, 2, 5, 10].map((part) => part * power).find((step) => step >= rough * 0.999);
}

function heights(svg, most, said) {
  const { width, height, left, right, top, bottom } = CHART;
  const step = niceStep(most);
  const y = (value) => height - bottom - (value / most) * (height - top - bottom);
  for (let value = 0; value <= most * 1.0001; value += step) {
    svg.append(
      drawn("line", { x1: left, x2: width - right, y1: y(value), y2: y(value), class: "grid" }),
      drawn("text", { x: left - 6, y: y(value) + 3.5, class: "tick end" }, said(value, most)),
    );
  }
  return y;
}

// Bars [label, count, title], the labels thinned to what fits.
function barChart(label, bars, ticks) {
  const svg = chartFrame(label);
  const { width, height, left, right, bottom } = CHART;
  const most = Math.max(1, ...bars.map(([, count]) => count));
  const y = heights(svg, most, (value, most) => (Number.isInteger(value) ? compact(value, most) : ""));
  const each = (width - left - right) / bars.length;
  bars.forEach(([, count, title], at) => {
    const bar = drawn("rect", { x: left + at * each + (each > 4 ? 1 : 0), y: y(count), width: Math.max(0.5, Math.min(each - (each > 4 ? 2 : 0), 46)), height: Math.max(0, height - bottom - y(count)), class: "bar-of" });
    bar.append(drawn("title", {}, title));
    svg.append(bar);
  });
  const every = Math.max(1, Math.ceil(bars.length / ticks));
  bars.forEach(([name], at) => {
    if (at % every === 0) svg.append(drawn("text", { x: left + at * each + Math.min(each, 46) / 2, y: height - bottom + 15, class: "tick middle" }, name));
  });
  return svg;
}

// A number of an axis up to `most`, in one unit for all of the axis.
const compact = (value, most) => (!value ? "0" : most >= 1e6 ? `${value / 1e6}M` : most >= 1e4 ? `${value / 1e3}k` : String(value));

// Steps per second over the number of workers, with intervals, and the line of perfect scaling.
function scalingChart(rows) {
  const svg = chartFrame("Rate over the number of workers");
  const { width, height, left, right, bottom } = CHART;
  const known = rows.filter((row) => row.rate !== null).sort((a, b) => a.workers - b.workers);
  if (!known.length) return null;
  const widest = known[known.length - 1].workers;
  const most = Math.max(...known.map((row) => row.rate * (1 + (row.half ?? 0)))) * 1.15;
  const y = heights(svg, most, (value, most) => compact(Number(value.toPrecision(3)), most));
  const x = (workers) => left + (workers / widest) * (width - left - right - 8);
  const ideal = known[0].rate / known[0].workers;
  const reach = Math.min(widest, most / ideal);
  svg.append(drawn("line", { x1: x(0), y1: y(0), x2: x(reach), y2: y(ideal * reach), class: "ideal" }));
  svg.append(drawn("polyline", { points: known.map((row) => `${x(row.workers)},${y(row.rate)}`).join(" "), class: "curve" }));
  for (const row of known) {
    const half = row.rate * (row.half ?? 0);
    const dot = drawn("circle", { cx: x(row.workers), cy: y(row.rate), r: 3.2, class: "dot" });
    dot.append(drawn("title", {}, `${plural(row.workers, "worker")}: ${showFigure(row.rate)}`));
    svg.append(
      drawn("line", { x1: x(row.workers), x2: x(row.workers), y1: y(row.rate - half), y2: y(row.rate + half), class: "interval" }),
      dot,
    );
  }
  let last = -Infinity;
  for (const row of known) {
    if (x(row.workers) - last < 18) continue;
    last = x(row.workers);
    svg.append(drawn("text", { x: last, y: height - bottom + 15, class: "tick middle" }, String(row.workers)));
  }
  return svg;
}
