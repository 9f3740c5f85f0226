"""Links that are shared, and the flows on them: what `flat` says, for the compiled loop."""

from __future__ import annotations

from typing import Annotated, NamedTuple

from simulator.columns import Ids, Ints


class Shared(NamedTuple):
    """Which ways share which links; part of `Flat`."""

    link_ptr: Ids  # [W+1]
    link: Ids  # links that transfers of a way share
    user_ptr: Ids  # [L+1] first of as many places in `Fair.user` as ways share a link
    cap: Ints  # [W] what the other links let a sharing transfer have, bytes per second; 0: no bound
    capacity: Ints  # [L] bytes per second


class Fair(NamedTuple):
    """Flows that share links; part of `Work`. The flows of one way are a class."""

    key: Annotated[Ints, "V"]  # a heap per way, in its region of `Queues.wire`: service at which a flow ends, nanobytes
    task: Annotated[Ids, "V"]  # transfer
    flows: Annotated[Ids, "W"]  # how many
    served: Annotated[Ints, "W"]  # nanobytes, for each
    since_ns: Annotated[Ints, "W"]  # until when
    rate: Annotated[Ints, "W"]  # of each flow
    next_ns: Annotated[Ints, "W"]  # when the first of them ends
    soonest: Annotated[Ids, "W"]  # a heap of the ways with flows by `next_ns`
    rank: Annotated[Ids, "W"]  # where in it
    changed: Annotated[Ids, "W"]  # ways with flows that began or ended in this round
    seen: Annotated[Ids, "W"]  # round in which it was changed or found
    counted: Annotated[Ids, "W"]  # flows when rates were found last
    share: Annotated[Ints, "W"]  # rate that was found for each
    share_by: Annotated[Ids, "W"]  # the link that fixed it; less than 0: its cap
    trial: Annotated[Ints, "W"]  # rate that it would get
    trial_by: Annotated[Ids, "W"]  # from this link; its cap: the way less W, which comes before all links
    part: Annotated[Ids, "W"]  # ways with flows that began or ended, or over a link that is filled anew
    user: Annotated[Ids, "U"]  # ways with flows, a region per link
    users: Annotated[Ids, "L"]  # how many
    many: Annotated[Ids, "L"]  # flows of all of them
    load: Annotated[Ints, "L"]  # bytes per second of all of them; of thousands of links of MAX_RATE 64 bits hold it
    level: Annotated[Ints, "L"]  # share at which it fixes the rate of flows; NEVER: of none
    least: Annotated[Ints, "L"]  # share that it can give at least
    link_seen: Annotated[Ids, "L"]  # round in which it is filled anew
    span: Annotated[Ids, "L"]  # links that are filled anew
    sizes: Annotated[Ids, "2"]  # of `soonest`, `changed`
