"""A small policy learns to place graphs, and is held against algorithms on graphs that it has not seen.

It gives each device a score, and the device with the highest score gets the group. The score is bilinear in what an
agent sees of the device and of the group, so one table of weights serves graphs and clusters of any size. It begins
with a guess: the device on which the group starts and ends early. From there the cross-entropy method goes on: of many
tables by chance the best ones say where to look next (Rubinstein 1999).

Without arguments it plays a few rounds, to show how it goes. `--rounds 40 --jobs 2` learns for some minutes. Files at
the end are further graphs to place. Needs `pip install "simviz[gym]"`.
"""

import argparse
import math
from multiprocessing import Pool
from pathlib import Path
from time import monotonic

import numpy as np
from make_branches import branches

from placement import place
from placement.environment import DEVICE_FEATURES, GROUP_FEATURES, PlacementEnv, Question
from simulator import partition, simulate
from simulator.units import show_nanos

LOGARITHMS = {"run", "start", "end", "load", "crossing", "traffic", "work", "bytes_in", "bytes_out"}
OF_DEVICE = np.array([0.5 if name in LOGARITHMS else 1.0 for name in DEVICE_FEATURES])
OF_GROUP = np.array([0.2 if name in LOGARITHMS else 1.0 for name in GROUP_FEATURES])
SHAPE = (len(DEVICE_FEATURES), 1 + len(GROUP_FEATURES))
ALGORITHMS = ("single", "whitepaper", "heft", "search")
KEPT, STEP = 0.2, 0.7  # share of tables that say where to look, and how far to go there
SPREAD, LEAST = 0.5, 0.03  # of the tables at first, and what is added to it each round

GUESS = np.zeros(SHAPE)
GUESS[[DEVICE_FEATURES.index(name) for name in ("run", "start", "end")], 0] = -1.0

playing: list[PlacementEnv] = []  # in each process its own


def choose(weights, seen):
    scores = (seen["devices"] * OF_DEVICE) @ (weights.reshape(SHAPE) @ np.append(1.0, seen["group"] * OF_GROUP))
    return int(np.where(seen["action_mask"], scores, -np.inf).argmax())


def play(env, weights, question):
    """The reward of an episode."""
    seen, _ = env.reset(options={"question": question})
    over = False
    while not over:
        seen, reward, over, _, _ = env.step(choose(weights, seen))
    return reward


def begin(questions, order):
    playing.append(PlacementEnv(questions, order=order))


def ask(one):
    return play(playing[0], *one)


def learn(questions, arguments):
    """The weights with the best mean reward over the questions, and that reward."""
    chance = np.random.default_rng(arguments.seed)
    mean, spread = GUESS.reshape(-1), np.full(GUESS.size, SPREAD)
    best, reached = mean, -math.inf
    with Pool(arguments.jobs, begin, [questions, arguments.order]) as pool:
        for _ in range(arguments.rounds):
            some = chance.choice(len(questions), min(arguments.each, len(questions)), replace=False)
            tables = mean + spread * chance.standard_normal((arguments.tables, mean.size))
            rewards = pool.map(ask, [(table, question) for table in tables for question in some], chunksize=4)
            order = np.argsort(-np.reshape(rewards, (len(tables), -1)).mean(axis=1), kind="stable")
            elite = tables[order[: max(int(KEPT * len(tables)), 2)]]
            mean = mean + STEP * (elite.mean(axis=0) - mean)
            spread = spread + STEP * (elite.std(axis=0) - spread) + LEAST
            found = float(np.mean(pool.map(ask, [(mean, question) for question in range(len(questions))])))
            if found > reached:
                best, reached = mean, found
    return best, reached


def makespan(question, algorithm):
    """The makespan of a plan as it is, without a fallback to a single device."""
    graph, cluster, costs, step = question.graph, question.cluster, question.costs, question.step
    assignment = place(graph, cluster, costs, step=step, algorithm=algorithm, fallback=False)
    return simulate(partition(graph, assignment, cluster, step=step), cluster, costs).makespan


def decided(weights, question, order):
    """The makespan of the policy's plan."""
    env = PlacementEnv(question, order=order)
    play(env, weights, 0)
    return makespan(question, lambda _: env.plan())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tables", type=int, default=16, help="tables of weights per round")
    parser.add_argument("--each", type=int, default=3, help="graphs that each of them plays")
    parser.add_argument("--graphs", type=int, default=6, help="graphs to learn from")
    parser.add_argument("--held", type=int, default=1, help="graphs that it has not seen, larger ones")
    parser.add_argument("--cluster", default="4gpu")
    parser.add_argument("--order", default="depth", help="of the decisions: depth or ranks")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--time", action="store_true", help="say how long it took")
    parser.add_argument("files", nargs="*")
    arguments = parser.parse_args()

    began = monotonic()
    training = [Question.of(branches(seed).encode(), arguments.cluster) for seed in range(arguments.graphs)]
    weights, reached = learn(training, arguments)
    print(f"{arguments.rounds} rounds on {len(training)} graphs: {math.exp(reached):.2f} times as fast as one device.")
    if arguments.time:
        print(f"It took {monotonic() - began:.0f} s.")
    held = {
        f"branches {seed}": Question.of(branches(seed, (4, 7)).encode(), arguments.cluster)
        for seed in range(1000, 1000 + arguments.held)
    }
    for file in [str(Path(__file__).with_name("ps_training.pbtxt")), *arguments.files]:
        held[Path(file).stem] = Question.of(file, arguments.cluster, ignore_devices=True)
    print(f"{'held out':34}{'ops':>6}" + "".join(f"{name:>12}" for name in (*ALGORITHMS, "guess", "learnt")))
    ratios = []
    for name, question in held.items():
        taken = [makespan(question, algorithm) for algorithm in ALGORITHMS]
        taken += [decided(table, question, arguments.order) for table in (GUESS, weights)]
        ratios.append([one / taken[0] for one in taken])
        print(f"{name[:33]:34}{int(question.step.runs.sum()):6}" + "".join(f"{show_nanos(one):>12}" for one in taken))
    means = np.exp(np.log(ratios).mean(axis=0))
    print(f"{'geometric mean, over single':40}" + "".join(f"{mean:12.2f}" for mean in means))


if __name__ == "__main__":
    main()
