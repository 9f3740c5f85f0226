"""The simulator: graphs, clusters, costs, cutting, simulated time, and TensorFlow for comparison.

A notebook needs only the functions below. Each is loaded at its first use, so the import of the package is quick.
`docs/walk.md` describes the values between them.
"""

from __future__ import annotations

from simulator.lazy import exported

TYPE_CHECKING = False  # as in `typing`, which takes long to load
if TYPE_CHECKING:
    from simulator.assignment import Assignment as Assignment
    from simulator.bounds import lower_bound as lower_bound
    from simulator.cluster.cluster import Cluster as Cluster
    from simulator.cluster.description import load_cluster as load_cluster
    from simulator.cluster.device_strings import default_cluster as default_cluster
    from simulator.cluster.device_strings import without_devices as without_devices
    from simulator.comparison.comparison import compare_items as compare_items
    from simulator.costs.estimate import estimate as estimate
    from simulator.costs.matching import with_measured as with_measured
    from simulator.costs.measurements.reading import read_measurement as read_measurement
    from simulator.costs.profile import Profile as Profile
    from simulator.costs.profile import read_profile as read_profile
    from simulator.costs.table import CostTable as CostTable
    from simulator.errors import SimvizError as SimvizError
    from simulator.execution.evaluate import evaluate as evaluate
    from simulator.execution.evaluate import evaluate_with_peaks as evaluate_with_peaks
    from simulator.execution.interval import interval as interval
    from simulator.execution.options import SimulationOptions as SimulationOptions
    from simulator.execution.preparing import Prepared as Prepared
    from simulator.execution.preparing import prepare as prepare
    from simulator.execution.simulate import simulate as simulate
    from simulator.execution.trace import Trace as Trace
    from simulator.graph.graph import Graph as Graph
    from simulator.graph.importer import read_graph as read_graph
    from simulator.graph.inlining.expanding import inline as inline
    from simulator.graph.step import Step as Step
    from simulator.graph.step import choose_step as choose_step
    from simulator.instances.reading import read_instance as read_instance
    from simulator.limits import raised as raised
    from simulator.loading import load as load
    from simulator.observed.form import read_observed as read_observed
    from simulator.observed.observed_step import ObservedStep as ObservedStep
    from simulator.oracle.calibration import calibrate as calibrate
    from simulator.oracle.dry_runs import dry_run as dry_run
    from simulator.oracle.observing import observe_step as observe_step
    from simulator.partitioning.cut import partition as partition
    from simulator.partitioning.partitions import Partitions as Partitions
    from simulator.placer.reach import within_reach as within_reach
    from simulator.shapes.filling import with_shapes as with_shapes
    from simulator.training.answers.answers import answers as answers
    from simulator.training.disturbances.disturbance import read_disturbance as read_disturbance
    from simulator.training.pipelines.building import Pipeline as Pipeline
    from simulator.training.pipelines.pipelined import pipeline as pipeline
    from simulator.training.programs.distributed import distributed as distributed
    from simulator.training.programs.program import estimate_each as estimate_each
    from simulator.training.programs.replicated import replicate as replicate
    from simulator.training.regimes import read_regime as read_regime
    from simulator.training.train import train as train

# name -> module that holds it
_EXPORTS = {
    "Assignment": "simulator.assignment",
    "Cluster": "simulator.cluster.cluster",
    "CostTable": "simulator.costs.table",
    "Graph": "simulator.graph.graph",
    "ObservedStep": "simulator.observed.observed_step",
    "Partitions": "simulator.partitioning.partitions",
    "Pipeline": "simulator.training.pipelines.building",
    "Prepared": "simulator.execution.preparing",
    "Profile": "simulator.costs.profile",
    "SimulationOptions": "simulator.execution.options",
    "SimvizError": "simulator.errors",
    "Step": "simulator.graph.step",
    "Trace": "simulator.execution.trace",
    "answers": "simulator.training.answers.answers",
    "calibrate": "simulator.oracle.calibration",
    "choose_step": "simulator.graph.step",
    "compare_items": "simulator.comparison.comparison",
    "default_cluster": "simulator.cluster.device_strings",
    "distributed": "simulator.training.programs.distributed",
    "dry_run": "simulator.oracle.dry_runs",
    "estimate": "simulator.costs.estimate",
    "estimate_each": "simulator.training.programs.program",
    "evaluate": "simulator.execution.evaluate",
    "evaluate_with_peaks": "simulator.execution.evaluate",
    "inline": "simulator.graph.inlining.expanding",
    "interval": "simulator.execution.interval",
    "load": "simulator.loading",
    "load_cluster": "simulator.cluster.description",
    "lower_bound": "simulator.bounds",
    "observe_step": "simulator.oracle.observing",
    "partition": "simulator.partitioning.cut",
    "pipeline": "simulator.training.pipelines.pipelined",
    "prepare": "simulator.execution.preparing",
    "raised": "simulator.limits",
    "read_disturbance": "simulator.training.disturbances.disturbance",
    "read_graph": "simulator.graph.importer",
    "read_instance": "simulator.instances.reading",
    "read_measurement": "simulator.costs.measurements.reading",
    "read_observed": "simulator.observed.form",
    "read_profile": "simulator.costs.profile",
    "read_regime": "simulator.training.regimes",
    "replicate": "simulator.training.programs.replicated",
    "simulate": "simulator.execution.simulate",
    "train": "simulator.training.train",
    "with_measured": "simulator.costs.matching",
    "with_shapes": "simulator.shapes.filling",
    "within_reach": "simulator.placer.reach",
    "without_devices": "simulator.cluster.device_strings",
}

__all__ = sorted(_EXPORTS)
__version__ = "0.1.0"

__getattr__, __dir__ = exported(__name__, _EXPORTS)
