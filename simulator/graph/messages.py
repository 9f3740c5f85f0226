"""TensorFlow's GraphDef family as protobuf messages, without TensorFlow.

The descriptors are made at run time from the table below, in a pool of our own. So they neither need TensorFlow
nor collide with it when it is loaded in the same process. Both have the same wire format: each reads the bytes and text
of the other.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format

from simulator.graph import dtypes
from simulator.limits import BACKSLASHES

# A run of backslashes costs protobuf's reader its square: 100,000 of them take a minute.
_BACKSLASHES = re.compile(r"\\+")

# Any: descriptors made at run time have fields that no checker knows. This module is one of the two places where
# untyped values enter. A parameter of this type is a message, ours or TensorFlow's.
Proto: TypeAlias = Any
_Field = descriptor_pb2.FieldDescriptorProto
_SCALAR_NAMES = "bool bytes double fixed64 float int32 int64 sint64 string uint32 uint64"
_SCALARS = {name: getattr(_Field, f"TYPE_{name.upper()}") for name in _SCALAR_NAMES.split()}
_ANY = "google.protobuf.Any"


# --- the wire format -------------------------------------------------------------------------------------------------


# A table of facts of TensorFlow's .proto files (version 2.21): `tensorflow/core/framework/*.proto`, `tensorflow/core/
# protobuf/{meta_graph,queue_runner,saved_model,saved_object_graph,trackable_object_graph,struct,saver,config}.proto`;
# `tsl/profiler/protobuf/xplane.proto`.
# TensorFlow never changes a field number, so the table only grows.
#
#     field number type      a field            type*      repeated
#     key->value             a map              type|name  a member of the oneof of that name
#
# A message whose first part names another message lies within it; names that do not begin with "google." lie in the
# package `tensorflow`. Blank lines and lines that begin with "#" part the table for the reader.
MESSAGES = """
# A graph and its functions
GraphDef: node 1 NodeDef*, library 2 FunctionDefLibrary, version 3 int32, versions 4 VersionDef, debug_info 5
    GraphDebugInfo
NodeDef: name 1 string, op 2 string, input 3 string*, device 4 string, attr 5 string->AttrValue,
    experimental_debug_info 6 NodeDef.ExperimentalDebugInfo, experimental_type 7 FullTypeDef
AttrValue: list 1 AttrValue.ListValue|value, s 2 bytes|value, i 3 int64|value, f 4 float|value, b 5 bool|value, type 6
    DataType|value, shape 7 TensorShapeProto|value, tensor 8 TensorProto|value, placeholder 9 string|value, func 10
    NameAttrList|value
TensorShapeProto: dim 2 TensorShapeProto.Dim*, unknown_rank 3 bool
TensorShapeProto.Dim: size 1 int64, name 2 string
TensorProto: dtype 1 DataType, tensor_shape 2 TensorShapeProto, version_number 3 int32, tensor_content 4 bytes,
    float_val 5 float*, double_val 6 double*, int_val 7 int32*, string_val 8 bytes*, scomplex_val 9 float*, int64_val
    10 int64*, bool_val 11 bool*, dcomplex_val 12 double*, half_val 13 int32*, resource_handle_val 14
    ResourceHandleProto*, variant_val 15 VariantTensorDataProto*, uint32_val 16 uint32*, uint64_val 17 uint64*,
    float8_val 18 bytes
ResourceHandleProto: device 1 string, container 2 string, name 3 string, hash_code 4 uint64, maybe_type_name 5 string,
    dtypes_and_shapes 6 ResourceHandleProto.DtypeAndShape*
ResourceHandleProto.DtypeAndShape: dtype 1 DataType, shape 2 TensorShapeProto
VariantTensorDataProto: type_name 1 string, metadata 2 bytes, tensors 3 TensorProto*
AttrValue.ListValue: s 2 bytes*, i 3 int64*, f 4 float*, b 5 bool*, type 6 DataType*, shape 7 TensorShapeProto*,
    tensor 8 TensorProto*, func 9 NameAttrList*
NameAttrList: name 1 string, attr 2 string->AttrValue
NodeDef.ExperimentalDebugInfo: original_node_names 1 string*, original_func_names 2 string*
FullTypeDef: type_id 1 FullTypeId, args 2 FullTypeDef*, s 3 string|attr, i 4 int64|attr
VersionDef: producer 1 int32, min_consumer 2 int32, bad_consumers 3 int32*
FunctionDefLibrary: function 1 FunctionDef*, gradient 2 GradientDef*, registered_gradients 3 RegisteredGradient*
FunctionDef: signature 1 OpDef, node_def 3 NodeDef*, ret 4 string->string, attr 5 string->AttrValue, control_ret 6
    string->string, arg_attr 7 uint32->FunctionDef.ArgAttrs, resource_arg_unique_id 8 uint32->uint32
