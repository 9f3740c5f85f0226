// The search box: nodes and scopes that have all typed words in their name, op or device, or match /a regular expression/.
// All hits are marked in the graph as long as the words stand there. Needs format.js, model.js, cards.js.

const MATCHES = 60;

// What each item is searched by, in small letters: its name, and behind it its op and device.
function searched(model) {
  if (model.searched) return model.searched;
  const names = Array(model.items);
  for (let scope = 0; scope < model.scopes; scope++) names[scope] = pathTo(model, scope).map((part) => model.tree.labels[part]).join("/");
  model.nodes.names.forEach((name, node) => (names[model.scopes + node] = name));
  const behind = names.map((_, item) => (isScope(model, item) ? "" : `${opOf(model, item - model.scopes)} ${model.cluster.devices[model.nodes.device[item - model.scopes]].short}`));
  const lower = (texts) => texts.map((text) => text.toLowerCase());
  return (model.searched = { names, behind, lowerNames: lower(names), lowerBehind: lower(behind) });
}

// A function from an item to its rank, smaller is better, or -1 for no match; null where the typed text is no expression.
function ranking(model, typed) {
  const { names, behind, lowerNames, lowerBehind } = searched(model);
  const [, pattern] = /^\/(.*)\/$/s.exec(typed) ?? [];
  if (pattern) {
    try {
      const expression = new RegExp(pattern, "i");
      return (item) => (expression.test(names[item]) ? 1 : expression.test(behind[item]) ? 3 : -1);
    } catch {
      return null; // said in the list
    }
  }
  const words = typed.toLowerCase().split(/\s+/).map((word) => [word, word.replace(/^\^|:\d+$/g, "")]); // behind it the node of what may be a tensor
  // The rank of the worst word: the last part of the name is it, begins with it, holds it, the op or device does, the scope does.
  return (item) => {
    let worst = -1;
    for (const [typed, maker] of words) {
      const name = lowerNames[item];
      const word = maker !== typed && maker && `/${name}`.endsWith(`/${maker}`) ? maker : typed;
      const leaf = name.lastIndexOf("/") + 1;
      const at = name.indexOf(word, leaf);
      const whole = name === word || (at === leaf && name.length - leaf === word.length);
      const rank = whole ? 0 : at === leaf ? 1 : at > leaf ? 2 : lowerBehind[item].includes(word) ? 3 : name.includes(word) ? 4 : -1;
      if (rank < 0) return -1;
      worst = Math.max(worst, rank);
    }
    return worst;
  };
}

// Items that match, best first; what runs comes before what does not, nodes before scopes, short names before long ones.
function findItems(model, typed) {
  const wanted = typed.trim();
  if (!wanted) return { found: [], all: [], wrong: false };
  const rankOf = ranking(model, wanted);
  if (!rankOf) return { found: [], all: [], wrong: true };
  const ranked = [[], [], [], [], []];
  for (let item = 1; item < model.items; item++) {
    const rank = rankOf(item);
    if (rank >= 0) ranked[rank].push(item);
  }
  const { names } = searched(model);
  const runs = (item) => (isScope(model, item) ? totalsOf(model, item).running > 0 : model.nodes.runs[item - model.scopes]);
  const later = (item) => (runs(item) ? 0 : 2) + (isScope(model, item) ? 1 : 0);
  for (const some of ranked) some.sort((a, b) => later(a) - later(b) || names[a].length - names[b].length || a - b);
  const all = ranked.flat();
  return { found: all.slice(0, MATCHES), all, wrong: false };
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
    const item = found[index];
    state.select(isScope(model, item) ? { kind: "scope", id: item } : { kind: "node", id: item - model.scopes }, "search");
  }
  function draw() {
    const result = findItems(model, input.value);
    found = result.found;
    state.set({ hits: new Set(result.all), ...(state.traced && { traced: "" }) }, "search");
    const { names } = searched(model);
    const lines = found.map((item, index) => {
      const node = item - model.scopes;
      const [before, kind] = isScope(model, item)
        ? [null, `scope of ${plural(totalsOf(model, item).ops, "op")}`]
        : [chip(model.cluster.colours[model.nodes.device[node]]), opOf(model, node)];
      const line = element("li", "", element("span", "name", before, element("bdi", "", ...lined(names[item]))), element("span", "op", kind));
      line.id = "match-" + index;
      line.setAttribute("role", "option");
      line.title = names[item];
      line.addEventListener("pointerdown", (event) => {
        event.preventDefault();
        take(index);
      });
      return line;
    });
    if (result.wrong) lines.push(element("li", "none", "This is no regular expression."));
    else if (!found.length) lines.push(element("li", "none", "No name, op or device has all of that."));
    else if (result.all.length > found.length) lines.push(element("li", "none", `${showCount(result.all.length - found.length)} more: type on.`));
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
      state.set({ hits: new Set() }, "search");
      close();
      input.blur();
    }
  });
}
