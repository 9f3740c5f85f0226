"""The graph of a pipeline: copies, sums of gradients, and the NoOps that hold turns apart.

    stage 0    F0 ─▶ NoOp ─▶ F1 ─▶ NoOp ─▶ B0, its gradients ─▶ NoOp ─▶ ...

A NoOp between two turns of a stage holds the ops of the second back until the first has ended. So TensorFlow's
executor, which knows no turns, follows the order of the pipeline.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from simulator.cluster.devicespec import parse
from simulator.costs.measured import MICROBATCH
from simulator.graph.attributes import COLOCATION, NO_ATTRS, colocated_with, colocation, number, typed
from simulator.graph.editor import Editor, Endpoint, edited
from simulator.graph.graph import Graph, Shape
from simulator.training.pipelines.combining import BATCH_NORMS
from simulator.training.pipelines.microbatches import Division
from simulator.training.pipelines.orders import Order, Turn, held, turns
from simulator.training.pipelines.stages import Depths
from simulator.training.programs.edits import TensorOps, copied, dtype_of, output_on, redirect, reshaped, unused_prefix
from simulator.training.programs.towers import Replica, gathered, mean_shape, of_each
from simulator.training.recognition.anatomy import Gradient
from simulator.training.recognition.batch import brings_examples
from simulator.training.recognition.sharing import held_by, is_shared
from simulator.training.recognition.variables import variable_of
from simulator.wording import counted, some

_SHOWN = 2  # names in a note


@dataclass(frozen=True, eq=False)
class Pipeline:
    """A graph whose step passes through stages in microbatches, and how it was made."""

    graph: Graph
    order: Order
    microbatches: int
    examples: int  # of each
    stages: tuple[str, ...]  # the device of each
    stage_of: Mapping[str, int]  # node -> stage, of those that belong to one
    fetches: tuple[str, ...]  # of the step
    notes: tuple[str, ...] = ()

    def held(self, stage: int) -> int:
        """The most microbatches whose activations a stage holds at a time."""
        return held(turns(self.order, len(self.stages), self.microbatches)[stage])

    def __str__(self) -> str:
        examples, stages = counted(self.examples, "example"), counted(len(self.stages), "stage")
        return f"{self.microbatches} microbatches of {examples} over {stages}, {self.order}"


@dataclass(eq=False)
class Builder:
    """The pipelined graph while it is made."""

    division: Division
    depths: Depths
    stage: Mapping[int, int]  # row of the tower -> stage
    where: Sequence[str]
    order: Order
    home: str  # the client's CPU

    def built(self) -> Pipeline:
        """Make it."""
        division = self.division
        graph, count = self._placed(), division.count
        editor = edited(graph, as_made=False)
        pieces = self._split(editor)
        replicas = [Replica({row: row for row in division.tower}, pieces[0])]
        rows, given = division.copied, dict(enumerate(graph.requested))
        for place in range(1, count):
            prefix = unused_prefix(graph, f"{MICROBATCH}{place}")
            made = copied(editor, rows, prefix, given, pieces[place], division.written)
            replicas.append(Replica(made, pieces[place]))
        taken = turns(self.order, len(self.where), count)
        sums: dict[tuple[int, int], list[int]] = defaultdict(list)  # stage, microbatch -> what adds its gradients
        joined = list[int]()
        for gradient in division.found.gradients:
            joined += self._accumulate(editor, gradient, replicas, taken, sums)
        for stage, own in enumerate(taken):
            self._follow(editor, stage, own, replicas, sums)
        shown = {
            editor.names[one.rows[row]]: at for row, at in self.stage.items() for one in replicas if row in one.rows
        }
        return Pipeline(
            reshaped(editor.built(), joined),
            self.order,
            count,
            division.examples,
            tuple(self.where),
            shown,
            division.found.step.fetches,
            self._notes(),
        )

    # ---- devices ----------------------------------------------------------------------------------------------------

    def _placed(self) -> Graph:
        """The graph with the devices of stages, and without colocations that would tie two stages together."""
        graph, stage = self.division.graph, dict(self.stage)
        for variable, depth in self.depths.variable.items():
            stage[variable] = self._at(depth)
        for slot, variable in self.division.found.slot_of.items():
            if variable in stage:
                stage[slot] = stage[variable]
        self._after(stage)
        requested, attrs = list(graph.requested), list(graph.attrs)
        for row, at in stage.items():
            requested[row] = self._device(row, at)
            others = colocated_with(graph.attrs[row])
            stay = [name for name in others if stage.get(graph.index.get(name, -1), at) == at]
            if len(stay) < len(others):
                attrs[row] = {key: value for key, value in attrs[row].items() if key != COLOCATION}
                if stay:
                    attrs[row] = {**attrs[row], COLOCATION: colocation(stay)}
        return replace(graph, requested=tuple(requested), attrs=tuple(attrs))

    def _after(self, stage: dict[int, int]) -> None:
        """Add reads of variables, updates, and what sees a microbatch: where that of which they are made stands."""
        graph, runs = self.division.graph, self.division.found.step.runs
        for row in graph.topological.tolist():
            if row in stage or not runs[row] or brings_examples(graph, row):
                continue
            variable = variable_of(graph, row)
            if variable is not None and variable not in stage and not is_shared(graph, row):
                near = [stage[at] for at in graph.sources(row) if at in stage]
                if near:
                    stage[variable] = near[0]
            near = [stage[at] for at in graph.sources(row) if at in stage]
            if near and (len(set(near)) == 1 or variable in stage):
                stage[row] = stage.get(variable, near[0]) if variable is not None else near[0]

    def _device(self, row: int, stage: int) -> str:
        """The device of a stage, or the CPU beside it where the graph asks for a CPU.

        What uses a variable stands beside it, and so do its slots, whatever they ask for.
        """
        graph, slots = self.division.graph, self.division.found.slot_of
        holder = held_by(graph, row)
        beside = row if holder is None else holder
        own, there = parse(graph.requested[slots.get(beside, beside)]), parse(self.where[stage])
        return str(there._replace(type="CPU", id=own.id or 0) if own.type == "CPU" else there)

    def _at(self, depth: int) -> int:
        return next(at for row, at in self.stage.items() if self.depths.of.get(row) == depth)

    # ---- microbatches -----------------------------------------------------------------------------------------------

    def _split(self, editor: Editor) -> list[dict[Endpoint, Endpoint]]:
        """Split what holds the whole batch; per microbatch the part that it reads in place of it."""
        graph, count = editor.given, self.division.count
        pieces: list[dict[Endpoint, Endpoint]] = [{} for _ in range(count)]
        reading = defaultdict(list)
        for edge in self.division.readers:
            reading[output_on(graph, edge)].append(edge)
        for (row, port), axis in self.division.cut.items():
            edges = reading[row, port]
            tensor = int(graph.edge_tensor[edges[0]])
            whole, dtype = graph.tensor_shape[tensor] or (), dtype_of(graph, edges[0])
            at = next((self.stage[to] for edge in edges if (to := int(graph.edge_dst[edge])) in self.stage), 0)
            ops = TensorOps(editor, self.home if brings_examples(graph, row) else self.where[at])
            name = f"split/{graph.names[row]}" + (f"_{port}" if port else "")
            part: Shape = (*whole[:axis], whole[axis] // count, *whole[axis + 1 :])
            start = ops.constant(f"{name}/axis", axis)
            attrs = {**typed(dtype), "num_split": number(count)}
            made = ops.add(name, "Split", [start, (row, port)], attrs, [part] * count)
            for place, piece in enumerate(pieces):
                piece[row, port] = (made, place)
            for edge in edges:
                redirect(editor, edge, (made, 0))
        return pieces

    def _accumulate(
        self,
        editor: Editor,
        gradient: Gradient,
        replicas: Sequence[Replica],
        taken: Sequence[Sequence[Turn]],
        sums: dict[tuple[int, int], list[int]],
    ) -> tuple[int, ...]:
        """Let an update take the mean over microbatches, added up in the order in which they come back.

        Return what has the rows of all. There may be more than of the whole batch, as of negatives that each draws.
        """
        graph, edge = editor.given, gradient.values[0]
        if gradient.indices and len(set(of_each(graph, gradient.indices[0], replicas))) == 1:
            gradient = replace(gradient, indices=())  # rows that all microbatches share
        if len(set(of_each(graph, edge, replicas))) == 1 and not gradient.indices:
            return ()  # it depends on no example
        at = self._at(self.depths.variable[gradient.variable]) if gradient.variable in self.depths.variable else 0
        ops = TensorOps(editor, self.where[at], dtype_of(graph, edge))
        name = f"accumulate/{graph.names[gradient.variable]}"
        shape = mean_shape(graph, gradient, replicas)
        joined: tuple[int, ...] = ()
        if gradient.indices:
            joined = (
                gathered(editor, f"{name}/rows", edge, replicas, self.where[at]),
                gathered(editor, f"{name}/indices", gradient.indices[0], replicas, self.where[at]),
            )
            total: int | Endpoint = joined[0]
            for reading in gradient.indices:
                redirect(editor, reading, joined[1])
        else:
            back = [turn.microbatch for turn in taken[at] if not turn.forward]
            total, *others = of_each(graph, edge, [replicas[one] for one in back])
            for one, value in zip(back[1:], others, strict=True):
                total = ops.sum(f"{name}/sum", [total, value], shape)
                sums[at, one].append(total)
        mean = ops.share(name, total, len(replicas), shape)
        for reading in gradient.values:
            redirect(editor, reading, mean)
        return joined

    # ---- the order of turns -----------------------------------------------------------------------------------------

    def _follow(
        self,
        editor: Editor,
        stage: int,
        own: Sequence[Turn],
        replicas: Sequence[Replica],
        sums: Mapping[tuple[int, int], Sequence[int]],
    ) -> None:
        """Let each turn of a stage wait for the one before, and for its gradients to be added up: they take memory."""
        graph, forward = editor.given, self.depths.forward
        blocks = {
            there: {row for row in self.division.copied if self.stage[row] == stage and (row in forward) == there}
            for there in (True, False)
        }
        firsts = {there: [row for row in rows if rows.isdisjoint(graph.sources(row))] for there, rows in blocks.items()}
        lasts = {
            there: [row for row in rows if rows.isdisjoint(graph.edge_dst[graph.out_edges(row)].tolist())]
            for there, rows in blocks.items()
        }
        prefix, last = unused_prefix(graph, "pipeline"), list[int]()
        for place, turn in enumerate(own):
            rows = replicas[turn.microbatch].rows
            if last and firsts[turn.forward]:
                name = editor.free(f"{prefix}stage_{stage}/turn_{place}")
                wait = editor.add(name, "NoOp", (), last, NO_ATTRS, device=self.where[stage])
                for row in sorted(firsts[turn.forward]):
                    editor.add_control_edge(wait, rows[row])
            last = sorted(rows[row] for row in lasts[turn.forward]) or last
            if not turn.forward:
                last = [*last, *sums.get((stage, turn.microbatch), ())]

    def _notes(self) -> tuple[str, ...]:
        graph, copies = self.division.graph, self.division.copied
        said = []
        norms = [graph.names[row] for row in copies if graph.ops[row].startswith(BATCH_NORMS)]
        if norms:
            said.append(
                f"{counted(len(norms), 'op')} of batch normalisation ({some(norms, _SHOWN)}) take the statistics of a "
                "microbatch instead of the batch, so the step is not quite the same"
            )
        if self.division.comparing:
            pairs = [graph.names[row] for row in self.division.comparing]
            said.append(
                f"{counted(len(pairs), 'op')} ({some(pairs, _SHOWN)}) {'compares' if len(pairs) == 1 else 'compare'} "
                "each example with those of its microbatch alone, so the step is not quite the same"
            )
        if self.division.combining:
            met = [graph.names[row] for row in self.division.combining]
            said.append(
                f"{counted(len(met), 'op')} ({some(met, _SHOWN)}) {'combines' if len(met) == 1 else 'combine'} the "
                "examples of a microbatch alone, so the step is not quite the same"
            )
        if self.division.aside:
            seen = [graph.names[row] for row in self.division.aside]
            said.append(f"{counted(len(seen), 'node')} ({some(seen, _SHOWN)}) see the first microbatch alone")
        return tuple(said)
