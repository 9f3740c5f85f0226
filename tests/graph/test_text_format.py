from collections.abc import Callable
from typing import Any

import pytest
from google.protobuf import text_format
from hypothesis import given
from hypothesis import strategies as st

from simulator.errors import GraphError
from simulator.graph.messages import AttrValue, GraphDef, MetaGraphDef, SavedModel
from simulator.graph.rows import Rows, rows_of
from simulator.graph.text_format import read_enclosed, read_text

NAMES = st.text("abC_/.01-", min_size=1, max_size=6)
ANY_TEXT = st.text(max_size=8)  # quotes, backslashes, newlines, everything
SCALARS = st.one_of(
    st.integers(-(2**63), 2**63 - 1).map(lambda i: AttrValue(i=i)),
    st.floats(width=32, allow_nan=False).map(lambda f: AttrValue(f=f)),
    st.booleans().map(lambda b: AttrValue(b=b)),
    st.binary(max_size=8).map(lambda s: AttrValue(s=s)),
    st.sampled_from((1, 3, 7, 101, 33, 999)).map(lambda t: AttrValue(type=t)),  # 999: a type of the future
    ANY_TEXT.map(lambda p: AttrValue(placeholder=p)),
    st.just(AttrValue()),
)


@st.composite
def values(draw: st.DrawFn) -> Any:
    kind = draw(st.integers(0, 3))
    if kind:
        return draw(SCALARS)
    value = AttrValue()
    value.list.s.extend(draw(st.lists(st.binary(max_size=6), max_size=3)))
    value.list.i.extend(draw(st.lists(st.integers(-9, 9), max_size=2)))
    for sizes in draw(st.lists(st.lists(st.integers(-1, 9), max_size=3), max_size=2)):
        shape = value.list.shape.add()
        for size in sizes:
            shape.dim.add(size=size)
    return value


@st.composite
def graph_defs(draw: st.DrawFn) -> Any:
    message = GraphDef()
    for _ in range(draw(st.integers(0, 6))):
        node = message.node.add(
            name=draw(st.one_of(NAMES, ANY_TEXT)),
            op=draw(st.one_of(NAMES, ANY_TEXT)),
            device=draw(st.one_of(st.just(""), NAMES, ANY_TEXT)),
            input=draw(st.lists(st.one_of(NAMES, ANY_TEXT), max_size=3)),
        )
        for key in draw(st.lists(st.one_of(NAMES, ANY_TEXT), max_size=3)):
            node.attr[key].CopyFrom(draw(values()))
        if draw(st.integers(0, 5)) == 0:
            node.experimental_debug_info.original_node_names.append("before")
    if draw(st.booleans()):
        message.versions.producer = draw(st.integers(0, 1000))
    if draw(st.booleans()):
        function = message.library.function.add()
        function.signature.name = "f"
        function.node_def.add(name="inner", op="NoOp")
    return message


def columns(rows: Rows) -> tuple[object, ...]:
    return rows.names, rows.ops, rows.requested, [tuple(row) for row in rows.inputs], rows.attrs


def without_nodes(message: Any) -> Any:
    rest = GraphDef.FromString(message.SerializeToString())
    rest.ClearField("node")
    return rest


def assert_equal(rows: Rows, message: Any) -> None:
    assert columns(rows) == columns(rows_of(message))
    assert rows.rest == without_nodes(message)


WRITERS: dict[str, Callable[[Any], str]] = {
    "canonical": text_format.MessageToString,
    "utf8": lambda message: text_format.MessageToString(message, as_utf8=True),
    "one line": lambda message: text_format.MessageToString(message, as_one_line=True),
    "angle brackets": lambda message: text_format.MessageToString(message, pointy_brackets=True),
    "short lists": lambda message: text_format.MessageToString(message, use_short_repeated_primitives=True),
    "windows": lambda message: text_format.MessageToString(message).replace("\n", "\r\n"),
    "comments": lambda message: "# header\n" + text_format.MessageToString(message).replace("\n", " # said\n") + "#end",
    "no indentation": lambda message: "\n".join(
        line.lstrip(" ") for line in text_format.MessageToString(message).split("\n")
    ),
    "fields by descriptor": lambda message: text_format.MessageToString(message, use_index_order=True),
}


@pytest.mark.parametrize("writer", WRITERS)
@given(message=graph_defs())
def test_every_form_reads_as_text_format_reads_it(writer: str, message: Any) -> None:
    text = WRITERS[writer](message)
    assert_equal(read_text(text, "t"), text_format.Parse(text, GraphDef()))


@given(
    message=graph_defs(), cut=st.tuples(st.integers(0), st.integers(0), st.sampled_from(("", "}", "{", '"', "\n", "x")))
)
def test_what_text_format_refuses_is_refused_and_nothing_else(message: Any, cut: tuple[int, int, str]) -> None:
    text = text_format.MessageToString(message)
    begin, end = sorted(place % (len(text) + 1) for place in cut[:2])
    damaged = text[:begin] + cut[2] + text[end:]
    try:
        expected = text_format.Parse(damaged, GraphDef())
    except (text_format.ParseError, ValueError):
        with pytest.raises(GraphError):
            read_text(damaged, "t")
    else:
        assert_equal(read_text(damaged, "t"), expected)


