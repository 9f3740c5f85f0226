// The compiled engine's base mode once more, in C++: first ready first, and links that serve one transfer at a time.
//
// The benchmark compiles this file and hands it the same arrays (simulator/execution/layouts.py, where they are
// explained); what it computes has to be equal, bit for bit, before its time counts. It goes the same way, too: a pass
// finds the transfers of the assignment and refuses what cannot be counted, the heap holds only what runs, memory is
// counted by reference, and what a makespan alone does not need is left out. So what is compared is two compilers, not two
// ideas.

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

namespace {

constexpr uint64_t kGiga = 1000000000;
constexpr int64_t kSafeBytes = int64_t{1} << 33;  // up to here bytes times 10^9 fit in 64 bits
constexpr double kCountableNs = 0x1p61 * 0.999;  // a sum of times above this may not fit in 64 bits
constexpr int64_t kNoKernel = -2, kNoWay = -3, kTooLong = -4, kStuck = -5;
constexpr int32_t kOwn = -1;  // Held.passes: a buffer of its own

// A binary heap by time; what ends at one instant leaves it in no particular order.
struct Heap {
    std::vector<int64_t> key;
    std::vector<int32_t> task;
    size_t size = 0;

    void push(int64_t when, int32_t what) {
        size_t hole = size++;
        for (; hole > 0 && key[(hole - 1) / 2] > when; hole = (hole - 1) / 2) {
            key[hole] = key[(hole - 1) / 2];
            task[hole] = task[(hole - 1) / 2];
        }
        key[hole] = when;
        task[hole] = what;
    }

    void replace(int64_t when, int32_t what) {  // the first
        size_t hole = 0;
        for (size_t child = 1; child < size; child = 2 * hole + 1) {
            if (child + 1 < size && key[child + 1] < key[child]) ++child;
            if (key[child] >= when) break;
            key[hole] = key[child];
            task[hole] = task[child];
            hole = child;
        }
        key[hole] = when;
        task[hole] = what;
    }

    void pop() {
        --size;
        replace(key[size], task[size]);
    }
};

}  // namespace

struct Flat {
    int64_t ops, tensors, edges, devices, kinds, ways, links, roots, pulls, merges;
    const int32_t *block, *group_ptr, *group_edge, *edge_tensor, *consumer, *reader;
    const uint8_t* host;
    const int32_t *waits, *root;
    const uint8_t* instant;
    const int64_t *kind_ns, *tensor_bytes;
    const int32_t* post;
    const uint8_t *stays, *replicable;
    const int32_t* lanes;
    const uint8_t* cpu;
    const int32_t *kind, *home, *way;
    const int64_t *latency_ns, *bytes_per_s, *link_bytes_per_s;
    const int32_t *link_ptr, *link;
    const uint8_t* even;
    const int32_t *in_ptr, *in_edge, *tensor_ptr, *tensor_op, *tensor_edge, *passes;
    const uint8_t* bound;
    const int64_t *scratch_bytes, *resident_bytes;
};

class Engine {
    using Rows = std::vector<int32_t>;
    using Times = std::vector<int64_t>;

    const Flat f;
    const int32_t n, tensors, onward, starting;  // tasks: ops, transfers that arrive, that go on, that begin
    const int32_t* device = nullptr;
    bool several = false;  // some way has several links, or one that is faster than the way
    bool uneven = false;   // some link is faster than its way
    int32_t transfers = 0, waiting = 0;  // as many of `later` go on in the next round
    Heap heap;
    Rows told, local_end, asked_ptr, span_from, span_to, way_of, conditions, posted_ptr, posted;
    Rows waits, merged, first, woken, asking, chain, queue, wire, idle, head, tail, wire_head, wire_end;
    Rows line_head, line_end, joined, later;  // of ways with several links
    Times across, took_ns, end_ns, free_ns, onward_ns, through_ns;
    // of a record; a copy is a tensor, or the number of tensors plus the transfer that brought it
    Rows tensor_of, target_of, came_by, began, ended, owner, holds, held_by;
    Times start_ns, since_ns, nbytes, level, peak, freed, begun, brief;
    std::vector<uint8_t> over;

