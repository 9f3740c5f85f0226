"""A child process for the tests: has TensorFlow place many graphs, one session each, on four CPU devices."""

from simulator.oracle import child, session


def work(payload: bytes) -> bytes:
    """Facts: soft and target per graph. Blobs: the GraphDefs. Back come {node: device} and a refusal per graph."""
    facts, graphs = child.unpack(payload)
    session.prepare(gpus=False)
    answers = []
    for (soft, target), graph in zip(facts["asked"], graphs, strict=True):
        config = session.configuration(soft=soft)
        config.device_count["CPU"] = 4
        placed, _, refusal = session.observe(graph, config, [], [target])
        answers.append(({name: device for name, _, device in placed}, refusal))
    return child.pack({"answers": answers})


if __name__ == "__main__":
    child.serve(work)
