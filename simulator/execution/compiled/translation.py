"""Python functions over integers and arrays, translated to the language of LLVM.

The event loop and all that it calls is written in a small part of Python: `if`, `while`, `for ... in range`,
assignments, arithmetic, and calls. This module reads the source of a function and writes LLVM's text for it. It writes
one version for each combination of types with which the function is called. There is no inference: types are those of
the arguments, and a local name keeps the type of its first assignment. A type is

    INT      a whole number of 64 bits, signed. Python's has no bound; who calls sees to it that 64 bits suffice
    WORD     the same, unsigned, as of numpy.uint64
    FLAG     True or False
    FLOAT    a double
    Array    a C-contiguous array: its address and its lengths
    Table    a tuple of arrays that is declared as in `execution.arrays`: the address of its table (`kernel`)
    a tuple  several values

Values that are known while it is translated (constants of a module, what a closure holds) are put in. A branch that
can't be taken is left out. An index counts from the beginning: -1 is not the last. Translated with `checks`, code looks
whether each index is within its array, each divisor is not 0, and each number fits where it is put. Else it calls for
help.
"""

from __future__ import annotations

import ast
import builtins
import operator
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache, reduce
from itertools import takewhile
from pathlib import Path
from types import FunctionType, MappingProxyType
from typing import Any, NamedTuple, NoReturn, TypeAlias

import numpy as np

from simulator.execution.arrays import fields
from simulator.execution.layouts import MATRICES

ENTRY = "simviz"  # the name of the function that others call
INT, WORD, FLAG, FLOAT = "int", "word", "flag", "float"
_IN_REGISTERS = {INT: "i64", WORD: "i64", FLAG: "i1", FLOAT: "double"}
ELEMENTS = {"int64": ("i64", INT), "int32": ("i32", INT), "bool": ("i8", FLAG)}  # as LLVM keeps and as we read it
_NUMBERS = {
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
    ast.LShift: "shl",
    ast.BitAnd: "and",
    ast.BitOr: "or",
    ast.BitXor: "xor",
}
_COMPARED = {ast.Eq: "eq", ast.NotEq: "ne", ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge"}
_FOLDED = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
    ast.Pow: operator.pow,
}
# Lines of a function that LLVM may put into its callers. It would do so with any that is called at one place alone: the
# event loop, together with all that is rarely needed, then runs short of registers and takes twice as long to compile.
_MOST_INLINED = 200
_AWAY = object()  # of a value that is not known before it runs
# Arrays of different elements share no memory, and tables are written before compiled code runs.
_METADATA = """
!0 = !{!"simviz"}
!1 = !{!"i64", !0, i64 0}
!2 = !{!"i32", !0, i64 0}
!3 = !{!"i8", !0, i64 0}
!4 = !{!"table", !0, i64 0}
!11 = !{!1, !1, i64 0}
!12 = !{!2, !2, i64 0}
!13 = !{!3, !3, i64 0}
!14 = !{!4, !4, i64 0}
!20 = !{}
"""
_TAG = {"i64": "!tbaa !11", "i32": "!tbaa !12", "i8": "!tbaa !13"}


class Array(NamedTuple):
    """The type of an array."""

    element: str  # numpy's name
    axes: int


class Table(NamedTuple):
    """The type of a tuple of arrays."""

    kind: type


Type: TypeAlias = Any  # one of the above; a recursive alias is more than mypy takes here


class Value(NamedTuple):
    """A value: its type, the registers or constants that hold it, and what it is if that is known already."""

    type: Type
    parts: tuple[str, ...]
    known: Any = _AWAY  # Any: a number, or a module, function or tuple of Python's


class _Version(NamedTuple):
    """A function for certain types of its arguments."""

    name: str
    result: Type  # None: it returns nothing


@cache
def column_types(kind: type) -> dict[str, Type]:
    """The types of the columns of a tuple of arrays."""
    return {
        name: Table(element) if isinstance(element, type) else Array(element.name, 2 if name in MATRICES else 1)
        for name, element in fields(kind).items()
    }