  public:
    explicit Engine(const Flat& flat)
        : f(flat), n(static_cast<int32_t>(f.ops)), tensors(static_cast<int32_t>(f.tensors)),
          onward(n + static_cast<int32_t>(f.edges)), starting(onward + static_cast<int32_t>(f.edges)),
          told(f.edges + f.roots), local_end(n), asked_ptr(n + 1), span_from(f.edges), span_to(f.edges), way_of(f.edges),
          conditions(f.pulls ? f.edges : 0), posted_ptr(n + 1), posted(conditions.size()), waits(n), merged(n),
          first(n), woken(n), asking(f.edges), chain(n), queue(n), wire(f.edges), idle(f.devices), head(f.devices),
          tail(f.devices), wire_head(f.ways), wire_end(f.ways), line_head(f.link_ptr[f.ways]),
          line_end(line_head.size()), across(f.edges), took_ns(n), end_ns(f.edges), free_ns(f.links),
          tensor_of(f.edges), target_of(f.edges), came_by(f.edges), began(n + f.edges),
          ended(n + f.edges), owner(tensors + f.edges), holds(tensors + f.edges), held_by(tensors + f.edges),
          start_ns(n), since_ns(tensors + f.edges), nbytes(tensors + f.edges), level(f.devices),
          peak(f.devices), freed(f.devices), begun(f.devices), brief(f.devices), over(n + f.edges) {
        // the first of those that arrive and wait in turn on each way, and, of a record, those that will begin
        int64_t running = f.ways + f.link_ptr[f.ways] + f.edges + 1;
        for (int64_t way = 0; way < f.ways; ++way) {
            uneven |= !f.even[way];
            several |= uneven || f.link_ptr[way] + 1 < f.link_ptr[way + 1];
        }
        joined.resize(several ? f.edges : 0);
        later.resize(joined.size());
        onward_ns.resize(joined.size());
        through_ns.resize(joined.size());
        for (int64_t where = 0; where < f.devices; ++where) running += std::min(f.lanes[where], n);
        heap.key.resize(running);
        heap.task.resize(running);
        std::copy(f.root, f.root + f.roots, told.begin() + f.edges);
    }

    void tell(int64_t* starts, int64_t* peaks) const {  // [n] and [D], of the last record
        std::copy(start_ns.begin(), start_ns.end(), starts);
        std::copy(peak.begin(), peak.end(), peaks);
    }

    // The makespan, or why there is none.
    template <bool kRecord>
    int64_t run(const int32_t* on) {
        device = on;
        clear<kRecord>();
        const int64_t found = find<kRecord>();
        if (found < 0) return found;
        transfers = static_cast<int32_t>(found);
        if (f.pulls) post();
        divide(head, tail);
        divide(wire_head, wire_end);
        if (several) clear_lines();
        if (kRecord) hold_residents();
        return play<kRecord>();
    }

  private:
    // The transfers of the assignment, in the order in which those of one instant are served; readers that one event
    // tells lie side by side in `told`. Counts on the way what each device and each way may have to queue.
    template <bool kRecord>
    int64_t find() {
        int32_t count = 0;
        double total = 0;
        for (int32_t op = 0; op < n; ++op) {
            const int32_t here = device[op];
            took_ns[op] = f.kind_ns[op * f.kinds + f.kind[here]];
            if (took_ns[op] < 0) return kNoKernel;
            total += static_cast<double>(took_ns[op]);
            ++tail[here];
            asked_ptr[op] = count;
            int32_t low = f.block[op], high = f.block[op + 1];
            for (int32_t group = f.group_ptr[op]; group < f.group_ptr[op + 1]; ++group) {
                const int32_t from = f.group_edge[group], until = f.group_edge[group + 1];
                const bool copies = f.replicable[f.edge_tensor[from]] && copied(from, until, here);
                int32_t crossing = 0;
                for (int32_t edge = from; edge < until; ++edge) {
                    const int32_t target = device[f.consumer[edge]];
                    if (target == (copies ? f.home[target] : here) || f.stays[f.edge_tensor[edge]]) {
                        told[low++] = f.reader[edge];
                        if (kRecord) came_by[edge] = -1;
                    } else {
                        const int64_t key = int64_t{target} << 1 | (f.cpu[target] | f.host[edge]);
                        across[crossing++] = key << 32 | edge;
                    }
                }
                if (crossing > 1) std::sort(across.begin(), across.begin() + crossing);
                high -= crossing;
                int64_t known = -1;
                int32_t carried = -1;
                for (int32_t at = 0; at < crossing; ++at) {
                    const int64_t key = across[at] >> 32;
                    const int32_t edge = static_cast<int32_t>(across[at]), tensor = f.edge_tensor[edge];
                    if (key != known || tensor != carried) {
                        known = key;
                        carried = tensor;
                        const int32_t target = static_cast<int32_t>(key >> 1);
                        const int32_t way = f.way[(copies ? f.home[target] : here) * f.devices + target];
                        if (way < 0) return kNoWay;
                        way_of[count] = way;
                        ++wire_end[way];
                        end_ns[count] = f.latency_ns[way] + wire_ns(f.tensor_bytes[tensor], f.bytes_per_s[way]);
                        total += static_cast<double>(end_ns[count]);
                        span_from[count] = high + at;
                        if (kRecord || f.pulls || uneven) tensor_of[count] = tensor;
                        if (kRecord) target_of[count] = target;
                        ++count;
                    }
                    told[high + at] = f.reader[edge];
                    span_to[count - 1] = high + at + 1;
                    if (kRecord) came_by[edge] = count - 1;
                }
            }
            local_end[op] = low;
        }
        asked_ptr[n] = count;
        return total < kCountableNs ? count : kTooLong;
    }

