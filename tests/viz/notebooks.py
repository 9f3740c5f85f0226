"""Run a notebook as Jupyter does, a cell after the other, without Jupyter."""

import ast
import contextlib
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def cells(notebook: Path) -> Iterator[tuple[dict[str, Any], str, object]]:
    """Each cell of code, what it printed, and the value of its last expression."""
    names: dict[str, Any] = {}
    for cell in json.loads(notebook.read_text("utf-8"))["cells"]:
        if cell["cell_type"] != "code":
            continue
        body = ast.parse("".join(cell["source"])).body
        shown = body.pop() if isinstance(body[-1], ast.Expr) else None
        last = shown.value if isinstance(shown, ast.Expr) else ast.Constant(None)
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(ast.Module(body, []), notebook.name, "exec"), names)
            value = eval(compile(ast.Expression(last), notebook.name, "eval"), names)
        yield cell, printed.getvalue(), value
