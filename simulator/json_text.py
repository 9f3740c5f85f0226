"""JSON that somebody else wrote, whose faults become clauses of a sentence, and large JSON of our own.

Python's reader takes more than JSON allows: the last of two equal keys, and half a character, which can't be printed.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import Any

import msgspec
import numpy as np

_HALF = re.compile(r"\\u[dD][89a-fA-F]")  # an escape that may be one half of a character


class JsonError(ValueError):
    """The fault of a JSON text, as a clause about it: "it is nested too deeply". `line` is that, if known."""

    def __init__(self, clause: str, line: int | None = None) -> None:
        super().__init__(clause)
        self.line = line


def parse_json(content: str | bytes) -> Any:
    """The value of a JSON text in UTF-8. Any: whatever it holds. Raises JsonError."""
    try:
        text = content if isinstance(content, str) else content.decode("utf-8-sig")
        found = json.loads(text, object_pairs_hook=_object)
        if _HALF.search(text):
            json.dumps(found, ensure_ascii=False).encode("utf-8")
    except JsonError:
        raise
    except UnicodeDecodeError as error:
        raise JsonError(f"its byte {error.start} is not UTF-8, so it is damaged or something else") from None
    except UnicodeEncodeError:
        raise JsonError("a text in it has half a character, so it is damaged") from None
    except json.JSONDecodeError as error:
        raise JsonError(f"it is cut or damaged in line {error.lineno}, or no JSON", error.lineno) from None
    except RecursionError:
        raise JsonError("it is nested too deeply") from None
    except ValueError:  # Python reads no number of so many digits
        raise JsonError("it has a number of thousands of digits") from None
    return found


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = next(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
        raise JsonError(f"it has {twice[:80]!r} twice in one object")
    return found


# --- of our own ------------------------------------------------------------------------------------------------------


def plain(value: object) -> Any:
    """The value with lists in place of numpy's arrays. Raises TypeError for what JSON has no form for."""
    return msgspec.to_builtins(value, enc_hook=_listed)


def encoded(value: object) -> bytes:
    """Compact JSON in UTF-8, arrays as lists. Half a character, in a name that a program made, becomes "?"."""
    try:
        return msgspec.json.encode(value, enc_hook=_listed)  # in a tenth of the time of Python's own
    except UnicodeEncodeError:
        return json.dumps(plain(value), ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def _listed(value: object) -> object:
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    raise NotImplementedError(f"JSON has no form for {type(value).__name__}.")