    // Whether a small constant is copied to the processors where it is read: if there are several.
    bool copied(int32_t from, int32_t until, int32_t here) const {
        const auto near = [this](int32_t edge) { return f.home[device[f.consumer[edge]]]; };
        for (int32_t edge = from + 1; edge < until; ++edge)
            if (near(edge) != near(from)) return f.cpu[here];
        return false;
    }

    // Bytes at a rate, rounded up; a rate of 0 says that bytes cost no time.
    static int64_t wire_ns(int64_t count, int64_t rate) {
        if (!rate) return 0;
        if (count <= kSafeBytes) return (static_cast<uint64_t>(count) * kGiga + rate - 1) / static_cast<uint64_t>(rate);
        return static_cast<int64_t>((static_cast<__int128>(count) * kGiga + rate - 1) / rate);
    }

    // What each transfer waits for: its value, and the op at whose end its Recv is posted, if there is one.
    void post() {
        std::fill(posted_ptr.begin(), posted_ptr.end(), 0);
        for (int32_t transfer = 0; transfer < transfers; ++transfer) {
            const int32_t op = f.post[tensor_of[transfer]];
            conditions[transfer] = op < 0 ? 1 : 2;
            if (op >= 0) ++posted_ptr[op + 1];
        }
        std::partial_sum(posted_ptr.begin(), posted_ptr.end(), posted_ptr.begin());
        Rows at(posted_ptr);
        for (int32_t transfer = 0; transfer < transfers; ++transfer)
            if (conditions[transfer] == 2) posted[at[f.post[tensor_of[transfer]]]++] = transfer;
    }

    // An op has ended: the transfers of its outputs ask for their way, and those whose Recv it posts.
    void ask(int32_t op, int32_t& asks) {
        for (int32_t transfer = asked_ptr[op]; transfer < asked_ptr[op + 1]; ++transfer)
            if (!f.pulls || !--conditions[transfer]) asking[asks++] = transfer;
        for (int32_t at = posted_ptr[op]; at < posted_ptr[op + 1]; ++at)
            if (!--conditions[posted[at]]) asking[asks++] = posted[at];
    }

    // Clear what a run needs clear.
    template <bool kRecord>
    void clear() {
        std::copy(f.waits, f.waits + n, waits.begin());
        std::copy(f.lanes, f.lanes + f.devices, idle.begin());
        for (Rows* rows : {&tail, &wire_end}) std::fill(rows->begin(), rows->end(), 0);
        std::fill(free_ns.begin(), free_ns.end(), 0);
        if (f.merges) std::fill(merged.begin(), merged.end(), 0);
        if (kRecord) std::fill(first.begin(), first.end(), -1);
        heap.size = 0;
    }

    static void divide(Rows& from, Rows& until) {  // lengths in `until` become empty regions
        int32_t at = 0;
        for (size_t row = 0; row < from.size(); ++row) {
            from[row] = at;
            at += until[row];
            until[row] = from[row];
        }
    }

    // Nobody waits before one of several links.
    void clear_lines() {
        for (int64_t way = 0; way < f.ways; ++way)
            for (int32_t place = f.link_ptr[way]; place < f.link_ptr[way + 1]; ++place)
                line_head[place] = line_end[place] = wire_head[way];
        std::fill(joined.begin(), joined.begin() + transfers, 0);
    }