OpDef: name 1 string, input_arg 2 OpDef.ArgDef*, output_arg 3 OpDef.ArgDef*, attr 4 OpDef.AttrDef*, summary 5 string,
    description 6 string, deprecation 8 OpDeprecation, is_aggregate 16 bool, is_stateful 17 bool, is_commutative 18
    bool, allows_uninitialized_input 19 bool, control_output 20 string*, is_distributed_communication 21 bool
OpDef.ArgDef: name 1 string, description 2 string, type 3 DataType, type_attr 4 string, number_attr 5 string,
    type_list_attr 6 string, handle_data 7 ResourceHandleProto.DtypeAndShape*, is_ref 16 bool, experimental_full_type
    17 FullTypeDef
OpDef.AttrDef: name 1 string, type 2 string, default_value 3 AttrValue, description 4 string, has_minimum 5 bool,
    minimum 6 int64, allowed_values 7 AttrValue
OpDeprecation: version 1 int32, explanation 2 string
FunctionDef.ArgAttrs: attr 1 string->AttrValue
GradientDef: function_name 1 string, gradient_func 2 string
RegisteredGradient: gradient_func 1 string, registered_op_type 2 string
GraphDebugInfo: files 1 string*, traces 2 string->GraphDebugInfo.StackTrace, frames_by_id 4
    fixed64->GraphDebugInfo.FileLineCol, name_to_trace_id 5 string->fixed64, traces_by_id 6
    fixed64->GraphDebugInfo.StackTrace
GraphDebugInfo.FileLineCol: file_index 1 int32, line 2 int32, col 3 int32, func 4 string, code 5 string
GraphDebugInfo.StackTrace: file_line_cols 1 GraphDebugInfo.FileLineCol*, frame_id 2 fixed64*

# Definitions of ops
OpList: op 1 OpDef*

# Definitions of kernels
KernelList: kernel 1 KernelDef*
KernelDef: op 1 string, device_type 2 string, constraint 3 KernelDef.AttrConstraint*, host_memory_arg 4 string*, label
    5 string, priority 6 int32
KernelDef.AttrConstraint: name 1 string, allowed_values 2 AttrValue

# Reports of a run
RunMetadata: step_stats 1 StepStats, cost_graph 2 CostGraphDef, partition_graphs 3 GraphDef*, function_graphs 4
    RunMetadata.FunctionGraphs*, session_metadata 5 SessionMetadata
StepStats: dev_stats 1 DeviceStepStats*
DeviceStepStats: device 1 string, node_stats 2 NodeExecStats*, thread_names 3 uint32->string
NodeExecStats: node_name 1 string, all_start_micros 2 int64, op_start_rel_micros 3 int64, op_end_rel_micros 4 int64,
    all_end_rel_micros 5 int64, memory 6 AllocatorMemoryUsed*, output 7 NodeOutput*, timeline_label 8 string,
    scheduled_micros 9 int64, thread_id 10 uint32, referenced_tensor 11 AllocationDescription*, memory_stats 12
    MemoryStats, all_start_nanos 13 int64, op_start_rel_nanos 14 int64, op_end_rel_nanos 15 int64, all_end_rel_nanos
    16 int64, scheduled_nanos 17 int64
AllocatorMemoryUsed: allocator_name 1 string, total_bytes 2 int64, peak_bytes 3 int64, live_bytes 4 int64,
    allocator_bytes_in_use 5 int64, allocation_records 6 AllocationRecord*
AllocationRecord: alloc_micros 1 int64, alloc_bytes 2 int64
NodeOutput: slot 1 int32, tensor_description 3 TensorDescription
TensorDescription: dtype 1 DataType, shape 2 TensorShapeProto, allocation_description 4 AllocationDescription
AllocationDescription: requested_bytes 1 int64, allocated_bytes 2 int64, allocator_name 3 string, allocation_id 4
    int64, has_single_reference 5 bool, ptr 6 uint64
