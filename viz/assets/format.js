// Numbers as people read them. Three digits, SI for time, binary prefixes for memory: as simviz prints them elsewhere.

function scaled(value, steps) {
  for (const [size, unit] of steps) {
    if (Math.abs(value) >= size) return `${rounded3(value / size)} ${unit}`;
  }
  return value + " " + steps[steps.length - 1][1];
}

// Three digits, or all before the point. What is halfway between two goes to the even one, as in the summary.
function rounded3(value) {
  const digits = value >= 99.95 ? Math.floor(Math.log10(value)) : 2; // behind the first one
  const [, kept, last, exponent] = new RegExp(`^(\\d\\.\\d{${digits - 1}}(\\d))50*(e.*)$`).exec(value.toExponential(60)) ?? [];
  return Number(kept && last % 2 === 0 ? kept + exponent : value.toExponential(digits)).toString();
}

const showNanos = (ns) => scaled(ns, [[1e9, "s"], [1e6, "ms"], [1e3, "µs"], [1, "ns"]]);
const showBytes = (bytes) =>
  bytes < 0 ? "unknown" : scaled(bytes, [[2 ** 40, "TiB"], [2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"], [1, "B"]]);
const showRate = (perSecond) => scaled(Math.round(perSecond), [[1e12, "TB/s"], [1e9, "GB/s"], [1e6, "MB/s"], [1e3, "kB/s"], [1, "B/s"]]); // of links: decimal, as their makers say it
const counts = new Intl.NumberFormat("en");
const showCount = (count) => counts.format(count);
const showFigure = (value) => value.toLocaleString("en", { maximumSignificantDigits: 4 });
// What is not all is never "100 %".
const showShare = (share) =>
  (share >= 0.995 && share < 1 ? (Math.floor(share * 1000) / 10).toFixed(1) : share >= 0.0995 || share === 0 ? Math.round(share * 100) : share < 0.0005 ? "<0.1" : (share * 100).toFixed(1)) + " %";
const plural = (count, one, many = one + "s") => `${showCount(count)} ${count === 1 ? one : many}`;

// A point in time, with as many digits as it takes to tell points `step` apart; its unit fits `largest`.
function showTick(ns, step, largest = ns) {
  const [size, unit] = [[1e9, "s"], [1e6, "ms"], [1e3, "µs"], [1, "ns"]].find(([part]) => Math.abs(largest) >= part) ?? [1, "ns"];
  const digits = Math.max(0, Math.ceil(-Math.log10(step / size) - 1e-9));
  return (ns / size).toFixed(digits) + " " + unit;
}
const showSpan = (start, end) => [start, end].map((ns) => showTick(ns, Math.max(1, (end - start) / 20), end)).join(" – ");

// The last part of a scoped name, and what stands before it.
const leafOf = (name) => name.slice(name.lastIndexOf("/") + 1);
const scopeOf = (name) => name.slice(0, Math.max(0, name.lastIndexOf("/")));

// An element with a class, a text and children. Text goes in as a text node, so no name is ever read as HTML.
function element(tag, className, ...content) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  for (const part of content) if (part !== null && part !== undefined) made.append(part);
  return made;
}
