"""The tricky points of TensorFlow's semantics, each with its section of docs/tensorflow.md and what holds us to it.

A point is held by cases ("placer: NAME" in tests/placement/rules.py, "cut: NAME" in tests/partitioning/rules.py: worked
out by hand, asked of the real TensorFlow too) or by tests ("tests/FILE.py::NAME"). test_checklist.py sees that all of
them are there. Numbers are those of the list in which the points were collected; what is missing here is

    12  names that go on in a second signature of a session: a step is cut for itself, its numbers begin at 0 (§5.3)
    20  bfloat16 between tasks: not followed (§5.8)
    21  dead values, a limit of iterations at a time: the runtime's; time is simulated as if each loop ran once
    22  the runtime's table of values and waiters: of a rendezvous the cut has the keys
    23  which ops are run at once: the runtime's; what the simulated devices do instead is in tests/execution
    24  costs: those of the project's own model, beside Grappler's in tests/oracle/test_flops.py
    25  Grappler's virtual scheduler: not followed
    26  SyncReplicas, replica_device_setter, merge_devices: Python's, which have done their work when a graph is read
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

ELSEWHERE = frozenset({21, 23, 24, 25, 26})  # nothing here holds any of it

# (number, point, section) -> what holds it
HELD: Mapping[tuple[int, str, str], tuple[str, ...]] = MappingProxyType(
    {
        (1, "a type of any kind, the last of several, fields that are open", "1.2"): (
            "placer: names_that_can_be_read",
        ),
        (1, "a type in small letters", "1.2"): (
            "placer: a_lower_case_type_is_a_type_that_no_device_has",
            "placer: a_lower_case_type_is_not_found",
        ),
        (1, "a graph's own text, not as Python would read it", "1.3"): (
            "tests/oracle/test_local.py::test_the_device_strings_are_read_as_they_stand",
        ),
        (1, "a short name without a number, a job with a hyphen", "1.2"): (
            "placer: a_short_name_needs_its_number",
            "placer: a_job_has_no_hyphen",
            "placer: nothing_may_follow_a_slash",
        ),
        (2, "two numbers", "1.5"): ("placer: two_numbers_give_up_the_number", "placer: two_numbers_contradict"),
        (2, "two types", "1.5"): ("placer: two_types_give_up_type_and_number",),
        (2, "two tasks", "3.4"): ("placer: two_tasks_give_up_the_colocation", "placer: two_tasks_contradict"),
        (3, "job and task stay", "3.5"): (
            "placer: a_job_is_never_given_up",
            "placer: a_task_is_never_given_up",
            "tests/cluster/test_devicespec.py::test_nothing_relaxes_job_replica_and_task",
        ),
        (3, "CPU:10 before CPU:2", "2.3"): (
            "placer: devices_are_ordered_as_text",
            "tests/placement/test_rules.py::test_devices_of_equal_rank_are_ordered_by_name_as_text",
        ),
        (4, "readers on one device, on two", "3.7"): ("placer: a_generator_goes_where_all_its_readers_are",),
        (4, "a successor by control elsewhere", "3.7"): ("placer: a_successor_by_control_counts_as_a_reader",),
        (4, "a reader that is not fetched", "3.7"): ("placer: readers_that_do_not_run_count",),
        (4, "control inputs alone, colocation", "3.7"): (
            "placer: control_inputs_make_no_difference_and_colocation_does",
        ),
        (5, "an Identity between equal and other requests, other text", "3.7"): (
            "placer: an_identity_between_equal_requests_passes_through",
        ),
        (5, "a second reader, a control input, a leaf", "3.7"): (
            "placer: an_identity_with_more_than_one_edge_or_none_after_it_does_not_pass_through",
        ),
        (5, "Shape of what is placed, of a generator, with a device of its own", "3.7"): (
            "placer: metadata_follows_what_is_placed",
        ),
        (5, "Size and Rank, but not ShapeN", "3.7"): ("placer: sizes_and_ranks_follow_and_several_shapes_do_not",),
        (6, "a reader of a reference, by reference and by value", "3.3"): (
            "placer: a_reader_by_reference_is_overruled",
        ),
        (6, "two readers of an open handle", "3.3"): ("placer: the_first_reader_decides_for_an_open_handle",),
        (6, "groups of resources that contradict", "3.3"): (
            "placer: two_places_of_variables_cannot_meet",
            "placer: colocated_variables_keep_their_places",
            "placer: colocated_variables_contradict",
            "placer: a_variables_place_wins_over_a_request",
            "placer: a_variables_place_contradicts_a_request",
        ),
        (7, "keys of all sorts", "3.4"): ("placer: keys_of_all_sorts",),
        (8, "a member that a GPU has no kernel for", "3.5"): (
            "placer: a_member_without_a_gpu_kernel_moves_the_variable",
            "placer: a_member_without_a_gpu_kernel_is_refused",
        ),
        (8, "integers, kernels of any device", "2.2"): ("placer: kernels_decide_where_integers_and_iterators_go",),
        (9, "the node that is reported", "3.5"): (
            "placer: the_first_node_that_is_wrong_by_itself_comes_before_all_edges",
            "placer: an_edge_comes_before_colocation_and_devices",
            "placer: what_has_no_inputs_is_reported_last",
        ),
        (9, "the text, devices as text", "3.5"): (
            "tests/oracle/test_check.py::test_the_kind_and_node_of_a_refusal_are_found",
            "tests/oracle/test_refusals.py::test_both_list_the_devices_in_the_same_order",
        ),
        (10, "the session's own task first", "2.3"): (
            "placer: what_asks_for_no_task_goes_to_that_of_the_session",
            "placer: a_faster_type_elsewhere_comes_before_the_own_task",
        ),
        (11, "one Recv for many readers, Mul(x, x)", "5.2"): ("cut: readers_on_one_device_share_a_recv",),
        (11, "two outputs of a node", "5.2"): ("cut: each_output_crosses_by_itself",),
        (11, "data and control of a node", "5.2"): ("cut: data_and_control_of_one_node_cross_apart",),
        (11, "waits that share, of one node and of several", "5.2"): (
            "cut: nodes_that_wait_on_one_device_share_a_pair",
        ),
        (12, "`/_k`, `_Sk`, `_Gk`; ctrl takes a number; named after the source", "5.3"): (
            "cut: data_and_control_of_one_node_cross_apart",
            "cut: a_master_names_what_it_makes_after_the_source",
            "cut: a_worker_hands_on_what_its_task_was_sent_and_counts_edges_from_one",
        ),
        (13, "the first id, feeds and fetches late", "5.4"): (
            "cut: edges_are_counted_from_three_without_those_of_copied_constants",
            "cut: what_waits_for_a_fed_node_that_is_no_placeholder_makes_it_run",
        ),
        (13, "anew after pruning", "5.4"): ("cut: edges_are_counted_anew_after_pruning_and_the_clients_last",),
        (13, "from one at a worker", "5.4"): (
            "cut: a_worker_hands_on_what_its_task_was_sent_and_counts_edges_from_one",
        ),
        (14, "up to 16 elements, order and names", "3.9"): (
            "cut: sixteen_elements_are_copied_in_order_of_devices",
            "cut: readers_on_one_device_share_a_recv",
            "tests/partitioning/test_cut.py::test_a_constant_is_not_copied",
        ),
        (14, "a control successor", "3.9"): ("cut: a_constant_that_something_waits_for_is_not_copied",),
        (14, "a reader that is pruned", "3.9"): (
            "cut: a_constant_whose_readers_that_run_are_on_one_device_is_not_copied",
        ),
        (14, "readers on GPUs", "3.9"): ("cut: a_gpu_reads_the_copy_on_the_cpu_of_its_task",),
        (15, "host memory between CPUs, mixed pairs", "5.5"): (
            "cut: a_shape_is_in_host_memory_between_cpus_too",
            "cut: strings_and_predicates_are_in_host_memory_between_cpus_too",
        ),
        (15, "both memories of a GPU", "5.5"): ("cut: a_gpu_that_reads_in_both_memories_is_sent_it_twice",),
        (15, "a pair within a GPU", "5.5"): ("cut: one_gpu_takes_a_value_over_from_host_memory",),
        (16, "no sharing, waits, `_start_time`", "5.6"): (
            "cut: readers_of_a_reference_share_nothing_and_read_after_their_other_inputs",
        ),
        (17, "a fed node that something waits for", "6"): (
            "cut: what_waits_for_a_fed_node_that_is_no_placeholder_makes_it_run",
            "cut: what_waits_for_a_fed_placeholder_waits_for_the_client",
        ),
        (17, "a fetch elsewhere, twice, in order of names", "6"): (
            "cut: what_is_fetched_ends_at_the_client_once_and_in_order_of_names",
        ),
        (17, "targets alone, a tensor that is fed and fetched", "6"): (
            "tests/oracle/test_exchange.py::test_tricky_steps_are_cut_as_tensorflow_cuts_them",
            "tests/graph/test_step.py::test_what_is_fed_is_handed_back_without_being_run",
        ),
        (18, "once per task, to the first reader's device", "5.2"): (
            "cut: a_task_is_sent_a_tensor_once_to_the_device_that_reads_it_first",
        ),
        (18, "handed on within the task", "5.2"): (
            "cut: a_worker_hands_on_what_its_task_was_sent_and_counts_edges_from_one",
        ),
        (19, "a loop on two devices, a wait that is left over", "5.7"): (
            "cut: a_loop_is_closed_on_both_its_devices_and_a_shared_recv_leaves_a_wait_behind",
        ),
        (19, "on three", "5.7"): ("cut: a_loop_on_three_devices_is_closed_on_each",),
        (19, "within a loop", "5.7"): ("cut: a_loop_within_a_loop_has_both_closed_from_the_inside",),
        (19, "edges into and out of a loop", "5.7"): ("cut: what_enters_and_leaves_a_loop_needs_none_there",),
        (19, "what stays the same in a loop", "5.7"): (
            "cut: what_stays_the_same_enters_beside_its_reader_and_crosses_outside",
        ),
        (19, "a loop without a predicate", "5.7"): (
            "tests/oracle/test_partitioning.py::test_a_loop_without_predicate_that_crosses_devices_is_refused_by_both",
        ),
        (19, "a Switch that is moved", "5.7"): ("cut: a_switch_runs_beside_its_data",),
        (20, "copies of ten, six epochs ahead", "5.8"): ("cut: a_recv_waits_for_the_trigger_six_epochs_before_it",),
        (20, "no wait of a _HostRecv", "5.8"): ("cut: a_recv_in_host_memory_waits_for_no_trigger",),
        (20, "a hundred epochs at most", "5.8"): (
            "cut: after_a_hundred_microseconds_epochs_are_longer",
            "tests/oracle/test_levels.py::test_recvs_are_delayed_by_the_same_triggers",
        ),
        (22, "five parts of a key", "5.3"): (
            "tests/partitioning/test_rules.py::test_a_key_has_five_parts_and_is_that_of_its_send",
        ),
        (27, "what moved is logged where it was placed", "4"): (
            "cut: a_switch_runs_beside_its_data",
            "cut: what_enters_and_leaves_a_loop_needs_none_there",
        ),
        (27, "what is copied or pruned is logged, generators last", "4"): (
            "cut: the_log_has_what_is_pruned_and_copied_and_generators_last",
        ),
    }
)
