"""Rows of the cost table: the time that kernels of scalar code take of one CPU core.

These kernels are far from the peaks of a processor: they follow pointers, hash, compare, call a codec. Their times
are those of TensorFlow 2.21 on one core of an Intel Xeon of 2023, rounded, by `benchmarks/host_ops.py` (2026-11-22,
benchmarks/RESULTS.md), and count on every CPU alike (docs/decisions, 0025). What a comment
likens to another kernel was not measured itself.
"""

from __future__ import annotations

from simulator.costs.formulas.host import (
    alone,
    beams,
    chosen,
    decoded,
    decoded_bytes,
    divided,
    elements_in,
    encoded,
    features,
    hashed,
    kept_pairs,
    of_core,
    of_input,
    of_inputs,
    of_outputs,
    partitioned,
    rows_before,
    rows_of,
    rows_out,
    sparse_product_ps,
    summarised,
    unsized_boxes,
    unsized_bytes,
    unsized_file,
    unsized_images,
    unsized_input,
    unsized_output,
    unsized_strings,
)
from simulator.costs.formulas.instance import read, sort, written
from simulator.costs.rule import CoreRow, sized

# Written by hand as a table: one row per kernel and those that work like it.
# fmt: off
# picoseconds of one core (ns per call, then ps per unit), parts that run side by side, sizes assumed, ops
HOST: tuple[CoreRow, ...] = (
    # images: per sample; a file of ImageNet's has 0.6 bytes per pixel
    (of_core(13_000, (2_500, decoded)), alone, unsized_output, "DecodeJpeg DecodeAndCropJpeg DecodeImage"),
    (of_core(10_000, (6_900, decoded)), alone, unsized_output, "DecodePng DecodeGif DecodeWebP"),  # Gif, WebP: as Png
    (of_core(700, (340, decoded)), alone, unsized_output, "DecodeBmp"),
    (of_core(4_300, (1_800, encoded)), alone, unsized_input, "EncodeJpeg EncodeJpegVariableQuality"),
    (of_core(10_000, (57_000, encoded)), alone, unsized_input, "EncodePng"),
    (of_core(1_400), alone, sized, "ExtractJpegShape"),
    (of_core(0, (2_600, of_outputs)), divided, sized, "AdjustHue"),
    (of_core(0, (3_300, of_outputs)), divided, sized, "AdjustSaturation"),
    (of_core(500, (7_800, of_outputs)), divided, sized, "RGBToHSV"),
    (of_core(500, (1_500, of_outputs)), divided, sized, "HSVToRGB"),
    (of_core(500, (600, of_outputs)), alone, sized, "AdjustContrast AdjustContrastv2"),
    (of_core(1_100, (830, of_outputs)), alone, sized, "ResizeBilinear ResizeBilinearGrad QuantizedResizeBilinear"),
    (of_core(1_600, (2_400, of_outputs)), alone, sized, "ResizeBicubic ResizeBicubicGrad"),
    (of_core(900, (460, of_input(0))), alone, sized, "ResizeArea"),
    (of_core(500, (2_600, of_outputs)), divided, sized, "ResizeNearestNeighbor ResizeNearestNeighborGrad"),
    (of_core(1_100, (4_000, of_outputs)), rows_out, sized,
     "CropAndResize CropAndResizeGradImage CropAndResizeGradBoxes ScaleAndTranslate ScaleAndTranslateGrad "
     "ImageProjectiveTransformV2 ImageProjectiveTransformV3 ExtractGlimpse ExtractGlimpseV2"),  # all as CropAndResize
    (of_core(1_100), alone, sized,
     "SampleDistortedBoundingBox SampleDistortedBoundingBoxV2 StatelessSampleDistortedBoundingBox"),
    # a heap of all boxes, and each that is kept compared with those before it
    (of_core(500, (36_000, of_input(1)), (13_000, kept_pairs)), alone, unsized_boxes,
     "NonMaxSuppression NonMaxSuppressionV2 NonMaxSuppressionV3 NonMaxSuppressionV4 NonMaxSuppressionV5 "
     "NonMaxSuppressionWithOverlaps CombinedNonMaxSuppression"),
    (of_core(1_400, (6_700, of_outputs)), alone, sized, "DecodeWav EncodeWav"),
    (of_core(1_400, (6_700, of_input(1))), alone, sized, "AudioSummary AudioSummaryV2"),  # as EncodeWav
    (of_core(4_000, (15_000, of_input(0))), alone, sized, "AudioSpectrogram"),
    (of_core(19_000, (2_900, of_input(0))), alone, sized, "Mfcc"),

    # strings: each of 16 bytes
    (of_core(500, (73_000, of_input(0))), alone, sized, "AsString StringFormat"),
    (of_core(500, (27_000, of_input(0))), alone, sized, "StringToNumber"),
    (of_core(700, (22_000, of_inputs)), alone, unsized_strings, "StringJoin ReduceJoin UnsortedSegmentJoin"),
    (of_core(1_400, (59_000, of_input(0))), alone, unsized_strings, "StringSplit StringSplitV2"),
    (of_core(500, (29_000, of_input(0))), alone, unsized_strings,
     "StringLower StringUpper StringStrip EncodeBase64 DecodeBase64"),
    (of_core(500, (1_300, of_input(0))), alone, sized, "StringLength"),
    (of_core(500, (9_800, of_input(0))), alone, unsized_strings, "Substr"),
    (of_core(800, (440_000, of_input(0))), alone, unsized_strings, "RegexReplace StaticRegexReplace"),
    (of_core(600, (63_000, of_input(0))), alone, unsized_strings, "RegexFullMatch StaticRegexFullMatch"),
    (of_core(500, (5_700, of_input(0))), alone, unsized_strings,
     "StringToHashBucket StringToHashBucketFast Fingerprint _TensorToHashBucketFast"),
    (of_core(500, (34_000, of_input(0))), alone, unsized_strings, "StringToHashBucketStrong"),
    (of_core(700, (97_000, of_input(0))), alone, unsized_strings, "StringNGrams"),
    (of_core(500, (470_000, of_input(0))), alone, unsized_strings, "UnicodeDecode UnicodeDecodeWithOffsets"),
    (of_core(1_000, (380_000, of_input(0))), alone, unsized_strings, "UnicodeTranscode"),
    (of_core(1_000, (24_000, of_input(0))), alone, sized, "UnicodeEncode UnicodeScript"),  # as Transcode, per character
    # tables: of 100,000 strings
    (of_core(100, (53_000, of_input(1))), alone, sized, "LookupTableFind LookupTableFindV2"),
    (of_core(100, (140_000, of_input(1))), alone, sized,
     "LookupTableInsert LookupTableInsertV2 LookupTableImport LookupTableImportV2 LookupTableRemoveV2 InitializeTable "
     "InitializeTableV2"),

    # records: per feature of an example, and per number of it; a file of ImageNet's is read from the page cache
    (of_core(3_000, (70_000, features), (300, of_outputs)), rows_of(0), sized,
     "ParseExample ParseExampleV2 ParseSequenceExample ParseSequenceExampleV2"),
    (of_core(3_000, (70_000, features), (300, of_outputs)), alone, sized,
     "ParseSingleExample ParseSingleSequenceExample DecodeJSONExample DecodeProtoV2 EncodeProto"),  # as ParseExample
    (of_core(1_700, (62_000, of_outputs)), alone, sized, "DecodeCSV"),
    (of_core(500, (70, decoded_bytes)), alone, unsized_bytes, "DecodeRaw DecodePaddedRaw DecodeCompressed"),
    (of_core(500, (190, written)), alone, sized, "ParseTensor DeserializeSparse DeserializeManySparse"),
    (of_core(500, (150, read)), alone, sized, "SerializeTensor SerializeSparse SerializeManySparse"),
    (of_core(25_000), alone, unsized_file, "ReadFile"),  # 2.3 us and 0.2 ns per byte
    (of_core(2_300), alone, sized,
     "ReaderRead ReaderReadV2 ReaderReadUpTo ReaderReadUpToV2 RecordInput WriteFile MatchingFiles Print "
     "PrintV2"),  # all as an empty ReadFile
    (of_core(900), alone, sized, "ScalarSummary WriteScalarSummary TensorSummary TensorSummaryV2 WriteSummary"),
    (of_core(500, (44_000, of_inputs)), alone, sized, "HistogramSummary WriteHistogramSummary"),
    (of_core(10_000, (60_000, summarised)), alone, unsized_images, "ImageSummary WriteImageSummary"),
    (of_core(500, (410_000, of_inputs)), alone, sized, "MergeSummary"),

    # arrays whose kernels follow indices
    (of_core(500, (8_100, rows_of(0)), (430, read)), alone, sized, "RandomShuffle StatelessShuffle"),
    (of_core(500, (1_000, hashed)), alone, sized, "Unique UniqueV2 UniqueWithCounts UniqueWithCountsV2"),
    (of_core(500, (34_000, of_inputs)), alone, sized,
     "ListDiff DenseToDenseSetOperation DenseToSparseSetOperation SparseToSparseSetOperation SetSize"),  # as ListDiff
    (of_core(500, (830, of_input(0))), alone, sized, "Where"),
    (of_core(500, (5_800, of_input(0)), (48_000, chosen)), rows_before, sized, "TopK TopKV2 NthElement ApproxTopK"),
    (of_core(1_500, (1_000, partitioned)), alone, sized, "DynamicPartition"),
    (of_core(900, (25_000, rows_of(0))), alone, sized, "ScatterNd"),
    (of_core(900, (25_000, rows_of(1))), alone, sized,
     "ScatterNdAdd ScatterNdSub ScatterNdUpdate ScatterNdMax ScatterNdMin ResourceScatterNdAdd ResourceScatterNdSub "
     "ResourceScatterNdUpdate ResourceScatterNdMax ResourceScatterNdMin TensorScatterAdd TensorScatterSub "
     "TensorScatterMax TensorScatterMin TensorScatterUpdate ScatterNdNonAliasingAdd"),  # all as ScatterNd
    (of_core(500, (7_400, of_outputs)), alone, sized, "Cumsum Cumprod"),
    (of_core(500, (48_000, of_outputs)), divided, sized,
     "Igamma Igammac IgammaGradA Betainc Zeta Polygamma RandomGammaGrad"),  # all as Igamma
    (of_core(700, (3_800, rows_out)), alone, sized, "DynamicStitch ParallelDynamicStitch"),
    (of_core(600, (1_200, sort)), alone, sized, "SparseReorder"),  # 21 ns for each of 200,000 pairs
    (of_core(500, (4_500, rows_of(0))), alone, sized, "SparseToDense"),
    (of_core(500, (3_700, rows_of(0))), alone, sized,
     "SparseFillEmptyRows SparseFillEmptyRowsGrad RaggedFillEmptyRows RaggedFillEmptyRowsGrad"),
    (of_core(1_000, (2_600, rows_of(0))), alone, sized, "SparseReshape"),
    (of_core(600, (48_000, rows_out)), alone, sized,
     "SparseConcat SparseSplit SparseSlice SparseAdd SparseReduceSumSparse SparseReduceMaxSparse SparseCross "
     "SparseCrossV2 SparseCrossHashed RaggedCross SparseSparseMaximum SparseSparseMinimum"),  # all as SparseConcat
    (of_core(500, (1, sparse_product_ps)), alone, sized, "SparseTensorDenseMatMul"),
    (of_core(800, (90_000, rows_of(0))), alone, sized, "EditDistance"),
    (of_core(500, (19_000, of_input(0))), alone, sized, "Bucketize"),
    (of_core(500, (13_000, of_input(0))), rows_of(1), sized, "ReverseSequence"),
    (of_core(500, (1_500, of_outputs)), alone, sized, "RaggedTensorToTensor"),
    (of_core(600, (3_600, of_input(0))), rows_of(0), sized, "Multinomial StatelessMultinomial"),
    (of_core(500, (176_000, rows_out)), alone, sized,
     "LogUniformCandidateSampler LearnedUnigramCandidateSampler UniformCandidateSampler FixedUnigramCandidateSampler "
     "ThreadUnsafeUnigramCandidateSampler"),  # all as LogUniform
    (of_core(500, (9_200, of_input(0))), divided, sized, "CTCLoss"),
    (of_core(500, (119_000, beams)), alone, sized, "CTCBeamSearchDecoder"),

    # random numbers
    (of_core(600, (4_000, of_outputs)), divided, sized,
     "RandomUniform RandomUniformInt StatelessRandomUniform StatelessRandomUniformV2 StatelessRandomUniformInt "
     "StatelessRandomUniformIntV2 StatelessRandomUniformFullInt StatelessRandomUniformFullIntV2 StatefulUniform "
     "StatefulUniformInt StatefulUniformFullInt NonDeterministicInts"),
    (of_core(600, (15_000, of_outputs)), divided, sized,
     "RandomStandardNormal StatelessRandomNormal StatelessRandomNormalV2 StatefulStandardNormal "
     "StatefulStandardNormalV2"),
    (of_core(700, (26_000, of_outputs)), divided, sized,
     "TruncatedNormal ParameterizedTruncatedNormal StatelessTruncatedNormal StatelessTruncatedNormalV2 "
     "StatefulTruncatedNormal StatelessParameterizedTruncatedNormal"),
    (of_core(500, (97_000, of_outputs)), divided, sized,
     "RandomGamma StatelessRandomGammaV2 StatelessRandomGammaV3 RandomPoisson RandomPoissonV2 StatelessRandomPoisson "
     "StatefulRandomBinomial StatelessRandomBinomial"),  # all as RandomGamma

    # queues, iterators, Python
    (of_core(1_600), alone, sized, "QueueEnqueue QueueEnqueueV2 QueueDequeue QueueDequeueV2"),
    (of_core(700, (107_000, elements_in)), alone, sized, "QueueEnqueueMany QueueEnqueueManyV2 BarrierInsertMany"),
    (of_core(700, (107_000, rows_out)), alone, sized,
     "QueueDequeueMany QueueDequeueManyV2 QueueDequeueUpTo QueueDequeueUpToV2 BarrierTakeMany"),
    (of_core(440), alone, sized,
     "Stage Unstage StagePeek MapStage MapUnstage MapPeek OrderedMapStage OrderedMapUnstage OrderedMapPeek "
     "MapUnstageNoKey OrderedMapUnstageNoKey"),
    (of_core(8_000), alone, sized,
     "IteratorGetNext IteratorGetNextSync IteratorGetNextAsOptional MultiDeviceIteratorGetNextFromShard"),
    (of_core(28_000), alone, sized, "PyFunc PyFuncStateless EagerPyFunc"),
)
# fmt: on
