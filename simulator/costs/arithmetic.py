"""Rows of the cost table: ops that compute.

Counts are those of TensorFlow's own estimator where it has one (`tensorflow/core/grappler/costs/
op_level_cost_estimator.cc`; costs per element come from Eigen's `functor_traits`, measured on the 2.21 wheel). Where
it has none (Mean, L2Loss, Pow, gradients, recurrent kernels, linear algebra, Fourier, random), the count is derived
from the op's definition with the same costs per element: sqrt 8, division 14, exp 34, tanh 36, sigmoid 40, log 50.
"""

from __future__ import annotations

from simulator.costs.formulas.convolution import (
    average_pool,
    average_pool_gradient,
    convolution,
    convolution_filter_gradient,
    convolution_input_gradient,
    depthwise,
    depthwise_filter_gradient,
    depthwise_input_gradient,
    max_pool,
    max_pool_gradient,
    response_normalization,
)
from simulator.costs.formulas.instance import (
    add_all,
    each,
    each_input,
    each_output,
    gathered,
    nothing,
    tensors,
    written,
)
from simulator.costs.formulas.layers import (
    batch_normalization,
    batch_normalization_gradient,
    cudnn_rnn,
    gru_cell,
    lstm_cell,
    lstm_sequence,
    normalized,
    softmax,
    suppression,
)
from simulator.costs.formulas.matrix import (
    banded_solve,
    batch_matmul,
    cubic,
    eigen,
    einsum,
    fourier,
    least_squares,
    matmul,
    qr,
    self_adjoint_eigen,
    solve,
    sparse_dense_matmul,
    svd,
    triangular_solve,
)
from simulator.costs.rule import ELEMENTWISE, MATRIX, NEURAL, Row

