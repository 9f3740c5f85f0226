"""The cost table: per op its category, its arithmetic, the bytes that it moves, and its time on a CPU core.

    ARITHMETIC     ops that compute                               Conv2D, MatMul, Exp, Svd ..
    HOUSEKEEPING   ops that move, keep, pass on and wait          Concat, ApplyAdam, QueueDequeue ..
    OPAQUE         ops whose work is not in the graph             PyFunc ..
    HANDED_OVER    ops that start no kernel and move no bytes     Identity, Switch, Const ..
    HOST           scalar kernels: their measured time on a core  DecodeJpeg, Unique, LookupTableFind ..

`formulas/` has the functions that a row names, by family. The categories are the kinds of work of TensorFlow's white
paper (Abadi et al. 2016, table 1), and communication.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

from simulator.costs.formulas.contraction import contracted, copies
from simulator.costs.formulas.matrix import (
    banded_solve,
    batch_matmul,
    cubic,
    dot,
    eigen,
    fourier,
    least_squares,
    matmul,
    matrices_in,
    qr,
    real_fourier,
    rows_multiplied,
    self_adjoint_eigen,
    singular_values,
    solve,
    sparse_dense_matmul,
    svd,
    transformed_bytes,
    triangular_solve,
)
from simulator.costs.formulas.neural import (
    average_pool,
    average_pool_gradient,
    batch_normalization,
    batch_normalization_gradient,
    compared,
    convolution,
    cudnn_rnn,
    depthwise,
    dilation,
    gru_cell,
    lstm_cell,
    lstm_sequence,
    max_pool,
    max_pool_gradient,
    normalized,
    numbered_convolution,
    response_normalization,
    softmax,
    suppression,
    unrolled,
)
from simulator.costs.formulas.scalar import (
    alone,
    beams,
    chosen,
    decoded,
    decoded_bytes,
    divided,
    drawn,
    elements_in,
    encoded,
    features,
    hashed,
    kept_pairs,
    leapt,
    of_core,
    of_input,
    of_inputs,
    of_outputs,
    of_types,
    of_vector,
    partitioned,
    patched,
    pixels_out,
    put_back,
    remainders,
    rows_before,
    rows_in,
    rows_of,
    rows_out,
    searched,
    sparse_product_ps,
    steps_of,
    stitched,
    summarised,
    taken_rows,
    unsized_boxes,
    unsized_bytes,
    unsized_file,
    unsized_images,
    unsized_input,
    unsized_output,
    unsized_strings,
    updated_numbers,
    updated_rows,
)
from simulator.costs.formulas.shaped_op import (
    Formula,
    ShapedOp,
    accumulated,
    add_all,
    copied,
    each,
    each_input,
    each_largest,
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
    stored,
    tensors,
    updated,
    value,
    written,
)
from simulator.graph.dtypes import BFLOAT16, COMPLEX64, COMPLEX128, DOUBLE, HALF, INT32, INT64

MATRIX = "matrix"
ARRAY = "array"
ELEMENTWISE = "elementwise"
NEURAL = "neural network"
STATE = "state"
QUEUE = "queue and synchronisation"
CONTROL = "control flow"
CHECKPOINT = "checkpoint"
COMMUNICATION = "communication"
OTHER = "other"

CATEGORIES = (MATRIX, ARRAY, ELEMENTWISE, NEURAL, STATE, QUEUE, CONTROL, CHECKPOINT, COMMUNICATION, OTHER)

# category, arithmetic, bytes moved, attributes that the formulas read, ops
Row: TypeAlias = tuple[str, Formula, Formula, str, str]
# picoseconds of one core (ns per call, then ps per unit), parts for several cores, assumed sizes, ops
CoreRow: TypeAlias = tuple[Formula, Formula, Callable[[ShapedOp], str], str]


def sized(instance: ShapedOp) -> str:
    """No size is assumed."""
    return ""


class Rule(NamedTuple):
    """The price of an op: its row of the cost table."""

    category: str
    flops: Formula
    moved: Formula
    attrs: tuple[str, ...] = ()  # attributes that the formulas read
    launches: bool = True  # False: done by the executor on the host, no kernel starts
    scratch: Formula = nothing
    of_cudnn: bool = False  # the scratch memory is what cuDNN takes; oneDNN took none in ten networks on a CPU
    on_matrix_units: bool = False  # a product or convolution that runs on tensor cores where there are some
    counts_real: bool = False  # of complex numbers, too, `flops` counts the operations on real ones
    core_ps: Formula = nothing  # on a CPU: what the kernel takes of one core, as measured
    parts: Formula = alone  # into which the kernel splits that for several cores
    assumes: Callable[[ShapedOp], str] = sized  # the words for a size that `core_ps` assumes; "" where it is known
    opaque: bool = False  # what it computes is not in the graph


def composed(instance: ShapedOp) -> int:
    """The operations of all ops that Grappler joined into one, each on a CPU and element by element."""
    joined = [rule(name.decode()) for name in instance.attrs["op_names"].list.s] if "op_names" in instance.attrs else []
    return sum(one.flops(instance) for one in joined if one is not None)


# The tables are written by hand, one row per kind of work.
# fmt: off

# Products and convolutions of bytes, which oneDNN computes with what follows them.
_QUANTISED_PRODUCTS = (
    "QuantizedMatMul QuantizedMatMulWithBias QuantizedMatMulWithBiasAndDequantize QuantizedMatMulWithBiasAndRelu "
    "QuantizedMatMulWithBiasAndReluAndRequantize QuantizedMatMulWithBiasAndRequantize"
)
_QUANTISED_CONVOLUTIONS = (
    "QuantizedConv2D QuantizedConv2DAndRelu QuantizedConv2DAndReluAndRequantize QuantizedConv2DAndRequantize "
    "QuantizedConv2DPerChannel QuantizedConv2DWithBias QuantizedConv2DWithBiasAndRelu "
    "QuantizedConv2DWithBiasAndReluAndRequantize QuantizedConv2DWithBiasAndRequantize "
    "QuantizedConv2DWithBiasSignedSumAndReluAndRequantize QuantizedConv2DWithBiasSumAndRelu "
    "QuantizedConv2DWithBiasSumAndReluAndRequantize"
)

# Counts are those of TensorFlow's own estimator where it has one (tensorflow/core/grappler/costs/
# op_level_cost_estimator.cc; costs per element come from Eigen's `functor_traits`, measured on the 2.21 wheel). Where
# it has none (Mean, L2Loss, Pow, gradients, recurrent kernels, linear algebra, Fourier, random), the count is derived
# from the op's definition with the same costs per element: sqrt 8, division 14, exp 34, tanh 36, sigmoid 40, log 50.
ARITHMETIC: tuple[Row, ...] = (
    (MATRIX, matmul, tensors, "transpose_a transpose_b",
     f"MatMul SparseMatMul _FusedMatMul {_QUANTISED_PRODUCTS} UniformQuantizedDot UniformQuantizedDotHybrid"),
    (MATRIX, batch_matmul, tensors, "adj_x adj_y", "BatchMatMul BatchMatMulV2 BatchMatMulV3 _MklFusedBatchMatMulV2"),
    (MATRIX, contracted, tensors, "equation", "Einsum XlaEinsum"),
    (MATRIX, dot, tensors, "dimension_numbers", "XlaDot XlaDotV2"),
    (MATRIX, sparse_dense_matmul, rows_multiplied, "adjoint_b", "SparseTensorDenseMatMul"),
    (MATRIX, each(5), tensors, "", "TridiagonalMatMul Cross"),
    (MATRIX, cubic(2), tensors, "", "MatrixInverse BatchMatrixInverse CholeskyGrad BatchCholeskyGrad"),
    (MATRIX, cubic(2, 3), tensors, "", "MatrixDeterminant BatchMatrixDeterminant LogMatrixDeterminant Lu"),
    (MATRIX, cubic(1, 3), tensors, "", "Cholesky BatchCholesky"),
    # Higham, Functions of Matrices (2008): scaling and squaring with about 8 products; Schur form and n^3/3 and more
    (MATRIX, cubic(16), tensors, "", "MatrixExponential"),
    (MATRIX, cubic(28), tensors, "", "MatrixSquareRoot MatrixLogarithm"),
    (MATRIX, solve, tensors, "", "MatrixSolve BatchMatrixSolve"),
    (MATRIX, triangular_solve, tensors, "", "MatrixTriangularSolve BatchMatrixTriangularSolve"),
    (MATRIX, banded_solve, tensors, "", "BandedTriangularSolve TridiagonalSolve"),
    (MATRIX, least_squares, tensors, "fast", "MatrixSolveLs BatchMatrixSolveLs"),
    (MATRIX, qr, tensors, "full_matrices", "Qr"),
    (MATRIX, svd, tensors, "compute_uv full_matrices", "Svd BatchSvd"),
    (MATRIX, self_adjoint_eigen, tensors, "compute_v",
     "SelfAdjointEig SelfAdjointEigV2 BatchSelfAdjointEig BatchSelfAdjointEigV2"),
    (MATRIX, eigen, tensors, "compute_v", "Eig"),
    (MATRIX, fourier(1), tensors, "", "FFT IFFT BatchFFT BatchIFFT"),
    (MATRIX, fourier(2), tensors, "", "FFT2D IFFT2D BatchFFT2D BatchIFFT2D"),
    (MATRIX, fourier(3), tensors, "", "FFT3D IFFT3D BatchFFT3D BatchIFFT3D"),
    (MATRIX, real_fourier(1), transformed_bytes(1), "", "RFFT IRFFT"),
    (MATRIX, real_fourier(2), transformed_bytes(2), "", "RFFT2D IRFFT2D"),
    (MATRIX, real_fourier(3), transformed_bytes(3), "", "RFFT3D IRFFT3D"),

    (NEURAL, convolution, tensors, "data_format strides",
     f"Conv2D Conv3D Conv _FusedConv2D _FusedConv3D {_QUANTISED_CONVOLUTIONS} FusedPadConv2D FusedResizeAndPadConv2D "
     "Conv2DBackpropInput Conv2DBackpropInputV2 Conv3DBackpropInput Conv3DBackpropInputV2 "
     "Conv2DBackpropFilter Conv2DBackpropFilterV2 Conv3DBackpropFilter Conv3DBackpropFilterV2"),
    (NEURAL, numbered_convolution, tensors, "dimension_numbers",
     "XlaConv XlaConvV2 UniformQuantizedConvolution UniformQuantizedConvolutionHybrid"),
    (NEURAL, depthwise, tensors, "",
     "DepthwiseConv2dNative _FusedDepthwiseConv2dNative DepthwiseConv2dNativeBackpropInput "
     "DepthwiseConv2dNativeBackpropFilter QuantizedDepthwiseConv2D QuantizedDepthwiseConv2DWithBias "
     "QuantizedDepthwiseConv2DWithBiasAndRelu QuantizedDepthwiseConv2DWithBiasAndReluAndRequantize"),
    (NEURAL, dilation, tensors, "", "Dilation2D Dilation2DBackpropInput Dilation2DBackpropFilter"),
    (NEURAL, max_pool, tensors, "ksize data_format",
     "MaxPool MaxPoolV2 MaxPool3D MaxPoolWithArgmax QuantizedMaxPool FractionalMaxPool"),
    (NEURAL, max_pool_gradient, tensors, "ksize strides data_format",
     "MaxPoolGrad MaxPoolGradV2 MaxPool3DGrad MaxPoolGradGrad MaxPoolGradGradV2 MaxPool3DGradGrad"),
    (NEURAL, each(1), tensors, "", "MaxPoolGradWithArgmax MaxPoolGradGradWithArgmax FractionalMaxPoolGrad"),
    (NEURAL, average_pool, tensors, "ksize data_format", "AvgPool AvgPool3D QuantizedAvgPool FractionalAvgPool"),
    (NEURAL, average_pool_gradient, tensors, "ksize strides data_format",
     "AvgPoolGrad AvgPool3DGrad FractionalAvgPoolGrad"),
    (NEURAL, response_normalization(90), tensors, "depth_radius", "LRN"),
    (NEURAL, response_normalization(180), tensors, "depth_radius", "LRNGrad"),
    (NEURAL, batch_normalization, normalized, "is_training data_format",
     "FusedBatchNorm FusedBatchNormV2 FusedBatchNormV3 _FusedBatchNormEx"),
    (NEURAL, batch_normalization_gradient, normalized, "is_training data_format",
     "FusedBatchNormGrad FusedBatchNormGradV2 FusedBatchNormGradV3 _FusedBatchNormGradEx"),
    (NEURAL, each(7), tensors, "",
     "BatchNormWithGlobalNormalization QuantizedBatchNormWithGlobalNormalization QuantizedInstanceNorm"),
    (NEURAL, each(16), tensors, "", "BatchNormWithGlobalNormalizationGrad"),
    (NEURAL, each(9), tensors, "", "_MklLayerNorm _MklFusedInstanceNorm"),  # 4 for the moments, 5 to normalise
    (NEURAL, softmax, tensors, "", "Softmax"),
    (NEURAL, each_input(37), tensors, "", "LogSoftmax SparseSoftmax"),
    (NEURAL, each_input(53), tensors, "", "SoftmaxCrossEntropyWithLogits SparseSoftmaxCrossEntropyWithLogits"),
    (NEURAL, each(1), tensors, "data_format", "BiasAdd BiasAddV1 BiasAddGrad"),
    (NEURAL, each(1), tensors, "",
     "Relu Relu6 ReluGrad Relu6Grad QuantizedBiasAdd QuantizedRelu QuantizedRelu6 "
     "QuantizedReluX InTopK InTopKV2"),
    (NEURAL, each(2), tensors, "", "LeakyRelu LeakyReluGrad EluGrad SeluGrad L2Loss"),
    (NEURAL, each(36), tensors, "", "Elu Selu"),
    (NEURAL, each(41), tensors, "", "_MklSwish"),
    (NEURAL, each(85), tensors, "", "Softplus"),
    (NEURAL, each(122), tensors, "", "_MklFusedMish"),
    (NEURAL, each(50), tensors, "", "SoftplusGrad"),
    (NEURAL, each(16), tensors, "", "Softsign SoftsignGrad"),
    (NEURAL, each(40), tensors, "", "Sigmoid"),
    (NEURAL, each(36), tensors, "", "Tanh"),
    (NEURAL, each(3), tensors, "", "SigmoidGrad TanhGrad"),
    (NEURAL, lstm_cell, tensors, "", "LSTMBlockCell"),
    (NEURAL, each_output(8), tensors, "", "LSTMBlockCellGrad"),  # 40 per element of the state; its products are nodes
    (NEURAL, lstm_sequence(1), tensors, "", "BlockLSTM BlockLSTMV2"),
    (NEURAL, lstm_sequence(2), tensors, "", "BlockLSTMGrad BlockLSTMGradV2"),
    (NEURAL, gru_cell, tensors, "", "GRUBlockCell GRUBlockCellGrad"),
    (NEURAL, cudnn_rnn(1), tensors, "", "CudnnRNN CudnnRNNV2 CudnnRNNV3"),
    (NEURAL, cudnn_rnn(2), tensors, "", "CudnnRNNBackprop CudnnRNNBackpropV2 CudnnRNNBackpropV3"),
    (NEURAL, each_input(100), tensors, "", "CTCLoss CTCLossV2 CTCGreedyDecoder"),
    (NEURAL, each_input(100), tensors, "beam_width", "CTCBeamSearchDecoder"),
    (NEURAL, nothing, gathered, "",
     "LearnedUnigramCandidateSampler LogUniformCandidateSampler UniformCandidateSampler "
     "FixedUnigramCandidateSampler AllCandidateSampler ThreadUnsafeUnigramCandidateSampler ComputeAccidentalHits"),
    (NEURAL, suppression, tensors, "",
     "NonMaxSuppression NonMaxSuppressionV2 NonMaxSuppressionV3 NonMaxSuppressionV4 NonMaxSuppressionV5 "
     "NonMaxSuppressionWithOverlaps CombinedNonMaxSuppression"),

    (ELEMENTWISE, each(1), tensors, "",
     "Abs Add AddV2 Sub Mul Neg Square Maximum Minimum Ceil Floor Rint Round Erf Erfc Lgamma Cast Equal NotEqual "
     "Less LessEqual Greater GreaterEqual LogicalAnd LogicalOr LogicalNot Select SelectV2 ApproximateEqual "
     "BitwiseAnd BitwiseOr BitwiseXor Invert LeftShift RightShift IsNan IsInf IsFinite Conj Real Imag Complex "
     "MulNoNan CheckNumerics CheckNumericsV2 PopulationCount QuantizedAdd QuantizedMul AccumulateNV2 InvGrad "
     "ReciprocalGrad NextAfter"),
    (ELEMENTWISE, each(2), tensors, "", "SquaredDifference ClipByValue UniformQuantizedClipByValue UniformDequantize"),
    (ELEMENTWISE, each(3), tensors, "", "Sign RsqrtGrad"),
    (ELEMENTWISE, each(4), tensors, "",
     "Inv Reciprocal QuantizeV2 Dequantize Requantize QuantizeDownAndShrinkRange RequantizationRange "
     "RequantizePerChannel RequantizationRangePerChannel UniformQuantize UniformRequantize UniformQuantizedAdd"),
    (ELEMENTWISE, each(5), tensors, "",
     "Acos Asin Atan Cos Sin Tan Rsqrt QuantizeAndDequantize QuantizeAndDequantizeV2 QuantizeAndDequantizeV3 "
     "QuantizeAndDequantizeV4 QuantizeAndDequantizeV4Grad FakeQuantWithMinMaxArgs "
     "FakeQuantWithMinMaxArgsGradient FakeQuantWithMinMaxVars FakeQuantWithMinMaxVarsGradient "
     "FakeQuantWithMinMaxVarsPerChannel FakeQuantWithMinMaxVarsPerChannelGradient"),
    (ELEMENTWISE, each(8), tensors, "", "Sqrt Mod FloorMod TruncateMod"),
    (ELEMENTWISE, each(14), tensors, "", "Div DivNoNan RealDiv FloorDiv TruncateDiv"),
    (ELEMENTWISE, each(16), tensors, "", "SqrtGrad"),
    (ELEMENTWISE, each(19), tensors, "", "Atan2 Angle ComplexAbs"),
    (ELEMENTWISE, each(34), tensors, "", "Exp Expm1"),
    (ELEMENTWISE, each(50), tensors, "", "Log Log1p"),
    (ELEMENTWISE, each(51), tensors, "", "Xlogy Xlog1py Xdivy"),
    (ELEMENTWISE, each(60), tensors, "", "Sinh Cosh Asinh Acosh Atanh Erfinv Ndtri Digamma"),
    (ELEMENTWISE, each(85), tensors, "", "Pow"),
    (ELEMENTWISE, each(100), tensors, "",
     "Igamma Igammac IgammaGradA Betainc Zeta Polygamma BesselI0 BesselI0e BesselI1 BesselI1e BesselJ0 BesselJ1 "
     "BesselK0 BesselK0e BesselK1 BesselK1e BesselY0 BesselY1 Dawsn Expint FresnelCos FresnelSin Spence "
     "RandomGammaGrad"),
    (ELEMENTWISE, composed, tensors, "op_names", "_UnaryOpsComposition"),
    (ELEMENTWISE, add_all, tensors, "", "AddN"),
    (ELEMENTWISE, each_input(1), tensors, "",
     "Sum Prod Max Min Mean All Any ArgMax ArgMin Cumsum Cumprod SegmentSum SegmentMax SegmentMin SegmentProd "
     "SegmentMean SegmentSumV2 SegmentMaxV2 SegmentMinV2 SegmentProdV2 UnsortedSegmentSum UnsortedSegmentMax "
     "UnsortedSegmentMin UnsortedSegmentProd Bincount DenseBincount HistogramFixedWidth XlaReduce XlaVariadicReduce "
     "XlaVariadicReduceV2"),
    (ELEMENTWISE, each_input(3), tensors, "", "EuclideanNorm"),
    (ELEMENTWISE, each(85), tensors, "", "CumulativeLogsumexp"),
    # Philox with 10 rounds makes four numbers (Salmon et al. 2011): 25 operations each; Box-Muller for normal ones
    (ELEMENTWISE, each_output(25), written, "",
     "RandomUniform RandomUniformInt StatelessRandomUniform StatelessRandomUniformV2 StatelessRandomUniformInt "
     "StatelessRandomUniformIntV2 StatelessRandomUniformFullInt StatelessRandomUniformFullIntV2 StatefulUniform "
     "StatefulUniformInt StatefulUniformFullInt NonDeterministicInts"),
    (ELEMENTWISE, each_output(64), written, "",
     "RandomStandardNormal StatelessRandomNormal StatelessRandomNormalV2 StatefulStandardNormal "
     "StatefulStandardNormalV2"),
    (ELEMENTWISE, each_output(128), written, "",
     "TruncatedNormal ParameterizedTruncatedNormal StatelessTruncatedNormal StatelessTruncatedNormalV2 "
     "StatefulTruncatedNormal StatelessParameterizedTruncatedNormal RandomGamma StatelessRandomGammaV2 "
     "StatelessRandomGammaV3 RandomPoisson RandomPoissonV2 StatelessRandomPoisson StatefulRandomBinomial "
     "StatelessRandomBinomial"),
    (ELEMENTWISE, each(36), tensors, "", "Multinomial StatelessMultinomial"),
)

# Products and convolutions that cuBLAS and cuDNN compute, on tensor cores where the format has some, and oneDNN on AMX.
# Depthwise and sparse ones run in kernels of TensorFlow's own; factorisations (cuSOLVER) are no dense products.
ON_MATRIX_UNITS = (
    f"MatMul SparseMatMul _FusedMatMul {_QUANTISED_PRODUCTS} BatchMatMul BatchMatMulV2 BatchMatMulV3 "
    "_MklFusedBatchMatMulV2 Einsum XlaDot XlaDotV2 XlaEinsum XlaConv XlaConvV2 "
    f"Conv2D Conv3D Conv _FusedConv2D _FusedConv3D {_QUANTISED_CONVOLUTIONS} FusedPadConv2D FusedResizeAndPadConv2D "
    "Conv2DBackpropInput Conv2DBackpropInputV2 Conv3DBackpropInput Conv3DBackpropInputV2 Conv2DBackpropFilter "
    "Conv2DBackpropFilterV2 Conv3DBackpropFilter Conv3DBackpropFilterV2 LSTMBlockCell BlockLSTM BlockLSTMV2 "
    "BlockLSTMGrad BlockLSTMGradV2 GRUBlockCell GRUBlockCellGrad CudnnRNN CudnnRNNV2 CudnnRNNV3 CudnnRNNBackprop "
    "CudnnRNNBackpropV2 CudnnRNNBackpropV3"
)

# Grappler's estimator agrees on arrays, variables, control flow and Send/Recv. It does not know optimizers, queues,
# accumulators, tables, images and files: their counts are derived from their definitions.
HOUSEKEEPING: tuple[Row, ...] = (
    (ARRAY, nothing, tensors, "",
     "Concat ConcatV2 ConcatOffset DataFormatVecPermute DataFormatDimMap DepthToSpace SpaceToDepth Pack Unpack "
     "Split SplitV Transpose ConjugateTranspose Tile TileGrad Pad PadV2 XlaPad MirrorPad MirrorPadGrad Reverse "
     "ReverseV2 ReverseSequence Roll BatchToSpace BatchToSpaceND SpaceToBatch SpaceToBatchND BroadcastTo "
     "BroadcastArgs BroadcastGradientArgs DynamicStitch ParallelDynamicStitch DynamicPartition Diag DiagPart "
     "MatrixDiag MatrixDiagV2 MatrixDiagV3 MatrixDiagPart MatrixDiagPartV2 MatrixDiagPartV3 MatrixSetDiag "
     "MatrixSetDiagV2 MatrixSetDiagV3 MatrixBandPart BatchMatrixBandPart BatchMatrixDiag BatchMatrixDiagPart "
     "BatchMatrixSetDiag Snapshot ExtractImagePatches ExtractVolumePatches InvertPermutation UnravelIndex "
     "RandomShuffle StatelessShuffle ParallelConcat _ParallelConcatStart _ParallelConcatUpdate Copy CopyHost "
     "DeepCopy StridedSliceGrad RandomCrop QuantizedConcat QuantizedConcatV2 ListDiff EditDistance Bucketize "
     "RaggedTensorToTensor"),
    (ARRAY, nothing, written, "", "Fill ZerosLike OnesLike OneHot Range LinSpace Empty RaggedRange"),
    (ARRAY, each_output(1), gathered, "",
     "Gather GatherV2 GatherNd Slice StridedSlice RaggedGather XlaDynamicSlice XlaGather"),
    (ARRAY, each_largest(1), tensors, "",
     "ScatterNd TensorScatterAdd TensorScatterSub TensorScatterMax TensorScatterMin TensorScatterUpdate "
     "TensorStridedSliceUpdate XlaDynamicUpdateSlice XlaScatter ScatterNdNonAliasingAdd InplaceAdd InplaceSub "
     "InplaceUpdate Where"),
    (ARRAY, picked(2), segmented, "",
     "SparseSegmentSum SparseSegmentMean SparseSegmentSqrtN SparseSegmentSumWithNumSegments "
     "SparseSegmentMeanWithNumSegments SparseSegmentSqrtNWithNumSegments SparseSegmentSumGrad SparseSegmentMeanGrad "
     "SparseSegmentSqrtNGrad SparseSegmentSumGradV2 SparseSegmentMeanGradV2 SparseSegmentSqrtNGradV2"),
    (ARRAY, each_largest(2), tensors, "", "SparseAdd SparseAddGrad SparseConcat SparseSplit "
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
    (STATE, nothing, stored, "", "StridedSliceAssign ResourceStridedSliceAssign"),
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

    # Time to enqueue and dequeue; the simulation adds waiting. One element is handed over, many are sliced or joined.
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

    (ARRAY, nothing, rewritten, "",
     "TensorArrayGatherV3 TensorArrayGatherV2 TensorArrayGather TensorArrayConcatV3 TensorArrayConcatV2 "
     "TensorArrayConcat TensorArrayPack TensorListStack TensorListGather TensorListConcat TensorListConcatV2 "
     "TensorMapStackKeys"),
    (ARRAY, nothing, copied, "",
     "TensorArrayScatterV3 TensorArrayScatterV2 TensorArrayScatter TensorArraySplitV3 TensorArraySplitV2 "
     "TensorArraySplit TensorArrayUnpack TensorListFromTensor TensorListScatter TensorListScatterV2 "
     "TensorListScatterIntoExistingList TensorListSplit"),
)

# Python functions, programs for XLA, and pipelines that run whole within a step: no op of the graph does their work.
OPAQUE = (
    "XlaCallModule PyFunc PyFuncStateless EagerPyFunc ReduceDataset DatasetToTFRecord ExperimentalDatasetToTFRecord "
    "SaveDataset SaveDatasetV2 InitializeTableFromDataset DatasetToSingleElement"
)

# Work of the executor on the host: it hands a reference on, makes a handle, reads a shape. No kernel starts and no
# bytes move, on a GPU neither, where the kernels touch host memory only. A row has a category and ops.
HANDED_OVER: tuple[tuple[str, str], ...] = (
    (ARRAY,
     "Const HostConst _EagerConst ImmutableConst GuaranteeConst Placeholder PlaceholderV2 "
     "PlaceholderWithDefault _Arg _Retval _DeviceArg _DeviceRetval FakeParam Identity IdentityN RefIdentity "
     "StopGradient PreventGradient Reshape QuantizedReshape Squeeze ExpandDims Bitcast Rank Shape ShapeN Size "
     "EnsureShape _ArrayToList _ListToArray DebugIdentity DebugIdentityV2 DebugIdentityV3 DebugGradientIdentity "
     "DebugGradientRefIdentity TensorArrayWriteV3 TensorArrayWriteV2 TensorArrayWrite TensorArrayV3 "
     "TensorArrayV2 TensorArray TensorArrayGradV3 TensorArrayGradV2 TensorArrayGrad TensorArrayGradWithShape "
     "TensorArraySizeV3 TensorArraySizeV2 TensorArraySize TensorArrayCloseV3 TensorArrayCloseV2 TensorArrayClose "
     "TensorArrayReadV3 TensorArrayReadV2 TensorArrayRead TensorListGetItem TensorListPopBack "
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
     "DummySeedGenerator DummyMemoryCache DummyIterationCounter "
     "SummaryWriter CreateSummaryFileWriter CloseSummaryWriter FlushSummaryWriter WholeFileReader "
     "WholeFileReaderV2 TextLineReader TextLineReaderV2 TFRecordReader TFRecordReaderV2 FixedLengthRecordReader "
     "FixedLengthRecordReaderV2 IdentityReader IdentityReaderV2 LMDBReader ReaderReset ReaderResetV2 "
     "ReaderNumRecordsProduced ReaderNumRecordsProducedV2 ReaderNumWorkUnitsCompleted "
     "ReaderNumWorkUnitsCompletedV2 Timestamp DeviceIndex"),
)

# Times of TensorFlow 2.21 on one core of an Intel Xeon of 2023, rounded (benchmarks/host_ops.py, 2026-11-22). These
# kernels follow pointers, hash, compare or call a codec, far from the peaks of a processor, so the times hold for every
# CPU (docs/decisions, 0025). A kernel that a comment likens to another one was not measured itself. What is dated
# 2026-11-29 was measured on one core of an AMD EPYC of 2022, which agrees with the other one on what both ran.
_EACH_MATRIX = (250_000, matrices_in)
_OF_16_BITS, _OF_PAIRS = (HALF, BFLOAT16), (COMPLEX64, COMPLEX128)
HOST: tuple[CoreRow, ...] = (
    # linear algebra in float32: a call for each matrix, its numbers, and the operations of its row in ARITHMETIC. By
    # matrices of 4 to 512 rows (2026-11-29) within a factor of 2.6; those of 300 and 600 rows were measured before.
    (of_core(500, _EACH_MATRIX, (60_000, of_input(0)), (12, svd), (95, singular_values)), matrices_in, sized,
     "Svd BatchSvd"),
    (of_core(500, _EACH_MATRIX, (20_000, of_input(0)), (17, self_adjoint_eigen), (62, cubic(4, 3))), matrices_in, sized,
     "SelfAdjointEig SelfAdjointEigV2 BatchSelfAdjointEig BatchSelfAdjointEigV2"),
    (of_core(500, _EACH_MATRIX, (60_000, of_input(0)), (90, eigen)), matrices_in, sized, "Eig"),
    (of_core(500, _EACH_MATRIX, (15_000, of_input(0)), (40, qr)), matrices_in, sized, "Qr"),
    (of_core(500, _EACH_MATRIX, (6_000, of_input(0)), (30, cubic(2))), matrices_in, sized,
     "MatrixInverse BatchMatrixInverse"),
    (of_core(500, _EACH_MATRIX, (5_000, of_input(0)), (19, cubic(2))), matrices_in, sized,
     "CholeskyGrad BatchCholeskyGrad"),
    (of_core(500, _EACH_MATRIX, (3_000, of_input(0)), (38, cubic(2, 3))), matrices_in, sized,
     "MatrixDeterminant BatchMatrixDeterminant LogMatrixDeterminant Lu"),
    (of_core(500, _EACH_MATRIX, (2_000, of_input(0)), (45, cubic(1, 3))), matrices_in, sized, "Cholesky BatchCholesky"),
    (of_core(500, _EACH_MATRIX, (7_000, of_input(0)), (28, solve)), matrices_in, sized, "MatrixSolve BatchMatrixSolve"),
    (of_core(500, _EACH_MATRIX, (1_000, of_input(0)), (19, least_squares)), matrices_in, sized,
     "MatrixSolveLs BatchMatrixSolveLs"),
    (of_core(500, _EACH_MATRIX, (100, of_input(0)), (12, triangular_solve)), matrices_in, sized,
     "MatrixTriangularSolve BatchMatrixTriangularSolve"),
    (of_core(500, _EACH_MATRIX, (2_000, banded_solve)), matrices_in, sized, "BandedTriangularSolve TridiagonalSolve"),
    (of_core(500, _EACH_MATRIX, (300, of_outputs)), matrices_in, sized, "TridiagonalMatMul"),
    (of_core(500, (200, cubic(28))), matrices_in, sized, "MatrixSquareRoot MatrixLogarithm"),  # the latter as the first
    (of_core(500, (19, cubic(16))), matrices_in, sized, "MatrixExponential"),  # as products: not measured

    # functions of which Eigen has none for vectors of numbers: by the number, with the C library's (2026-11-29)
    (of_core(500, (11_000, of_outputs)), divided, sized, "Pow Lgamma Digamma Sinh"),
    (of_core(500, (16_000, of_outputs)), divided, sized, "Acosh Asinh Spence BesselY0 BesselY1"),
    (of_core(500, (8_000, of_outputs)), divided, sized,
     "Tan Cosh Dawsn BesselJ0 BesselJ1 BesselK0 BesselK0e BesselK1 BesselK1e"),
    (of_core(500, (6_000, of_outputs)), divided, sized, "Erfinv Ndtri Expint FresnelCos FresnelSin"),
    (of_core(500, (3_000, of_outputs)), divided, sized,
     "BesselI0 BesselI0e BesselI1 BesselI1e Softplus Angle ComplexAbs"),
    # no time per call, as for all ops that also compute shapes
    (of_core(0, (100, remainders)), divided, sized, "Mod FloorMod TruncateMod"),
    (of_core(500, (4_800, of_outputs)), divided, sized, "Cross"),
    (of_core(500, (1_400, of_input(0))), alone, sized, "CheckNumerics CheckNumericsV2"),
    (of_core(500, (3_700, of_outputs)), alone, sized, "UnravelIndex"),
    (of_core(500, (1_900, of_input(0))), alone, sized, "FakeQuantWithMinMaxVarsPerChannel"),
    (of_core(500, (6_000, of_input(0))), alone, sized, "FakeQuantWithMinMaxVarsPerChannelGradient"),
    (of_core(500, (1_100, of_outputs)), alone, sized, "QuantizedAdd"),
    (of_core(500, (3_200, of_input(0))), divided, sized, "QuantizedBiasAdd"),
    (of_core(500, (130, of_input(0))), alone, sized, "RequantizationRange"),
    (of_core(500, (190, of_outputs)), alone, sized, "UniformQuantize"),
    (of_core(500, (720, of_outputs)), alone, sized, "UniformRequantize"),
    (of_core(500, (15_000, of_outputs)), alone, sized, "UniformQuantizedAdd"),
    (of_core(500, (1_200, matmul)), alone, sized, "UniformQuantizedDot"),
    (of_core(500, (360, matmul)), alone, sized, "UniformQuantizedDotHybrid"),
    (of_core(9_000, (12_000, numbered_convolution)), alone, sized,
     "UniformQuantizedConvolution UniformQuantizedConvolutionHybrid"),
    (of_core(500, (2_350, of_input(0))), alone, sized, "QuantizedInstanceNorm"),

    # number formats for which Eigen has no vector code, on an Intel Xeon of 2023 with AVX512-FP16 (2026-11-29, within
    # a factor of 2.2); in others these kernels are near their roofline
    (of_core(0, (3_600, of_types(convolution, HALF))), alone, sized,
     "Conv2DBackpropFilter Conv2DBackpropFilterV2 Conv3DBackpropFilter Conv3DBackpropFilterV2"),
    (of_core(0, (3_800, of_types(depthwise, HALF))), alone, sized, "DepthwiseConv2dNativeBackpropFilter"),
    (of_core(0, (470, of_types(depthwise, HALF))), alone, sized, "DepthwiseConv2dNativeBackpropInput"),
    (of_core(0, (50, of_types(matmul, INT32)), (155, of_types(matmul, INT64))), divided, sized, "MatMul"),
    (of_core(0, (50, of_types(batch_matmul, INT32)), (155, of_types(batch_matmul, INT64))), divided, sized,
     "BatchMatMul BatchMatMulV2 BatchMatMulV3"),
    (of_core(0, (50, of_types(contracted, INT32)), (155, of_types(contracted, INT64))), divided, sized, "Einsum"),
    (of_core(0, (9_000, of_types(of_outputs, *_OF_16_BITS)), (12_000, of_types(of_outputs, DOUBLE)),
             (60_000, of_types(of_outputs, COMPLEX64)), (23_000, of_types(of_outputs, COMPLEX128))), divided, sized,
     "Acos Asin"),
    (of_core(0, (10_500, of_types(of_outputs, *_OF_16_BITS)), (24_000, of_types(of_outputs, *_OF_PAIRS))), divided,
     sized, "Atan"),
    (of_core(0, (19_000, of_types(of_outputs, *_OF_16_BITS, *_OF_PAIRS))), divided, sized, "Atanh"),
    (of_core(0, (18_000, of_types(of_outputs, *_OF_16_BITS))), divided, sized, "Atan2"),
    (of_core(0, (29_000, of_types(of_outputs, COMPLEX64)), (13_500, of_types(of_outputs, COMPLEX128))), divided, sized,
     "Cos"),
    (of_core(0, (26_000, of_types(of_outputs, COMPLEX64)), (9_000, of_types(of_outputs, COMPLEX128))), divided, sized,
     "Sigmoid"),
    (of_core(0, (13_000, of_types(of_outputs, *_OF_PAIRS))), divided, sized, "Sin"),
    (of_core(0, (20_000, of_types(of_outputs, *_OF_PAIRS))), divided, sized, "Tanh"),

    # rows, windows and segments, of numbers one by one (2026-11-29)
    (of_core(500, (400, of_input(0)), (19_000, rows_before(0))), divided, sized, "Softmax"),
    (of_core(500, (900, of_input(0)), (18_000, rows_before(0))), divided, sized, "LogSoftmax"),
    (of_core(500, (2_200, of_input(0)), (50_000, rows_before(0))), divided, sized, "SoftmaxCrossEntropyWithLogits"),
    (of_core(500, (4_100, of_input(0)), (45_000, rows_before(0))), divided, sized,
     "SparseSoftmaxCrossEntropyWithLogits"),
    (of_core(600, (60_000, of_input(1))), alone, sized, "SparseSoftmax"),
    (of_core(500, (40_000, rows_of(0))), alone, sized, "InTopK InTopKV2"),
    (of_core(500, (1_000, response_normalization(0))), divided, sized, "LRNGrad"),
    (of_core(500, (4_000, compared)), divided, sized, "MaxPoolWithArgmax"),
    (of_core(500, (400, of_input(0))), alone, sized, "FractionalMaxPool FractionalAvgPool"),
    (of_core(500, (550, dilation)), alone, sized, "Dilation2D"),
    (of_core(500, (700, dilation)), alone, sized, "Dilation2DBackpropInput Dilation2DBackpropFilter"),
    (of_core(500, (100, patched)), divided, sized, "ExtractImagePatches"),
    (of_core(500, (2_700, of_outputs)), divided, sized, "ExtractVolumePatches"),
    (of_core(500, (1_500, of_input(0))), rows_before(0), sized, "ArgMax ArgMin"),
    (of_core(500, (29_000, of_outputs)), rows_before(0), sized, "CumulativeLogsumexp"),
    (of_core(500, (1_400, of_input(0))), divided, sized,
     "UnsortedSegmentSum UnsortedSegmentMax UnsortedSegmentMin UnsortedSegmentProd"),
    (of_core(500, (2_000, rows_of(0)), (120, of_input(0))), alone, sized,
     "SegmentSum SegmentMax SegmentMin SegmentProd SegmentMean"),
    (of_core(500, (130, picked(1)), (8_000, of_input(1))), alone, sized,
     "SparseSegmentSum SparseSegmentMean SparseSegmentSqrtN SparseSegmentSumWithNumSegments "
     "SparseSegmentMeanWithNumSegments SparseSegmentSqrtNWithNumSegments"),
    (of_core(500, (1_300, picked(1))), alone, sized,
     "SparseSegmentSumGrad SparseSegmentMeanGrad SparseSegmentSqrtNGrad SparseSegmentSumGradV2 "
     "SparseSegmentMeanGradV2 SparseSegmentSqrtNGradV2"),
    (of_core(500, (4_600, searched)), divided, sized, "LowerBound UpperBound"),
    (of_core(500, (1_300, of_input(0))), of_vector, sized, "DenseBincount"),  # 0.7 ns in a vector, 2.2 ns in rows
    (of_core(1_000, (1_500, of_input(1))), alone, sized, "RaggedBincount"),
    (of_core(1_000, (36_000, of_input(0))), alone, sized, "DenseCountSparseOutput"),
    (of_core(1_000, (36_000, of_input(1))), alone, sized, "RaggedCountSparseOutput SparseCountSparseOutput"),

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
    # resizing: per pixel, and per number of it (2026-11-29, with 1 to 256 channels)
    (of_core(1_100, (2_000, pixels_out), (160, of_outputs)), alone, sized, "ResizeBilinear QuantizedResizeBilinear"),
    (of_core(1_100, (4_500, rows_before(0)), (1_350, of_input(0))), alone, sized, "ResizeBilinearGrad"),
    (of_core(1_600, (4_000, pixels_out), (900, of_outputs)), alone, sized, "ResizeBicubic"),
    (of_core(1_600, (9_000, of_input(0))), alone, sized, "ResizeBicubicGrad"),  # with 3 channels
    (of_core(900, (460, of_input(0))), alone, sized, "ResizeArea"),
    (of_core(500, (5_300, pixels_out), (150, of_outputs)), divided, sized, "ResizeNearestNeighbor"),
    (of_core(500, (4_000, rows_before(0)), (140, of_input(0))), alone, sized, "ResizeNearestNeighborGrad"),
    (of_core(1_100, (7_000, pixels_out), (230, of_outputs)), rows_out, sized, "CropAndResize"),
    (of_core(1_100, (10_000, rows_before(0)), (300, of_input(0))), rows_of(0), sized, "CropAndResizeGradImage"),
    (of_core(1_100, (4_000, rows_before(0)), (3_400, of_input(0))), alone, sized, "CropAndResizeGradBoxes"),
    (of_core(1_100, (40_000, pixels_out), (2_300, of_outputs)), divided, sized, "ScaleAndTranslate"),
    (of_core(1_100, (40_000, rows_before(0)), (2_300, of_input(0))), divided, sized, "ScaleAndTranslateGrad"),
    (of_core(1_100, (7_000, of_outputs)), divided, sized,
     "ImageProjectiveTransformV2 ImageProjectiveTransformV3"),  # 8.5 ns bilinear, 5.3 ns nearest, with 3 channels
    (of_core(1_100, (720, of_outputs)), alone, sized, "ExtractGlimpse ExtractGlimpseV2"),
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
    (of_core(1_000, (24_000, of_input(0))), alone, sized, "UnicodeEncode"),  # as Transcode, per character
    (of_core(500, (2_300, of_input(0))), alone, sized, "UnicodeScript"),
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
    (of_core(500, (190, written)), alone, sized, "ParseTensor DeserializeSparse"),
    (of_core(500, (150, read)), alone, sized, "SerializeTensor SerializeSparse"),
    (of_core(500, (650_000, rows_of(0))), alone, sized, "SerializeManySparse"),  # with an entry per example
    (of_core(500, (1_300_000, rows_of(0))), alone, sized, "DeserializeManySparse"),
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
    (of_core(500, (5_800, of_input(0)), (48_000, chosen)), rows_before(0), sized, "TopK TopKV2 NthElement ApproxTopK"),
    (of_core(1_500, (1_000, partitioned)), alone, sized, "DynamicPartition"),
    # rows: per list of indices, and per number of the updates
    (of_core(900, (25_000, rows_before(0)), (750, of_input(1))), alone, sized, "ScatterNd"),
    (of_core(900, (25_000, rows_before(1)), (750, of_input(2))), alone, sized,
     "ScatterNdAdd ScatterNdSub ScatterNdUpdate ScatterNdMax ScatterNdMin ResourceScatterNdAdd ResourceScatterNdSub "
     "ResourceScatterNdUpdate ResourceScatterNdMax ResourceScatterNdMin TensorScatterAdd TensorScatterSub "
     "TensorScatterMax TensorScatterMin TensorScatterUpdate ScatterNdNonAliasingAdd"),  # all as ScatterNd
    (of_core(500, (20_000, of_input(1)), (1_100, of_input(2))), divided, sized,
     "ScatterAdd ScatterSub ScatterMul ScatterDiv ScatterMin ScatterMax ResourceScatterAdd ResourceScatterSub "
     "ResourceScatterMul ResourceScatterDiv ResourceScatterMin ResourceScatterMax"),
    (of_core(500, (2_000, of_input(1)), (60, of_input(2))), alone, sized, "ScatterUpdate ResourceScatterUpdate"),
    (of_core(500, (2_500, of_input(2))), alone, sized, "InplaceAdd InplaceSub InplaceUpdate"),  # all as InplaceAdd
    (of_core(500, (100, put_back)), alone, sized,  # 2 to 5 dimensions, 2026-12-01
     "StridedSliceGrad StridedSliceAssign ResourceStridedSliceAssign TensorStridedSliceUpdate"),
    (of_core(0, (100, leapt)), divided, sized, "StridedSlice"),  # 1 to 5 dimensions, 2026-11-30
    (of_core(0, (3_800, taken_rows)), divided, sized, "Gather GatherV2"),  # rows of 1 to 16 numbers, 2026-11-30
    (of_core(500, (600, of_outputs)), alone, sized, "DepthToSpace SpaceToDepth"),
    (of_core(500, (350, of_outputs)), alone, sized, "BatchToSpace BatchToSpaceND SpaceToBatch SpaceToBatchND"),
    (of_core(0, (700, of_outputs)), alone, sized, "InvertPermutation"),
    # an optimizer's update of some rows: per row, and per number of the gradient
    (of_core(1_000, (40_000, updated_rows), (4_000, updated_numbers)), divided, sized,
     "SparseApplyAdagrad SparseApplyAdagradV2 ResourceSparseApplyAdagrad ResourceSparseApplyAdagradV2"),
    (of_core(1_000, (40_000, updated_rows), (4_000, updated_numbers)), alone, sized,
     "SparseApplyMomentum ResourceSparseApplyMomentum ResourceSparseApplyKerasMomentum SparseApplyRMSProp "
     "ResourceSparseApplyRMSProp SparseApplyCenteredRMSProp ResourceSparseApplyCenteredRMSProp"),
    (of_core(1_000, (120_000, updated_rows), (5_000, updated_numbers)), alone, sized,
     "SparseApplyFtrl SparseApplyFtrlV2 ResourceSparseApplyFtrl ResourceSparseApplyFtrlV2 SparseApplyAdadelta "
     "ResourceSparseApplyAdadelta SparseApplyProximalGradientDescent ResourceSparseApplyProximalGradientDescent "
     "SparseApplyProximalAdagrad ResourceSparseApplyProximalAdagrad SparseApplyAdagradDA "
     "ResourceSparseApplyAdagradDA"),
    (of_core(500, (7_400, of_outputs)), rows_before(0), sized, "Cumsum Cumprod"),
    (of_core(500, (48_000, of_outputs)), divided, sized,
     "Igamma Igammac IgammaGradA Betainc Zeta Polygamma RandomGammaGrad"),  # all as Igamma
    (of_core(700, (3_800, stitched)), alone, sized, "DynamicStitch ParallelDynamicStitch"),
    (of_core(600, (1_200, sort)), alone, sized, "SparseReorder"),  # 21 ns for each of 200,000 pairs
    (of_core(500, (4_500, rows_of(0))), alone, sized, "SparseToDense"),
    (of_core(500, (3_700, rows_of(0))), alone, sized,
     "SparseFillEmptyRows SparseFillEmptyRowsGrad RaggedFillEmptyRows RaggedFillEmptyRowsGrad"),
    (of_core(1_000, (2_600, rows_of(0))), alone, sized, "SparseReshape"),
    (of_core(600, (48_000, rows_out)), alone, sized, "SparseConcat"),
    (of_core(1_000, (14_000, rows_of(1))), alone, sized, "SparseSplit"),
    (of_core(1_000, (5_300, rows_of(0))), alone, sized, "SparseSlice"),
    (of_core(500, (800, rows_of(1))), alone, sized, "SparseSliceGrad"),
    (of_core(1_000, (5_000, rows_of(0)), (5_000, rows_of(3))), alone, sized,
     "SparseAdd SparseSparseMaximum SparseSparseMinimum"),
    (of_core(1_000, (3_000, rows_of(0))), alone, sized, "SparseAddGrad"),
    (of_core(1_000, (70_000, rows_of(0))), alone, sized,
     "SparseReduceSum SparseReduceMax SparseReduceSumSparse SparseReduceMaxSparse"),
    (of_core(1_000, (6_600, rows_of(0))), alone, sized, "SparseDenseCwiseAdd SparseDenseCwiseMul SparseDenseCwiseDiv"),
    (of_core(1_000, (100_000, rows_in)), alone, sized, "SparseCross SparseCrossV2 SparseCrossHashed"),
    (of_core(1_000, (19_000, rows_in)), alone, sized, "RaggedCross"),
    (of_core(500, (2_400, of_input(-1))), alone, sized, "RaggedTensorToSparse"),
    (of_core(500, (500, of_outputs)), alone, sized, "RaggedRange"),
    (of_core(500, (1_500, of_outputs)), alone, sized, "RaggedGather"),
    (of_core(500, (200_000, rows_of(0))), alone, sized, "RaggedTensorToVariant"),
    (of_core(500, (300_000, of_input(0))), alone, sized, "RaggedTensorFromVariant"),
    (of_core(500, (19_000, of_input(0)), (25_000, of_input(1))), alone, sized, "ComputeAccidentalHits"),
    (of_core(500, (9_000, rows_out)), alone, sized, "AllCandidateSampler"),
    (of_core(500, (1, sparse_product_ps)), alone, sized, "SparseTensorDenseMatMul"),
    (of_core(800, (90_000, rows_of(0))), alone, sized, "EditDistance"),
    (of_core(500, (19_000, of_input(0))), alone, sized, "Bucketize"),
    (of_core(500, (11_000, steps_of(0)), (2_000, of_input(0))), rows_of(1), sized, "ReverseSequence"),
    (of_core(500, (1_500, of_outputs)), alone, sized, "RaggedTensorToTensor"),
    (of_core(600, (3_600, of_input(0)), (7_000, drawn)), rows_of(0), sized, "Multinomial StatelessMultinomial"),
    (of_core(500, (176_000, rows_out)), alone, sized,
     "LogUniformCandidateSampler LearnedUnigramCandidateSampler FixedUnigramCandidateSampler "
     "ThreadUnsafeUnigramCandidateSampler"),  # all as LogUniform
    (of_core(500, (33_000, rows_out)), alone, sized, "UniformCandidateSampler"),
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


def _rules() -> dict[str, Rule]:
    rules: dict[str, Rule] = {}
    on_matrix_units = frozenset(ON_MATRIX_UNITS.split())
    for category, flops, moved, attrs, ops in ARITHMETIC + HOUSEKEEPING:
        for op in ops.split():
            scratch = unrolled if op.startswith(("Conv2D", "Conv3D")) else copies if "Einsum" in op else nothing
            rules[op] = Rule(
                category,
                flops,
                moved,
                tuple(attrs.split()),
                scratch=scratch,
                of_cudnn=scratch is unrolled,
                on_matrix_units=op in on_matrix_units,
                counts_real="FFT" in op,
            )
    for category, ops in HANDED_OVER:
        for op in ops.split():
            rules[op] = Rule(category, nothing, nothing, launches=False)
    for op in OPAQUE.split():
        rules[op] = Rule(OTHER, nothing, tensors, opaque=True)
    for core_ps, parts, assumes, ops in HOST:
        for op in ops.split():
            rules[op] = rules[op]._replace(core_ps=core_ps, parts=parts, assumes=assumes)
    return rules


RULES: Mapping[str, Rule] = MappingProxyType(_rules())

FALLBACK_RULE = Rule(OTHER, nothing, tensors)
"""An op that is not in the table costs a launch and the bytes of its known inputs and outputs; it is counted."""

_DATASET = Rule(OTHER, nothing, nothing, launches=False)  # describes a pipeline and computes nothing in the step


def rule(op: str) -> Rule | None:
    """The row of an op, or None where the table has none."""
    found = RULES.get(op)
    return _DATASET if found is None and "Dataset" in op else found


def handing_on(op: str) -> Rule:
    """The row of an op where it hands its input on (`graph.handing_on`), as those of `HANDED_OVER` always do."""
    return Rule(category(op), nothing, nothing, launches=False)


def copying(op: str) -> Rule:
    """The row of an op that copies what others of it hand on: each byte is read and written, a variable's too."""
    return Rule(category(op), nothing, lambda instance: 2 * max(sum(instance.output_bytes), sum(instance.input_bytes)))


def category(op: str) -> str:
    """The category of an op; "other" for one that the table does not list."""
    found = rule(op)
    return found.category if found else OTHER