MemoryStats: temp_memory_size 1 int64, device_temp_memory_size 2 int64, persistent_memory_size 3 int64,
    device_persistent_memory_size 4 int64, persistent_tensor_alloc_ids 5 int64*, device_persistent_tensor_alloc_ids 6
    int64*
CostGraphDef: node 1 CostGraphDef.Node*, cost 2 CostGraphDef.AggregatedCost*
CostGraphDef.Node: name 1 string, device 2 string, id 3 int32, input_info 4 CostGraphDef.Node.InputInfo*, output_info
    5 CostGraphDef.Node.OutputInfo*, temporary_memory_size 6 int64, is_final 7 bool, control_input 8 int32*,
    compute_cost 9 int64, host_temp_memory_size 10 int64, device_temp_memory_size 11 int64, persistent_memory_size 12
    int64, compute_time 14 int64, memory_time 15 int64, device_persistent_memory_size 16 int64, inaccurate 17 bool
CostGraphDef.Node.InputInfo: preceding_node 1 int32, preceding_port 2 int32
CostGraphDef.Node.OutputInfo: size 1 int64, alias_input_port 2 int64, shape 3 TensorShapeProto, dtype 4 DataType
CostGraphDef.AggregatedCost: cost 1 float, dimension 2 string
RunMetadata.FunctionGraphs: partition_graphs 1 GraphDef*, pre_optimization_graph 2 GraphDef, post_optimization_graph 3
    GraphDef
SessionMetadata: name 1 string, version 2 int64
Event: wall_time 1 double, step 2 int64, file_version 3 string|what, graph_def 4 bytes|what, tagged_run_metadata 8
    TaggedRunMetadata|what, meta_graph_def 9 bytes|what
TaggedRunMetadata: tag 1 string, run_metadata 2 bytes

# Reports of the profiler (in TensorFlow these lie in the package `tensorflow.profiler`)
XSpace: planes 1 XPlane*, errors 2 string*, warnings 3 string*, hostnames 4 string*
XPlane: id 1 int64, name 2 string, lines 3 XLine*, event_metadata 4 int64->XEventMetadata, stat_metadata 5
    int64->XStatMetadata, stats 6 XStat*
XLine: id 1 int64, name 2 string, timestamp_ns 3 int64, events 4 XEvent*, duration_ps 9 int64, display_id 10 int64,
    display_name 11 string
XEvent: metadata_id 1 int64, offset_ps 2 int64|data, duration_ps 3 int64, stats 4 XStat*, num_occurrences 5 int64|data
XStat: metadata_id 1 int64, double_value 2 double|value, uint64_value 3 uint64|value, int64_value 4 int64|value,
    str_value 5 string|value, bytes_value 6 bytes|value, ref_value 7 uint64|value
XEventMetadata: id 1 int64, name 2 string, metadata 3 bytes, display_name 4 string, stats 5 XStat*, child_id 6 int64*
XStatMetadata: id 1 int64, name 2 string, description 3 string

# Carriers of a graph: MetaGraph and SavedModel
SavedModel: saved_model_schema_version 1 int64, meta_graphs 2 MetaGraphDef*
MetaGraphDef: meta_info_def 1 MetaGraphDef.MetaInfoDef, graph_def 2 GraphDef, saver_def 3 SaverDef, collection_def 4
    string->CollectionDef, signature_def 5 string->SignatureDef, asset_file_def 6 AssetFileDef*, object_graph_def 7
    SavedObjectGraph
MetaGraphDef.MetaInfoDef: meta_graph_version 1 string, stripped_op_list 2 OpList, any_info 3 google.protobuf.Any, tags
    4 string*, tensorflow_version 5 string, tensorflow_git_version 6 string, stripped_default_attrs 7 bool,
    function_aliases 8 string->string
google.protobuf.Any: type_url 1 string, value 2 bytes
SaverDef: filename_tensor_name 1 string, save_tensor_name 2 string, restore_op_name 3 string, max_to_keep 4 int32,
    sharded 5 bool, keep_checkpoint_every_n_hours 6 float, version 7 SaverDef.CheckpointFormatVersion
CollectionDef: node_list 1 CollectionDef.NodeList|kind, bytes_list 2 CollectionDef.BytesList|kind, int64_list 3
    CollectionDef.Int64List|kind, float_list 4 CollectionDef.FloatList|kind, any_list 5 CollectionDef.AnyList|kind