    // Join the line of the next link: when the bytes are through all of them, or -1 where that is not known yet. Where the
    // link begins at once, the transfer joins that of the one after it in the next round. `sent` is when the first begins.
    int64_t join_line(int32_t transfer, int64_t now, int64_t& sent) {
        const int32_t way = way_of[transfer], first = f.link_ptr[way], last = f.link_ptr[way + 1] - 1;
        const int32_t place = first + joined[transfer], link = f.link[place];
        const int64_t slowest = end_ns[transfer] - f.latency_ns[way];
        int64_t& free = free_ns[link];
        const int64_t from = std::max(now, free);
        const bool own = !f.even[way] && f.link_bytes_per_s[link] != f.bytes_per_s[way];
        free = from + (own ? wire_ns(f.tensor_bytes[tensor_of[transfer]], f.link_bytes_per_s[link]) : slowest);
        if (place == first) sent = from;
        const int64_t through = std::max(place == first ? from + slowest : through_ns[transfer], free);
        if (place == last) {
            joined[transfer] = 0;
            return through;
        }
        wire[line_end[place]++] = transfer;
        joined[transfer] = place - first + 1;
        onward_ns[transfer] = from;
        through_ns[transfer] = through;
        if (from > now) {
            if (line_head[place] + 1 == line_end[place]) heap.push(from, onward + transfer);
        } else {
            ++line_head[place];
            later[waiting++] = onward_number(transfer);
        }
        return -1;
    }

    // What has no bytes goes on first: a lower number.
    int32_t onward_number(int32_t transfer) const {
        const bool empty = end_ns[transfer] == f.latency_ns[way_of[transfer]];
        return empty ? transfer - static_cast<int32_t>(f.edges) : transfer;
    }

    // The link before which a transfer waits begins: it goes on, and the next one that waits there takes its place.
    void leave_line(int32_t transfer) {
        const int32_t place = f.link_ptr[way_of[transfer]] + joined[transfer] - 1;
        if (++line_head[place] < line_end[place]) {
            const int32_t next = wire[line_head[place]];
            heap.replace(onward_ns[next], onward + next);
        } else {
            heap.pop();
        }
    }