NODE = 'node {\n  name: "a"\n  op: "NoOp"\n}\n'


@pytest.mark.parametrize(
    "text",
    [
        "versions {\n" + NODE + "}\n",  # a node inside another field
        "library {\n" + NODE + "function {\n}\n}\n",
        "versions {\n  producer: 1\n}\n" + NODE + "versions {\n  producer: 2\n}\n",  # a field that stands twice
        "version: 1\n" + NODE + "version: 2\n",
        "versions\n" + NODE + "{\n}\n",  # a field that is torn apart
        'node {\n  name: "a"\n  op: "x"\n  op: "y"\n}\n',
        NODE + "}\n",
        NODE[:-2],
    ],
)
def test_refuses_what_only_looks_complete_in_pieces(text: str) -> None:
    with pytest.raises((text_format.ParseError, ValueError)):
        text_format.Parse(text, GraphDef())
    with pytest.raises(GraphError):
        read_text(text, "t")


@pytest.mark.parametrize(
    "text",
    [
        NODE + "# a comment\n" + NODE,
        NODE + "versions {\n  producer: 1\n}\n" + NODE + "library {\n}\n",
        "node {\n  # a comment\n" + NODE[len("node {\n") :],
        'node {\n  op: "NoOp"\n  name: "a"\n}\n',  # another order
        'node {\n  name: "a"\n  op: "B"\n  attr { key: "k" value { i: 1 } }\n}\n',
        'node {\n  name: "a"\n  op: "B"\n  attr {\n    key: "k"\n    value {\n      i: 0x1F\n    }\n  }\n}\n',
        'node {\n  name: "a"\n  op: "B"\n  attr {\n    key: "k"\n    value {\n      b: t\n    }\n  }\n}\n',
        'node {\n  name: "a"\n  op: "B"\n  attr {\n    key: "k"\n  }\n}\n',  # no value
        NODE.replace('"a"', '"a" "b"'),  # strings that stand together are one
        NODE.replace('"a"', "'a'"),
        NODE[:-1] + ' node { name: "z" }\n',
        "",
    ],
)
def test_reads_what_is_not_canonical(text: str) -> None:
    assert_equal(read_text(text, "t"), text_format.Parse(text, GraphDef()))


def test_an_attribute_that_stands_twice_has_its_last_value() -> None:
    attr = '  attr {\n    key: "k"\n    value {\n      i: %d\n    }\n  }\n'
    text = 'node {\n  name: "a"\n  op: "B"\n' + attr % 1 + attr % 2 + "}\n"
    assert_equal(read_text(text, "t"), text_format.Parse(text, GraphDef()))


def test_equal_attribute_text_gives_the_same_object() -> None:
    node = 'node {\n  name: "%s"\n  op: "B"\n  attr {\n    key: "k"\n    value {\n      f: 1.5\n    }\n  }\n}\n'
    rows = read_text(node % "a" + node % "b", "t")
    assert rows.attrs[0]["k"] is rows.attrs[1]["k"]


def test_an_error_names_its_line() -> None:
    with pytest.raises(GraphError, match=r'^g\.pbtxt, line 7: .*no field named "oops"'):
        read_text(NODE + 'node {\n  name: "b"\n  oops: 1\n}\n' + NODE, "g.pbtxt")


def test_text_that_is_cut_says_so() -> None:
    with pytest.raises(GraphError, match="was cut"):
        read_text(NODE + NODE[:20], "g.pbtxt")


def test_nesting_without_end_is_refused() -> None:
    with pytest.raises(GraphError, match="nested"):
        read_text("node{attr{value{" + "list{func{attr{value{" * 5000, "t")


@given(message=graph_defs(), extra=st.booleans())
def test_meta_graphs_and_saved_models_read_the_same(message: Any, extra: bool) -> None:
    meta_graph = MetaGraphDef(graph_def=message)
    meta_graph.meta_info_def.tags.append("serve")
    saved_model = SavedModel(meta_graphs=[meta_graph, meta_graph] if extra else [meta_graph])
    for whole, indent in ((meta_graph, 0), (saved_model, 2)):
        text = text_format.MessageToString(whole)
        read, rows = read_enclosed(text, type(whole)(), indent, "t")
        assert len(rows) == (2 if indent and extra else 1)
        for one in rows:
            assert_equal(one, message)
        assert (read.meta_graphs[0] if indent else read).meta_info_def == meta_graph.meta_info_def


def test_a_meta_graph_without_indentation_is_read_all_the_same() -> None:
    text = "graph_def {\n" + NODE.replace("  ", "") + "}\n"
    message, rows = read_enclosed(text, MetaGraphDef(), 0, "t")
    assert rows == []
    assert [node.name for node in message.graph_def.node] == ["a"]


def test_a_long_run_of_backslashes_is_refused_with_its_line_as_protobuf_takes_its_square() -> None:
    text = 'node {\n  name: "%s"\n  op: "NoOp"\n}\n'
    assert read_text(text % ("\\" * 512), "a file").names == ["\\" * 256]
    with pytest.raises(GraphError, match="a file, line 2: more than 512 backslashes in a row"):
        read_text(text % ("\\" * 100_000), "a file")