CollectionDef.NodeList: value 1 string*
CollectionDef.BytesList: value 1 bytes*
CollectionDef.Int64List: value 1 int64*
CollectionDef.FloatList: value 1 float*
CollectionDef.AnyList: value 1 google.protobuf.Any*
# without the errors that end a queue runner (5), whose enum is in another package
QueueRunnerDef: queue_name 1 string, enqueue_op_name 2 string*, close_op_name 3 string, cancel_op_name 4 string
SignatureDef: inputs 1 string->TensorInfo, outputs 2 string->TensorInfo, method_name 3 string, defaults 4
    string->TensorProto
TensorInfo: name 1 string|encoding, dtype 2 DataType, tensor_shape 3 TensorShapeProto, coo_sparse 4
    TensorInfo.CooSparse|encoding, composite_tensor 5 TensorInfo.CompositeTensor|encoding
TensorInfo.CooSparse: values_tensor_name 1 string, indices_tensor_name 2 string, dense_shape_tensor_name 3 string
TensorInfo.CompositeTensor: type_spec 1 TypeSpecProto, components 2 TensorInfo*
TypeSpecProto: type_spec_class 1 TypeSpecProto.TypeSpecClass, type_state 2 StructuredValue, type_spec_class_name 3
    string, num_flat_components 4 int32
StructuredValue: none_value 1 NoneValue|kind, float64_value 11 double|kind, int64_value 12 sint64|kind, string_value
    13 string|kind, bool_value 14 bool|kind, tensor_shape_value 31 TensorShapeProto|kind, tensor_dtype_value 32
    DataType|kind, tensor_spec_value 33 TensorSpecProto|kind, type_spec_value 34 TypeSpecProto|kind,
    bounded_tensor_spec_value 35 BoundedTensorSpecProto|kind, list_value 51 ListValue|kind, tuple_value 52
    TupleValue|kind, dict_value 53 DictValue|kind, named_tuple_value 54 NamedTupleValue|kind, tensor_value 55
    TensorProto|kind, numpy_value 56 TensorProto|kind
NoneValue:
TensorSpecProto: name 1 string, shape 2 TensorShapeProto, dtype 3 DataType
BoundedTensorSpecProto: name 1 string, shape 2 TensorShapeProto, dtype 3 DataType, minimum 4 TensorProto, maximum 5
    TensorProto
ListValue: values 1 StructuredValue*
TupleValue: values 1 StructuredValue*
DictValue: fields 1 string->StructuredValue
NamedTupleValue: name 1 string, values 2 PairValue*
PairValue: key 1 string, value 2 StructuredValue
AssetFileDef: tensor_info 1 TensorInfo, filename 2 string
SavedObjectGraph: nodes 1 SavedObject*, concrete_functions 2 string->SavedConcreteFunction
SavedObject: children 1 TrackableObjectGraph.TrackableObject.ObjectReference*, slot_variables 3
    TrackableObjectGraph.TrackableObject.SlotVariableReference*, user_object 4 SavedUserObject|kind, asset 5
    SavedAsset|kind, function 6 SavedFunction|kind, variable 7 SavedVariable|kind, bare_concrete_function 8
    SavedBareConcreteFunction|kind, constant 9 SavedConstant|kind, resource 10 SavedResource|kind, saveable_objects 11
    string->SaveableObject, captured_tensor 12 CapturedTensor|kind, registered_name 13 string, serialized_user_proto
    14 google.protobuf.Any, dependencies 15 TrackableObjectGraph.TrackableObject.ObjectReference*, registered_saver 16
    string
TrackableObjectGraph.TrackableObject.ObjectReference: node_id 1 int32, local_name 2 string
TrackableObjectGraph.TrackableObject.SlotVariableReference: original_variable_node_id 1 int32, slot_name 2 string,
    slot_variable_node_id 3 int32
SavedUserObject: identifier 1 string, version 2 VersionDef, metadata 3 string
SavedAsset: asset_file_def_index 1 int32
SavedFunction: concrete_functions 1 string*, function_spec 2 FunctionSpec
FunctionSpec: fullargspec 1 StructuredValue, is_method 2 bool, input_signature 5 StructuredValue, jit_compile 6
    FunctionSpec.JitCompile
SavedVariable: dtype 1 DataType, shape 2 TensorShapeProto, trainable 3 bool, synchronization 4
    VariableSynchronization, aggregation 5 VariableAggregation, name 6 string, device 7 string,
    experimental_distributed_variable_components 8 SavedVariable*