@cache
def words(kind: Type) -> int:
    """The length of a table, or of that part of one which stands for an array: address and lengths."""
    return 1 + kind.axes if isinstance(kind, Array) else sum(map(words, column_types(kind.kind).values()))


def registers(kind: Type) -> list[str]:
    """LLVM's types of the registers that hold a value."""
    if isinstance(kind, Array):
        return ["ptr", *["i64"] * kind.axes]
    if isinstance(kind, Table):
        return ["ptr"]
    if isinstance(kind, tuple):
        return [register for one in kind for register in registers(one)]
    return [_IN_REGISTERS[kind]]


class Module:
    """A function and all that it calls, as LLVM's text."""

    def __init__(
        self,
        function: Callable[..., Any],  # Any: it is found out
        types: Sequence[Type],
        instead: Mapping[Any, Any] = MappingProxyType({}),  # Any: functions of Python
        *,
        checks: int = 0,
        places: list[str] | None = None,
    ) -> None:
        """`instead`: functions that others stand for.

        `checks` is the address of a function that never returns; 0: nothing is checked. It is called with the row of a
        fault in `places`, to which file, line and kind of each check are added.
        """
        self.instead, self.checks = instead, checks
        self.places = [] if places is None else places
        self.files: set[str] = set()  # of the functions
        self._texts: list[str] = []
        self._versions: dict[tuple[object, ...], _Version | None] = {}
        self.version(function, tuple(types), entry=True)

    @property
    def text(self) -> str:
        """All of it, in LLVM's language."""
        return "\n".join([*self._texts, _METADATA])

    def version(self, function: Any, types: tuple[Type, ...], *, entry: bool = False) -> _Version:  # Any: a function
        """The function for such arguments; the entry is the one that others can call."""
        key = (function, types)
        if key not in self._versions:
            self._versions[key] = None  # until it is done
            self.files.add(function.__code__.co_filename)
            name = ENTRY if entry else f"{function.__name__}.{len(self._versions)}"
            body = _Body(self, function, types)
            self._texts.append(body.definition(name, entry=entry))
            self._versions[key] = _Version(name, body.result)
        found = self._versions[key]
        if found is None:
            raise TypeError(f"{function.__qualname__} calls itself, which is not translated")
        return found


@cache
def _definitions(file: str) -> dict[int, ast.FunctionDef]:
    """The functions of a file by their first lines."""
    found = (node for node in ast.walk(ast.parse(Path(file).read_text("utf-8"))) if isinstance(node, ast.FunctionDef))
    return {min([node.lineno, *(mark.lineno for mark in node.decorator_list)]): node for node in found}


