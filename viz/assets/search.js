// The search box: nodes whose name or op holds the typed text, best first. Needs format.js, model.js.

const MATCHES = 60;

// The rank of a match, smaller is better: the last part of the name begins with it, holds it, the op does, the scope does.
function findNodes(model, typed) {
  const wanted = typed.trim().toLowerCase();
  if (!wanted) return { found: [], total: 0 };
  const lower = (model.lowered ??= model.nodes.names.map((name) => name.toLowerCase()));
  const ops = model.nodes.ops.map((op) => op.toLowerCase());
  const ranked = [[], [], [], [], []];
  lower.forEach((name, node) => {
    const leaf = name.lastIndexOf("/") + 1;
    const at = name.indexOf(wanted, leaf);
    const op = ops[model.nodes.op[node]];
    if (name === wanted || name.length - leaf === wanted.length && at === leaf) ranked[0].push(node);
    else if (at === leaf) ranked[1].push(node);
    else if (at > leaf) ranked[2].push(node);
    else if (op.includes(wanted)) ranked[3].push(node);
    else if (name.includes(wanted)) ranked[4].push(node);
  });
  for (const some of ranked) some.sort((a, b) => model.nodes.runs[b] - model.nodes.runs[a] || lower[a].length - lower[b].length || a - b);
  const all = ranked.flat();
  return { found: all.slice(0, MATCHES), total: all.length };
}

function searchBox(input, list, model, state) {
  let found = [];
  let chosen = 0;

  function close() {
    list.hidden = true;
    input.setAttribute("aria-expanded", "false");
    input.removeAttribute("aria-activedescendant");
  }
  function choose(index) {
    chosen = Math.min(Math.max(index, 0), found.length - 1);
    list.querySelectorAll("[role=option]").forEach((line, at) => line.setAttribute("aria-selected", String(at === chosen)));
    const line = document.getElementById("match-" + chosen);
    line?.scrollIntoView({ block: "nearest" });
    if (line) input.setAttribute("aria-activedescendant", line.id);
  }
  function take(index) {
    if (found[index] === undefined) return;
    close();
    input.blur();
    state.select({ kind: "node", id: found[index] }, "search");
  }
  function draw() {
    const result = findNodes(model, input.value);
    found = result.found;
    const lines = found.map((node, index) => {
      const line = element("li", "", chip(model.cluster.colours[model.nodes.device[node]]),
        element("span", "name", isolated(model.nodes.names[node])), element("span", "op", opOf(model, node)));
      line.id = "match-" + index;
      line.setAttribute("role", "option");
      line.title = model.nodes.names[node];
      line.addEventListener("pointerdown", (event) => {
        event.preventDefault();
        take(index);
      });
      return line;
    });
    if (!found.length) lines.push(element("li", "none", "No node or op has that in its name."));
    else if (result.total > found.length) lines.push(element("li", "none", `${showCount(result.total - found.length)} more: type on.`));
    list.replaceChildren(...lines);
    list.hidden = input.value.trim() === "";
    input.setAttribute("aria-expanded", String(!list.hidden));
    if (found.length) choose(0);
  }

  input.addEventListener("input", draw);
  input.addEventListener("focus", () => input.value && draw());
  input.addEventListener("blur", close);
  input.addEventListener("keydown", (event) => {
    event.stopPropagation();
    const steps = { ArrowDown: 1, ArrowUp: -1 };
    if (event.key in steps) {
      event.preventDefault();
      choose(chosen + steps[event.key]);
    } else if (event.key === "Enter") take(chosen);
    else if (event.key === "Escape") {
      input.value = "";
      close();
      input.blur();
    }
  });
}