SavedBareConcreteFunction: concrete_function_name 1 string, argument_keywords 2 string*, allowed_positional_arguments
    3 int64, function_spec 4 FunctionSpec
SavedConstant: operation 1 string
SavedResource: device 1 string
CapturedTensor: name 1 string, concrete_function 2 string
SaveableObject: save_function 2 int32, restore_function 3 int32
SavedConcreteFunction: bound_inputs 2 int32*, canonicalized_input_signature 3 StructuredValue, output_signature 4
    StructuredValue
"""

# Our own, with TensorFlow's numbers: nodes of a GraphDef, and attributes of a node, stay bytes until one asks for them.
PACKED = """
PackedGraphDef: node 1 bytes*, library 2 FunctionDefLibrary, version 3 int32, versions 4 VersionDef, debug_info 5
    GraphDebugInfo
PackedNodeDef: name 1 string, op 2 string, input 3 string*, device 4 string, attr 5 bytes*, experimental_debug_info 6
    NodeDef.ExperimentalDebugInfo, experimental_type 7 FullTypeDef
"""

# The names matter: text files write an enumerator by its name. (DataType stands in dtypes.py.)
ENUMS = """
FullTypeId: TFT_UNSET 0, TFT_VAR 1, TFT_ANY 2, TFT_PRODUCT 3, TFT_NAMED 4, TFT_FOR_EACH 20, TFT_CALLABLE 100,
    TFT_TENSOR 1000, TFT_ARRAY 1001, TFT_OPTIONAL 1002, TFT_LITERAL 1003, TFT_ENCODED 1004, TFT_SHAPE_TENSOR 1005,
    TFT_BOOL 200, TFT_UINT8 201, TFT_UINT16 202, TFT_UINT32 203, TFT_UINT64 204, TFT_INT8 205, TFT_INT16 206,
    TFT_INT32 207, TFT_INT64 208, TFT_HALF 209, TFT_FLOAT 210, TFT_DOUBLE 211, TFT_BFLOAT16 215, TFT_COMPLEX64 212,
    TFT_COMPLEX128 213, TFT_STRING 214, TFT_DATASET 10102, TFT_RAGGED 10103, TFT_ITERATOR 10104, TFT_MUTEX_LOCK 10202,
    TFT_LEGACY_VARIANT 10203
SaverDef.CheckpointFormatVersion: LEGACY 0, V1 1, V2 2
TypeSpecProto.TypeSpecClass: UNKNOWN 0, SPARSE_TENSOR_SPEC 1, INDEXED_SLICES_SPEC 2, RAGGED_TENSOR_SPEC 3,
    TENSOR_ARRAY_SPEC 4, DATA_DATASET_SPEC 5, DATA_ITERATOR_SPEC 6, OPTIONAL_SPEC 7, PER_REPLICA_SPEC 8, VARIABLE_SPEC
    9, ROW_PARTITION_SPEC 10, REGISTERED_TYPE_SPEC 12, EXTENSION_TYPE_SPEC 13
FunctionSpec.JitCompile: DEFAULT 0, ON 1, OFF 2
VariableSynchronization: VARIABLE_SYNCHRONIZATION_AUTO 0, VARIABLE_SYNCHRONIZATION_NONE 1,
    VARIABLE_SYNCHRONIZATION_ON_WRITE 2, VARIABLE_SYNCHRONIZATION_ON_READ 3
VariableAggregation: VARIABLE_AGGREGATION_NONE 0, VARIABLE_AGGREGATION_SUM 1, VARIABLE_AGGREGATION_MEAN 2,
    VARIABLE_AGGREGATION_ONLY_FIRST_REPLICA 3
