// Sugiyama, Tagawa and Toda, "Methods for visual understanding of hierarchical system structures" (1981), for the items of
// one scope: columns by longest path, an order within columns by barycentre sweeps, places by pool adjacent violators.
// Columns break into lines, as words do. Pure functions over numbers.

const SWEEPS = 4;

// Column of each of `count` items: after all before it, and sources next to their first consumer. pairs has no duplicates;
// where they form cycles, the item that comes first in `order` goes first and the pairs back to it are ignored.
function ranksOf(count, pairs, order) {
  const ahead = Array.from({ length: count }, () => []);
  const waiting = new Int32Array(count);
  for (const [src, dst] of pairs) {
    ahead[src].push(dst);
    waiting[dst]++;
  }
  const items = [...Array(count).keys()];
  const ready = items.filter((item) => !waiting[item]);
  const isSource = waiting.map((behind) => (behind ? 0 : 1));
  const stuck = items.sort((a, b) => order[a] - order[b] || a - b);
  const rank = new Int32Array(count);
  const done = new Uint8Array(count);
  const sequence = [];
  for (let next = 0; sequence.length < count; ) {
    while (!ready.length && done[stuck[next]]) next++;
    const item = ready.length ? ready.pop() : stuck[next];
    done[item] = 1;
    sequence.push(item);
    for (const other of ahead[item]) {
      if (done[other]) continue;
      rank[other] = Math.max(rank[other], rank[item] + 1);
      if (!--waiting[other]) ready.push(other);
    }
  }
  for (const item of sequence.reverse()) {
    if (isSource[item] && ahead[item].length) rank[item] = Math.max(0, Math.min(...ahead[item].map((other) => rank[other])) - 1);
  }
  return rank;
}

// Places in the given order, at least half the sum of two sizes apart, nearest to the wishes: pool adjacent violators.
function spread(wishes, sizes) {
  const offsets = [];
  let reached = 0;
  for (const size of sizes) {
    offsets.push(reached + size / 2);
    reached += size;
  }
  const pools = [];
  wishes.forEach((wish, index) => {
    let pool = [wish - offsets[index], 1];
    while (pools.length && pools[pools.length - 1][0] * pool[1] >= pool[0] * pools[pools.length - 1][1]) {
      const before = pools.pop();
      pool = [pool[0] + before[0], pool[1] + before[1]];
    }
    pools.push(pool);
  });
  return pools.flatMap(([total, members]) => Array(members).fill(total / members)).map((at, index) => at + offsets[index]);
}

// The first word of each line, for words of these widths with a gap between them: as few lines as fit the room, and of so
// many lines those whose longest is shortest. A word wider than the room has a line of its own.
function brokenLines(widths, gap, room) {
  const starts = (limit) => {
    const found = [];
    let reached = Infinity;
    widths.forEach((width, at) => {
      reached += gap + width;
      if (reached > limit) {
        found.push(at);
        reached = width;
      }
    });
    return found;
  };
  const fewest = starts(room).length;
  let low = 0;
  let high = room;
  while (high - low > 1) {
    const middle = (low + high) / 2;
    if (starts(middle).length <= fewest) high = middle;
    else low = middle;
  }
  return starts(high);
}

// Order the members of each column by the mean place of their neighbours, first of those before, then of those behind.
// left[item] and right[item] are neighbours one column away. Sorts the columns in place; ties keep their order.
function sweep(columns, left, right) {
  const place = new Map();
  const number = (column) => column.forEach((item, at) => place.set(item, at - (column.length - 1) / 2));
  columns.forEach(number);
  const mean = (near, otherwise) => (near.length ? near.reduce((sum, item) => sum + place.get(item), 0) / near.length : otherwise);
  for (let turn = 0; turn < SWEEPS; turn++) {
    const near = turn % 2 ? right : left;
    for (const column of turn % 2 ? [...columns].reverse() : columns) {
      if (column.length < 2) continue;
      const wish = new Map(column.map((item) => [item, mean(near[item], place.get(item))]));
      column.sort((a, b) => wish.get(a) - wish.get(b));
      number(column);
    }
  }
}

// The middle of each item: as near to its neighbours as its column allows. sizes[item] is its height with what it keeps
// free around it; arrives[item] and leaves[item] are where edges meet it, relative to its middle.
function settledPlaces(columns, left, right, sizes, arrives, leaves) {
  const place = new Float64Array(sizes.length);
  for (const column of columns) {
    let top = -column.reduce((sum, item) => sum + sizes[item], 0) / 2;
    for (const item of column) {
      place[item] = top + sizes[item] / 2;
      top += sizes[item];
    }
  }
  for (let turn = 0; turn < SWEEPS; turn++) {
    const back = turn % 2 === 0; // from the last column to the first
    for (const column of back ? [...columns].reverse() : columns) {
      const wishes = column.map((item) => {
        const near = back ? right[item] : left[item];
        if (!near.length) return place[item];
        const met = near.reduce((sum, other) => sum + place[other] + (back ? arrives[other] : leaves[other]), 0) / near.length;
        return met - (back ? leaves[item] : arrives[item]);
      });
      spread(wishes, column.map((item) => sizes[item])).forEach((middle, at) => (place[column[at]] = middle));
    }
  }
  return place;
}