    template <bool kRecord>
    int64_t play() {
        int64_t now = 0;
        int32_t left = n, turn = 0, low = static_cast<int32_t>(f.edges), high = static_cast<int32_t>(told.size());
        for (bool opening = true;; opening = false) {
            int32_t ready = 0, asks = waiting, chained = 0, instantly = 0, starts = 0, ends = 0;
            std::copy(later.begin(), later.begin() + waiting, asking.begin());
            waiting = 0;
            ++turn;
            while (opening || (heap.size && heap.key[0] == now)) {  // each end of this round
                if (!opening) {
                    const int32_t what = heap.task[0];
                    if (kRecord && what >= starting) {
                        began[starts++] = what - starting + n;
                        heap.pop();
                        continue;
                    }
                    if (what >= onward) {
                        const int32_t transfer = what - onward;
                        asking[asks++] = onward_number(transfer);
                        leave_line(transfer);
                        continue;
                    }
                    if (kRecord) ended[ends++] = what;
                    if (what >= n) {
                        int32_t transfer = what - n;
                        low = span_from[transfer];
                        high = span_to[transfer];
                        const int32_t way = way_of[transfer];
                        if (++wire_head[way] < wire_end[way]) {
                            transfer = wire[wire_head[way]];
                            heap.replace(end_ns[transfer], n + transfer);
                        } else {
                            heap.pop();
                        }
                    } else {
                        low = f.block[what];
                        high = local_end[what];
                        ask(what, asks);
                        const int32_t here = device[what];
                        if (head[here] < tail[here]) {
                            const int32_t op = queue[head[here]++];
                            if (kRecord) {
                                start_ns[op] = now;
                                began[starts++] = op;
                            }
                            if (took_ns[op] > 0) {
                                heap.replace(now + took_ns[op], op);
                            } else {
                                heap.pop();
                                chain[n - ++instantly] = op;
                            }
                        } else {
                            heap.pop();
                            ++idle[here];
                        }
                    }
                }
                opening = false;
                while (true) {
                    for (int32_t place = low; place < high; ++place) {
                        int32_t op = told[place];
                        if (op < 0) {
                            const int32_t edge = ~op;
                            op = f.consumer[edge];
                            if (merged[op]) {
                                if (kRecord && merged[op] == turn) first[op] = std::min(first[op], edge);
                                continue;
                            }
                            merged[op] = turn;
                            if (kRecord) first[op] = edge;
                        }
                        if (--waits[op]) continue;
                        --left;
                        if (f.instant[op])
                            chain[chained++] = op;
                        else
                            woken[ready++] = op;
                    }
                    if (!chained) break;
                    const int32_t op = chain[--chained];
                    low = f.block[op];
                    high = local_end[op];
                    ask(op, asks);
                    if (kRecord) {
                        start_ns[op] = now;
                        began[starts++] = ended[ends++] = op;
                    }
                }
            }
            if (asks > 1) std::sort(asking.begin(), asking.begin() + asks);
            for (int32_t at = 0; at < asks; ++at) {
                const int32_t transfer = asking[at] < 0 ? asking[at] + static_cast<int32_t>(f.edges) : asking[at];
                const int32_t way = way_of[transfer];
                const int32_t link = f.link_ptr[way], links = f.link_ptr[way + 1] - link;
                const int64_t slowest = end_ns[transfer] - f.latency_ns[way];
                int64_t sent = now, through = now + slowest;  // its first link begins; all of them are done with it
                if (links == 1 && f.even[way]) {
                    int64_t& free = free_ns[f.link[link]];
                    sent = std::max(now, free);
                    free = through = sent + slowest;
                } else if (links > 0) {
                    sent = -1;
                    through = join_line(transfer, now, sent);
                }
                if (kRecord && sent > now)
                    heap.push(sent, starting + transfer);
                else if (kRecord && sent == now)
                    began[starts++] = n + transfer;
                if (through < 0) continue;
                end_ns[transfer] = through + f.latency_ns[way];
                const bool alone = wire_head[way] == wire_end[way];
                wire[wire_end[way]++] = transfer;
                if (alone) heap.push(end_ns[transfer], n + transfer);
            }
            if (ready > 1) std::sort(woken.begin(), woken.begin() + ready);
            for (int32_t at = 0; at < ready; ++at) {
                const int32_t op = woken[at], here = device[op];
                if (!idle[here]) {
                    queue[tail[here]++] = op;
                    continue;
                }
                --idle[here];
                heap.push(now + took_ns[op], op);
                if (kRecord) {
                    start_ns[op] = now;
                    began[starts++] = op;
                }
            }
            for (; instantly; --instantly) heap.push(now, chain[n - instantly]);
            if (kRecord) {
                for (int32_t at = 0; at < starts; ++at) begin(began[at], now);
                for (int32_t at = 0; at < ends; ++at) finish(ended[at], now);
            }
            if (kRecord && !heap.size && !waiting && !left) let_go(now);
            if (waiting) continue;
            if (kRecord && (!heap.size || heap.key[0] > now)) advance();
            if (!heap.size) return left ? kStuck : now;
            now = heap.key[0];
        }
    }

    void hold_residents() {
        for (Times* times : {&level, &freed, &begun, &brief}) std::fill(times->begin(), times->end(), 0);
        std::fill(over.begin(), over.end(), 0);
        std::vector<int32_t> stamp(f.devices, -1);
        for (int32_t op = 0; op < n; ++op) {
            if (!f.resident_bytes[op]) continue;
            bool copies = false;
            for (int32_t group = f.group_ptr[op]; group < f.group_ptr[op + 1]; ++group) {
                const int32_t from = f.group_edge[group], until = f.group_edge[group + 1];
                if (!f.replicable[f.edge_tensor[from]] || !copied(from, until, device[op])) continue;
                copies = true;
                for (int32_t edge = from; edge < until; ++edge) {
                    const int32_t where = f.home[device[f.consumer[edge]]];
                    if (stamp[where] != op) level[where] += f.resident_bytes[op];
                    stamp[where] = op;
                }
            }
            if (!copies) level[device[op]] += f.resident_bytes[op];
        }
        peak = level;
    }

    void own(int32_t copy, int32_t here, int64_t count, int64_t now) {
        owner[copy] = copy;
        holds[copy] = 1;
        held_by[copy] = here;
        since_ns[copy] = now;
        nbytes[copy] = count;
        begun[here] += count;
    }