"""


# --- descriptors and classes -----------------------------------------------------------------------------------------


Table: TypeAlias = Mapping[str, Sequence[Sequence[str]]]


def _camel(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("_"))


def _table(text: str) -> Table:
    """Rows of words by name, from lines "Name: word word, word word"; an indented line continues the one before."""
    lines = (line for line in text.splitlines() if not line.startswith("#"))
    joined = re.sub(r"\n +", " ", "\n".join(lines))
    entries = (line.split(":", 1) for line in joined.splitlines() if line)
    return {name: [row.split() for row in rows.split(",") if row.strip()] for name, rows in entries}


def _set_type(field: Any, kind: str, enums: Table) -> None:
    if kind in _SCALARS:
        field.type = _SCALARS[kind]
    else:
        field.type = _Field.TYPE_ENUM if kind in enums else _Field.TYPE_MESSAGE
        field.type_name = f".{kind}" if kind == _ANY else f".tensorflow.{kind}"


def _add_field(message: Any, row: Sequence[str], path: str, enums: Table) -> None:
    name, number, kind = row
    kind, _, oneof = kind.partition("|")
    field = message.field.add(name=name, number=int(number), label=_Field.LABEL_OPTIONAL)
    if kind.endswith("*"):
        field.label = _Field.LABEL_REPEATED
        kind = kind[:-1]
    if oneof:
        known = [declared.name for declared in message.oneof_decl]
        if oneof not in known:
            message.oneof_decl.add(name=oneof)
            known.append(oneof)
        field.oneof_index = known.index(oneof)
    key, arrow, value = kind.partition("->")
    if arrow:
        entry = message.nested_type.add(name=f"{_camel(name)}Entry")
        entry.options.map_entry = True
        for position, (part, part_kind) in enumerate((("key", key), ("value", value)), 1):
            _set_type(entry.field.add(name=part, number=position, label=_Field.LABEL_OPTIONAL), part_kind, enums)
        field.label = _Field.LABEL_REPEATED
        kind = f"{path}.{entry.name}"
    _set_type(field, kind, enums)


def _declare(pool: descriptor_pool.DescriptorPool) -> None:
    rows = _table(MESSAGES + PACKED)
    data_type = [(name, str(number)) for number, name in dtypes.NAMES.items()]
    enums = {**_table(ENUMS), "DataType": data_type}
    files = {
        package: descriptor_pb2.FileDescriptorProto(name=f"simviz/{package}.proto", package=package, syntax="proto3")
        for package in ("google.protobuf", "tensorflow")
    }
    files["tensorflow"].dependency.append("simviz/google.protobuf.proto")
    made: dict[str, Any] = {}

    def message(path: str) -> Any:
        """The message of that name, made together with the enclosing messages."""
        if path not in made:
            outer, _, name = path.rpartition(".")
            home = message(outer).nested_type if outer else files["tensorflow"].message_type
            made[path] = home.add(name=name)
        return made[path]

    made[_ANY] = files["google.protobuf"].message_type.add(name="Any")
    for path, fields in rows.items():
        for row in fields or ():
            _add_field(message(path), row, path, enums)
        message(path)
    for path, members in enums.items():
        outer, _, name = path.rpartition(".")
        enum = (message(outer) if outer else files["tensorflow"]).enum_type.add(name=name)
        for label, number in members:
            enum.value.add(name=label, number=int(number))
    for declared in files.values():
        pool.AddSerializedFile(declared.SerializeToString())


_POOL = descriptor_pool.DescriptorPool()
_declare(_POOL)


def _message(name: str) -> Any:
    return message_factory.GetMessageClass(_POOL.FindMessageTypeByName(f"tensorflow.{name}"))


GraphDef = _message("GraphDef")
NodeDef = _message("NodeDef")
PackedGraphDef = _message("PackedGraphDef")
PackedNodeDef = _message("PackedNodeDef")
AttrValue = _message("AttrValue")
NameAttrList = _message("NameAttrList")
TensorProto = _message("TensorProto")
TensorShapeProto = _message("TensorShapeProto")
FunctionDef = _message("FunctionDef")
FunctionDefLibrary = _message("FunctionDefLibrary")
OpDef = _message("OpDef")
OpList = _message("OpList")
KernelDef = _message("KernelDef")
KernelList = _message("KernelList")
CollectionDef = _message("CollectionDef")
QueueRunnerDef = _message("QueueRunnerDef")
SignatureDef = _message("SignatureDef")
MetaGraphDef = _message("MetaGraphDef")
SavedModel = _message("SavedModel")
StepStats = _message("StepStats")
CostGraphDef = _message("CostGraphDef")
XSpace = _message("XSpace")
RunMetadata = _message("RunMetadata")
Event = _message("Event")


def merge_text(text: str, message: Proto) -> Proto:
    """Read text by protobuf's own reader. Raises its errors, and its ParseError for a text that would take long."""
    most = BACKSLASHES.most
    for found in _BACKSLASHES.finditer(text):
        if found.end() - found.start() > most:
            line = 1 + text.count("\n", 0, found.start())
            said = f"more than {most:,} backslashes in a row, which no program writes; {BACKSLASHES.remedy}"
            raise text_format.ParseError(said, line, 1)
    return text_format.Parse(text, message)
