"""A fast reader of GraphDefs in text form: 25k nodes/s and more, where protobuf's own reader makes 5k.

The text is cut at the lines that read `node {` with no indentation. Such a line always opens a node of the top level. A
string can't span lines, and no message inside a GraphDef has a field named `node`. Hence each piece between two cuts
must be a complete sequence of fields, and the text is accepted exactly if all pieces are. A piece in protobuf's
canonical form (two blanks per level, one field per line, fields by number) is split by string operations. Equal
attribute texts are read once and share their message, and equal sets of them their mapping. Any other piece goes to
`text_format`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from google.protobuf import text_format

from simulator.errors import GraphError
from simulator.graph.dtypes import NAMES
from simulator.graph.graph import Attrs
from simulator.graph.messages import AttrValue, GraphDef, NodeDef, Proto, merge_text
from simulator.graph.rows import Rows

_TYPES = {name: number for number, name in NAMES.items()}
# Errors of text_format: its own, ValueErrors for bad escapes and bytes that are not UTF-8, and RecursionError where
# messages are nested hundreds of times.
_REFUSALS = (text_format.ParseError, ValueError, TypeError, RecursionError)
MAX_REASON = 300  # characters of text_format's sentence, which may quote a whole line
_CUT = "\nnode {\n"
_END = "\n}"
_NODE = re.compile(r"\bnode\b")
_ATTR = "\n  attr {\n    key: "
_PLAIN = r'"([ !#-\[\]-~]*)"'  # printable ASCII without quotes and backslashes
_HEAD = re.compile(rf"  name: {_PLAIN}\n  op: {_PLAIN}((?:\n  input: {_PLAIN})*)(?:\n  device: {_PLAIN})?")
_VALUE = re.compile(
    rf"{_PLAIN}\n    value {{\n      (?:type: (DT_[A-Z0-9_]+)|i: (-?[0-9]{{1,18}})|b: (true|false)|s: {_PLAIN}"
    rf"|list {{((?:\n        s: {_PLAIN})+)\n      }})\n    }}\n  }}"
)
_INPUT, _STRING = '\n  input: "', '\n        s: "'


def read_text(text: str, source: str) -> Rows:
    """The rows of a GraphDef in text form; equal attribute texts share one AttrValue.

    Raises GraphError with the line for a text that `text_format` would not accept.
    """
    rows = Rows()
    pieces = f"\n{text}".replace("\r\n", "\n").split(_CUT)
    memo = _Memo({}, {})
    others = [(0, _take_nodes(pieces[0], rows, source, 0))]
    line = 1 + pieces[0].count("\n")  # where the piece's `node {` stands
    for piece in pieces[1:]:
        body, end, after = piece.partition(_END)
        if not (end and _read_canonical(body, rows, memo)):
            others.append((line, _take_nodes(f"node {{\n{piece}", rows, source, line)))
        elif after:
            at = line + body.count("\n") + 2
            others.append((at, _take_nodes(after, rows, source, at)))
        line += piece.count("\n") + 2
    others = [other for other in others if other[1] and not other[1].isspace()]
    if len(others) > 1:
        for at, other in others:
            parse(other, GraphDef(), source, at)
        others = [(1, "\n".join(other for _, other in others))]  # a field may stand twice
    for at, other in others:
        parse(other, rows.rest, source, at)
    return rows


def _take_nodes(text: str, rows: Rows, source: str, line: int) -> str:
    """Append the nodes in a text of any form, and return the text of its other fields."""
    if not _NODE.search(text):
        return text
    message = parse(text, GraphDef(), source, line)
    rows.extend(message.node)
    message.ClearField("node")
    return text_format.MessageToString(message)


def read_enclosed(text: str, message: Proto, indent: int, source: str) -> tuple[Proto, list[Rows]]:
    """Parse a MetaGraphDef or SavedModel in text form; its GraphDefs become rows, in order, where that is fast.

    `indent` is the number of blanks before `graph_def {` in canonical form. Such a block, up to the brace below it, is
    read as rows and removed. The rows count only if the rest is then accepted. Otherwise protobuf's own reader parses
    the whole text, and there are no rows.
    """
    blanks = " " * indent
    block = re.compile(f"^{blanks}graph_def {{\n((?:{blanks}  .*\n)*){blanks}}}$", re.MULTILINE)
    read: list[Rows] = []

    def take(found: re.Match[str]) -> str:
        inner = found[1].replace(f"\n{blanks}  ", "\n").removeprefix(f"{blanks}  ")
        read.append(read_text(inner, source))
        return f"{blanks}graph_def {{\n{blanks}}}"

    try:
        merge_text(block.sub(take, text.replace("\r\n", "\n")), message)
        holders = message.meta_graphs if indent else [message]
        if len(holders) == len(read):
            return message, read
    except (GraphError, *_REFUSALS):
        pass  # read as a whole, for an error with its line
    message.Clear()
    return parse(text, message, source, 1), []


class _Memo(NamedTuple):
    """The attributes that were read before, by their texts."""

    one: dict[str, tuple[str, Proto]]
    all: dict[tuple[str, ...], Attrs]  # of a node


def _read_canonical(body: str, rows: Rows, memo: _Memo) -> bool:
    """Append the node whose fields are given, if they are in canonical form."""
    head, *written = body.split(_ATTR)
    found = _HEAD.fullmatch(head)
    if not found:
        return False
    attrs = memo.all.get(tuple(written))
    if attrs is None:
        attrs = _read_attrs(written, memo.one)
        if attrs is None:
            return False
        memo.all[tuple(written)] = attrs
    name, op, inputs, _, device = found.groups()
    rows.names.append(name)
    rows.ops.append(op)
    rows.requested.append(device or "")
    rows.inputs.append(inputs[len(_INPUT) : -1].split('"' + _INPUT) if inputs else ())
    rows.attrs.append(attrs)
    return True


def _read_attrs(written: Sequence[str], memo: dict[str, tuple[str, Proto]]) -> Attrs | None:
    """The attributes of a node, given the text of each; None if one has another form."""
    attrs = {}
    for text in written:
        entry = memo.get(text)
        if entry is None:
            entry = _read_attr(text)
            if entry is None:
                return None
            memo[text] = entry
        attrs[entry[0]] = entry[1]
    return attrs


def _read_attr(text: str) -> tuple[str, Proto] | None:
    """Name and value of an attribute, given the text after `key: `; None for any other text."""
    found = _VALUE.fullmatch(text)
    if found:
        name, dtype, number, truth, string, strings, _ = found.groups()
        if number:
            return name, AttrValue(i=int(number))
        if truth:
            return name, AttrValue(b=truth == "true")
        if string is not None:
            return name, AttrValue(s=string.encode())
        if strings:
            listed = strings[len(_STRING) : -1].split('"' + _STRING)
            return name, AttrValue(list=AttrValue.ListValue(s=[one.encode() for one in listed]))
        if dtype in _TYPES:
            return name, AttrValue(type=_TYPES[dtype])
    node = NodeDef()
    try:
        merge_text(_ATTR + text, node)
    except _REFUSALS:
        return None  # the whole piece is read again, for an error with its line
    if len(node.attr) != 1 or len(node.ListFields()) != 1:
        return None
    ((name, value),) = node.attr.items()
    return name, value


def parse(text: str, message: Proto, source: str, first_line: int) -> Proto:
    """Parse text into the message by protobuf's own reader. Raises GraphError with the line."""
    try:
        return merge_text(text, message)
    except _REFUSALS as error:
        raise _refusal(error, text, source, first_line) from None


def _refusal(error: Exception, text: str, source: str, first_line: int) -> GraphError:
    line = getattr(error, "GetLine", lambda: None)()
    if isinstance(error, RecursionError):
        return GraphError(f"{source}: the text is nested too deeply to be a graph.")
    reason = re.sub(r"^\d+:\d+ : ", "", str(error)).encode("unicode_escape").decode()
    reason = reason if len(reason) <= MAX_REASON else f"{reason[: MAX_REASON // 2]} ... {reason[-MAX_REASON // 2 :]}"
    where = f"{source}, line {first_line + line - 1}" if line else source
    if line and line > text.rstrip().count("\n"):
        way_out = "The text ends in the middle of a field: the file was cut. Get the whole file."
    else:
        way_out = "Write the file anew with TensorFlow (tf.io.write_graph), or mend the line."
    return GraphError(f"{where}: {reason.rstrip('.')}. {way_out}")
