"""The table of shapes: per op the rule for its outputs, the inputs whose values the rule reads, and its source.

    RULES    op -> shapes of its outputs, and the slots whose values they depend on
    VALUES   op -> elements of its outputs, where a shape depends on them
    PASSING  ops whose outputs are their inputs: shape, value and what they refer to

A source is the file of TensorFlow 2.21 below tensorflow/core/ops/ that registers the ops with their shape functions;
xla_ops.cc is below tensorflow/compiler/tf2xla/ops/.
`formulas/` has the functions that a row names, by family.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

from simulator.graph.op_classes import ENTERS, EXITS, NEXT_ITERATIONS, SWITCHES
from simulator.shapes import values as v
from simulator.shapes.formulas import arrays as a
from simulator.shapes.formulas import elementwise as e
from simulator.shapes.formulas import images as i
from simulator.shapes.formulas import indexing as x
from simulator.shapes.formulas import matrix as m
from simulator.shapes.formulas import neural as n
from simulator.shapes.formulas import optionals as o
from simulator.shapes.formulas import state as s
from simulator.shapes.formulas import xla
from simulator.shapes.formulas.saved import restored
from simulator.shapes.site import Rule
from simulator.shapes.values import ValueRule

# rule, slots whose values it reads (-1: the last one, *: all), ops
Row: TypeAlias = tuple[Rule, str, str]


class ShapeRule(NamedTuple):
    """The row of an op."""

    rule: Rule
    slots: tuple[int, ...]  # inputs whose values the rule reads, negative ones from the end
    reads_all: bool  # the values of all inputs
    source: str  # the file of TensorFlow whose rule it is


# The tables are written by hand, a row per rule.
# fmt: off

_MATH: tuple[Row, ...] = (
    (e.same, "",
     "Abs Acos Acosh Angle Asin Asinh Atan Atanh BesselI0 BesselI0e BesselI1 BesselI1e BesselJ0 BesselJ1 "
     "BesselK0 BesselK0e BesselK1 BesselK1e BesselY0 BesselY1 Cast Ceil ComplexAbs Conj Cos Cosh Dawsn Digamma Erf "
     "Erfc Erfinv Exp Expint Expm1 Floor FresnelCos FresnelSin Imag Inv Invert IsFinite IsInf IsNan Lgamma Log Log1p "
     "LogicalNot Ndtri Neg Real Reciprocal Rint Round Rsqrt Sigmoid Sign Sin Sinh Spence Sqrt Square Tan Tanh "
     "PopulationCount Cumsum Cumprod CumulativeLogsumexp ClipByValue Bucketize _UnaryOpsComposition"),
    (e.same_for_both, "", "SigmoidGrad TanhGrad InvGrad ReciprocalGrad SqrtGrad RsqrtGrad"),
    (e.broadcast, "",
     "Add AddV2 Sub Mul MulNoNan Div DivNoNan RealDiv FloorDiv TruncateDiv Mod FloorMod TruncateMod Maximum Minimum "
     "Pow SquaredDifference Atan2 Complex Igamma Igammac IgammaGradA Betainc Zeta Polygamma Xdivy Xlogy Xlog1py "
     "NextAfter Less LessEqual Greater GreaterEqual LogicalAnd LogicalOr SelectV2 RandomGammaGrad"),
    (e.comparison, "", "Equal NotEqual"),
    (e.merged, "", "ApproximateEqual"),
    (s.added, "", "AddN"),
    (e.accumulated, "", "AccumulateNV2"),
    (e.select, "", "Select"),
    (e.reduced, "1", "Sum Prod Mean Max Min All Any EuclideanNorm "),
    (e.best_along, "1", "ArgMax ArgMin"),
    (m.matmul, "", "MatMul SparseMatMul _FusedMatMul"),
    (m.batch_matmul, "", "BatchMatMul BatchMatMulV2 BatchMatMulV3"),
    (a.counting, "*", "Range"),
    (a.spaced, "2", "LinSpace"),
    (x.segmented(1), "1", "SegmentSum SegmentProd SegmentMin SegmentMax SegmentMean"),
    (e.agreeing(x.segmented(2), ((1, 0), (2, 0))), "2", "SparseSegmentSum SparseSegmentMean SparseSegmentSqrtN"),
    (e.agreeing(x.segmented_with_number(3), ((1, 0), (2, 0))), "3",
     "SparseSegmentSumWithNumSegments SparseSegmentMeanWithNumSegments SparseSegmentSqrtNWithNumSegments "
     "SparseSegmentSumGrad SparseSegmentMeanGrad SparseSegmentSqrtNGrad"),
    (x.segmented_with_number(2), "2", "SegmentSumV2 SegmentProdV2 SegmentMinV2 SegmentMaxV2"),
    (x.unsorted_segments, "2", "UnsortedSegmentSum UnsortedSegmentProd UnsortedSegmentMin UnsortedSegmentMax"),
    (x.counted_into(1), "1", "Bincount"),
    (x.dense_counts, "1", "DenseBincount"),
    (x.counted_into(2), "2", "HistogramFixedWidth"),
    (e.merged_pair, "", "Cross"),
    (x.counts_of_rows, "2", "RaggedBincount"),
    (i.entries_counted, "2 3", "SparseBincount"),
    (i.quasi_random, "0 1", "SobolSample"),
    (e.agreeing(x.segments_back, ((1, 0), (2, 0))), "",
     "SparseSegmentSumGradV2 SparseSegmentMeanGradV2 SparseSegmentSqrtNGradV2"),
    (e.quantised(e.broadcast), "", "QuantizedAdd QuantizedMul"),
    (e.quantised(m.matmul), "", "QuantizedMatMul QuantizedMatMulWithBias QuantizedMatMulWithBiasAndRelu "
     "QuantizedMatMulWithBiasAndReluAndRequantize QuantizedMatMulWithBiasAndRequantize"),
    (m.matmul, "", "QuantizedMatMulWithBiasAndDequantize"),
    (e.same, "", "UniformQuantize UniformDequantize UniformRequantize UniformQuantizedClipByValue"),
    (e.broadcast_pair, "", "UniformQuantizedAdd"),
    (m.matmul, "", "UniformQuantizedDot UniformQuantizedDotHybrid"),
    (xla.uniform_convolution, "", "UniformQuantizedConvolution UniformQuantizedConvolutionHybrid"),
    (e.with_aggregate, "", "QuantizeDownAndShrinkRange Requantize RequantizePerChannel"),
    (e.scalar, "", "RequantizationRange RequantizationRangePerChannel"),
)

_ONE_DNN: tuple[Row, ...] = (  # made by Grappler, where oneDNN computes on a CPU
    (e.same, "", "_MklSwish _MklFusedMish _MklLayerNorm _MklFusedInstanceNorm"),
    (m.batch_matmul, "", "_MklFusedBatchMatMulV2"),
)

_BITWISE: tuple[Row, ...] = ((e.broadcast, "", "BitwiseAnd BitwiseOr BitwiseXor LeftShift RightShift"),)

_ARRAY: tuple[Row, ...] = (
    (e.same, "",
     "Identity RefIdentity StopGradient PreventGradient Snapshot CheckNumerics CheckNumericsV2 DebugGradientIdentity "
     "DebugGradientRefIdentity OnesLike Reverse ReverseV2 DeepCopy InvertPermutation MatrixBandPart "
     "BatchMatrixBandPart GuaranteeConst "
     "QuantizeAndDequantize QuantizeAndDequantizeV2 QuantizeAndDequantizeV3 QuantizeAndDequantizeV4 "
     "FakeQuantWithMinMaxArgs FakeQuantWithMinMaxArgsGradient FakeQuantWithMinMaxVars "
     "FakeQuantWithMinMaxVarsPerChannel TensorStridedSliceUpdate InplaceUpdate InplaceAdd InplaceSub Roll Dequantize "
     "Copy CopyHost"),
    (a.diagonal_set, "2", "MatrixSetDiag MatrixSetDiagV2 MatrixSetDiagV3 BatchMatrixSetDiag"),
    (n.fake_quantised_back, "", "FakeQuantWithMinMaxVarsGradient FakeQuantWithMinMaxVarsPerChannelGradient"),
    (s.zeros_like, "", "ZerosLike"),
    (e.as_all, "", "IdentityN"),
    (a.const, "", "Const HostConst _EagerConst"),
    (a.declared, "", "Placeholder PlaceholderV2 ImmutableConst _Arg _DeviceArg"),
    (a.with_default, "", "PlaceholderWithDefault"),
    (a.ensured, "", "EnsureShape"),
    (a.shape_of, "", "Shape ShapeN"),
    (e.scalar, "", "Rank Size"),
    (a.reshape, "1", "Reshape"),
    (a.expanded, "1", "ExpandDims"),
    (a.squeezed, "", "Squeeze"),
    (a.transposed, "1", "Transpose ConjugateTranspose"),
    (a.concat, "0", "Concat"),
    (a.concat_v2, "-1", "ConcatV2"),
    (e.as_inputs(*range(1, 256)), "", "ConcatOffset"),
    (a.parallel_concat, "", "ParallelConcat _ParallelConcatStart"),
    (e.same, "", "_ParallelConcatUpdate"),
    (a.pack, "", "Pack"),
    (a.unpack, "", "Unpack"),
    (a.split, "0", "Split"),
    (a.split_v, "1 2", "SplitV"),
    (a.tiled, "1", "Tile"),
    (a.padded, "1", "Pad PadV2 MirrorPad"),
    (a.padded_gradient, "1", "MirrorPadGrad"),
    (a.one_hot, "1", "OneHot"),
    (a.given_by(0), "0", "Fill Empty"),
    (a.broadcast_to, "1", "BroadcastTo"),
    (a.broadcast_args, "", "BroadcastArgs"),
    (a.reversed_sequence, "", "ReverseSequence"),
    (a.diagonal, "", "Diag"),
    (a.diagonal_part, "", "DiagPart"),
    (a.matrix_diagonal, "", "MatrixDiag BatchMatrixDiag"),
    (a.matrix_diagonal_v2, "1 2 3", "MatrixDiagV2 MatrixDiagV3"),
    (a.matrix_diagonal_part, "", "MatrixDiagPart BatchMatrixDiagPart"),
    (a.matrix_diagonal_part_v2, "1", "MatrixDiagPartV2 MatrixDiagPartV3"),
    (a.bitcast, "", "Bitcast"),
    (a.space_to_batch_nd, "1 2", "SpaceToBatchND"),
    (a.batch_to_space_nd, "1 2", "BatchToSpaceND"),
    (a.space_to_batch, "1", "SpaceToBatch"),
    (a.batch_to_space, "1", "BatchToSpace"),
    (a.space_to_depth, "", "SpaceToDepth"),
    (a.depth_to_space, "", "DepthToSpace"),
    (x.sliced, "1 2", "Slice"),
    (x.strided, "1 2 3", "StridedSlice"),
    (x.strided_gradient, "0 1 2 3", "StridedSliceGrad"),
    (x.gathered, "", "Gather"),
    (x.gathered_v2, "2", "GatherV2"),
    (x.gathered_nd, "", "GatherNd"),
    (x.scattered_into, "2", "ScatterNd"),
    (x.scattered_nd, "", "TensorScatterUpdate TensorScatterAdd TensorScatterSub TensorScatterMax TensorScatterMin "
     "ScatterNdNonAliasingAdd"),
    (x.places, "0", "Where"),
    (x.unique, "0", "Unique UniqueWithCounts"),
    (x.unique_v2, "1", "UniqueV2 UniqueWithCountsV2"),
    (v.differing_shapes, "0 1", "ListDiff"),
    (e.as_input(1), "", "LowerBound UpperBound"),
    (v.axes_shapes, "0 1", "BroadcastGradientArgs"),
    (i.patches, "", "ExtractImagePatches"),
    (i.volumes, "", "ExtractVolumePatches"),
    (e.same, "", "DebugIdentity DebugIdentityV2 DebugIdentityV3"),
    (e.quantised_along, "", "QuantizeV2"),
    (e.with_aggregate, "", "QuantizedInstanceNorm"),
    (e.quantised(a.reshape), "1", "QuantizedReshape"),
    (i.joined_quantised, "0", "QuantizedConcat"),
    (n.quantised_back, "", "QuantizeAndDequantizeV4Grad"),
    (e.same, "", "StridedSliceAssign"),
    (x.unraveled, "", "UnravelIndex"),
    (x.fingerprinted, "", "Fingerprint"),
    (e.agreeing(i.edited, ((0, 0), (1, 0)), ((3, 0), (4, 0))), "2 5", "EditDistance"),
)

_NN: tuple[Row, ...] = (
    (e.same, "", "DataFormatDimMap DataFormatVecPermute"),
    (e.same, "", "Relu Relu6 Elu Selu LeakyRelu Softplus Softsign"),
    (e.merged, "",
     "ReluGrad Relu6Grad EluGrad SeluGrad LeakyReluGrad SoftplusGrad SoftsignGrad"),
    (e.at_least(1), "", "Softmax LogSoftmax"),
    (n.convolution, "", "Conv2D Conv3D Conv _FusedConv2D _FusedConv3D"),
    (n.depthwise, "", "DepthwiseConv2dNative _FusedDepthwiseConv2dNative"),
    (n.convolution_gradient(4, 0), "0", "Conv2DBackpropInput DepthwiseConv2dNativeBackpropInput"),
    (e.by_example(n.convolution_gradient(4, 1), 0, 2), "1",
     "Conv2DBackpropFilter DepthwiseConv2dNativeBackpropFilter"),
    (n.convolution_gradient(5, 0), "0", "Conv3DBackpropInputV2"),
    (e.by_example(n.convolution_gradient(5, 1), 0, 2), "1", "Conv3DBackpropFilterV2"),
    (e.by_example(e.same, 0, 2), "", "Conv2DBackpropInputV2 Conv3DBackpropInput Dilation2DBackpropInput"),
    (e.by_example(e.as_input(1), 0, 2), "", "Conv2DBackpropFilterV2 Conv3DBackpropFilter Dilation2DBackpropFilter"),
    (n.dilation, "", "Dilation2D"),
    (n.pooled(4), "", "MaxPool AvgPool MaxPoolWithArgmax"),
    (n.pooled(5), "", "MaxPool3D AvgPool3D"),
    (n.pooled_v2, "1 2", "MaxPoolV2"),
    (e.by_example(e.gradient_of_rank(4), 0, 1), "", "MaxPoolGrad MaxPoolGradV2"),
    (e.by_example(e.gradient_of_rank(5), 0, 1), "", "MaxPool3DGrad"),
    (e.by_example(e.as_input(1), 0, 1, 2), "",
     "MaxPoolGradGrad MaxPoolGradGradV2 MaxPool3DGradGrad MaxPoolGradGradWithArgmax"),
    (e.by_example(e.same, 0, 1, 2), "", "MaxPoolGradWithArgmax FractionalMaxPoolGrad"),
    (n.mean_pool_gradient, "0", "AvgPoolGrad AvgPool3DGrad FractionalAvgPoolGrad"),
    (n.fractionally_pooled, "", "FractionalMaxPool FractionalAvgPool"),
    (e.of_rank(4), "", "LRN"),
    (e.merged, "", "LRNGrad"),
    (n.batch_normalized, "", "FusedBatchNorm FusedBatchNormV2 FusedBatchNormV3 _FusedBatchNormEx"),
    (n.batch_normalized_gradient, "", "FusedBatchNormGrad FusedBatchNormGradV2 FusedBatchNormGradV3"),
    (e.same, "", "BatchNormWithGlobalNormalization"),
    (e.as_inputs(0, 1, 1, 1, 1), "", "BatchNormWithGlobalNormalizationGrad"),
    (n.biased, "", "BiasAdd BiasAddV1"),
    (n.bias_gradient, "", "BiasAddGrad"),
    (n.cross_entropy, "", "SoftmaxCrossEntropyWithLogits"),
    (n.sparse_cross_entropy, "", "SparseSoftmaxCrossEntropyWithLogits"),
    (e.scalar, "", "L2Loss"),
    (x.top, "1", "TopK TopKV2"),
    (x.nth, "", "NthElement"),
    (x.found_within, "", "InTopK InTopKV2"),
    (n.cudnn_rnn, "", "CudnnRNN CudnnRNNV2 CudnnRNNV3"),
    (e.as_inputs(0, 1, 2, 3), "", "CudnnRNNBackprop CudnnRNNBackpropV2 CudnnRNNBackpropV3"),
    (e.agreeing(n.connectionist_loss, ((1, 0), (2, 0))), "", "CTCLoss CTCLossV2"),
    (n.greedy_decoded, "", "CTCGreedyDecoder"),
    (n.beams_decoded, "", "CTCBeamSearchDecoder"),
    (n.sampled, "",
     "LearnedUnigramCandidateSampler LogUniformCandidateSampler UniformCandidateSampler FixedUnigramCandidateSampler "
     "AllCandidateSampler ThreadUnsafeUnigramCandidateSampler"),
    (e.with_aggregate, "", "QuantizedBatchNormWithGlobalNormalization"),
    (e.with_aggregate, "", "QuantizedRelu QuantizedRelu6 QuantizedReluX"),
    (e.quantised(n.convolution), "", "QuantizedConv2D QuantizedConv2DAndReluAndRequantize QuantizedConv2DAndRequantize "
     "QuantizedConv2DWithBiasAndReluAndRequantize QuantizedConv2DWithBiasAndRequantize "
     "QuantizedConv2DWithBiasSumAndReluAndRequantize QuantizedConv2DWithBiasSignedSumAndReluAndRequantize"),
    (e.quantised_by_channel(n.convolution, 4), "", "QuantizedConv2DAndRelu QuantizedConv2DPerChannel"),
    (e.quantised_by_channel(n.convolution, 5), "", "QuantizedConv2DWithBias QuantizedConv2DWithBiasAndRelu "
     "QuantizedConv2DWithBiasSumAndRelu"),
    (e.quantised(n.depthwise), "", "QuantizedDepthwiseConv2D QuantizedDepthwiseConv2DWithBias "
     "QuantizedDepthwiseConv2DWithBiasAndRelu QuantizedDepthwiseConv2DWithBiasAndReluAndRequantize"),
    (n.padded_convolution(1), "1", "FusedPadConv2D"),
    (n.padded_convolution(2), "1 2", "FusedResizeAndPadConv2D"),
    (e.as_inputs(0, 0), "", "IsotonicRegression"),
    (x.top_about, "", "ApproxTopK"),
    (e.quantised(n.pooled(4)), "", "QuantizedMaxPool QuantizedAvgPool"),
    (e.quantised(n.biased), "", "QuantizedBiasAdd"),
)

_RECURRENT: tuple[Row, ...] = (
    (n.cell, "", "LSTMBlockCell"),
    (n.cell_back, "", "LSTMBlockCellGrad"),
    (n.sequence, "", "BlockLSTM BlockLSTMV2"),
    (e.as_inputs(*range(1, 9)), "", "BlockLSTMGrad BlockLSTMGradV2"),
    (n.gated_cell, "", "GRUBlockCell"),
    (n.gated_cell_back, "", "GRUBlockCellGrad"),
)

_CUDNN: tuple[Row, ...] = (
    (n.cudnn_weights, "", "CudnnRNNParamsToCanonical CudnnRNNParamsToCanonicalV2"),
    (e.vector, "", "CudnnRNNCanonicalToParams CudnnRNNCanonicalToParamsV2"),
    (e.constant((1,)), "", "CudnnRNNParamsSize"),
)

_ROWS_OF_SPARSE: tuple[Row, ...] = (
    (m.rows_of_dense, "", "DenseToCSRSparseMatrix"),
    (m.rows_given(2), "2", "SparseTensorToCSRSparseMatrix"),
    (m.rows_given(0), "0", "SparseMatrixZeros"),
    (m.rows_kept, "", "SparseMatrixMul SparseMatrixSoftmax SparseMatrixSparseCholesky"),
    (m.rows_added, "", "SparseMatrixAdd SparseMatrixSoftmaxGrad"),
    (m.rows_transposed, "", "SparseMatrixTranspose"),
    (m.rows_multiplied, "", "SparseMatrixSparseMatMul"),
    (m.rows_by_dense, "", "SparseMatrixMatMul"),
    (m.rows_as_dense, "", "CSRSparseMatrixToDense"),
    (m.rows_as_sparse, "", "CSRSparseMatrixToSparseTensor"),
    (m.rows_parted, "", "CSRSparseMatrixComponents"),
    (m.rows_counted, "", "SparseMatrixNNZ"),
    (m.rows_ordered, "", "SparseMatrixOrderingAMD"),
)

_CHECKPOINTS: tuple[Row, ...] = (
    (i.vocabulary_mapped, "", "GenerateVocabRemapping"),
    (i.matrix_mapped, "", "LoadAndRemapMatrix"),
)

_LINEAR: tuple[Row, ...] = (
    (m.einsum, "", "Einsum"),
    (m.square, "",
     "Cholesky BatchCholesky CholeskyGrad MatrixInverse BatchMatrixInverse MatrixExponential MatrixLogarithm "
     "MatrixSquareRoot"),
    (m.determinant, "", "MatrixDeterminant BatchMatrixDeterminant LogMatrixDeterminant"),
    (m.solved, "", "MatrixSolve BatchMatrixSolve MatrixTriangularSolve BatchMatrixTriangularSolve"),
    (m.least_squares, "", "MatrixSolveLs BatchMatrixSolveLs"),
    (m.qr, "", "Qr"),
    (m.svd, "", "Svd BatchSvd"),
    (m.eigen, "", "SelfAdjointEigV2 BatchSelfAdjointEigV2 Eig"),
    (m.decomposed, "", "Lu"),
    (e.as_input(1), "", "TridiagonalSolve"),
    (e.as_input(3), "", "TridiagonalMatMul"),
    (m.banded_solved, "", "BandedTriangularSolve"),
)

_SPECTRAL: tuple[Row, ...] = (
    (e.at_least(1), "", "FFT IFFT BatchFFT BatchIFFT"),
    (e.at_least(2), "", "FFT2D IFFT2D BatchFFT2D BatchIFFT2D"),
    (e.at_least(3), "", "FFT3D IFFT3D BatchFFT3D BatchIFFT3D"),
    (e.at_least(1), "", "FFTND IFFTND RFFTND IRFFTND"),
    (m.real_fourier(1, forward=True), "1", "RFFT"),
    (m.real_fourier(2, forward=True), "1", "RFFT2D"),
    (m.real_fourier(3, forward=True), "1", "RFFT3D"),
    (m.real_fourier(1, forward=False), "1", "IRFFT"),
    (m.real_fourier(2, forward=False), "1", "IRFFT2D"),
    (m.real_fourier(3, forward=False), "1", "IRFFT3D"),
)

_SPARSE: tuple[Row, ...] = (
    (e.sparse(m.sparse_dense_matmul), "2", "SparseTensorDenseMatMul"),
    (e.sparse(i.sparse_to_dense, 1), "1", "SparseToDense"),
    (i.sparse_reordered, "", "SparseReorder"),
    (e.sparse(i.sparse_reshaped, 1), "1", "SparseReshape"),
    (e.sparse(e.agreeing(i.rows_of_sparse, ((0, 0), (1, 0)))), "0 2", "SparseFillEmptyRows"),
    (e.as_input(1), "", "SparseSoftmax"),
    (i.sparse_like_first, "", "SparseAdd SparseSlice SparseSparseMaximum SparseSparseMinimum"),
    (i.sparse_joined, "", "SparseConcat"),
    (i.sparse_crossed, "", "SparseCross SparseCrossHashed SparseCrossV2"),
    (i.sparse_split, "", "SparseSplit"),
    (e.sparse(i.sparse_reduced), "2 3", "SparseReduceSum SparseReduceMax"),
    (e.ranked(2, 1, 1), "", "SparseReduceSumSparse SparseReduceMaxSparse"),
    (i.per_entry, "", "SparseDenseCwiseMul SparseDenseCwiseDiv SparseDenseCwiseAdd"),
    (e.as_input(3), "", "SparseTensorDenseAdd"),
    (e.constant((3,)), "", "SerializeSparse"),
    (e.sparse(i.serialised_rows), "2", "SerializeManySparse"),
    (i.sparse_with(i.any_rank), "", "DeserializeSparse DeserializeManySparse TakeManySparseFromTensorsMap"),
    (e.scalar, "", "AddSparseToTensorsMap"),
    (i.entries_added_back, "", "SparseAddGrad"),
    (i.filled_back, "", "SparseFillEmptyRowsGrad"),
    (i.per_sliced_entry, "", "SparseSliceGrad"),
    (e.vector, "", "AddManySparseToTensorsMap"),
)

_RANDOM: tuple[Row, ...] = (
    (a.given_by(0), "0",
     "RandomUniform RandomStandardNormal TruncatedNormal RandomUniformInt ParameterizedTruncatedNormal "
     "StatelessRandomUniformV2 StatelessRandomNormalV2 StatelessTruncatedNormalV2 "
     "StatelessRandomUniformIntV2 StatelessRandomUniformFullIntV2 NonDeterministicInts"),
    (a.given_by(2), "2",
     "StatefulUniform StatefulUniformInt StatefulUniformFullInt StatefulStandardNormalV2 StatefulTruncatedNormal"),
    (a.with_seed(1, a.given_by(0)), "0",
     "StatelessRandomUniform StatelessRandomNormal StatelessTruncatedNormal StatelessRandomUniformInt "
     "StatelessRandomUniformFullInt StatelessRandomGammaV2"),
    (e.same, "", "RandomShuffle StatelessShuffle"),
    (a.with_seed(1, a.given_by(0)), "0",
     "StatelessRandomBinomial StatelessRandomPoisson StatelessParameterizedTruncatedNormal"),
    (a.given_by(2), "2", "StatefulRandomBinomial"),
    (a.given_by(1), "1", "StatefulStandardNormal"),
    (e.constant((3,)), "", "RngReadAndSkip"),
    (a.given_by(0), "0", "StatelessRandomGammaV3"),
    (a.drawn_each, "0", "RandomGamma RandomPoisson RandomPoissonV2"),
    (x.categories, "1", "Multinomial StatelessMultinomial"),
    (a.with_seed(0, e.constant((1,), (2,))), "", "StatelessRandomGetKeyCounter"),
    (e.scalar, "", "StatelessRandomGetAlg"),
    (x.shuffled_index, "", "RandomIndexShuffle"),
    (a.with_seed(0, e.constant((1,), (2,), ())), "", "StatelessRandomGetKeyCounterAlg"),
)

_IMAGE: tuple[Row, ...] = (
    (i.resized, "1",
     "ResizeBilinear ResizeNearestNeighbor ResizeBicubic ResizeArea ResizeNearestNeighborGrad ScaleAndTranslate"),
    (i.resized_with_range, "1", "QuantizedResizeBilinear"),
    (e.by_example(i.resize_gradient, 0, 1), "", "ResizeBilinearGrad ResizeBicubicGrad"),
    (e.by_example(e.as_input(1), 0, 1), "", "ScaleAndTranslateGrad"),
    (i.cropped, "2 3", "CropAndResize"),
    (i.crop_gradients, "3", "CropAndResizeGradImage"),
    (i.crop_gradients, "", "CropAndResizeGradBoxes"),
    (i.decoded, "", "DecodeJpeg DecodePng DecodeBmp DecodeWebP"),
    (i.decoded_part, "1", "DecodeAndCropJpeg"),
    (i.decoded_any, "", "DecodeImage"),
    (i.decoded_film, "", "DecodeGif"),
    (i.encoded, "", "EncodeJpeg EncodeJpegVariableQuality EncodePng"),
    (i.glimpsed, "1", "ExtractGlimpse ExtractGlimpseV2"),
    (e.constant((3,)), "", "ExtractJpegShape"),
    (e.agreeing(i.suppressed, ((0, 0), (1, 0))), "2",
     "NonMaxSuppression NonMaxSuppressionV2 NonMaxSuppressionV3 NonMaxSuppressionV4 NonMaxSuppressionV5 "
     "NonMaxSuppressionWithOverlaps"),
    (e.agreeing(i.combined_suppressed, ((0, 0), (1, 0)), ((0, 1), (1, 1))), "2 3", "CombinedNonMaxSuppression"),
    (i.distorted_box, "", "SampleDistortedBoundingBox SampleDistortedBoundingBoxV2 "
     "StatelessSampleDistortedBoundingBox"),
    (i.proposed, "", "GenerateBoundingBoxProposals"),
    (i.transformed, "2", "ImageProjectiveTransformV2 ImageProjectiveTransformV3"),
    (e.at_least(3), "", "AdjustContrast AdjustContrastv2 AdjustHue AdjustSaturation DrawBoundingBoxes "
     "DrawBoundingBoxesV2"),
    (i.image_colours, "", "RGBToHSV HSVToRGB"),
)

_FILES: tuple[Row, ...] = (
    (e.scalar, "", "ReadFile ShardedFilename ShardedFilespec ReaderRead ReaderReadV2 ReaderNumRecordsProduced "
     "ReaderNumRecordsProducedV2 ReaderNumWorkUnitsCompleted ReaderNumWorkUnitsCompletedV2 ReaderSerializeState "
     "ReaderSerializeStateV2 WholeFileReaderV2 TextLineReaderV2 TFRecordReaderV2 FixedLengthRecordReaderV2 "
     "IdentityReaderV2"),
    (e.constant((2,)), "", "WholeFileReader TextLineReader TFRecordReader FixedLengthRecordReader IdentityReader "
     "LMDBReader"),
    (e.vector, "", "MatchingFiles ReaderReadUpTo ReaderReadUpToV2"),
    (restored, "", "RestoreV2 RestoreSlice"),
)

_PARSING: tuple[Row, ...] = (
    (i.decoded_raw, "", "DecodeRaw"),
    (i.decoded_fixed, "1", "DecodePaddedRaw"),
    (i.parsed, "", "ParseExample"),
    (i.parsed_v2, "", "ParseExampleV2"),
    (i.parsed_single, "", "ParseSingleExample"),
    (i.parsed_sequences, "", "ParseSequenceExample ParseSequenceExampleV2"),
    (i.parsed_sequence, "", "ParseSingleSequenceExample"),
    (i.decoded_lines, "", "DecodeCSV"),
    (e.same, "", "StringToNumber DecodeCompressed DecodeJSONExample"),
    (e.scalar, "", "SerializeTensor"),
)

_STRING: tuple[Row, ...] = (
    (e.same, "", "AsString RegexReplace StaticRegexReplace RegexFullMatch StaticRegexFullMatch StringStrip StringLower "
     "StringUpper StringLength EncodeBase64 DecodeBase64 StringToHashBucket StringToHashBucketFast "
     "StringToHashBucketStrong UnicodeTranscode UnicodeScript"),
    (e.joined_strings, "", "StringJoin"),
    (i.split_strings, "", "StringSplit StringSplitV2"),
    (e.scalar, "", "StringFormat"),
    (e.broadcast, "", "Substr"),
    (e.reduced, "1", "ReduceJoin"),
    (i.split_characters, "", "UnicodeDecode UnicodeDecodeWithOffsets"),
    (i.joined_characters, "", "UnicodeEncode"),
    (i.n_grams, "", "StringNGrams"),
    (x.unsorted_segments, "2", "UnsortedSegmentJoin"),
)

_STATE: tuple[Row, ...] = (
    (s.variable, "", "Variable VariableV2 TemporaryVariable"),
    (e.same, "", "DestroyTemporaryVariable CountUpTo"),
    (x.scattered_by_row, "", "ScatterUpdate ScatterAdd ScatterSub ScatterMul ScatterDiv ScatterMin ScatterMax"),
    (x.scattered_nd, "", "ScatterNdUpdate ScatterNdAdd ScatterNdSub ScatterNdMax ScatterNdMin"),
    (s.assigned_reference, "", "Assign"),
    (s.updated_reference, "", "AssignAdd AssignSub"),
    (e.scalar, "", "IsVariableInitialized"),
)

_RESOURCE: tuple[Row, ...] = (
    (s.variable_handle, "", "VarHandleOp"),
    (s.read, "", "ReadVariableOp"),
    (s.assigned, "", "AssignVariableOp AssignAddVariableOp AssignSubVariableOp"),
    (s.variable_shape, "", "VariableShape"),
    (e.scalar, "", "VarIsInitializedOp ResourceCountUpTo"),
    (x.of_variable(x.resource_gathered), "", "ResourceGather"),
    (x.of_variable(x.gathered_nd), "", "ResourceGatherNd"),
    (x.of_variable(x.scattered_by_row), "", "ResourceScatterUpdate ResourceScatterAdd ResourceScatterSub "
     "ResourceScatterMul ResourceScatterDiv ResourceScatterMin ResourceScatterMax"),
    (x.of_variable(x.scattered_nd), "", "ResourceScatterNdUpdate ResourceScatterNdAdd ResourceScatterNdSub "
     "ResourceScatterNdMax ResourceScatterNdMin"),
    (e.same, "", "DisableCopyOnRead"),
    (e.scalar, "", "MutexV2 MutexLock"),
)

_TRAINING: tuple[Row, ...] = (
    (e.same, "",
     "ApplyGradientDescent ApplyMomentum ApplyAdam ApplyAdaMax ApplyAdadelta ApplyAdagrad ApplyAdagradV2 "
     "ApplyAdagradDA ApplyFtrl ApplyFtrlV2 ApplyRMSProp ApplyCenteredRMSProp ApplyProximalGradientDescent "
     "ApplyProximalAdagrad ApplyAddSign ApplyPowerSign SparseApplyAdadelta "
     "SparseApplyAdagrad SparseApplyAdagradV2 SparseApplyAdagradDA SparseApplyFtrl SparseApplyFtrlV2 "
     "SparseApplyMomentum SparseApplyRMSProp SparseApplyCenteredRMSProp SparseApplyProximalGradientDescent "
     "SparseApplyProximalAdagrad"),
    (s.applied, "",
     "ResourceApplyGradientDescent ResourceApplyMomentum ResourceApplyKerasMomentum ResourceApplyAdam "
     "ResourceApplyAdamWithAmsgrad ResourceApplyAdaMax ResourceApplyAdadelta ResourceApplyAdagrad "
     "ResourceApplyAdagradV2 ResourceApplyAdagradDA ResourceApplyFtrl ResourceApplyFtrlV2 ResourceApplyRMSProp "
     "ResourceApplyCenteredRMSProp ResourceApplyProximalGradientDescent ResourceApplyProximalAdagrad "
     "ResourceApplyAddSign ResourceApplyPowerSign"),
)

_FLOW_OF_DATA: tuple[Row, ...] = (
    (s.queue, "", "FIFOQueue FIFOQueueV2 RandomShuffleQueue RandomShuffleQueueV2 PaddingFIFOQueue PaddingFIFOQueueV2 "
     "PriorityQueue PriorityQueueV2"),
    (s.enqueued, "", "QueueEnqueue QueueEnqueueV2"),
    (s.enqueued_many, "", "QueueEnqueueMany QueueEnqueueManyV2"),
    (s.dequeued, "", "QueueDequeue QueueDequeueV2"),
    (s.dequeued_many, "1", "QueueDequeueMany QueueDequeueManyV2 QueueDequeueUpTo QueueDequeueUpToV2"),
    (e.scalar, "", "QueueSize QueueSizeV2 QueueIsClosed QueueIsClosedV2 StageSize AccumulatorNumAccumulated "
     "ResourceAccumulatorNumAccumulated"),
    (s.staged, "", "Stage"),
    (s.unstaged, "", "Unstage StagePeek"),
    (s.staged_by_key, "1", "MapStage OrderedMapStage"),
    (s.unstaged_by_key, "0 1", "MapUnstage MapPeek OrderedMapUnstage OrderedMapPeek MapUnstageNoKey "
     "OrderedMapUnstageNoKey"),
    (s.stack, "", "Stack StackV2"),
    (s.pushed, "", "StackPush StackPushV2"),
    (s.popped, "", "StackPop StackPopV2"),
    (e.constant((2,)), "", "SparseConditionalAccumulator"),
    (s.accumulator, "", "ConditionalAccumulator ResourceConditionalAccumulator"),
    (s.barrier, "", "Barrier"),
    (s.taken_from_barrier, "1", "BarrierTakeMany"),
    (e.scalar, "", "BarrierReadySize BarrierIncompleteSize MapSize MapIncompleteSize OrderedMapSize "
     "OrderedMapIncompleteSize"),
    (s.accumulated, "", "AccumulatorTakeGradient ResourceAccumulatorTakeGradient"),
    (x.parted, "1", "DynamicPartition"),
    (x.stitched, "*", "DynamicStitch ParallelDynamicStitch"),
    (s.array, "0", "TensorArrayV3"),
    (s.array_gradient, "", "TensorArrayGradV3"),
    (s.array_gradient_of_more, "2", "TensorArrayGradWithShape"),
    (s.array_written, "1", "TensorArrayWriteV3"),
    (s.array_read, "", "TensorArrayReadV3"),
    (s.array_scattered, "1", "TensorArrayScatterV3"),
    (s.array_gathered, "", "TensorArrayGatherV3"),
    (s.array_joined, "", "TensorArrayConcatV3"),
    (s.array_split, "2", "TensorArraySplitV3"),
    (e.scalar, "", "TensorArraySizeV3"),
    (e.scalar, "", "RecordInput GetSessionHandle"),
)

_LISTS: tuple[Row, ...] = (
    (s.list_empty, "0", "EmptyTensorList"),
    (s.list_reserved, "0 1", "TensorListReserve"),
    (s.list_from_tensor, "1", "TensorListFromTensor"),
    (s.list_split, "1 2", "TensorListSplit"),
    (s.list_pushed, "", "TensorListPushBack"),
    (s.list_popped, "1", "TensorListPopBack"),
    (s.list_set, "1", "TensorListSetItem"),
    (s.list_taken, "1 2", "TensorListGetItem"),
    (s.list_stacked, "1", "TensorListStack"),
    (s.list_gathered, "2", "TensorListGather"),
    (s.list_scattered, "2", "TensorListScatter"),
    (s.list_scattered, "2 3", "TensorListScatterV2"),
    (s.list_kept, "", "TensorListConcatLists TensorListScatterIntoExistingList"),
    (s.list_resized, "1", "TensorListResize"),
    (s.list_joined, "1", "TensorListConcat TensorListConcatV2"),
    (s.element_shape, "", "TensorListElementShape"),
    (e.scalar, "", "TensorListLength"),
    (e.same, "", "TensorListPushBackBatch"),
)

_TABLES: tuple[Row, ...] = (
    (s.table, "", "HashTable HashTableV2 MutableHashTable MutableHashTableV2"),
    (s.looked_up, "", "LookupTableFind LookupTableFindV2"),
    (s.exported, "", "LookupTableExport LookupTableExportV2"),
    (e.scalar, "", "LookupTableSize LookupTableSizeV2"),
    (s.table_of_tensors, "", "MutableHashTableOfTensors MutableHashTableOfTensorsV2 MutableDenseHashTable "
     "MutableDenseHashTableV2 AnonymousMutableHashTableOfTensors AnonymousMutableDenseHashTable"),
    (e.scalar, "", "AnonymousHashTable AnonymousMutableHashTable"),
)

_DATASET: tuple[Row, ...] = (
    (s.listed("output_shapes"), "", "IteratorGetNext IteratorGetNextSync MultiDeviceIteratorGetNextFromShard"),
    (s.listed("output_shapes"), "", "DatasetToSingleElement"),
    (s.reduced, "", "ReduceDataset"),
    (e.vector, "", "SerializeIterator"),
    (o.wrapping, "", "OptionalFromValue"),
    (o.nothing, "", "OptionalNone"),
    (o.unwrapped, "", "OptionalGetValue"),
    (e.scalar, "", "OptionalHasValue"),
    (e.scalar, "", "IteratorV2 Iterator OneShotIterator AnonymousIterator IteratorFromStringHandle "
     "IteratorFromStringHandleV2 IteratorToStringHandle"),
    (e.scalar, "",
     "BatchDataset BatchDatasetV2 CacheDataset CacheDatasetV2 ConcatenateDataset DatasetCardinality "
     "DatasetFingerprint DatasetFromGraph DatasetToGraph DatasetToGraphV2 FilterByLastComponentDataset "
     "FilterDataset FinalizeDataset FixedLengthRecordDataset FixedLengthRecordDatasetV2 FlatMapDataset "
     "GeneratorDataset InterleaveDataset MapDataset ModelDataset OptimizeDataset OptimizeDatasetV2 "
     "OptionsDataset PaddedBatchDataset PaddedBatchDatasetV2 ParallelBatchDataset ParallelFilterDataset "
     "ParallelInterleaveDatasetV2 ParallelInterleaveDatasetV3 ParallelInterleaveDatasetV4 ParallelMapDataset "
     "ParallelMapDatasetV2 PrefetchDataset RangeDataset RepeatDataset RewriteDataset ShardDataset "
     "ShuffleAndRepeatDataset ShuffleAndRepeatDatasetV2 ShuffleDataset ShuffleDatasetV2 ShuffleDatasetV3 "
     "SkipDataset SparseTensorSliceDataset TFRecordDataset TFRecordDatasetV2 TakeDataset TensorDataset "
     "TensorSliceDataset TextLineDataset UnwrapDatasetVariant WindowDataset WrapDatasetVariant ZipDataset "
     "AnonymousIteratorV2 AnonymousIteratorV3 AnonymousMemoryCache AnonymousRandomSeedGenerator "
     "AnonymousSeedGenerator CompressElement DummyIterationCounter DummyMemoryCache DummySeedGenerator "
     "GetOptions IteratorGetDevice IteratorGetModelProto IteratorGetNextAsOptional "
     "MultiDeviceIteratorFromStringHandle MultiDeviceIteratorInit MultiDeviceIteratorToStringHandle"),
)

_EXPERIMENTAL_DATASET: tuple[Row, ...] = (
    (e.scalar, "",
     "AssertCardinalityDataset AssertNextDataset AssertPrevDataset AutoShardDataset BytesProducedStatsDataset "
     "CSVDataset CSVDatasetV2 ChooseFastestDataset DataServiceDataset DataServiceDatasetV2 DataServiceDatasetV3 "
     "DataServiceDatasetV4 DenseToSparseBatchDataset DirectedInterleaveDataset ExperimentalAssertNextDataset "
     "ExperimentalAutoShardDataset ExperimentalBytesProducedStatsDataset ExperimentalCSVDataset "
     "ExperimentalChooseFastestDataset ExperimentalDatasetCardinality ExperimentalDenseToSparseBatchDataset "
     "ExperimentalDirectedInterleaveDataset ExperimentalGroupByReducerDataset ExperimentalGroupByWindowDataset "
     "ExperimentalIgnoreErrorsDataset ExperimentalLMDBDataset ExperimentalLatencyStatsDataset "
     "ExperimentalMapAndBatchDataset ExperimentalMapDataset ExperimentalMatchingFilesDataset "
     "ExperimentalMaxIntraOpParallelismDataset ExperimentalNonSerializableDataset "
     "ExperimentalParallelInterleaveDataset ExperimentalParseExampleDataset "
     "ExperimentalPrivateThreadPoolDataset ExperimentalRandomDataset ExperimentalRebatchDataset "
     "ExperimentalScanDataset ExperimentalSetStatsAggregatorDataset ExperimentalSleepDataset "
     "ExperimentalSlidingWindowDataset ExperimentalSqlDataset ExperimentalTakeWhileDataset "
     "ExperimentalThreadPoolDataset ExperimentalUnbatchDataset ExperimentalUniqueDataset GlobalShuffleDataset "
     "GroupByReducerDataset GroupByWindowDataset IgnoreErrorsDataset IndexFlatMapDataset LMDBDataset "
     "LatencyStatsDataset LegacyParallelInterleaveDatasetV2 ListDataset ListSnapshotChunksDataset LoadDataset "
     "MapAndBatchDataset MatchingFilesDataset MaxIntraOpParallelismDataset NonSerializableDataset "
     "ParallelInterleaveDataset ParseExampleDataset ParseExampleDatasetV2 PrivateThreadPoolDataset "
     "RandomDataset RandomDatasetV2 RebatchDataset RebatchDatasetV2 RegisterDataset RegisterDatasetV2 "
     "SamplingDataset SaveDatasetV2 ScanDataset SetStatsAggregatorDataset SleepDataset SlidingWindowDataset "
     "SnapshotChunkDataset SnapshotDataset SnapshotDatasetReader SnapshotDatasetV2 SnapshotNestedDatasetReader "
     "SqlDataset TakeWhileDataset ThreadPoolDataset UnbatchDataset UniqueDataset WeightedFlatMapDataset "
     "ExperimentalIteratorGetDevice ExperimentalStatsAggregatorHandle ExperimentalStatsAggregatorSummary "
     "ExperimentalThreadPoolHandle StatsAggregatorHandle StatsAggregatorHandleV2 StatsAggregatorSummary "
     "ThreadPoolHandle ComputeBatchSize"),
    (s.listed("output_shapes"), "", "UncompressElement"),
)

_CONTROL: tuple[Row, ...] = (
    (e.same, "", " ".join(sorted({*ENTERS, *EXITS, *NEXT_ITERATIONS}))),
    (e.switched, "1", " ".join(sorted(SWITCHES))),
    (e.scalar, "0", "LoopCond"),
)

_FUNCTIONS: tuple[Row, ...] = (
    (e.as_all, "", "SymbolicGradient"),
    (a.declared, "", "FakeParam"),
    (e.scalar, "", "DeviceIndex"),
)

_MAPS: tuple[Row, ...] = (
    (e.scalar, "", "EmptyTensorMap TensorMapSize TensorMapInsert TensorMapErase TensorMapHasKey"),
)

_LOGGING: tuple[Row, ...] = (
    (e.scalar, "", "ScalarSummary HistogramSummary ImageSummary AudioSummary AudioSummaryV2 MergeSummary "
     "TensorSummary TensorSummaryV2 Timestamp"),
    (e.same, "", "Print"),
)

_COMMUNICATION: tuple[Row, ...] = (
    (e.same, "", "NcclAllReduce NcclReduce CollectiveReduce CollectiveReduceV2 CollectiveReduceV3 CollectiveBcastSend "
     "_NcclReduceRecv CollectiveBcastSendV2"),
    (a.declared, "", "NcclBroadcast CollectiveBcastRecv InfeedDequeue"),
    (s.gathered_group, "", "CollectiveGather"),
    (e.same, "", "CollectiveAllToAllV2 CollectiveAllToAllV3"),
    (s.gathered_rows, "1", "CollectiveGatherV2"),
    (s.scattered_rows, "1", "CollectiveReduceScatterV2"),
    (a.given_by(3), "3", "CollectiveBcastRecvV2"),
)

_SETS: tuple[Row, ...] = (
    (i.sparse_with(i.rank_of_dense), "", "DenseToDenseSetOperation DenseToSparseSetOperation"),
    (i.sparse_with(i.rank_of_sparse), "", "SparseToSparseSetOperation"),
    (i.set_sizes, "2", "SetSize"),
)

_COUNTS: tuple[Row, ...] = (
    (i.sparse_with(i.rank_of_dense), "", "DenseCountSparseOutput"),
    (i.sparse_with(i.rank_of_sparse), "", "SparseCountSparseOutput"),
    (i.sparse_with(i.matrix_rank), "", "RaggedCountSparseOutput"),
)

_RAGGED: tuple[Row, ...] = (
    (i.filled_up, "0 3 4 5 6 7", "RaggedTensorToTensor"),
    (i.ragged_as_sparse, "", "RaggedTensorToSparse"),
    (i.ragged_as_variant, "", "RaggedTensorToVariant"),
    (i.ragged_of_variant, "", "RaggedTensorFromVariant"),
    (a.given_by(2), "2", "RaggedTensorToVariantGradient"),
)

_RAGGED_ARRAYS: tuple[Row, ...] = (
    (i.ragged_gathered, "0 1 2 3", "RaggedGather"),
    (i.ragged_crossed, "", "RaggedCross"),
    (i.ragged_filled, "2", "RaggedFillEmptyRows"),
    (i.filled_back, "", "RaggedFillEmptyRowsGrad"),
)

_RAGGED_NUMBERS: tuple[Row, ...] = ((i.ragged_range, "0 1 2", "RaggedRange"),)

_MESSAGES: tuple[Row, ...] = (
    (i.decoded_messages, "", "DecodeProtoV2"),
    (i.encoded_messages, "", "EncodeProto"),
)

_BATCHES: tuple[Row, ...] = (
    (i.batched, "", "Batch"),
    (i.unbatched, "", "Unbatch"),
    (i.unbatched_back, "", "UnbatchGrad"),
)

_SOUND: tuple[Row, ...] = (
    (i.decoded_sound, "", "DecodeWav"),
    (e.scalar, "", "EncodeWav"),
    (m.spectrogram, "", "AudioSpectrogram"),
    (m.cepstrum, "", "Mfcc"),
)

_REPLICAS: tuple[Row, ...] = (
    (e.same, "", "CrossReplicaSum CollectivePermute"),
    (a.exchanged, "", "AllToAll"),
)

_DUALS: tuple[Row, ...] = ((i.fingerprints, "", "SdcaFprint"),)

_SUMMARIES: tuple[Row, ...] = ((e.scalar, "", "SummaryWriter"),)

# Programs for XLA, and ops on tensors that XLA alone has.
_XLA: tuple[Row, ...] = (
    (s.listed("Sout"), "", "XlaCallModule"),
    (e.same, "", "XlaDynamicUpdateSlice XlaScatter XlaSharding XlaSort XlaReducePrecision XlaSelectAndScatter"),
    (a.given_by(2), "2", "XlaDynamicSlice"),
    (e.as_inputs(0, 1), "", "XlaKeyValueSort"),
    (e.as_all, "", "XlaOptimizationBarrier"),
    (xla.dot, "", "XlaDot XlaDotV2"),
    (xla.convolution, "2 3 4 5", "XlaConv XlaConvV2"),
    (xla.padded, "2 3 4", "XlaPad"),
    (xla.reduced, "", "XlaReduce XlaVariadicReduce XlaVariadicReduceV2"),
    (xla.gathered, "2", "XlaGather"),
    (m.einsum, "", "XlaEinsum"),
)

_CLUSTERING: tuple[Row, ...] = ((e.scalar, "", "KMC2ChainInitialization"),)

_CANDIDATES: tuple[Row, ...] = ((e.vector, "", "ComputeAccidentalHits"),)

_BY_SOURCE: Mapping[str, tuple[Row, ...]] = {
    "math_ops.cc": _MATH,
    "bitwise_ops.cc": _BITWISE,
    "array_ops.cc": _ARRAY,
    "nn_ops.cc": _NN,
    "rnn_ops.cc": _RECURRENT,
    "cudnn_rnn_ops.cc": _CUDNN,
    "linalg_ops.cc": _LINEAR,
    "sparse_csr_matrix_ops.cc": _ROWS_OF_SPARSE,
    "checkpoint_ops.cc": _CHECKPOINTS,
    "spectral_ops.cc": _SPECTRAL,
    "sparse_ops.cc": _SPARSE,
    "random_ops.cc": _RANDOM,
    "image_ops.cc": _IMAGE,
    "io_ops.cc": _FILES,
    "parsing_ops.cc": _PARSING,
    "string_ops.cc": _STRING,
    "state_ops.cc": _STATE,
    "resource_variable_ops.cc": _RESOURCE,
    "training_ops.cc": _TRAINING,
    "data_flow_ops.cc": _FLOW_OF_DATA,
    "list_ops.cc": _LISTS,
    "map_ops.cc": _MAPS,
    "batch_ops.cc": _BATCHES,
    "mkl_nn_ops.cc": _ONE_DNN,
    "lookup_ops.cc": _TABLES,
    "dataset_ops.cc": _DATASET,
    "experimental_dataset_ops.cc": _EXPERIMENTAL_DATASET,
    "control_flow_ops.cc": _CONTROL,
    "function_ops.cc": _FUNCTIONS,
    "logging_ops.cc": _LOGGING,
    "nccl_ops.cc": _COMMUNICATION,
    "set_ops.cc": _SETS,
    "count_ops.cc": _COUNTS,
    "ragged_conversion_ops.cc": _RAGGED,
    "ragged_array_ops.cc": _RAGGED_ARRAYS,
    "ragged_math_ops.cc": _RAGGED_NUMBERS,
    "decode_proto_ops.cc": _MESSAGES,
    "audio_ops.cc": _SOUND,
    "candidate_sampling_ops.cc": _CANDIDATES,
    "tpu_cross_replica_ops.cc": _REPLICAS,
    "sdca_ops.cc": _DUALS,
    "summary_ops.cc": _SUMMARIES,
    "clustering_ops.cc": _CLUSTERING,
    "xla_ops.cc": _XLA,
}

_VALUES: tuple[tuple[ValueRule, str], ...] = (
    (v.shapes, "Shape ShapeN"),
    (v.rank, "Rank"),
    (v.size, "Size"),
    (v.variable_shape, "VariableShape"),
    (v.array_size, "TensorArraySizeV3 TensorListLength"),
    (v.popped, "StackPop StackPopV2 TensorListPopBack"),
    (o.value, "OptionalGetValue"),
    (v.const, "Const HostConst"),
    (v.unary, " ".join(v.ONE)),
    (v.binary, " ".join(v.TWO)),
    (v.added, "AddN"),
    (v.cast, "Cast"),
    (v.reduction, "Prod Sum Max Min Mean All Any"),
    (v.chosen, "Select SelectV2"),
    (v.clipped, "ClipByValue"),
    (v.kept, "Reshape ExpandDims Squeeze EnsureShape Snapshot"),
    (v.packed, "Pack"),
    (v.concatenated, "ConcatV2"),
    (v.first_concatenated, "Concat"),
    (v.unpacked, "Unpack"),
    (v.parted, "Split SplitV"),
    (v.sliced, "Slice"),
    (v.strided, "StridedSlice"),
    (v.gathered, "Gather GatherV2"),
    (v.transposed, "Transpose"),
    (v.reversed_, "ReverseV2"),
    (v.rolled, "Roll"),
    (v.tiled, "Tile"),
    (v.padded, "Pad PadV2"),
    (v.filled, "Fill"),
    (v.alike(0), "ZerosLike"),
    (v.alike(1), "OnesLike"),
    (v.counting, "Range"),
    (v.one_hot, "OneHot"),
    (v.broadcast_to, "BroadcastTo"),
    (v.broadcast_args, "BroadcastArgs"),
    (v.reshaped_sparse, "SparseReshape"),
    (v.inverted, "InvertPermutation"),
    (v.axis_in_format, "DataFormatDimMap"),
    (v.in_format, "DataFormatVecPermute"),
    (v.offsets, "ConcatOffset"),
    (v.stitched, "DynamicStitch ParallelDynamicStitch"),
    (v.scattered, "TensorScatterUpdate"),
    (v.ranges, "RaggedRange"),
    (v.crossed, "SparseCross SparseCrossHashed SparseCrossV2"),
    (v.broadcast_axes, "BroadcastGradientArgs"),
    (v.differing, "ListDiff"),
    (v.places, "Where"),
    (v.distinct, "Unique UniqueWithCounts"),
    (v.summed_up, "Cumsum"),
)

# fmt: on

PASSING = frozenset({*ENTERS, *EXITS, *NEXT_ITERATIONS, *SWITCHES, "Identity", "IdentityN", "RefIdentity"}) | {
    "StopGradient",
    "PreventGradient",
    "LoopCond",
    "DisableCopyOnRead",
    "Conj",  # a matrix of sparse rows stays one, and no complex number is followed
}
"""Ops whose outputs are their inputs; those of a Switch and the like are all the first one."""

OF_SHAPES = frozenset({"Shape", "ShapeN", "Rank", "Size", "VariableShape", "TensorArraySizeV3", "TensorListLength"})
"""Ops whose values depend on the shapes of their inputs alone."""

POPS = frozenset({"StackPop", "StackPopV2", "TensorListPopBack", "OptionalGetValue"})
PUSHES: Mapping[str, int] = MappingProxyType(
    {"StackPush": 1, "StackPushV2": 1, "TensorListPushBack": 1, "OptionalFromValue": 0}
)
"""Ops that put in what others take out: the value of the input in that slot."""

_PUTTING = (s.enqueued, s.enqueued_many, s.staged, s.staged_by_key, s.array_written, s.array_scattered, s.array_split)
_TAKING = (s.dequeued, s.dequeued_many, s.unstaged, s.unstaged_by_key, s.array_read, s.array_gathered, s.array_joined)


PUTS = PUSHES.keys() | {op for rule, _, ops in _FLOW_OF_DATA if rule in _PUTTING for op in ops.split()}
TAKES = POPS | {op for rule, _, ops in _FLOW_OF_DATA if rule in _TAKING for op in ops.split()}
"""Ops that put in, and ops that take out what others put in: no edge leads from the one to the other."""


def _rows() -> dict[str, ShapeRule]:
    made: dict[str, ShapeRule] = {}
    for source, rows in _BY_SOURCE.items():
        for rule, slots, ops in rows:
            read = () if slots == "*" else tuple(map(int, slots.split()))
            for op in ops.split():
                made[op] = ShapeRule(rule, read, slots == "*", source)
    return made


RULES: Mapping[str, ShapeRule] = MappingProxyType(_rows())
VALUES: Mapping[str, ValueRule] = MappingProxyType({op: rule for rule, ops in _VALUES for op in ops.split()})