    void begin(int32_t task, int64_t now) {
        if (task < n) {
            begun[device[task]] += f.scratch_bytes[task];
            for (int32_t tensor = f.tensor_ptr[task]; tensor < f.tensor_ptr[task + 1]; ++tensor) {
                owner[tensor] = -1;
                if (f.passes[tensor] == kOwn) own(tensor, device[task], f.tensor_bytes[tensor], now);
            }
            return;
        }
        const int32_t transfer = task - n, way = way_of[transfer], copy = tensors + transfer;
        owner[copy] = -1;  // handed over: as its tensor, once that is there
        if (f.link_ptr[way] < f.link_ptr[way + 1])
            own(copy, target_of[transfer], f.tensor_bytes[tensor_of[transfer]], now);
    }

    void drop(int32_t buffer, int64_t now) {
        if (buffer < 0 || --holds[buffer]) return;
        (since_ns[buffer] < now ? freed : brief)[held_by[buffer]] += nbytes[buffer];
    }

    // What has ended hands its outputs to those who wait for them, and lets go of what it read.
    void finish(int32_t task, int64_t now) {
        over[task] = 1;
        if (task >= n) {
            const int32_t transfer = task - n, copy = tensors + transfer;
            const bool filled = owner[copy] >= 0;
            if (!filled) owner[copy] = owner[tensor_of[transfer]];
            if (owner[copy] >= 0)
                for (int32_t place = span_from[transfer]; place < span_to[transfer]; ++place)
                    holds[owner[copy]] += !over[told[place] >= 0 ? told[place] : f.consumer[~told[place]]];
            drop(owner[tensor_of[transfer]], now);
            if (filled) drop(copy, now);
            return;
        }
        for (int32_t tensor = f.tensor_ptr[task]; tensor < f.tensor_ptr[task + 1]; ++tensor) {
            if (f.passes[tensor] >= 0) {
                const int32_t edge = first[task] >= 0 ? first[task] : f.passes[tensor];
                owner[tensor] = owner[came_by[edge] < 0 ? f.edge_tensor[edge] : tensors + came_by[edge]];
            }
            if (owner[tensor] < 0) continue;
            for (int32_t edge = f.tensor_edge[tensor]; edge < f.tensor_edge[tensor + 1]; ++edge)
                holds[owner[tensor]] += came_by[edge] < 0 && !over[f.consumer[edge]];
        }
        for (int32_t transfer = asked_ptr[task]; transfer < asked_ptr[task + 1]; ++transfer)
            if (owner[tensor_of[transfer]] >= 0) ++holds[owner[tensor_of[transfer]]];
        (start_ns[task] < now ? freed : brief)[device[task]] += f.scratch_bytes[task];
        if (!f.bound[task])  // the client keeps what it gets
            for (int32_t place = f.in_ptr[task]; place < f.in_ptr[task + 1]; ++place) {
                const int32_t edge = f.in_edge[place], tensor = f.edge_tensor[edge], transfer = came_by[edge];
                // a value that comes too late for its Merge will find that it has ended
                if (over[transfer < 0 ? f.tensor_op[tensor] : n + transfer])
                    drop(owner[transfer < 0 ? tensor : tensors + transfer], now);
            }
        for (int32_t tensor = f.tensor_ptr[task]; tensor < f.tensor_ptr[task + 1]; ++tensor)
            if (owner[tensor] == tensor) drop(tensor, now);
    }

    // The step is over: the client lets go of what it got, before what begins at this instant.
    void let_go(int64_t now) {
        for (int32_t op = 0; op < n; ++op)
            for (int32_t place = f.in_ptr[op]; f.bound[op] && place < f.in_ptr[op + 1]; ++place) {
                const int32_t edge = f.in_edge[place], transfer = came_by[edge];
                drop(owner[transfer < 0 ? f.edge_tensor[edge] : tensors + transfer], now);
            }
    }

    // An instant is over: what ended is freed, then what began is added, then what also ended at it is freed.
    void advance() {
        for (int64_t where = 0; where < f.devices; ++where) {
            const int64_t held = level[where] - freed[where] + begun[where];
            peak[where] = std::max(peak[where], held);
            level[where] = held - brief[where];
            freed[where] = begun[where] = brief[where] = 0;
        }
    }
};

extern "C" {
Engine* twin_made(const Flat* flat) { return new Engine(*flat); }
int64_t twin_makespan(Engine* twin, const int32_t* device) { return twin->run<false>(device); }
int64_t twin_record(Engine* twin, const int32_t* device) { return twin->run<true>(device); }
void twin_tell(const Engine* twin, int64_t* starts, int64_t* peaks) { twin->tell(starts, peaks); }
void twin_dropped(Engine* twin) { delete twin; }
}
