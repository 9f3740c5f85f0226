"""Rows of the cost table: ops that move, keep, pass on and wait rather than compute.

Grappler's estimator agrees on arrays, variables, control flow and Send/Recv; it does not know optimizers, queues,
accumulators, tables, images and files, whose counts are derived from what the ops do.
"""

from __future__ import annotations

from simulator.costs.formulas.instance import (
    accumulated,
    copied,
    each,
    each_input,
    each_output,
    gathered,
    nothing,
    per_gradient,
    picked,
    read,
    rewritten,
    scattered,
    segmented,
    sort,
    tensors,
    updated,
    value,
    written,
)
from simulator.costs.rule import ARRAY, CHECKPOINT, COMMUNICATION, CONTROL, OTHER, QUEUE, STATE, Row

# Written by hand as a table: one row per kind of work.
# fmt: off
# category, arithmetic, bytes moved, attributes that the formulas read, ops
HOUSEKEEPING: tuple[Row, ...] = (
    (ARRAY, nothing, tensors, "",
     "Concat ConcatV2 ConcatOffset DataFormatVecPermute DataFormatDimMap DepthToSpace SpaceToDepth Pack Unpack "
     "Split SplitV Transpose ConjugateTranspose Tile TileGrad Pad PadV2 MirrorPad MirrorPadGrad Reverse "
     "ReverseV2 ReverseSequence Roll BatchToSpace BatchToSpaceND SpaceToBatch SpaceToBatchND BroadcastTo "
     "BroadcastArgs BroadcastGradientArgs DynamicStitch ParallelDynamicStitch DynamicPartition Diag DiagPart "
     "MatrixDiag MatrixDiagV2 MatrixDiagV3 MatrixDiagPart MatrixDiagPartV2 MatrixDiagPartV3 MatrixSetDiag "
     "MatrixSetDiagV2 MatrixSetDiagV3 MatrixBandPart BatchMatrixBandPart BatchMatrixDiag BatchMatrixDiagPart "
     "BatchMatrixSetDiag Snapshot ExtractImagePatches ExtractVolumePatches InvertPermutation UnravelIndex "
     "RandomShuffle StatelessShuffle ParallelConcat _ParallelConcatStart _ParallelConcatUpdate Copy CopyHost "
     "DeepCopy StridedSliceGrad RandomCrop QuantizedConcat QuantizedConcatV2 ListDiff EditDistance Bucketize "
     "RaggedTensorToTensor"),
    (ARRAY, nothing, written, "", "Fill ZerosLike OnesLike OneHot Range LinSpace Empty RaggedRange"),
    (ARRAY, each_output(1), gathered, "", "Gather GatherV2 GatherNd Slice StridedSlice RaggedGather"),
    (ARRAY, each(1), tensors, "",
     "ScatterNd TensorScatterAdd TensorScatterSub TensorScatterMax TensorScatterMin TensorScatterUpdate "
     "TensorStridedSliceUpdate ScatterNdNonAliasingAdd InplaceAdd InplaceSub InplaceUpdate Where"),
    (ARRAY, picked(2), segmented, "",
     "SparseSegmentSum SparseSegmentMean SparseSegmentSqrtN SparseSegmentSumWithNumSegments "
     "SparseSegmentMeanWithNumSegments SparseSegmentSqrtNWithNumSegments"),
    (ARRAY, each(2), tensors, "",
     "SparseSegmentSumGrad SparseSegmentMeanGrad SparseSegmentSqrtNGrad SparseSegmentSumGradV2 "
     "SparseSegmentMeanGradV2 SparseSegmentSqrtNGradV2 SparseAdd SparseAddGrad SparseConcat SparseSplit "
     "SparseSlice SparseSliceGrad SparseReshape SparseToDense SparseFillEmptyRows SparseFillEmptyRowsGrad "
     "SparseReduceSum SparseReduceMax SparseReduceSumSparse SparseReduceMaxSparse SparseDenseCwiseAdd "
     "SparseDenseCwiseMul SparseDenseCwiseDiv SparseSparseMaximum SparseSparseMinimum SparseTensorDenseAdd "
     "RaggedTensorToSparse RaggedTensorToVariant RaggedTensorFromVariant RaggedTensorToVariantGradient"),
    (ARRAY, each_input(1), tensors, "", "TopK TopKV2 NthElement ApproxTopK LowerBound UpperBound"),
    (ARRAY, sort, tensors, "", "SparseReorder"),
    (ARRAY, each_input(10), tensors, "",
     "SetSize DenseToDenseSetOperation DenseToSparseSetOperation SparseToSparseSetOperation SparseCross SparseCrossV2 "
     "SparseCrossHashed RaggedCross RaggedFillEmptyRows RaggedFillEmptyRowsGrad"),
    (ARRAY, each_input(1), tensors, "",
     "SparseBincount RaggedBincount DenseCountSparseOutput SparseCountSparseOutput RaggedCountSparseOutput"),
    (ARRAY, each_input(10), tensors, "", "Unique UniqueV2 UniqueWithCounts UniqueWithCountsV2"),
    (ARRAY, each_output(10), tensors, "",
     "ResizeBilinear ResizeBilinearGrad CropAndResize CropAndResizeGradImage CropAndResizeGradBoxes "
     "QuantizedResizeBilinear ScaleAndTranslate ScaleAndTranslateGrad ImageProjectiveTransformV2 "
     "ImageProjectiveTransformV3 ExtractGlimpse ExtractGlimpseV2"),
    (ARRAY, each(1), tensors, "",
     "ResizeNearestNeighbor ResizeNearestNeighborGrad ResizeArea DrawBoundingBoxes DrawBoundingBoxesV2"),
    (ARRAY, each_output(40), tensors, "", "ResizeBicubic ResizeBicubicGrad"),
    (ARRAY, each(5), tensors, "", "AdjustContrast AdjustContrastv2"),
    (ARRAY, each(60), tensors, "", "RGBToHSV HSVToRGB AdjustHue AdjustSaturation"),

    (STATE, nothing, value(2), "", "Assign"),
    (STATE, nothing, read, "", "AssignVariableOp"),
    (STATE, per_gradient(1, 1), value(3), "", "AssignAdd AssignSub AssignAddVariableOp AssignSubVariableOp"),
    (STATE, nothing, value(3), "", "StridedSliceAssign ResourceStridedSliceAssign"),
    (STATE, per_gradient(1, 1), scattered, "",
     "ScatterAdd ScatterSub ScatterMul ScatterDiv ScatterMin ScatterMax ScatterUpdate ScatterNdAdd ScatterNdSub "
     "ScatterNdUpdate ScatterNdMax ScatterNdMin ResourceScatterAdd ResourceScatterSub ResourceScatterMul "
     "ResourceScatterDiv ResourceScatterMin ResourceScatterMax ResourceScatterUpdate ResourceScatterNdAdd "
     "ResourceScatterNdSub ResourceScatterNdUpdate ResourceScatterNdMax ResourceScatterNdMin"),
    (STATE, each_output(1), gathered, "", "ResourceGather ResourceGatherNd"),
    (STATE, nothing, nothing, "",
     "CountUpTo ResourceCountUpTo RngReadAndSkip RngSkip StatelessRandomGetKeyCounter StatelessRandomGetAlg "
     "StatelessRandomGetKeyCounterAlg"),
    # hash tables: a hash and a comparison, about 50 operations per key
    (STATE, each_input(50), tensors, "",
     "LookupTableFind LookupTableFindV2 LookupTableInsert LookupTableInsertV2 LookupTableImport "
     "LookupTableImportV2 LookupTableExport LookupTableExportV2 LookupTableRemoveV2 InitializeTable "
     "InitializeTableV2 InitializeTableFromTextFile InitializeTableFromTextFileV2"),
    # (2 slots + 1) times the gradient's bytes; operations per element from each rule's definition
    (STATE, per_gradient(1, 2), updated(1), "", "ApplyGradientDescent ResourceApplyGradientDescent"),
    (STATE, per_gradient(1, 8), updated(1), "",
     "ApplyProximalGradientDescent ResourceApplyProximalGradientDescent SparseApplyProximalGradientDescent "
     "ResourceSparseApplyProximalGradientDescent"),
    (STATE, per_gradient(2, 4), updated(2), "",
     "ApplyMomentum ResourceApplyMomentum ResourceApplyKerasMomentum SparseApplyMomentum "
     "ResourceSparseApplyMomentum ResourceSparseApplyKerasMomentum"),
    (STATE, per_gradient(2, 9), updated(2), "",
     "ApplyAdagrad ApplyAdagradV2 ResourceApplyAdagrad ResourceApplyAdagradV2 SparseApplyAdagrad "
     "SparseApplyAdagradV2 ResourceSparseApplyAdagrad ResourceSparseApplyAdagradV2"),
    (STATE, per_gradient(2, 18), updated(2), "",
     "ApplyProximalAdagrad ResourceApplyProximalAdagrad SparseApplyProximalAdagrad "
     "ResourceSparseApplyProximalAdagrad"),
    (STATE, per_gradient(2, 42), updated(2), "",
     "ApplyAddSign ResourceApplyAddSign ApplyPowerSign ResourceApplyPowerSign"),
    (STATE, per_gradient(3, 30), updated(3), "",
     "ApplyAdagradDA ResourceApplyAdagradDA SparseApplyAdagradDA ResourceSparseApplyAdagradDA"),
    (STATE, per_gradient(3, 32), updated(3), "", "ApplyAdam ResourceApplyAdam"),
    (STATE, per_gradient(4, 33), updated(4), "", "ResourceApplyAdamWithAmsgrad"),
    (STATE, per_gradient(3, 23), updated(3), "", "ApplyAdaMax ResourceApplyAdaMax"),
    (STATE, per_gradient(3, 27), updated(3), "",
     "ApplyAdadelta ResourceApplyAdadelta SparseApplyAdadelta ResourceSparseApplyAdadelta"),
    (STATE, per_gradient(3, 13), updated(3), "",
     "ApplyRMSProp ResourceApplyRMSProp SparseApplyRMSProp ResourceSparseApplyRMSProp"),
    (STATE, per_gradient(4, 18), updated(4), "",
     "ApplyCenteredRMSProp ResourceApplyCenteredRMSProp SparseApplyCenteredRMSProp "
     "ResourceSparseApplyCenteredRMSProp"),
    (STATE, per_gradient(3, 50), updated(3), "",
     "ApplyFtrl ApplyFtrlV2 ResourceApplyFtrl ResourceApplyFtrlV2 SparseApplyFtrl SparseApplyFtrlV2 "
     "ResourceSparseApplyFtrl ResourceSparseApplyFtrlV2"),

    # time to enqueue and dequeue; waiting is the simulator's. One element is handed over, many are sliced or joined.
    (QUEUE, nothing, nothing, "",
     "QueueEnqueue QueueEnqueueV2 QueueDequeue QueueDequeueV2 Stage Unstage StagePeek MapStage MapUnstage "
     "MapPeek OrderedMapStage OrderedMapUnstage OrderedMapPeek MapUnstageNoKey OrderedMapUnstageNoKey "
     "RecordInput BarrierInsertMany"),
    (QUEUE, nothing, tensors, "", "QueueEnqueueMany QueueEnqueueManyV2 Batch Unbatch UnbatchGrad"),
    (QUEUE, nothing, rewritten, "",
     "QueueDequeueMany QueueDequeueManyV2 QueueDequeueUpTo QueueDequeueUpToV2 BarrierTakeMany"),
    (QUEUE, each_input(1), accumulated, "",
     "AccumulatorApplyGradient ResourceAccumulatorApplyGradient SparseAccumulatorApplyGradient"),
    (QUEUE, each_output(1), rewritten, "",
     "AccumulatorTakeGradient ResourceAccumulatorTakeGradient SparseAccumulatorTakeGradient"),

    # one data set element is handed over; its preparation runs beside the step
    (OTHER, nothing, nothing, "",
     "IteratorGetNext IteratorGetNextSync IteratorGetNextAsOptional OptionalGetValue OptionalFromValue "
     "OptionalHasValue OptionalNone MultiDeviceIteratorGetNextFromShard"),

    (CHECKPOINT, nothing, tensors, "",
     "Save SaveV2 SaveSlices Restore RestoreV2 RestoreSlice MergeV2Checkpoints ShardedFilename ShardedFilespec "
     "LoadAndRemapMatrix"),

    (OTHER, nothing, tensors, "",
     "ReadFile WriteFile ReaderRead ReaderReadV2 ReaderReadUpTo ReaderReadUpToV2 MatchingFiles ParseExample "
     "ParseExampleV2 ParseSequenceExample ParseSequenceExampleV2 ParseSingleExample ParseSingleSequenceExample "
     "ParseTensor SerializeTensor DecodeRaw DecodePaddedRaw DecodeCSV DecodeJSONExample DecodeBase64 "
     "EncodeBase64 DecodeCompressed DecodeProtoV2 EncodeProto SerializeSparse SerializeManySparse "
     "DeserializeSparse DeserializeManySparse AsString StringToNumber StringJoin StringSplit StringSplitV2 "
     "StringStrip StringLength StringLower StringUpper StringFormat StringNGrams Substr RegexReplace "
     "RegexFullMatch StaticRegexReplace StaticRegexFullMatch ReduceJoin StringToHashBucket "
     "StringToHashBucketFast StringToHashBucketStrong _TensorToHashBucketFast UnsortedSegmentJoin UnicodeScript "
     "UnicodeDecode UnicodeDecodeWithOffsets UnicodeEncode "
     "UnicodeTranscode Fingerprint ScalarSummary HistogramSummary AudioSummary AudioSummaryV2 "
     "TensorSummary TensorSummaryV2 MergeSummary WriteSummary WriteScalarSummary WriteHistogramSummary "
     "Print PrintV2 GetSessionHandle GetSessionHandleV2 GetSessionTensor"),
    (OTHER, nothing, tensors, "max_images", "ImageSummary WriteImageSummary"),
    # a guess: entropy coding and the inverse transform take about 50 operations per sample
    (OTHER, each(50), tensors, "",
     "DecodeJpeg DecodeAndCropJpeg DecodePng DecodeImage DecodeGif DecodeBmp DecodeWebP EncodeJpeg "
     "EncodeJpegVariableQuality EncodePng DecodeWav EncodeWav AudioSpectrogram Mfcc"),
    (OTHER, nothing, tensors, "",
     "SampleDistortedBoundingBox SampleDistortedBoundingBoxV2 StatelessSampleDistortedBoundingBox "
     "ExtractJpegShape GenerateBoundingBoxProposals Skipgram"),

    (COMMUNICATION, each(1), tensors, "",
     "CollectiveReduce CollectiveReduceV2 CollectiveReduceV3 CollectiveReduceScatterV2 NcclAllReduce NcclReduce "
     "_NcclReduceSend _NcclReduceRecv CrossReplicaSum"),
    (COMMUNICATION, nothing, tensors, "",
     "CollectiveGather CollectiveGatherV2 CollectiveBcastSend CollectiveBcastSendV2 CollectiveBcastRecv "
     "CollectiveBcastRecvV2 CollectivePermute CollectiveAllToAllV2 CollectiveAllToAllV3 AllToAll NcclBroadcast "
     "_NcclBroadcastSend _NcclBroadcastRecv"),

    (ARRAY, nothing, written, "",
     "TensorArrayReadV3 TensorArrayReadV2 TensorArrayRead TensorListGetItem TensorListPopBack"),
    (ARRAY, nothing, rewritten, "",
     "TensorArrayGatherV3 TensorArrayGatherV2 TensorArrayGather TensorArrayConcatV3 TensorArrayConcatV2 "
     "TensorArrayConcat TensorArrayPack TensorListStack TensorListGather TensorListConcat TensorListConcatV2 "
     "TensorMapStackKeys"),
    (ARRAY, nothing, copied, "",
     "TensorArrayScatterV3 TensorArrayScatterV2 TensorArrayScatter TensorArraySplitV3 TensorArraySplitV2 "
     "TensorArraySplit TensorArrayUnpack TensorListFromTensor TensorListScatter TensorListScatterV2 "
     "TensorListScatterIntoExistingList TensorListSplit"),
)

