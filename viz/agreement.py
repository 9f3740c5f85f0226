"""Sentences about a check: the same for the summary, the report and the command's last line."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from simulator.cluster.master import can_hold_master, connected, short_task
from simulator.wording import LISTED, counted, some
from viz.scene import Scene, Trained

QUESTIONS = {
    "predict": "does it place and cut the graph as simviz says?",
    "log": "is each node where TensorFlow's log says?",
    "pin": "with simviz's device written into every node, does it accept that, and cut the graph as simviz says?",
}
ASKED = {
    "local session": "a session in a process of its own, with as many CPUs",
    "stand-in workers": "its real master, with workers that only claim to have the cluster's devices",
    "real GPUs": "a session on the GPUs of this machine",
    "placement log": "a log that TensorFlow wrote with log_device_placement; TensorFlow was not asked",
}
CUTS = {"local": "by device, as in a session of one process", "master": "by task, as by a master"}
_LIST = re.compile(r"\[ ?(/job:[^\]]*)(\]?)")  # devices in a sentence, which may end within the list


@dataclass(frozen=True, slots=True)
class Agreement:
    """The number of nodes or tensors for which TensorFlow does the same, in one respect."""

    what: str
    agree: int
    of: int
    raw: int | None  # without correcting what TensorFlow decides by chance; None: nothing is by chance
    unit: str = "nodes"

    def __str__(self) -> str:
        return (
            f"{self.what} agrees for {self.agree} of {self.of} {self.unit}{f', {self.undone}' if self.undone else ''}"
        )

    @property
    def undone(self) -> str:
        """The number that agrees without any correction, in words."""
        if self.raw is None or not self.of:
            return ""
        return "none corrected" if self.raw == self.agree else f"{self.raw} before correcting for chance"


def agreements(check: Mapping[str, Any]) -> list[Agreement]:
    """The counts of the JSON object of --check; Any: JSON."""
    found = []
    session = check.get("session", {"same": True})
    there = "" if session["same"] or check["mode"] == "pin" else f" by a session at {short_task(session['asked'])}"
    for key, what in (
        ("placement", f"placement{there}"),
        ("log_order", f"order of placing{there}"),
        ("pinned", "placement as shown, written into every node,"),
        ("partition", "partition by task" if "cut" in unlike_shown(check) else "partition as shown"),
        ("shapes", "inference of shapes"),
    ):
        part = check.get(key)
        if part:
            found.append(
                Agreement(what, part["agree"], part["of"], part.get("raw"), "tensors" if key == "shapes" else "nodes")
            )
    return found


def failures(check: Mapping[str, Any]) -> list[str]:
    """Clauses on what makes a check fail; none: it holds. Any: JSON.

    An algorithm that does not claim to do as TensorFlow does cannot fail against a log.
    """
    if check.get("refused"):
        failed = [] if check["foreseen"] else [f"TensorFlow refuses: {refusal(check)}"]
    elif check.get("predicts", True):
        failed = [str(one) for one in agreements(check) if one.agree != one.of]
    else:
        failed = []
    if laws := check["laws"]:
        failed.append(f"{counted(len(laws), 'law')} broken, first: {laws[0]}")
    return failed


def unlike_shown(check: Mapping[str, Any]) -> list[str]:
    """The parts of the question, "session" and "cut", in which it differs from the shown plan; Any: JSON."""
    return [part for part in ("session", "cut") if not check.get(part, {"same": True})["same"]]


def question(check: Mapping[str, Any]) -> str:
    """The question to TensorFlow; Any: JSON."""
    return QUESTIONS.get(check["mode"], "")


def asked(check: Mapping[str, Any]) -> str:
    """The part of TensorFlow that answered; Any: JSON."""
    return ASKED.get(check.get("oracle", ""), "")


def refusal(check: Mapping[str, Any]) -> str | None:
    """TensorFlow's sentence if it refuses the graph, with short lists of devices; Any: JSON."""
    return with_short_lists(check["refused"]) if check.get("refused") else None


def with_short_lists(sentence: str) -> str:
    """A sentence of TensorFlow's in which lists of devices end after the first few."""

    def short(found: re.Match[str]) -> str:
        devices = found[1].rstrip().split(", ")
        return f"[ {some(devices)} ]" if found[2] else f"[ {', '.join(devices[:LISTED])}, ..."

    return _LIST.sub(short, sentence)


