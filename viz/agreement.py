"""What --check found, in words: the same for the summary, the report and the command's last line."""

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
    "pin": "with simviz's device written into every node, does it take that, and cut the graph as simviz says?",
}
ASKED = {
    "local session": "a session in a process of its own, with as many CPUs",
    "stand-in workers": "its real master, before workers that only claim to have the cluster's devices",
    "real GPUs": "a session on the GPUs of this machine",
    "placement log": "a log that TensorFlow wrote with log_device_placement; nothing was asked now",
}
CUTS = {"local": "by device, as a session of one process makes it", "master": "a master's, by task"}
_LIST = re.compile(r"\[ ?(/job:[^\]]*)(\]?)")  # of devices, in a sentence of TensorFlow's, which may end within one


@dataclass(frozen=True, slots=True)
class Agreement:
    """How far TensorFlow does the same, in one respect."""

    what: str
    agree: int
    of: int
    raw: int | None  # without undoing what differs between runs of TensorFlow itself; None: nothing can be undone

    def __str__(self) -> str:
        return f"{self.what} agrees for {self.agree} of {self.of} nodes{f', {self.undone}' if self.undone else ''}"

    @property
    def undone(self) -> str:
        """How much of it agrees without undoing anything."""
        if self.raw is None or not self.of:
            return ""
        return "as they stand" if self.raw == self.agree else f"{self.raw} before undoing what is by chance"


def agreements(check: Mapping[str, Any]) -> list[Agreement]:
    """What the JSON object of --check counts; Any: JSON."""
    found = []
    session = check.get("session", {"same": True})
    there = "" if session["same"] or check["mode"] == "pin" else f" by a session at {short_task(session['asked'])}"
    for key, what in (
        ("placement", f"placement{there}"),
        ("log_order", f"order of placing{there}"),
        ("pinned", "placement as shown, written into every node,"),
        ("partition", "partition as shown" if check.get("cut", {"same": True})["same"] else "partition by task"),
    ):
        part = check.get(key)
        if part:
            found.append(Agreement(what, part["agree"], part["of"], part.get("raw")))
    return found


def question(check: Mapping[str, Any]) -> str:
    """What TensorFlow was asked; Any: JSON."""
    return QUESTIONS.get(check["mode"], "")


def asked(check: Mapping[str, Any]) -> str:
    """Who answered for TensorFlow; Any: JSON."""
    return ASKED.get(check.get("oracle", ""), "")


def refusal(check: Mapping[str, Any]) -> str | None:
    """TensorFlow's sentence, if it refuses the graph, with lists of devices that can be read; Any: JSON."""
    return shortened(check["refused"]) if check.get("refused") else None


def shortened(sentence: str) -> str:
    """A sentence of TensorFlow's in which lists of devices end after the first few."""

    def short(found: re.Match[str]) -> str:
        devices = found[1].rstrip().split(", ")
        return f"[ {some(devices)} ]" if found[2] else f"[ {', '.join(devices[:LISTED])}, ..."

    return _LIST.sub(short, sentence)


def told(scene: Scene) -> Mapping[str, Any] | None:
    """The JSON object of the check with what is said about it, in the order in which it is shown; Any: JSON."""
    check = scene.check
    if check is None:
        return None
    counts = [{**asdict(one), "undone": one.undone} for one in agreements(check)]
    said = {"agreements": counts, "question": question(check), "asked": asked(check), "notes": notes(scene)}
    return {**check, **said, "first": apart(scene), "refused": refusal(check)}


def _which(trained: Trained) -> str:
    """Of which clients of a training this is the check."""
    first, *others = (client.program for client in trained.clients)
    alike = [program.name for program in others if program.like == 0]
    apart = [program.name for program in others if program.like != 0]
    said = f"checked is {first.name}" + (f", which stands for {some(alike)}" if alike else "")
    return said + (f"; not checked: {some(apart)}" if apart else "")


def _of_log(scene: Scene, check: Mapping[str, Any]) -> list[str]:
    """What a log leaves open, a sentence each; Any: JSON."""
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
        calls = "; it has calls as single nodes, as --keep-calls does" if scene.graph.expanded else ""
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
    """How what TensorFlow was asked differs from what is shown, a sentence each: said before all else."""
    check = scene.check
    if check is None:
        return []
    return [*_of_session(scene, check), *_of_cut(check)]


def _of_session(scene: Scene, check: Mapping[str, Any]) -> list[str]:
    """Any: the JSON of the check."""
    session = check.get("session", {"same": True})
    if session["same"]:
        return []
    shown, asked = short_task(session["shown"]), short_task(session["asked"])
    other = next((task for task in scene.cluster.tasks if can_hold_master(connected(scene.cluster, task))), None)
    moved, nodes = session.get("elsewhere"), len(scene.graph)
    why = f"a real master owns CPUs alone and can't be {shown}"
    asking = f"not the session that is shown: {why}; one at {asked} was asked"
    if check.get("refused"):
        return [asking]
    if moved is None:
        what = "the shown device was written into every node"
    elif moved:
        what = (
            f"that session places {moved} of {counted(nodes, 'node')} elsewhere than is shown, so for these nobody has "
            "confirmed the shown device"
        )
    else:
        what = f"that session places all {counted(nodes, 'node')} as is shown"
    if ends := int((scene.partitions.endpoint >= 0).sum()):
        what += f"; {counted(ends, 'end')} of feeds and fetches there, not at {shown}"
    instead = short_task(other) if other else "standin_client:0"
    return [f"{asking}: {what}. --master {instead} shows a session that can be asked"]


def _of_cut(check: Mapping[str, Any]) -> list[str]:
    """Any: the JSON of the check."""
    cut, said = check.get("cut", {"same": True}), []
    if not cut["same"]:
        said.append(
            f"not the cut that is shown: that one is {CUTS[cut['shown']]}, and what could be compared is "
            f"{CUTS[cut['compared']]}, of the same placement"
        )
    if unseen := check.get("unseen_cuts"):
        said.append(
            f"not compared: the cut between devices of one task ({some(unseen, 2)}), which stand-ins do not make"
        )
    return said


def notes(scene: Scene) -> list[str]:
    """What else the reader of the check should know, a sentence each: what it is about, and what it leaves out."""
    check = scene.check
    if check is None or check.get("refused"):
        return []
    said = [] if scene.training is None else [_which(scene.training)]
    if check["mode"] == "log":
        return [*said, *_of_log(scene, check)]
    if bodies := check.get("bodies"):
        said.append(f"not compared: {counted(bodies, 'node')} of bodies that TensorFlow's runtime places by itself")
    return said
