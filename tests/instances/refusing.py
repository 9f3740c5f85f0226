"""The refusal of content that is no instance, for the tests of every form."""

from __future__ import annotations

from simulator.errors import GraphError
from simulator.instances.reading import read_instance


def refusal(content: bytes) -> str:
    """The sentence with which the content is refused, or nothing."""
    try:
        read_instance(content)
    except GraphError as error:
        return str(error)
    return ""