class _Body:
    """One version of a function while it is translated."""

    def __init__(self, module: Module, function: FunctionType, types: tuple[Type, ...]) -> None:
        self._module, self._function, self._count = module, function, 0
        self._slots: list[str] = []  # of local names, on the stack; LLVM puts them into registers
        self._lines: list[str] = []
        self._open = True  # whether the line that comes next is ever reached
        self._reached: set[str] = set()  # labels to which something leads
        self._loops: list[tuple[str, str]] = []  # where `continue` and `break` lead
        self._locals: dict[str, Value] = {}  # the slots of names
        self.result: Type = None
        code = function.__code__
        self._around = dict(function.__globals__)
        for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
            with suppress(ValueError):  # where a closure has no such value
                self._around[name] = cell.cell_contents
        node = _definitions(code.co_filename)[code.co_firstlineno]
        self._node: ast.AST = node
        names = [argument.arg for argument in node.args.args]
        if len(names) != len(types):
            self._fail(f"it takes {len(names)} arguments, not {len(types)}")
        self._parameters: list[str] = []
        for name, kind in zip(names, types, strict=True):
            parts = [f"%p{len(self._parameters) + at}" for at in range(len(registers(kind)))]
            self._parameters += [f"{one} {part}" for one, part in zip(registers(kind), parts, strict=True)]
            self._keep(name, Value(kind, tuple(parts)))
        self._block(node.body)
        if self._open:
            if self.result is not None:
                self._fail("one of its ends returns nothing")
            self._lines.append("ret void")

    def definition(self, name: str, *, entry: bool) -> str:
        """LLVM's text of the function."""
        kind = "void" if self.result is None else _structure(self.result)
        head = f"define {'' if entry else 'internal fastcc '}{kind} @{name}({', '.join(self._parameters)}) nounwind"
        alone = " noinline" if len(self._lines) > _MOST_INLINED else ""
        return "\n".join([f"{head}{alone} {{", *self._slots, *self._lines, "}"])

    # --- text --------------------------------------------------------------------------------------------------------

    def _fail(self, why: str) -> NoReturn:
        line = getattr(self._node, "lineno", 0)
        code = self._function.__code__
        raise TypeError(f"{code.co_filename}:{line}: {self._function.__qualname__} can't be translated: {why}")

    def _fresh(self, letter: str = "%v") -> str:
        self._count += 1
        return f"{letter}{self._count}"

    def _put(self, text: str) -> str:
        """A new register that holds what an instruction gives."""
        made = self._fresh()
        if self._open:
            self._lines.append(f"{made} = {text}")
        return made

    def _do(self, text: str, *, last: bool = False) -> None:
        """An instruction that gives nothing; the last of its block or not."""
        if self._open:
            self._lines.append(text)
        self._open = self._open and not last

    def _label(self, name: str) -> None:
        """Let the next lines go on from here, too; they are never reached if nothing leads here."""
        self._goto(name)
        if name in self._reached:
            self._lines.append(f"{name}:")
            self._open = True

    def _goto(self, name: str) -> None:
        if self._open:
            self._reached.add(name)
        self._do(f"br label %{name}", last=True)

    def _fork(self, test: str, yes: str, no: str) -> None:
        """Go on at one of two labels."""
        if self._open:
            self._reached |= {yes, no}
        self._do(f"br i1 {test}, label %{yes}, label %{no}", last=True)

    # --- names -------------------------------------------------------------------------------------------------------

    def _slot(self, kind: Type) -> Value:
        """Room on the stack for a value."""
        parts = []
        for register in registers(kind):
            parts.append(self._fresh("%s"))
            self._slots.append(f"{parts[-1]} = alloca {register}")
        return Value(kind, tuple(parts))

    def _store(self, slot: Value, value: Value) -> None:
        made = self._converted(value, slot.type)
        for register, part, place in zip(registers(slot.type), made.parts, slot.parts, strict=True):
            self._do(f"store {register} {part}, ptr {place}")

    def _load(self, slot: Value) -> Value:
        kinds = zip(registers(slot.type), slot.parts, strict=True)
        return Value(slot.type, tuple(self._put(f"load {register}, ptr {place}") for register, place in kinds))

    def _keep(self, name: str, value: Value) -> None:
        """A name gets a value."""
        if name not in self._locals:
            if value.type is None:
                self._fail(f"{name} gets no number, array or tuple of them")
            self._locals[name] = self._slot(value.type)
        self._store(self._locals[name], value)

    def _known(self, value: object) -> Value:
        """A value that is known before the code runs."""
        if isinstance(value, (bool, np.bool_)):
            return Value(FLAG, ("true" if value else "false",), bool(value))
        if isinstance(value, (int, np.integer)):
            return Value(INT, (str((int(value) + 2**63) % 2**64 - 2**63),), int(value))
        if isinstance(value, float):
            return Value(FLOAT, (f"0x{np.float64(value).view(np.uint64):016X}",), value)
        return Value(None, (), value)

    def _converted(self, value: Value, kind: Type) -> Value:
        """The value as one of that type."""
        if value.type == kind:
            return value
        if kind == INT and value.type == FLAG:
            return Value(INT, (self._put(f"zext i1 {value.parts[0]} to i64"),))
        if kind == WORD and value.type == INT and value.known is not _AWAY:
            return Value(WORD, value.parts)
        if kind == FLOAT and value.type in (INT, WORD):
            how = "sitofp" if value.type == INT else "uitofp"
            return Value(FLOAT, (self._put(f"{how} i64 {value.parts[0]} to double"),))
        return self._fail(f"what is {value.type} can't be {kind}")

    # --- statements --------------------------------------------------------------------------------------------------

    def _block(self, statements: Sequence[ast.stmt]) -> None:
        for statement in statements:
            self._node = statement
            getattr(self, f"_do_{type(statement).__name__}", self._unknown)(statement)

    def _unknown(self, node: ast.AST) -> NoReturn:
        self._node = node if hasattr(node, "lineno") else self._node
        self._fail(f"{type(node).__name__} is not translated")

    def _do_Expr(self, node: ast.Expr) -> None:
        if not isinstance(node.value, ast.Constant):  # a docstring
            self._value(node.value)

    def _do_Pass(self, node: ast.Pass) -> None:
        pass

    def _do_Return(self, node: ast.Return) -> None:
        if node.value is None:
            self._do("ret void", last=True)
            return
        value = self._value(node.value)
        if self.result is None:
            self.result = value.type
        made, kind = self._converted(value, self.result), _structure(self.result)
        whole = made.parts[0]
        if len(made.parts) > 1:
            whole = "undef"
            for at, (register, part) in enumerate(zip(registers(self.result), made.parts, strict=True)):
                whole = self._put(f"insertvalue {kind} {whole}, {register} {part}, {at}")
        self._do(f"ret {kind} {whole}", last=True)

    def _do_Assign(self, node: ast.Assign) -> None:
        value = self._value(node.value)
        for target in node.targets:
            self._assign(target, value)

    def _do_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self._assign(node.target, self._value(node.value))

    def _do_AugAssign(self, node: ast.AugAssign) -> None:
        if isinstance(node.target, ast.Subscript):
            place = self._place(node.target)
            self._write(place, self._binary(node.op, self._read(place), self._value(node.value)))
        else:
            read = ast.copy_location(ast.Name(getattr(node.target, "id", ""), ast.Load()), node.target)
            self._assign(node.target, self._binary(node.op, self._value(read), self._value(node.value)))

    def _assign(self, target: ast.expr, value: Value) -> None:
        if isinstance(target, ast.Name):
            if target.id != "_":
                self._keep(target.id, value)
        elif isinstance(target, ast.Subscript):
            self._write(self._place(target), value)
        elif isinstance(target, ast.Tuple):
            for one, part in zip(target.elts, self._elements(value), strict=True):
                self._assign(one, part)
        else:
            self._unknown(target)

    def _do_If(self, node: ast.If) -> None:
        yes, no, after = self._labels()
        test = self._static(node.test)
        if test is not _AWAY:  # the other branch is not even looked at: its names may have no meaning here
            self._block(node.body if test else node.orelse)
            return
        self._branch(node.test, yes, no)
        self._label(yes)
        self._block(node.body)
        self._goto(after)
        self._label(no)
        self._block(node.orelse)
        self._label(after)

    def _labels(self) -> tuple[str, str, str]:
        return self._fresh("b"), self._fresh("b"), self._fresh("b")

    def _do_While(self, node: ast.While) -> None:
        if node.orelse:
            self._fail("a loop has no else")
        test, body, after = self._labels()
        self._label(test)
        self._branch(node.test, body, after)
        self._label(body)
        self._repeated(node.body, test, after)
        self._goto(test)
        self._label(after)

    def _repeated(self, body: Sequence[ast.stmt], following: str, after: str) -> None:
        """The body of a loop, for given targets of `continue` and `break`."""
        self._loops.append((following, after))
        self._block(body)
        self._loops.pop()

    def _do_For(self, node: ast.For) -> None:
        call = node.iter
        if node.orelse:
            self._fail("a loop has no else")
        if isinstance(call, ast.Tuple):
            after = self._fresh("b")
            for element in call.elts:
                following = self._fresh("b")
                self._assign(node.target, self._value(element))
                self._repeated(node.body, following, after)
                self._label(following)
            self._label(after)
            return
        if not (isinstance(call, ast.Call) and self._value(call.func).known is range):
            self._fail("a loop goes over a range, or over a tuple that is written there")
        stride = self._value(call.args[2]).known if len(call.args) == 3 else 1
        if not isinstance(stride, int) or stride == 0:
            self._fail("the step of a range is a constant, and not 0")
        given = [self._converted(self._value(one), INT).parts[0] for one in call.args[:2]]
        low, high = ("0", given[0]) if len(given) == 1 else given
        counter, (test, following, after), body = self._slot(INT), self._labels(), self._fresh("b")
        self._store(counter, Value(INT, (low,)))
        self._label(test)
        now = self._load(counter)
        self._fork(self._put(f"icmp {'slt' if stride > 0 else 'sgt'} i64 {now.parts[0]}, {high}"), body, after)
        self._label(body)
        self._assign(node.target, now)
        self._repeated(node.body, following, after)
        self._label(following)
        self._store(counter, Value(INT, (self._put(f"add nsw i64 {now.parts[0]}, {stride}"),)))
        self._goto(test)
        self._label(after)

    def _do_Continue(self, node: ast.Continue) -> None:
        self._goto(self._loops[-1][0])

    def _do_Break(self, node: ast.Break) -> None:
        self._goto(self._loops[-1][1])

    # --- expressions -------------------------------------------------------------------------------------------------

    def _value(self, node: ast.expr) -> Value:
        made: Value = getattr(self, f"_of_{type(node).__name__}", self._unknown)(node)
        return made

    def _static(self, node: ast.expr) -> Any:  # Any: whatever it is
        """The value of an expression if it is known before the code runs, without a line of code for it; else _AWAY."""
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.Name) and node.id not in self._locals and node.id in self._around:
            return self._around[node.id]
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            inside = self._static(node.operand)
            return inside if inside is _AWAY else not inside
        if isinstance(node, ast.BoolOp):
            wanted = isinstance(node.op, ast.And)
            for one in map(self._static, node.values):
                if one is _AWAY or bool(one) is not wanted:
                    return one
            return wanted
        return _AWAY

    def _branch(self, node: ast.expr, yes: str, no: str, *, strict: bool = False) -> None:
        """Go on where the expression says; what follows in `and` and `or` is looked at only if it has to be.

        `strict`: its value is taken, which of numbers would be one of them, and no flag.
        """
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            self._branch(node.operand, no, yes)
        elif isinstance(node, ast.BoolOp):
            for one in node.values[:-1]:
                rest = self._fresh("b")
                self._branch(one, *((rest, no) if isinstance(node.op, ast.And) else (yes, rest)), strict=strict)
                self._label(rest)
            self._branch(node.values[-1], yes, no, strict=strict)
        else:
            value = self._value(node)
            if strict and value.type != FLAG:
                self._fail("the value of `and` and `or` is taken of flags alone")
            test = self._flag(value)
            if test.known is _AWAY:
                self._fork(test.parts[0], yes, no)
            else:
                self._goto(yes if test.known else no)

    def _flag(self, value: Value) -> Value:
        if value.type == FLAG:
            return value
        if value.type not in (INT, WORD):
            self._fail("a condition is a flag or a number")
        if value.known is not _AWAY:
            return self._known(bool(value.known))
        return Value(FLAG, (self._put(f"icmp ne i64 {value.parts[0]}, 0"),))

    def _of_Constant(self, node: ast.Constant) -> Value:
        return self._known(node.value)

    def _of_Name(self, node: ast.Name) -> Value:
        if node.id in self._locals:
            return self._load(self._locals[node.id])
        if node.id in self._around:
            return self._known(self._around[node.id])
        return self._known(getattr(builtins, node.id, None))

    def _of_Tuple(self, node: ast.Tuple) -> Value:
        given = [self._value(one) for one in node.elts]
        return Value(tuple(one.type for one in given), tuple(part for one in given for part in one.parts))

    def _elements(self, value: Value) -> list[Value]:
        """The values of a tuple, or the columns of a table."""
        if isinstance(value.type, Table):
            return [self._column(value, name) for name in column_types(value.type.kind)]
        if not isinstance(value.type, tuple) or isinstance(value.type, Array):
            self._fail("what is no tuple can't be taken apart")
        made, at = [], 0
        for kind in value.type:
            made.append(Value(kind, value.parts[at : at + len(registers(kind))]))
            at += len(registers(kind))
        return made

    def _of_Attribute(self, node: ast.Attribute) -> Value:
        value = self._value(node.value)
        if isinstance(value.type, Table):
            return self._column(value, node.attr)
        if isinstance(value.type, Array) and node.attr == "shape":
            return Value((INT,) * value.type.axes, value.parts[1:])
        if value.type is None:
            return self._known(getattr(value.known, node.attr))
        return self._fail(f"{value.type} has no {node.attr}")

    def _column(self, table: Value, name: str) -> Value:
        kinds = column_types(table.type.kind)
        if name not in kinds:
            self._fail(f"{table.type.kind.__name__} has no {name}")
        at = sum(words(kind) for _, kind in takewhile(lambda one: one[0] != name, kinds.items()))
        kind = kinds[name]
        if isinstance(kind, Table):
            return Value(kind, (self._put(f"getelementptr inbounds i64, ptr {table.parts[0]}, i64 {at}"),))
        parts = []
        for place, register in enumerate(registers(kind), at):
            here = self._put(f"getelementptr inbounds i64, ptr {table.parts[0]}, i64 {place}")
            parts.append(self._put(f"load {register}, ptr {here}, !tbaa !14, !invariant.load !20"))
        return Value(kind, tuple(parts))

    def _of_Subscript(self, node: ast.Subscript) -> Value:
        value = self._value(node.value)
        if isinstance(value.type, Array):
            place = self._at(value, node.slice)
            return place if isinstance(place.type, Array) else self._read(place)
        which = self._value(node.slice).known
        if which is _AWAY:
            self._fail("a tuple is read at a constant place")
        made: Value = self._elements(value)[which]
        return made

    def _place(self, node: ast.Subscript) -> Value:
        """The address of an element that is written; its type is that of numpy's."""
        value = self._value(node.value)
        if not isinstance(value.type, Array):
            self._fail("an array alone is written to")
        return self._at(value, node.slice)

    def _at(self, array: Value, node: ast.expr) -> Value:
        """The address of an element, or a row of a matrix."""
        element, axes = array.type
        given = node.elts if isinstance(node, ast.Tuple) else [node]
        index = [self._converted(self._value(one), INT) for one in given]
        for one, length in zip(index, array.parts[1:], strict=False):
            self._check(f"icmp ult i64 {one.parts[0]}, {length}", "index")
        place = index[0].parts[0]
        if axes == 2:
            place = self._put(f"mul i64 {place}, {array.parts[2]}")
            if len(index) == 2:
                place = self._put(f"add i64 {place}, {index[1].parts[0]}")
        address = self._put(f"getelementptr inbounds {ELEMENTS[element][0]}, ptr {array.parts[0]}, i64 {place}")
        if len(index) < axes:
            return Value(Array(element, 1), (address, array.parts[2]))
        return Value(element, (address,))

    def _read(self, place: Value) -> Value:
        kept, kind = ELEMENTS[place.type]
        read = self._put(f"load {kept}, ptr {place.parts[0]}, {_TAG[kept]}")
        if kept == "i32":
            read = self._put(f"sext i32 {read} to i64")
        elif kept == "i8":
            read = self._put(f"icmp ne i8 {read}, 0")
        return Value(kind, (read,))

    def _write(self, place: Value, value: Value) -> None:
        kept, kind = ELEMENTS[place.type]
        made = (self._flag(value) if kind == FLAG else self._converted(value, kind)).parts[0]
        if kept == "i8":
            made = self._put(f"zext i1 {made} to i8")
        elif kept == "i32":
            whole, made = made, self._put(f"trunc i64 {made} to i32")
            if self._module.checks:
                self._check(f"icmp eq i64 {whole}, {self._put(f'sext i32 {made} to i64')}", "size")
        self._do(f"store {kept} {made}, ptr {place.parts[0]}, {_TAG[kept]}")

    def _check(self, test: str, what: str) -> None:
        """Call for help unless that holds, in a module with checks."""
        if not self._module.checks or not self._open:
            return
        fine, wrong = self._fresh("b"), self._fresh("b")
        self._fork(self._put(test), fine, wrong)
        self._label(wrong)
        place = f"{self._function.__code__.co_filename}:{getattr(self._node, 'lineno', 0)}: {what}"
        self._do(f"call void inttoptr (i64 {self._module.checks} to ptr)(i64 {len(self._module.places)})")
        self._module.places.append(place)
        self._do("unreachable", last=True)
        self._label(fine)

    def _of_IfExp(self, node: ast.IfExp) -> Value:
        test = self._static(node.test)
        if test is not _AWAY:
            return self._value(node.body if test else node.orelse)
        yes, no, after = self._labels()
        self._branch(node.test, yes, no)
        self._label(yes)
        first = self._value(node.body)
        slot = self._slot(first.type)
        self._store(slot, first)
        self._goto(after)
        self._label(no)
        self._store(slot, self._value(node.orelse))
        self._label(after)
        return self._load(slot)

    def _of_BoolOp(self, node: ast.BoolOp) -> Value:
        yes, no, after = self._labels()
        slot = self._slot(FLAG)
        self._branch(node, yes, no, strict=True)
        for label, value in ((yes, True), (no, False)):
            self._label(label)
            self._store(slot, self._known(value))
            self._goto(after)
        self._label(after)
        return self._load(slot)

    def _of_Compare(self, node: ast.Compare) -> Value:
        one, found = self._value(node.left), None
        for how, right in zip(node.ops, node.comparators, strict=True):
            if isinstance(how, ast.In) and isinstance(right, ast.Tuple):
                every = [self._compared("eq", one, self._value(other)) for other in right.elts]
                made = reduce(lambda a, b: Value(FLAG, (self._put(f"or i1 {a.parts[0]}, {b.parts[0]}"),)), every)
            else:
                other = self._value(right)
                made = self._compared(_COMPARED.get(type(how), ""), one, other)
                one = other
            found = made if found is None else Value(FLAG, (self._put(f"and i1 {found.parts[0]}, {made.parts[0]}"),))
        assert found is not None
        return found

    def _compared(self, how: str, one: Value, other: Value) -> Value:
        if not how:
            self._fail("such a comparison is not translated")
        kind = self._common(one, other)
        left, right = self._converted(one, kind).parts[0], self._converted(other, kind).parts[0]
        if kind == FLOAT:
            return Value(FLAG, (self._put(f"fcmp {'une' if how == 'ne' else f'o{how}'} double {left}, {right}"),))
        sign = "" if how in ("eq", "ne") else "s" if kind == INT else "u"
        return Value(FLAG, (self._put(f"icmp {sign}{how} i64 {left}, {right}"),))

    def _common(self, one: Value, other: Value) -> Type:
        """The type of numbers in which both are."""
        for kind in (FLOAT, WORD, INT):
            if kind in (one.type, other.type):
                return kind
        return INT

    def _of_UnaryOp(self, node: ast.UnaryOp) -> Value:
        value = self._value(node.operand)
        if isinstance(node.op, ast.USub):
            return self._binary(ast.Sub(), self._known(0), value)
        if isinstance(node.op, ast.Invert):
            return self._binary(ast.BitXor(), self._known(-1), value)
        if not isinstance(node.op, ast.Not):
            self._unknown(node.op)
        flag = self._flag(value)
        if flag.known is not _AWAY:
            return self._known(not flag.known)
        return Value(FLAG, (self._put(f"xor i1 {flag.parts[0]}, true"),))

    def _of_BinOp(self, node: ast.BinOp) -> Value:
        return self._binary(node.op, self._value(node.left), self._value(node.right))

    def _binary(self, how: ast.operator, one: Value, other: Value) -> Value:
        if one.known is not _AWAY and other.known is not _AWAY:
            return self._known(_FOLDED[type(how)](one.known, other.known))
        name = _NUMBERS.get(type(how))
        if one.type == other.type == FLAG and name in ("and", "or", "xor"):
            return Value(FLAG, (self._put(f"{name} i1 {one.parts[0]}, {other.parts[0]}"),))
        kind = self._common(one, other)
        left, right = self._converted(one, kind).parts[0], self._converted(other, kind).parts[0]
        if kind == FLOAT and name in ("add", "sub", "mul"):
            return Value(FLOAT, (self._put(f"f{name} double {left}, {right}"),))
        if kind == FLOAT:
            self._unknown(how)
        if isinstance(how, (ast.FloorDiv, ast.Mod)):
            self._check(f"icmp ne i64 {right}, 0", "divisor")
            return Value(kind, (self._divided(isinstance(how, ast.Mod), kind, left, right),))
        if isinstance(how, ast.RShift):
            name = "ashr" if kind == INT else "lshr"
        if name is None:
            self._unknown(how)
        if self._module.checks and kind == INT and name in ("add", "sub", "mul"):
            both = self._put(f"call {{i64, i1}} @llvm.s{name}.with.overflow.i64(i64 {left}, i64 {right})")
            self._check(f"icmp eq i1 {self._put(f'extractvalue {{i64, i1}} {both}, 1')}, false", "size")
        return Value(kind, (self._put(f"{name} i64 {left}, {right}"),))

    def _divided(self, rest: bool, kind: Type, left: str, right: str) -> str:
        """The quotient rounded down, as Python's, or the rest, of the divisor's sign."""
        if kind == WORD:
            return self._put(f"{'urem' if rest else 'udiv'} i64 {left}, {right}")
        over = self._put(f"srem i64 {left}, {right}")
        unlike = self._put(f"icmp slt i64 {self._put(f'xor i64 {over}, {right}')}, 0")
        some = self._put(f"icmp ne i64 {over}, 0")
        off = self._put(f"and i1 {unlike}, {some}")
        if rest:
            return self._put(f"add i64 {over}, {self._put(f'select i1 {off}, i64 {right}, i64 0')}")
        quotient = self._put(f"sdiv i64 {left}, {right}")
        return self._put(f"sub i64 {quotient}, {self._put(f'zext i1 {off} to i64')}")

    def _of_Call(self, node: ast.Call) -> Value:
        if node.keywords:
            self._fail("an argument has a name")
        function = self._value(node.func).known
        given = [self._value(one) for one in node.args]
        if function is len:
            return self._length(given[0])
        if function in (int, np.int64, np.uint64, float, bool):
            return self._cast(function, given[0])
        if function in (min, max):
            return reduce(lambda one, other: self._chosen("sgt" if function is max else "slt", one, other), given)
        if isinstance(function, FunctionType):
            function = self._module.instead.get(function, function)
        if not isinstance(function, FunctionType):
            self._fail("what is called is no function of Python")
        version = self._module.version(function, tuple(one.type for one in given))
        kinds = [register for one in given for register in registers(one.type)]
        parts = [part for one in given for part in one.parts]
        call = ", ".join(f"{kind} {part}" for kind, part in zip(kinds, parts, strict=True))
        if version.result is None:
            self._do(f"call fastcc void @{version.name}({call})")
            return Value(None, (), None)
        kind = _structure(version.result)
        got = self._put(f"call fastcc {kind} @{version.name}({call})")
        many = len(registers(version.result))
        parts = [got] if many == 1 else [self._put(f"extractvalue {kind} {got}, {at}") for at in range(many)]
        return Value(version.result, tuple(parts))

    def _length(self, value: Value) -> Value:
        if isinstance(value.type, Array):
            return Value(INT, value.parts[1:2])
        return self._known(len(self._elements(value)))

    def _cast(self, to: object, value: Value) -> Value:
        if to is bool:
            return self._flag(value)
        if to is float:
            return self._converted(value, FLOAT)
        kind = WORD if to is np.uint64 else INT
        if value.type in (INT, WORD):
            return value if value.type == kind else Value(kind, value.parts)
        if value.type != FLAG:
            self._fail(f"{value.type} is not rounded")
        return Value(kind, self._converted(value, INT).parts)

    def _chosen(self, how: str, one: Value, other: Value) -> Value:
        left, right = self._converted(one, INT).parts[0], self._converted(other, INT).parts[0]
        test = self._put(f"icmp {how} i64 {left}, {right}")
        return Value(INT, (self._put(f"select i1 {test}, i64 {left}, i64 {right}"),))


def _structure(kind: Type) -> str:
    """LLVM's type of what a function returns."""
    made = registers(kind)
    return made[0] if len(made) == 1 else f"{{{', '.join(made)}}}"