# Written by hand as a table: one row per kind of work.
# fmt: off
# category, arithmetic, bytes moved, attributes that the formulas read, ops
ARITHMETIC: tuple[Row, ...] = (
    (MATRIX, matmul, tensors, "transpose_a transpose_b",
     "MatMul SparseMatMul QuantizedMatMul _FusedMatMul"),
    (MATRIX, batch_matmul, tensors, "adj_x adj_y", "BatchMatMul BatchMatMulV2 BatchMatMulV3"),
    (MATRIX, einsum, tensors, "equation", "Einsum"),
    (MATRIX, sparse_dense_matmul, tensors, "adjoint_b", "SparseTensorDenseMatMul"),
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
    (MATRIX, fourier(1, 1), tensors, "", "RFFT IRFFT"),
    (MATRIX, fourier(2, 1), tensors, "", "RFFT2D IRFFT2D"),
    (MATRIX, fourier(3, 1), tensors, "", "RFFT3D IRFFT3D"),

    (NEURAL, convolution, tensors, "",
     "Conv2D Conv3D Conv _FusedConv2D _FusedConv3D QuantizedConv2D FusedPadConv2D FusedResizeAndPadConv2D"),
    (NEURAL, convolution_input_gradient, tensors, "",
     "Conv2DBackpropInput Conv2DBackpropInputV2 Conv3DBackpropInput Conv3DBackpropInputV2"),
    (NEURAL, convolution_filter_gradient, tensors, "",
     "Conv2DBackpropFilter Conv2DBackpropFilterV2 Conv3DBackpropFilter Conv3DBackpropFilterV2"),
    (NEURAL, depthwise, tensors, "", "DepthwiseConv2dNative _FusedDepthwiseConv2dNative QuantizedDepthwiseConv2D"),
    (NEURAL, depthwise_input_gradient, tensors, "", "DepthwiseConv2dNativeBackpropInput"),
    (NEURAL, depthwise_filter_gradient, tensors, "", "DepthwiseConv2dNativeBackpropFilter"),
    (NEURAL, depthwise, tensors, "", "Dilation2D"),
    (NEURAL, depthwise_input_gradient, tensors, "", "Dilation2DBackpropInput Dilation2DBackpropFilter"),
    (NEURAL, max_pool, tensors, "ksize",
     "MaxPool MaxPoolV2 MaxPool3D MaxPoolWithArgmax QuantizedMaxPool FractionalMaxPool"),
    (NEURAL, max_pool_gradient, tensors, "ksize strides",
     "MaxPoolGrad MaxPoolGradV2 MaxPool3DGrad MaxPoolGradGrad MaxPoolGradGradV2 MaxPool3DGradGrad"),
    (NEURAL, each(1), tensors, "", "MaxPoolGradWithArgmax MaxPoolGradGradWithArgmax FractionalMaxPoolGrad"),
    (NEURAL, average_pool, tensors, "ksize", "AvgPool AvgPool3D QuantizedAvgPool FractionalAvgPool"),
    (NEURAL, average_pool_gradient, tensors, "ksize strides", "AvgPoolGrad AvgPool3DGrad FractionalAvgPoolGrad"),
    (NEURAL, response_normalization(90), tensors, "depth_radius", "LRN"),
    (NEURAL, response_normalization(180), tensors, "depth_radius", "LRNGrad"),
    (NEURAL, batch_normalization, normalized, "is_training",
     "FusedBatchNorm FusedBatchNormV2 FusedBatchNormV3 _FusedBatchNormEx"),
    (NEURAL, batch_normalization_gradient, normalized, "is_training",
     "FusedBatchNormGrad FusedBatchNormGradV2 FusedBatchNormGradV3 _FusedBatchNormGradEx"),
    (NEURAL, each(7), tensors, "", "BatchNormWithGlobalNormalization QuantizedBatchNormWithGlobalNormalization"),
    (NEURAL, each(16), tensors, "", "BatchNormWithGlobalNormalizationGrad"),
    (NEURAL, softmax, tensors, "", "Softmax"),
    (NEURAL, each_input(37), tensors, "", "LogSoftmax SparseSoftmax"),
    (NEURAL, each_input(53), tensors, "", "SoftmaxCrossEntropyWithLogits SparseSoftmaxCrossEntropyWithLogits"),
    (NEURAL, each(1), tensors, "",
     "Relu Relu6 ReluGrad Relu6Grad BiasAdd BiasAddV1 BiasAddGrad QuantizedBiasAdd QuantizedRelu QuantizedRelu6 "
     "QuantizedReluX InTopK InTopKV2"),
    (NEURAL, each(2), tensors, "", "LeakyRelu LeakyReluGrad EluGrad SeluGrad L2Loss"),
    (NEURAL, each(36), tensors, "", "Elu Selu"),
    (NEURAL, each(85), tensors, "", "Softplus"),
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
    (ELEMENTWISE, each(2), tensors, "", "SquaredDifference ClipByValue"),
    (ELEMENTWISE, each(3), tensors, "", "Sign RsqrtGrad"),
    (ELEMENTWISE, each(4), tensors, "",
     "Inv Reciprocal QuantizeV2 Dequantize Requantize QuantizeDownAndShrinkRange RequantizationRange"),
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
    (ELEMENTWISE, add_all, tensors, "", "AddN"),
    (ELEMENTWISE, each_input(1), tensors, "",
     "Sum Prod Max Min Mean All Any ArgMax ArgMin Cumsum Cumprod SegmentSum SegmentMax SegmentMin SegmentProd "
     "SegmentMean SegmentSumV2 SegmentMaxV2 SegmentMinV2 SegmentProdV2 UnsortedSegmentSum UnsortedSegmentMax "
     "UnsortedSegmentMin UnsortedSegmentProd Bincount DenseBincount HistogramFixedWidth"),
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
# fmt: on

# Products and convolutions that cuBLAS and cuDNN compute, on tensor cores where the format has some, and oneDNN on AMX.
# Depthwise and sparse ones run in kernels of TensorFlow's own; factorisations (cuSOLVER) are no dense products.
ON_MATRIX_UNITS = (
    "MatMul SparseMatMul QuantizedMatMul _FusedMatMul BatchMatMul BatchMatMulV2 BatchMatMulV3 Einsum "
    "Conv2D Conv3D Conv _FusedConv2D _FusedConv3D QuantizedConv2D FusedPadConv2D FusedResizeAndPadConv2D "
    "Conv2DBackpropInput Conv2DBackpropInputV2 Conv3DBackpropInput Conv3DBackpropInputV2 Conv2DBackpropFilter "
    "Conv2DBackpropFilterV2 Conv3DBackpropFilter Conv3DBackpropFilterV2 LSTMBlockCell BlockLSTM BlockLSTMV2 "
    "BlockLSTMGrad BlockLSTMGradV2 GRUBlockCell GRUBlockCellGrad CudnnRNN CudnnRNNV2 CudnnRNNV3 CudnnRNNBackprop "
    "CudnnRNNBackpropV2 CudnnRNNBackpropV3"
)