def as_json(scene: Scene) -> Mapping[str, Any] | None:
    """The JSON object of the check with its sentences, in the order of the page; Any: JSON."""
    check = scene.check
    if check is None:
        return None
    counts = [{**asdict(one), "undone": one.undone} for one in agreements(check)]
    said = {"agreements": counts, "question": question(check), "asked": asked(check), "notes": notes(scene)}
    return {**check, **said, "first": apart(scene), "refused": refusal(check)}


def _which(trained: Trained) -> str:
    """The clients of a training for which the check stands."""
    first, *others = (client.program for client in trained.clients)
    equal = [program.name for program in others if program.like == 0]
    apart = [program.name for program in others if program.like != 0]
    said = f"{first.name} was checked" + (f" and stands for {some(equal)}" if equal else "")
    return said + (f"; not checked: {some(apart)}" if apart else "")


def _of_log(scene: Scene, check: Mapping[str, Any]) -> list[str]:
    """Sentences on what a log leaves open; Any: JSON."""
    said = []
    if not check["predicts"]:
        said.append(
            f"{scene.assignment.used} does not claim to do as TensorFlow does; --algorithm tensorflow predicts it"
        )
    if check["no_devices"]:
        said.append(
            f"{scene.cluster.name} lacks devices of the log: {some(check['no_devices'], 3)}; describe its cluster"
        )
    if check["only_ours"]:
        calls = "; it has calls as single nodes, as with --keep-calls" if scene.graph.expanded else ""
        said.append(f"the log lacks {counted(len(check['only_ours']), 'node')}: {some(check['only_ours'], 3)}{calls}")
    if check["only_logged"]:
        only = check["only_logged"]
        foreign = "; most of the log is of another graph" if len(only) > check["placement"]["of"] else ""
        said.append(f"the log alone has {counted(len(only), 'node')}: {some(only, 3)}{foreign}")
    if check["ambiguous"]:
        several = check["ambiguous"]
        said.append(f"not compared: {counted(len(several), 'node')} logged with several devices: {some(several, 3)}")
    if check["eager"]:
        said.append(f"not compared: {counted(check['eager'], 'line')} about ops that ran eagerly")
    return said


def apart(scene: Scene) -> list[str]:
    """Sentences on how the question differs from the shown plan; they come before all others."""
    check = scene.check
    if check is None:
        return []
    return [*_of_session(scene, check), *_of_cut(check)]


def _of_session(scene: Scene, check: Mapping[str, Any]) -> list[str]:
    """Any: the JSON of the check."""
    if "session" not in unlike_shown(check):
        return []
    session = check["session"]
    shown, asked = short_task(session["shown"]), short_task(session["asked"])
    other = next((task for task in scene.cluster.tasks if can_hold_master(connected(scene.cluster, task))), None)
    moved, nodes = session.get("elsewhere"), len(scene.graph)
    asking = f"another session was asked, at {asked}: a real master owns CPUs alone and can't be {shown}"
    if check.get("refused"):
        return [asking]
    if moved is None:
        what = "The shown device was written into every node"
    elif moved:
        what = (
            f"That session places {moved} of {counted(nodes, 'node')} elsewhere; for these the shown device is not "
            "confirmed"
        )
    else:
        what = f"That session places all {counted(nodes, 'node')} as shown"
    if ends := int((scene.partitions.endpoint >= 0).sum()):
        what += f". {counted(ends, 'end')} of feeds and fetches are there, not at {shown}"
    instead = short_task(other) if other else "standin_client:0"
    return [f"{asking}. {what}. --master {instead} shows a session that can be asked"]


def _of_cut(check: Mapping[str, Any]) -> list[str]:
    """Any: the JSON of the check."""
    said = []
    if "cut" in unlike_shown(check):
        cut = check["cut"]
        said.append(
            f"another cut was compared: the shown one is {CUTS[cut['shown']]}, the compared one "
            f"{CUTS[cut['compared']]}. Both are of the same placement"
        )
    if unseen := check.get("unseen_cuts"):
        said.append(f"not compared: the cut between devices of one task ({some(unseen, 2)}); stand-ins do not make it")
    return said


def notes(scene: Scene) -> list[str]:
    """Further sentences on the check: its subject, and what it leaves out."""
    check = scene.check
    if check is None or check.get("refused"):
        return []
    said = [] if scene.training is None else [_which(scene.training)]
    if check["mode"] == "log":
        return [*said, *_of_log(scene, check)]
    if bodies := check.get("bodies"):
        said.append(f"not compared: {counted(bodies, 'node')} of bodies that TensorFlow's runtime places by itself")
    return said
