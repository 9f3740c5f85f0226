"""The expansion of functions and functional control flow: `inline` makes a flat graph, `lower` what TensorFlow places.

Before placement, TensorFlow's session lowers functional control flow in the outer graph, and inlines branches and
bodies. A call in the outer graph it expands only with `do_function_inlining`. `inline` expands both, `lower` what a
session expands by itself. Both go in the order of TensorFlow's pass
(`tensorflow/core/common_runtime/lower_functional_ops.cc`): the nodes in their order, then those that were added
meanwhile. One counter numbers the names of all added nodes.

`inline` also expands calls that TensorFlow would hand over whole (to XLA, or marked `_noinline`), so that the
computation can be seen. Functions that are attributes of other ops (the `f` of a MapDataset, a SymbolicGradient) stay
where they are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain as chained

import numpy as np

from simulator.graph import registry
from simulator.graph.attributes import is_true
from simulator.graph.editor import Editor, edited
from simulator.graph.graph import Attrs, Graph
from simulator.graph.inlining import calls, lowering
from simulator.graph.messages import Proto
from simulator.graph.op_classes import CASES, IFS, PARTITIONED, WHILES
from simulator.wording import counted

_KINDS = {"call": "function call", "branch": "conditional", "loop": "loop"}
_CONSTRUCTS = IFS | CASES | WHILES
_LOWERED = "_lower_using_switch_merge"  # set by Python on every construct that it makes
_XLA = ("_xla_compile_id", "_tpu_replicate")  # nodes that have one of these are left to XLA
_COMPILED = "_XlaMustCompile"  # of calls of what `tf.function(jit_compile=True)` traced


def inline(graph: Graph) -> Graph:
    """The same computation without function calls, If, Case and While.

    Every expanded node survives under its name as an IdentityN of its outputs, so fetches stay valid. The library keeps
    what is still referred to. The notes say what was expanded, and what could not be because its function is not in the
    library. A graph without any of these is returned as it is.

    Raises GraphError for a function that calls itself, for arguments that do not fit, and when the graph would have
    more nodes than `calls.Bodies.most` says.
    """
    if not any(op in _CONSTRUCTS or _is_call(graph, op) for op in set(graph.ops)):
        return graph
    editor = edited(graph)
    done = _expand_all(editor, graph, everything=True)
    notes = tuple(_notes(done))
    if not any(done[kind] for kind in _KINDS):
        return graph.with_notes(*notes) if notes else graph
    library = _referenced(editor, graph.gradients)
    gradients = {name: other for name, other in graph.gradients.items() if name in library}
    return replace(_built(editor, notes, as_made=False), library=library, gradients=gradients)


def lower(graph: Graph) -> Graph:
    """The graph that TensorFlow's placer sees when a session is handed this one; the result's `lowered.given` is it.

    If, Case and While that ask for it are lowered, with the bodies of their parts. AccumulateNV2 and ParallelConcat are
    rewritten, and calls that hand back resources are isolated. Other calls stay nodes on purpose, so that no step is
    refused for them. A replaced node survives under its name, so fetches stay valid. A graph without any of these is
    returned as it is.

    Raises GraphError as `inline` does.
    """
    rewritten = {lowering.ACCUMULATE, lowering.PARALLEL}
    if not any(op in _CONSTRUCTS or op in rewritten or _is_call(graph, op) for op in set(graph.ops)):
        return graph
    editor = edited(graph)
    lowering.accumulate(editor, graph)
    done = _expand_all(editor, graph, everything=False)
    lowering.concatenate(editor, graph)
    lowering.isolate(editor, graph)
    changed = len(editor.names) != len(graph)
    made = _built(editor, tuple(_notes(done))) if changed else graph
    return replace(made, keeps_calls=True)


def isolated(graph: Graph) -> Graph:
    """The graph with Identities around the calls that hand back resources, as in `lower`, and nothing else changed."""
    if PARTITIONED.isdisjoint(graph.ops):
        return graph
    editor = edited(graph)
    lowering.isolate(editor, graph)
    return _built(editor, ()) if len(editor.names) > len(graph) else graph


def _built(editor: Editor, notes: Sequence[str], *, as_made: bool = True) -> Graph:
    graph = editor.given
    ends = graph.ends or tuple([graph.names[row] for row in np.flatnonzero(np.diff(graph.out_ptr) == 0).tolist()])
    made = editor.built(as_made=as_made)
    return replace(made, ends=ends, meta_graph=graph.meta_graph).with_notes(*notes)


def _is_call(graph: Graph, op: str) -> bool:
    return op in PARTITIONED or op in graph.library


def _expand_all(editor: Editor, graph: Graph, *, everything: bool) -> Counter[str]:
    """Expand node after node; how many of which kind. Parts of a construct are not counted again."""
    bodies = calls.Bodies(graph.library, graph.source)
    most = bodies.most(len(graph))
    done: Counter[str] = Counter()
    parts: set[int] = set()
    chains: dict[int, calls.Chain] = {}  # of nodes that came out of calls
    for row in _rows(editor, graph):
        if row in editor.removed or not (everything or _wanted(editor, row)):
            continue
        before, compiled = len(editor.names), is_true(editor.attrs[row], _COMPILED)
        kind, made, chain = _expand(editor, row, bodies, most, chains.get(row, ()))
        parts.update(made)
        chains.update(dict.fromkeys(range(before, len(editor.names)), chain))
        done[kind] += row not in parts
        done["compiled"] += compiled and kind == "call"
    return done


def _rows(editor: Editor, graph: Graph) -> Iterator[int]:
    """The graph's rows in TensorFlow's order, then the rows that are added while this is consumed."""
    yield from graph.order.tolist()
    row = len(graph)
    while row < len(editor.names):
        yield row
        row += 1


def _wanted(editor: Editor, row: int) -> bool:
    """Tell whether a session expands the node by itself: a construct that asks for it, or a call within one."""
    attrs, op = editor.attrs[row], editor.ops[row]
    if any(key in attrs and attrs[key].s for key in _XLA):
        return False
    if op in _CONSTRUCTS:
        return is_true(attrs, _LOWERED)
    found = calls.target(editor, row) if is_true(attrs, calls.MARK) else None
    return found is not None and calls.may_inline(editor.given.library[found[0]])


def _expand(
    editor: Editor, row: int, bodies: calls.Bodies, most: int, chain: calls.Chain
) -> tuple[str, Sequence[int], calls.Chain]:
    """Expand one node where it can be: what was done, the calls that now stand for its parts, their chain."""
    op = editor.ops[row]
    if op in IFS or op in CASES:
        if not editor.inputs_of(row) or not _there(editor, lowering.branches_of(editor.attrs[row], op)):
            return "missing", (), chain
        return "branch", lowering.lower_branches(editor, row), chain
    if op in WHILES:
        functions = lowering.parts_of(editor.attrs[row])
        if not any(lowering.variables_of(editor, row)) or not _there(editor, functions):
            return "missing", (), chain
        return "loop", lowering.lower_loop(editor, row), chain
    if op in PARTITIONED or op in editor.given.library:
        found = calls.target(editor, row)
        if found is None:
            return "missing", (), chain
        many_devices = op in PARTITIONED or is_true(editor.attrs[row], calls.MARK)
        body = bodies.of(*found)
        chain = calls.entered(editor, row, body.name, chain)
        calls.expand(editor, row, body, most, many_devices=many_devices)
        return "call", (), chain
    return "other", (), chain


def _there(editor: Editor, functions: list[str]) -> bool:
    return bool(functions) and all(name and name in editor.given.library for name in functions)


def _notes(done: Mapping[str, int]) -> Iterator[str]:
    expanded = [counted(done[kind], words) for kind, words in _KINDS.items() if done[kind]]
    if expanded:
        alone = sum(done[kind] for kind in _KINDS) == 1
        yield f"Expanded {', '.join(expanded)} into {'its body' if alone else 'their bodies'}."
    if done["compiled"]:
        yield (
            f"XLA would compile {counted(done['compiled'], 'function call')} and fuse ops; their ops are priced one by "
            "one here, so the step may take less."
        )
    if done["missing"]:
        yield f"{done['missing']:,} calls stay as they are: their functions are not in the graph's library."


def _referenced(editor: Editor, gradients: Mapping[str, str]) -> Mapping[str, Proto]:
    """The functions that the remaining nodes refer to, and those that these refer to, their gradients too."""
    remaining = (row for row in range(len(editor.names)) if row not in editor.removed)
    waiting = list(chained.from_iterable(_mentions(editor.ops[row], editor.attrs[row]) for row in remaining))
    found: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name in found or name not in editor.given.library:
            continue
        found.add(name)
        waiting.append(gradients.get(name, name))
        for node in editor.given.library[name].node_def:
            waiting += _mentions(node.op, node.attr)
    return {name: function for name, function in editor.given.library.items() if name in found}


def _mentions(op: str, attrs: Attrs) -> Iterator[str]:
    """The functions that a node refers to: by its op, or by an attribute that is one or holds some."""
    facts = registry.facts(op)
    if facts is None:
        yield op
    keys = attrs if facts is None else [name for name, kind in facts.attrs.items() if kind in ("func", "list(func)")]
    for key in keys:
        value = attrs.get(key)
        if value is not None and value.HasField("func"):
            yield from _inside(value.func)
        elif value is not None:
            for function in value.list.func:
                yield from _inside(function)


def _inside(function: Proto) -> Iterator[str]:
    yield function.name
    for value in function.attr.values():
        for inner in (value.func, *value.list.func):
            if inner.name:
                yield from _inside(inner)