# What these compute is not in the graph: Python, and pipelines that are run whole within a step.
OPAQUE = (
    "PyFunc PyFuncStateless EagerPyFunc ReduceDataset DatasetToTFRecord ExperimentalDatasetToTFRecord SaveDataset "
    "SaveDatasetV2 InitializeTableFromDataset DatasetToSingleElement"
)

# What the executor does on the host: a reference is handed on, a handle made, a shape read. No kernel starts and no
# bytes move, on a GPU neither (their kernels there touch host memory only).
# category, ops
HANDED_OVER: tuple[tuple[str, str], ...] = (
    (ARRAY,
     "Const HostConst _EagerConst ImmutableConst GuaranteeConst Placeholder PlaceholderV2 "
     "PlaceholderWithDefault _Arg _Retval _DeviceArg _DeviceRetval FakeParam Identity IdentityN RefIdentity "
     "StopGradient PreventGradient Reshape QuantizedReshape Squeeze ExpandDims Bitcast Rank Shape ShapeN Size "
     "EnsureShape _ArrayToList _ListToArray DebugIdentity DebugIdentityV2 DebugIdentityV3 DebugGradientIdentity "
     "DebugGradientRefIdentity TensorArrayWriteV3 TensorArrayWriteV2 TensorArrayWrite TensorArrayV3 "
     "TensorArrayV2 TensorArray TensorArrayGradV3 TensorArrayGradV2 TensorArrayGrad TensorArrayGradWithShape "
     "TensorArraySizeV3 TensorArraySizeV2 TensorArraySize TensorArrayCloseV3 TensorArrayCloseV2 TensorArrayClose "
     "TensorListReserve EmptyTensorList TensorListPushBack TensorListPushBackBatch TensorListSetItem "
     "TensorListLength TensorListResize TensorListElementShape TensorListConcatLists EmptyTensorMap "
     "TensorMapInsert TensorMapErase TensorMapHasKey TensorMapLookup TensorMapSize StackV2 Stack StackPushV2 "
     "StackPush StackPopV2 StackPop StackCloseV2 StackClose"),

    (STATE,
     "Variable VariableV2 TemporaryVariable DestroyTemporaryVariable VarHandleOp "
     "_VarHandlesOp ReadVariableOp _ReadVariablesOp VariableShape IsVariableInitialized VarIsInitializedOp "
     "DestroyResourceOp DisableCopyOnRead HashTable HashTableV2 MutableHashTable MutableHashTableV2 "
     "MutableHashTableOfTensors MutableHashTableOfTensorsV2 MutableDenseHashTable MutableDenseHashTableV2 "
     "AnonymousHashTable AnonymousMutableHashTable AnonymousMutableHashTableOfTensors "
     "AnonymousMutableDenseHashTable LookupTableSize LookupTableSizeV2"),

    (QUEUE,
     "FIFOQueue FIFOQueueV2 RandomShuffleQueue RandomShuffleQueueV2 PaddingFIFOQueue PaddingFIFOQueueV2 "
     "PriorityQueue PriorityQueueV2 FakeQueue QueueClose QueueCloseV2 QueueSize QueueSizeV2 QueueIsClosed "
     "QueueIsClosedV2 Barrier BarrierClose BarrierReadySize BarrierIncompleteSize ConditionalAccumulator "
     "ResourceConditionalAccumulator SparseConditionalAccumulator AccumulatorNumAccumulated "
     "ResourceAccumulatorNumAccumulated AccumulatorSetGlobalStep ResourceAccumulatorSetGlobalStep MutexV2 "
     "MutexLock ConsumeMutexLock StageSize StageClear MapSize MapClear MapIncompleteSize OrderedMapSize "
     "OrderedMapClear OrderedMapIncompleteSize"),

    (CONTROL,
     "NoOp ControlTrigger Switch RefSwitch _SwitchN Merge RefMerge RefSelect Enter RefEnter Exit RefExit "
     "NextIteration RefNextIteration LoopCond Assert Abort"),

    (COMMUNICATION,
     "Send Recv _Send _Recv _HostSend _HostRecv CollectiveInitializeCommunicator CollectiveAssignGroupV2"),

    (OTHER,
     "Iterator IteratorV2 OneShotIterator AnonymousIterator AnonymousIteratorV2 AnonymousIteratorV3 MakeIterator "
     "DeleteIterator IteratorToStringHandle IteratorFromStringHandle IteratorFromStringHandleV2 "
     "IteratorGetDevice MultiDeviceIterator MultiDeviceIteratorInit DeleteMultiDeviceIterator "
     "AnonymousMultiDeviceIterator AnonymousMultiDeviceIteratorV3 AnonymousMemoryCache DeleteMemoryCache "
     "AnonymousRandomSeedGenerator AnonymousSeedGenerator DeleteSeedGenerator DeleteRandomSeedGenerator "
     "SummaryWriter CreateSummaryFileWriter CloseSummaryWriter FlushSummaryWriter WholeFileReader "
     "WholeFileReaderV2 TextLineReader TextLineReaderV2 TFRecordReader TFRecordReaderV2 FixedLengthRecordReader "
     "FixedLengthRecordReaderV2 IdentityReader IdentityReaderV2 LMDBReader ReaderReset ReaderResetV2 "
     "ReaderNumRecordsProduced ReaderNumRecordsProducedV2 ReaderNumWorkUnitsCompleted "
     "ReaderNumWorkUnitsCompletedV2 Timestamp DeviceIndex"),
)
# fmt: on
