"""The kernels that `host_prices.py` runs: a line has ops, what tells cases of an op apart, arguments, and sizes.

`n` is the size. `f` are floats between 0.1 and 0.9, or between two numbers; `i` integers below a limit, `b` booleans,
`c` complex numbers, `words` strings; `var` is a variable, of as many floats. `sp(n, k)` is the part k of a sparse
matrix of n rows and 8 columns with an entry per row: indices, values, shape. `splits(n)` are rows of 64.
"""

KERNELS = """
Abs Neg Square Ceil Floor Rint Round Erf Erfc Lgamma Sign Inv Reciprocal Acos Asin Atan Cos Sin Tan | x=f(n)
Rsqrt Sqrt Exp Expm1 Log Log1p Sinh Cosh Asinh Atanh Erfinv Ndtri Digamma Sigmoid Tanh | x=f(n)
BesselI0 BesselI0e BesselI1 BesselI1e BesselJ0 BesselJ1 BesselK0 BesselK0e BesselK1 BesselK1e | x=f(n)
BesselY0 BesselY1 Dawsn Expint FresnelCos FresnelSin Spence IsNan IsInf IsFinite | x=f(n)
Acosh | x=f(n, low=1.1, high=3)
Relu Relu6 Elu Selu Softplus Softsign LeakyRelu | features=f(n, low=-1, high=1)
ReluGrad Relu6Grad LeakyReluGrad SoftplusGrad SoftsignGrad | gradients=f(n), features=f(n)
EluGrad SeluGrad | gradients=f(n), outputs=f(n)
SigmoidGrad TanhGrad SqrtGrad RsqrtGrad ReciprocalGrad InvGrad | y=f(n), dy=f(n)
Add AddV2 Sub Mul Maximum Minimum Equal NotEqual Less LessEqual Greater GreaterEqual ApproximateEqual | x=f(n), y=f(n)
MulNoNan SquaredDifference Mod FloorMod Div DivNoNan RealDiv FloorDiv Xlogy Xlog1py Xdivy Pow | x=f(n), y=f(n)
Atan2 | y=f(n), x=f(n)
BitwiseAnd BitwiseOr BitwiseXor LeftShift RightShift TruncateMod TruncateDiv FloorMod of int | x=i(99, n)+1, y=i(9, n)+1
Pow of a scalar | x=f(n), y=f()
Pow of float64 | x=f(n, kind="float64"), y=f(n, kind="float64")
Invert PopulationCount | x=i(100, n)
LogicalAnd LogicalOr | x=b(n), y=b(n)
LogicalNot | x=b(n)
Conj Real Imag Angle | input=c(n)
ComplexAbs | x=c(n)
Complex | real=f(n), imag=f(n)
Select | condition=b(n), x=f(n), y=f(n)
SelectV2 | condition=b(n), t=f(n), e=f(n)
Cast | x=i(100, n), DstT="float32"
CheckNumerics CheckNumericsV2 | tensor=f(n), message="m"
ClipByValue | t=f(n), clip_value_min=f(), clip_value_max=f()
AddN | inputs=[f(n)] * 4
L2Loss | t=f(n)
Cross | a=f(n // 3, 3), b=f(n // 3, 3)
Sum Prod Max Min Mean EuclideanNorm of all | input=f(n), axis=[0]
Sum Prod Max Min Mean of rows | input=f(n // 64, 64), axis=[1]
Sum Prod Max Min Mean of columns | input=f(n // 64, 64), axis=[0]
All Any | input=b(n), axis=[0]
ArgMax ArgMin of rows | input=f(n // 64, 64), dimension=1
ArgMax ArgMin of columns | input=f(64, n // 64), dimension=0
Cumsum Cumprod CumulativeLogsumexp of rows | x=f(n // 256, 256), axis=1
Cumsum Cumprod CumulativeLogsumexp of one | x=f(n), axis=0
SegmentSum SegmentMax SegmentMin SegmentProd SegmentMean of 1 | data=f(n, 1), segment_ids=sorted_i(n // 10 + 1, n)
SegmentSum SegmentMax SegmentMean of 64 | data=f(n // 64, 64), segment_ids=sorted_i(n // 640 + 1, n // 64)
UnsortedSegmentSum UnsortedSegmentMax UnsortedSegmentProd of 1 | data=f(n, 1), segment_ids=i(100, n), num_segments=100
UnsortedSegmentSum UnsortedSegmentMax of 64 | data=f(n // 64, 64), segment_ids=i(100, n // 64), num_segments=100
Bincount | arr=i(100, n), size=100, weights=f(0)
DenseBincount | input=i(100, n), size=100, weights=f(0)
DenseBincount of rows | input=i(100, n // 64, 64), size=100, weights=f(0)
RaggedBincount | splits=splits(n), values=i(100, n), size=100, weights=f(0)
DenseCountSparseOutput | values=i(100, n // 64, 64), weights=f(0), binary_output=False | 6400 65536
RaggedCountSparseOutput | splits=splits(n), values=i(100, n), weights=f(0), binary_output=False | 6400 65536
HistogramFixedWidth | values=f(n), value_range=[0.0, 1.0], nbins=30
LowerBound UpperBound in 1000 | sorted_inputs=sorted_f(1, 1000), values=f(1, n)
LowerBound UpperBound in 100 of 64 rows | sorted_inputs=sorted_f(64, 100), values=f(64, n // 64)
Softmax LogSoftmax of 10 | logits=f(n // 10, 10) | 1000 1000000
Softmax LogSoftmax of 1000 | logits=f(n // 1000, 1000) | 10000 1000000
SoftmaxCrossEntropyWithLogits of 10 | features=f(n // 10, 10), labels=f(n // 10, 10) | 1000 1000000
SoftmaxCrossEntropyWithLogits of 1000 | features=f(n // 1000, 1000), labels=f(n // 1000, 1000) | 10000 1000000
SparseSoftmaxCrossEntropyWithLogits of 10 | features=f(n // 10, 10), labels=i(10, n // 10) | 1000 1000000
SparseSoftmaxCrossEntropyWithLogits of 1000 | features=f(n // 1000, 1000), labels=i(9, n // 1000) | 10000 1000000
InTopKV2 | predictions=f(n // 10, 10), targets=i(10, n // 10), k=5 | 1000 1000000
SparseSoftmax | sp_indices=sp(n, 0), sp_values=sp(n, 1), sp_shape=sp(n, 2) | 1000 100000
BiasAdd | value=f(n // 64, 64), bias=f(64)
BiasAddGrad | out_backprop=f(n // 64, 64)
LRN | input=f(n // 6400, 10, 10, 64)
LRNGrad | input_grads=f(n//6400, 10, 10, 64), input_image=f(n//6400, 10, 10, 64), output_image=f(n//6400, 10, 10, 64)
MaxPool MaxPoolWithArgmax | input=f(n//6400, 20, 20, 16), ksize=[1, 3, 3, 1], strides=[1, 2, 2, 1], padding="SAME"
AvgPool | value=f(n // 6400, 20, 20, 16), ksize=[1, 3, 3, 1], strides=[1, 2, 2, 1], padding="SAME"
FractionalMaxPool FractionalAvgPool | value=f(n // 6400, 20, 20, 16), pooling_ratio=[1.0, 1.4, 1.4, 1.0]
Dilation2D | input=f(n // 6400, 20, 20, 16), filter=f(3, 3, 16), strides=[1] * 4, rates=[1] * 4, padding="SAME"
Dilation2DBackpropInput Dilation2DBackpropFilter | input=f(n // 6400, 20, 20, 16), filter=f(3, 3, 16), \
    out_backprop=f(n // 6400, 20, 20, 16), strides=[1] * 4, rates=[1] * 4, padding="SAME"
ExtractImagePatches of 16 | images=f(n//6400, 20, 20, 16), ksizes=[1, 4, 4, 1], strides=[1, 4, 4, 1], rates=[1] * 4, \
    padding="VALID"
ExtractImagePatches of 3 | images=f(n//1200, 20, 20, 3), ksizes=[1, 4, 4, 1], strides=[1, 4, 4, 1], rates=[1] * 4, \
    padding="VALID"
ExtractVolumePatches | input=f(n//8000, 10, 10, 10, 8), ksizes=[1, 2, 2, 2, 1], strides=[1, 2, 2, 2, 1], \
    padding="VALID" | 8000 1024000
FFT IFFT | input=c(n // 1024, 1024) | 10240 262144
FFT2D IFFT2D | input=c(n // 4096, 64, 64) | 4096 262144
FFT3D IFFT3D | input=c(n // 4096, 16, 16, 16) | 4096 262144
RFFT | input=f(n // 1024, 1024), fft_length=[1024] | 10240 262144
IRFFT | input=c(n // 1024, 513), fft_length=[1024] | 10240 262144
Cholesky | input=definite(1, n) | 16 64 256
Cholesky of 50 | input=definite(50, n) | 4 16 64
MatrixInverse MatrixDeterminant Lu | input=f(n, n) | 16 64 256
MatrixInverse MatrixDeterminant Lu Svd SelfAdjointEigV2 Qr of 50 | input=definite(50, n) | 4 16 64
Svd SelfAdjointEigV2 Qr | input=f(n, n) | 16 64 256
MatrixSolve | matrix=f(n, n), rhs=f(n, 1) | 16 64 256
CholeskyGrad | l=lower(1, n), grad=f(1, n, n) | 16 64 256
MatrixTriangularSolve of a matrix | matrix=lower(1, n), rhs=f(1, n, n) | 32 128 512
MatrixTriangularSolve of a vector | matrix=lower(1, n), rhs=f(1, n, 1) | 32 128 512
MatrixTriangularSolve of 100 | matrix=lower(100, n), rhs=f(100, n, n) | 4 16 64
BandedTriangularSolve | matrix=f(3, n, low=1.0, high=2.0), rhs=f(n, 4) | 100 10000
TridiagonalSolve | diagonals=bands(n), rhs=f(n, 4) | 100 100000
TridiagonalMatMul | superdiag=f(1, n//16), maindiag=f(1, n//16), subdiag=f(1, n//16), rhs=f(n//16, 16)
ConcatV2 | values=[f(n // 128, 64)] * 2, axis=1
Pack | values=[f(n // 4)] * 4, axis=0
Transpose | x=f(n // 64, 64), perm=[1, 0]
Tile | input=f(n // 128, 64), multiples=[1, 2]
Pad | input=f(n // 6400, 20, 20, 16), paddings=[[0, 0], [1, 1], [1, 1], [0, 0]]
MirrorPad | input=f(n // 6400, 20, 20, 16), paddings=[[0, 0], [1, 1], [1, 1], [0, 0]], mode="REFLECT"
ReverseV2 | tensor=f(n // 64, 64), axis=[1]
Roll | input=f(n // 64, 64), shift=[3], axis=[1]
BroadcastTo | input=f(n // 64, 1), shape=[n // 64, 64]
BatchToSpaceND | input=f(n // 6400 * 4, 20, 20, 4), block_shape=[2, 2], crops=[[0, 0], [0, 0]]
SpaceToBatchND | input=f(n // 6400, 20, 20, 16), block_shape=[2, 2], paddings=[[0, 0], [0, 0]]
DepthToSpace SpaceToDepth | input=f(n // 6400, 20, 20, 16), block_size=2
MatrixDiag | diagonal=f(n // 1024, 32)
MatrixBandPart | input=f(n // 1024, 32, 32), num_lower=-1, num_upper=0
InvertPermutation | x=permutation(n)
UnravelIndex | indices=i(1000, n), dims=[10, 10, 10]
StridedSliceGrad | shape=[n // 32, 64], begin=[0, 0], end=[n // 32, 32], strides=[1, 1], dy=f(n // 32, 32)
ResourceStridedSliceAssign | ref=var(n // 32, 64), begin=[0, 0], end=[n // 32, 32], strides=[1, 1], value=f(n//32, 32)
TensorStridedSliceUpdate | input=f(n//32, 64), begin=[0, 0], end=[n//32, 32], strides=[1, 1], value=f(n//32, 32)
Slice | input=f(n // 32, 64), begin=[0, 0], size=[n // 32, 32]
StridedSlice by 2 | input=f(n // 32, 64), begin=[0, 0], end=[n // 32, 64], strides=[1, 2]
StridedSlice of 1 dimension by 2 | input=f(2 * n), begin=[0], end=[2 * n], strides=[2]
StridedSlice of 3 dimensions by 2 | input=f(n // 1024, 64, 32), begin=[0] * 3, end=[n // 1024, 64, 32], \
    strides=[1, 2, 1]
StridedSlice of 4 dimensions by 2 | input=f(n // 192, 16, 16, 3), begin=[0] * 4, end=[n // 192, 16, 16, 3], \
    strides=[1, 2, 2, 1]
OneHot | indices=i(64, n // 64), depth=64, on_value=1.0, off_value=0.0
GatherV2 of 1 | params=f(10000, 1), indices=i(10000, n), axis=0
GatherV2 of 1 along 1 | params=f(n // 64, 100), indices=i(100, 64), axis=1
GatherV2 of 1 in batches | params=f(n // 64, 100), indices=i(100, n // 64, 64), axis=1, batch_dims=1
GatherV2 of 4 along 1 | params=f(n // 256, 100, 4), indices=i(100, 64), axis=1
GatherV2 of 64 | params=f(10000, 64), indices=i(10000, n // 64), axis=0
GatherNd of 64 | params=f(10000, 64), indices=i(10000, n // 64, 1)
ResourceGather of 64 | resource=var(10000, 64), indices=i(10000, n // 64), dtype="float32"
InplaceAdd | x=f(n // 64, 64), i=permutation(n // 64), v=f(n // 64, 64)
ScatterNd of 1 | indices=i(1000, n, 1), updates=f(n, 1), shape=[1000, 1]
ScatterNd of 64 | indices=i(1000, n // 64, 1), updates=f(n // 64, 64), shape=[1000, 64]
TensorScatterAdd TensorScatterMax of 64 | tensor=f(1000, 64), indices=i(1000, n // 64, 1), updates=f(n // 64, 64)
ResourceScatterAdd ResourceScatterMul ResourceScatterUpdate of 1 | resource=var(1000, 1), indices=i(1000, n), \
    updates=f(n, 1)
ResourceScatterAdd ResourceScatterMul ResourceScatterUpdate of 64 | resource=var(1000, 64), indices=i(1000, n // 64), \
    updates=f(n // 64, 64)
SparseSegmentSum SparseSegmentMean of 64 | data=f(1000, 64), indices=i(1000, n//64), segment_ids=sorted_i(99, n//64)
SparseSegmentSumGrad SparseSegmentMeanGrad | grad=f(n//640, 64), indices=i(1000, n//64), \
    segment_ids=sorted_i(n//640, n//64), output_dim0=1000
SparseReduceSum SparseReduceMax | input_indices=sp(n, 0), input_values=sp(n, 1), input_shape=sp(n, 2), \
    reduction_axes=[1] | 2000 100000
SparseDenseCwiseMul SparseDenseCwiseAdd | sp_indices=sp(n, 0), sp_values=sp(n, 1), sp_shape=sp(n, 2), dense=f(1, 8) \
    | 2000 100000
SparseTensorDenseAdd | a_indices=sp(n, 0), a_values=sp(n, 1), a_shape=sp(n, 2), b=f(n, 8) | 2000 100000
SparseSlice | indices=sp(n, 0), values=sp(n, 1), shape=sp(n, 2), start=longs(0, 0), size=longs(n // 2, 8) | 2000 100000
SparseSplit | split_dim=longs(0)[0], indices=sp(n, 0), values=sp(n, 1), shape=sp(n, 2), num_split=2 | 2000 100000
SparseAdd | a_indices=sp(n, 0), a_values=sp(n, 1), a_shape=sp(n, 2), b_indices=sp(n, 0), b_values=sp(n, 1), \
    b_shape=sp(n, 2), thresh=0.0 | 2000 100000
SparseSparseMaximum | a_indices=sp(n, 0), a_values=sp(n, 1), a_shape=sp(n, 2), b_indices=sp(n, 0), b_values=sp(n, 1), \
    b_shape=sp(n, 2) | 2000 100000
SparseCrossHashed | indices=[], values=[], shapes=[], dense_inputs=[i(50, n, 1, kind="int64")] * 2, \
    num_buckets=longs(9)[0], strong_hash=False, salt=longs(1, 2) | 100 20000
RaggedTensorToSparse | rt_nested_splits=[splits(n)], rt_dense_values=f(n)
RaggedTensorToVariant | rt_nested_splits=[splits(n)], rt_dense_values=f(n), batched_input=True
ResizeBilinear ResizeBicubic ResizeNearestNeighbor of 3 | images=f(n // 1875, 25, 25, 3), size=[50, 50] | 7500 750000
ResizeBilinear ResizeBicubic ResizeNearestNeighbor of 64 | images=f(n//40000, 25, 25, 64), size=[50, 50] | 40000 640000
ResizeBilinearGrad of 3 | grads=f(n // 7500, 50, 50, 3), original_image=f(n // 7500, 25, 25, 3) | 7500 750000
ResizeBilinearGrad of 64 | grads=f(n//160000, 50, 50, 64), original_image=f(n//160000, 25, 25, 64) | 160000 640000
ResizeBicubicGrad of 3 | grads=f(n // 7500, 50, 50, 3), original_image=f(n // 7500, 25, 25, 3) | 7500 750000
ResizeNearestNeighborGrad of 3 | grads=f(n // 7500, 50, 50, 3), size=[25, 25] | 7500 750000
ResizeNearestNeighborGrad of 64 | grads=f(n // 160000, 50, 50, 64), size=[25, 25] | 160000 640000
CropAndResize of 3 | image=f(1, 50, 50, 3), boxes=boxes(n//588), box_ind=i(1, n//588), crop_size=[14, 14] | 588 588000
CropAndResize of 256 | image=f(1, 50, 50, 256), boxes=boxes(n // 50176), box_ind=i(1, n // 50176), crop_size=[14, 14] \
    | 50176 1003520
CropAndResizeGradImage of 64 | grads=f(n // 12544, 14, 14, 64), boxes=boxes(n // 12544), box_ind=i(1, n // 12544), \
    image_size=[1, 50, 50, 64], T="float32" | 12544 250880
CropAndResizeGradBoxes of 64 | grads=f(n // 12544, 14, 14, 64), image=f(1, 50, 50, 64), boxes=boxes(n // 12544), \
    box_ind=i(1, n // 12544) | 12544 250880
ScaleAndTranslate of 3 | images=f(n // 7500, 50, 50, 3), size=[40, 40], scale=[0.8, 0.8], translation=[0.0, 0.0] \
    | 7500 750000
ScaleAndTranslateGrad of 3 | grads=f(n // 4800, 40, 40, 3), original_image=f(n // 4800, 50, 50, 3), scale=[0.8, 0.8], \
    translation=[0.0, 0.0] | 4800 480000
AdjustHue | images=f(n // 3000, 25, 40, 3), delta=0.1 | 3000 900000
RGBToHSV HSVToRGB | images=f(n // 3000, 25, 40, 3) | 3000 900000
Igamma Igammac IgammaGradA | a=f(n), x=f(n) | 6400 200000
Betainc | a=f(n, low=0.5, high=3), b=f(n, low=0.5, high=3), x=f(n) | 6400 200000
Zeta | x=f(n, low=1.5, high=3), q=f(n) | 6400 200000
RandomUniform RandomStandardNormal TruncatedNormal | shape=[n], dtype="float32" | 6400 200000
RandomGamma | shape=[n], alpha=2.0 | 6400 200000
Multinomial | logits=f(n // 1000, 1000), num_samples=1 | 10000 1000000
Multinomial of many | logits=f(n // 1000, 10), num_samples=1000 | 10000 1000000
RandomShuffle | value=f(n)
Where | condition=b(n)
Unique | x=i(n // 10, n) | 6400 100000
TopKV2 of 10 | input=f(n // 1000, 1000), k=10 | 10000 1000000
DynamicPartition | data=f(n), partitions=i(4, n), num_partitions=4
DynamicStitch | indices=[permutation(n)], data=[f(n)]
ReverseSequence of 2 dimensions | input=f(n // 64, 64), seq_lengths=i(64, n // 64), seq_dim=1, batch_dim=0
ReverseSequence of 3 dimensions | input=f(n // 6400, 100, 64), seq_lengths=i(99, n // 6400), seq_dim=1, batch_dim=0
Bucketize | input=f(n), boundaries=[k / 10 for k in range(10)]
QuantizeV2 | input=f(n), min_range=0.0, max_range=1.0, T="quint8"
FakeQuantWithMinMaxVars | inputs=f(n), min=0.0, max=1.0
FakeQuantWithMinMaxVarsPerChannel | inputs=f(n // 64, 64), min=f(64, low=-1, high=0), max=f(64, low=1, high=2)
FakeQuantWithMinMaxVarsPerChannelGradient | gradients=f(n // 64, 64), inputs=f(n // 64, 64), \
    min=f(64, low=-1, high=0), max=f(64, low=1, high=2)
ComputeAccidentalHits | true_classes=i(1000, n, 1, kind="int64"), sampled_candidates=i(1000, 100, kind="int64"), \
    num_true=1 | 1000 10000
UniformCandidateSampler LogUniformCandidateSampler | true_classes=longs(1)[None], num_true=1, num_sampled=n, \
    unique=True, range_max=100000 | 100 1000
UnicodeScript | input=i(500, n) | 100 20000
StringLower StringLength | input=words(n) | 100 20000
AssignAddVariableOp | resource=var(n), value=f(n)
ResourceApplyGradientDescent | var=var(n), alpha=0.1, delta=f(n)
ResourceApplyMomentum | var=var(n), accum=var(n), lr=0.1, grad=f(n), momentum=0.9
ResourceApplyAdam | var=var(n), m=var(n), v=var(n), beta1_power=0.9, beta2_power=0.9, lr=0.1, beta1=0.9, beta2=0.9, \
    epsilon=0.1, grad=f(n)
ResourceSparseApplyMomentum of 4 | var=var(10000, 4), accum=var(10000, 4), lr=0.1, grad=f(n // 4, 4), \
    indices=i(10000, n // 4), momentum=0.9 | 6400 524288
ResourceSparseApplyMomentum of 64 | var=var(10000, 64), accum=var(10000, 64), lr=0.1, grad=f(n // 64, 64), \
    indices=i(10000, n // 64), momentum=0.9 | 6400 524288
ResourceSparseApplyAdagradV2 of 64 | var=var(10000, 64), accum=var(10000, 64), lr=0.1, epsilon=0.1, \
    grad=f(n // 64, 64), indices=i(10000, n // 64) | 6400 524288
ResourceSparseApplyFtrl of 64 | var=var(10000, 64), accum=var(10000, 64), linear=var(10000, 64), grad=f(n // 64, 64), \
    indices=i(10000, n // 64), lr=0.1, l1=0.1, l2=0.1, lr_power=-0.5 | 6400 524288
"""
