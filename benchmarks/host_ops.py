"""Times of TensorFlow's scalar kernels on one core: a table for RESULTS.md, the source of simulator/costs/rules.py.

    python benchmarks/host_ops.py [NAME ..] [--repeats N]

Each kernel runs many times in one step, on constants, at two sizes. The slope is the time per unit, what is left at no
size the time per call; both are processor time, less what a step without it takes, and medians. `threads` says whether
a second thread of the intra-op pool works when there is one.
"""

from __future__ import annotations

import argparse
import io
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

SMALL_COPIES, LARGE_COPIES = 64, 4
SHARED = 0.2  # of the busiest pool thread's time: a second one that works so much shares the kernel


class Case(NamedTuple):
    """A kernel at some size: what is counted, two sizes, and how to make its op for a size."""

    unit: str
    small: int
    large: int
    make: Callable[[Any, int], Callable[[], Any]]  # (tensorflow, size) -> what adds one op to the graph


def picture(side: int) -> Any:
    """[side, side, 3] uint8: waves and noise, which a JPEG of quality 90 takes 0.6 bytes per pixel for, as ImageNet."""
    import numpy as np

    chance = np.random.default_rng(1)
    y, x = np.mgrid[0:side, 0:side] / 40
    waves = np.stack([np.sin(x + k) * np.cos(y * (k + 1)) for k in range(3)], -1)
    return np.clip(128 + 70 * waves + chance.normal(0, 30, (side, side, 1)), 0, 255).astype(np.uint8)


def strings(count: int, length: int = 16) -> Any:
    """So many different strings of letters."""
    import numpy as np

    letters = np.random.default_rng(2).integers(97, 123, (count, length), np.uint8)
    return np.array([row.tobytes() for row in letters], object)


def simple(op: str, unit: str, small: int, large: int, *inputs: Callable[[Any, int], Any], **attrs: Any) -> Case:
    """An op of `tf.raw_ops` by its arguments in order, each made for a size."""

    def make(tf: Any, size: int) -> Callable[[], Any]:
        function = getattr(tf.raw_ops, op)
        names = list(function.__signature__.parameters) if hasattr(function, "__signature__") else []
        if not names:
            import inspect

            names = list(inspect.signature(function).parameters)
        given = dict(
            zip([name for name in names if name not in attrs], (one(tf, size) for one in inputs), strict=False)
        )
        return lambda: function(**given, **attrs)

    return Case(unit, small, large, make)


def words(length: int = 16) -> Callable[[Any, int], Any]:
    return lambda tf, n: tf.constant(strings(n, length))


def constant(value: Any) -> Callable[[Any, int], Any]:
    return lambda tf, n: tf.constant(value)


def floats(columns: int = 0, low: float = 0.0, high: float = 1.0) -> Callable[[Any, int], Any]:
    """[size] floats, or [size / columns, columns]."""
    import numpy as np

    def made(tf: Any, n: int) -> Any:
        shape = (n // columns, columns) if columns else (n,)
        return tf.constant(np.random.default_rng(3).uniform(low, high, shape).astype(np.float32))

    return made


def numbers(limit: int = 0, dtype: str = "int64") -> Callable[[Any, int], Any]:
    """[size] integers below the limit; without one below the size."""
    import numpy as np

    return lambda tf, n: tf.constant(np.random.default_rng(4).integers(0, limit or n, n).astype(dtype))


def image(dtype: str = "float32", batch: bool = True) -> Callable[[Any, int], Any]:
    """[1, side, side, 3] of about `size` numbers."""

    def made(tf: Any, n: int) -> Any:
        value = picture(round((n / 3) ** 0.5)).astype(dtype) / (255 if dtype == "float32" else 1)
        return tf.constant((value[None] if batch else value).astype(dtype))

    return made


def encoded(form: str) -> Callable[[Any, int], Any]:
    """A file with a picture of about `size` samples."""

    def made(tf: Any, n: int) -> Any:
        value = picture(round((n / 3) ** 0.5))
        coded = {
            "jpeg": lambda: tf.io.encode_jpeg(value, quality=90),
            "png": lambda: tf.io.encode_png(value),
        }
        if form == "bmp":
            return tf.constant(bitmap(value))
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            content = session.run(coded[form]())
        return tf.constant(content)

    def bitmap(value: Any) -> bytes:
        rows, columns, _ = value.shape
        body = b"".join(row.tobytes() + b"\0" * (-3 * columns % 4) for row in value[::-1, :, ::-1])
        ints = [54 + len(body), 0, 54, 40, columns, rows, 1 | 24 << 16, 0, len(body), 0, 0, 0, 0]
        return b"BM" + b"".join(one.to_bytes(4, "little") for one in ints) + body

    return made


def boxes(tf: Any, n: int) -> Any:
    import numpy as np

    chance = np.random.default_rng(5)
    corner, size = chance.uniform(0, 0.9, (n, 2)), chance.uniform(0.02, 0.1, (n, 2))
    return tf.constant(np.concatenate([corner, corner + size], 1).astype(np.float32))


def sparse(tf: Any, n: int) -> tuple[Any, Any, Any]:
    """A sparse [size, 8] matrix with `size` elements: indices, values, shape."""
    import numpy as np

    chance = np.random.default_rng(6)
    indices = np.stack([np.arange(n), chance.integers(0, 8, n)], 1)
    return tf.constant(indices), tf.constant(chance.uniform(size=n).astype(np.float32)), tf.constant([n, 8], tf.int64)


def part(which: int) -> Callable[[Any, int], Any]:
    return lambda tf, n: sparse(tf, n)[which]


def table(op: str) -> Case:
    """A lookup, or an insertion of what is there, in a table of 100,000 keys."""

    def make(tf: Any, n: int) -> Callable[[], Any]:
        keys, values = tf.constant(strings(100_000)), tf.range(100_000, dtype=tf.int64)
        handle = tf.raw_ops.MutableHashTableV2(key_dtype=tf.string, value_dtype=tf.int64, shared_name="t")
        filled = tf.raw_ops.LookupTableInsertV2(table_handle=handle, keys=keys, values=values)
        tf.compat.v1.add_to_collection("before", filled)
        some = tf.constant(strings(100_000)[:n])
        if op == "LookupTableFindV2":
            return lambda: tf.raw_ops.LookupTableFindV2(
                table_handle=handle, keys=some, default_value=tf.constant(-1, tf.int64)
            )
        value = tf.range(n, dtype=tf.int64)
        return lambda: tf.raw_ops.LookupTableInsertV2(table_handle=handle, keys=some, values=value)

    return Case("key of 16 bytes", 10, 50_000, make)


def examples(numbers_each: int) -> Case:
    """Examples of eight features, each of so many floats."""

    def make(tf: Any, n: int) -> Callable[[], Any]:
        features = {
            f"f{k}": tf.train.Feature(float_list=tf.train.FloatList(value=[float(k)] * numbers_each)) for k in range(8)
        }
        text = tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()
        serialized = tf.constant([text] * n)
        return lambda: (
            tf.raw_ops.ParseExampleV2(
                serialized=serialized,
                names=[],
                sparse_keys=[],
                dense_keys=list(features),
                ragged_keys=[],
                dense_defaults=[tf.constant([], tf.float32)] * 8,
                num_sparse=0,
                sparse_types=[],
                ragged_value_types=[],
                ragged_split_types=[],
                dense_shapes=[[numbers_each]] * 8,
            ).dense_values
        )

    return Case(f"example of 8 features of {numbers_each}", 1, 1000, make)


def pipeline(tf: Any, n: int) -> Callable[[], Any]:
    iterator = tf.compat.v1.data.make_initializable_iterator(tf.data.Dataset.from_tensors(0.0).repeat())
    tf.compat.v1.add_to_collection("before", iterator.initializer)
    return lambda: iterator.get_next()


def queue(tf: Any, n: int) -> Callable[[], Any]:
    held = tf.raw_ops.FIFOQueueV2(component_types=[tf.float32], capacity=10_000)
    value = tf.constant(0.0)

    def both() -> Any:
        with tf.control_dependencies([tf.raw_ops.QueueEnqueueV2(handle=held, components=[value])]):
            return tf.raw_ops.QueueDequeueV2(handle=held, component_types=[tf.float32])

    return both


def many(tf: Any, n: int) -> Callable[[], Any]:
    held = tf.raw_ops.FIFOQueueV2(component_types=[tf.float32], shapes=[[]], capacity=1_000_000)
    values = tf.zeros([n])

    def both() -> Any:
        with tf.control_dependencies([tf.raw_ops.QueueEnqueueManyV2(handle=held, components=[values])]):
            return tf.raw_ops.QueueDequeueManyV2(handle=held, n=n, component_types=[tf.float32])

    return both


def python(stateful: bool) -> Callable[[Any, int], Callable[[], Any]]:
    return lambda tf, n: lambda: tf.compat.v1.py_func(lambda x: x, [tf.constant(0.0)], tf.float32, stateful=stateful)


def cases() -> Mapping[str, Case]:
    """The kernels by name; a unit is what the fourth column of the table counts."""
    import numpy as np

    int32, samples = np.int32, ("sample", 3 * 32**2, 3 * 400**2)
    word = ("string of 16 bytes", 10, 20_000)
    return {
        "DecodeJpeg": simple("DecodeJpeg", *samples, encoded("jpeg")),
        "DecodePng": simple("DecodePng", *samples, encoded("png")),
        "DecodeBmp": simple("DecodeBmp", *samples, encoded("bmp")),
        "EncodeJpeg": simple("EncodeJpeg", *samples, image("uint8", batch=False)),
        "EncodePng": simple("EncodePng", *samples, image("uint8", batch=False)),
        "ExtractJpegShape": simple("ExtractJpegShape", *samples, encoded("jpeg")),
        "AdjustHue": simple("AdjustHue", *samples, image(), constant(np.float32(0.1))),
        "AdjustSaturation": simple("AdjustSaturation", *samples, image(), constant(np.float32(1.1))),
        "AdjustContrastv2": simple("AdjustContrastv2", *samples, image(), constant(np.float32(1.1))),
        "RGBToHSV": simple("RGBToHSV", *samples, image()),
        "HSVToRGB": simple("HSVToRGB", *samples, image()),
        "ResizeBilinear": simple("ResizeBilinear", "output sample, of 2 of the input", 3 * 50**2, 3 * 400**2,
            lambda tf, n: image()(tf, 2 * n), lambda tf, n: tf.constant([round((n / 3) ** 0.5)] * 2)),
        "ResizeBicubic": simple("ResizeBicubic", "output sample, of 2 of the input", 3 * 50**2, 3 * 400**2,
            lambda tf, n: image()(tf, 2 * n), lambda tf, n: tf.constant([round((n / 3) ** 0.5)] * 2)),
        "ResizeArea": simple("ResizeArea", "input sample, to half", 3 * 50**2, 3 * 400**2, image(),
            lambda tf, n: tf.constant([round((n / 3) ** 0.5) // 2] * 2)),
        "ResizeNearestNeighbor": simple("ResizeNearestNeighbor", "output sample, of 2 of the input", 3 * 50**2,
            3 * 400**2, lambda tf, n: image()(tf, 2 * n), lambda tf, n: tf.constant([round((n / 3) ** 0.5)] * 2)),
        "CropAndResize": simple("CropAndResize", "output sample", 3 * 50**2, 3 * 400**2, image(),
            constant(np.array([[0.1, 0.1, 0.9, 0.9]], np.float32)), constant(np.array([0], int32)),
            lambda tf, n: tf.constant([round((n / 3) ** 0.5)] * 2)),
        "SampleDistortedBoundingBoxV2": simple("SampleDistortedBoundingBoxV2", "call", 1, 1,
            constant(np.array([375, 500, 3], int32)), constant(np.array([[[0.1, 0.1, 0.9, 0.9]]], np.float32)),
            constant(np.float32(0.1)), use_image_if_no_bounding_boxes=True),
        "NonMaxSuppressionV3": simple("NonMaxSuppressionV3", "box, 100 kept", 100, 10_000, boxes, floats(),
            constant(int32(100)), constant(np.float32(0.5)), constant(np.float32(0.0))),
        "NonMaxSuppressionV3 of all": simple("NonMaxSuppressionV3", "box, all kept", 100, 1000, boxes, floats(),
            lambda tf, n: tf.constant(n), constant(np.float32(1.0)), constant(np.float32(0.0))),
        "AsString": simple("AsString", "number", 10, 20_000, floats()),
        "AsString of int64": simple("AsString", "number", 10, 20_000, numbers()),
        "StringToNumber": simple("StringToNumber", "string of 8 digits", 10, 20_000,
            lambda tf, n: tf.constant([b"0.123456"] * n)),
        "StringJoin": Case("string of 16 bytes", 10, 20_000, joining),
        "StringSplitV2": simple("StringSplitV2", "string of two words", 10, 20_000,
            lambda tf, n: tf.constant([b"learning machine"] * n), constant(b" ")),
        "StringLower": simple("StringLower", *word, words()),
        "StringStrip": simple("StringStrip", *word, words()),
        "StringLength": simple("StringLength", *word, words()),
        "Substr": simple("Substr", *word, words(), constant(int32(3)), constant(int32(9))),
        "RegexReplace": simple("RegexReplace", *word, words(), constant(b"[aeiou]+"), constant(b"-")),
        "StaticRegexFullMatch": simple("StaticRegexFullMatch", *word, words(), pattern="[a-m]+.*"),
        "ReduceJoin": simple("ReduceJoin", *word, words(), constant(np.array([0], int32))),
        "StringToHashBucketFast": simple("StringToHashBucketFast", *word, words(), num_buckets=1000),
        "StringToHashBucketStrong": simple("StringToHashBucketStrong", *word, words(), num_buckets=1000, key=[1, 2]),
        "StringNGrams": simple("StringNGrams", *word, words(),
            lambda tf, n: tf.constant([0, n], tf.int64), separator=" ", ngram_widths=[2], left_pad="", right_pad="",
            pad_width=0, preserve_short_sequences=False),
        "UnicodeDecode": simple("UnicodeDecode", *word, words(), input_encoding="UTF-8"),
        "UnicodeTranscode": simple("UnicodeTranscode", *word, words(), input_encoding="UTF-8", output_encoding="UTF-8"),
        "EncodeBase64": simple("EncodeBase64", *word, words()),
        "LookupTableFindV2": table("LookupTableFindV2"),
        "LookupTableInsertV2": table("LookupTableInsertV2"),
        "ParseExampleV2 of 1": examples(1),
        "ParseExampleV2 of 16": examples(16),
        "ParseExampleV2 of 256": examples(256),
        "DecodeCSV": simple("DecodeCSV", "row of 4 numbers", 10, 10_000,
            lambda tf, n: tf.constant([b"0.123,1.25,2.5,7.125"] * n),
            lambda tf, n: [tf.constant([0.0])] * 4),
        "DecodeRaw": simple("DecodeRaw", "byte", 1000, 4_000_000, lambda tf, n: tf.constant(b"x" * n),
            out_type="uint8"),
        "ParseTensor": simple("ParseTensor", "byte", 4000, 4_000_000,
            lambda tf, n: tf.constant(tf.make_tensor_proto(np.zeros(n // 4, np.float32)).SerializeToString()),
            out_type="float32"),
        "SerializeTensor": simple("SerializeTensor", "byte", 4000, 4_000_000,
            lambda tf, n: tf.constant(np.zeros(n // 4, np.float32))),
        "ReadFile": simple("ReadFile", "byte, cached", 1000, 4_000_000, file_of),
        "RandomShuffle": simple("RandomShuffle", "row of 4 bytes", 100, 1_000_000, floats()),
        "RandomShuffle of rows": simple("RandomShuffle", "row of 256 bytes", 100, 20_000,
            lambda tf, n: tf.constant(np.zeros((n, 64), np.float32))),
        "Unique": simple("Unique", "element, a tenth of them different", 100, 200_000,
            lambda tf, n: numbers(max(1, n // 10))(tf, n)),
        "Unique of strings": simple("Unique", *word, words()),
        "Where": simple("Where", "element, half of them true", 100, 1_000_000,
            lambda tf, n: tf.constant(np.arange(n) * 7 % 13 < 6)),
        "TopKV2 of 10": simple("TopKV2", "input element, k = 10 of a row of 1,000", 1000, 1_000_000, floats(1000),
            constant(int32(10))),
        "TopKV2 of all": simple("TopKV2", "input element, k = a row of 1,000", 1000, 500_000, floats(1000),
            constant(int32(1000))),
        "ListDiff": simple("ListDiff", "element", 100, 50_000, numbers(), lambda tf, n: numbers()(tf, n // 2)),
        "DynamicPartition": simple("DynamicPartition", "row of 4 bytes, into 4", 100, 500_000, floats(),
            numbers(4, "int32"), num_partitions=4),
        "DynamicPartition of rows": simple("DynamicPartition", "row of 16 bytes, into 4", 100, 50_000,
            lambda tf, n: floats(4)(tf, 4 * n), numbers(4, "int32"), num_partitions=4),
        "ScatterNd": simple("ScatterNd", "row of 4 bytes", 100, 50_000,
            lambda tf, n: tf.range(n)[:, None], floats(), lambda tf, n: tf.constant([n])),
        "Cumsum": simple("Cumsum", "number, along rows of 16", 1600, 320_000, floats(16), constant(int32(0))),
        "Igamma": simple("Igamma", "number", 100, 20_000, floats(), floats()),
        "DynamicStitch": simple("DynamicStitch", "row of 4 bytes", 100, 500_000,
            lambda tf, n: [tf.range(n)], lambda tf, n: [tf.zeros([n])]),
        "SparseReorder": simple("SparseReorder", "stored element", 100, 200_000,
            lambda tf, n: tf.reverse(part(0)(tf, n), [0]), part(1), part(2)),
        "SparseToDense": simple("SparseToDense", "stored element", 100, 200_000, part(0), part(2), part(1),
            constant(np.float32(0))),
        "SparseFillEmptyRows": simple("SparseFillEmptyRows", "stored element", 100, 200_000, part(0), part(1), part(2),
            constant(np.float32(0))),
        "SparseReshape": simple("SparseReshape", "stored element", 100, 200_000, part(0), part(2),
            constant(np.array([-1], np.int64))),
        "SparseConcat": simple("SparseConcat", "stored element of the output", 100, 200_000,
            lambda tf, n: [part(0)(tf, n // 2)] * 2, lambda tf, n: [part(1)(tf, n // 2)] * 2,
            lambda tf, n: [part(2)(tf, n // 2)] * 2, concat_dim=0),
        "SparseTensorDenseMatMul": simple("SparseTensorDenseMatMul", "operation, 64 columns", 128 * 100, 128 * 50_000,
            lambda tf, n: part(0)(tf, n // 128), lambda tf, n: part(1)(tf, n // 128),
            lambda tf, n: part(2)(tf, n // 128), constant(np.zeros((8, 64), np.float32))),
        "SparseTensorDenseMatMul of 16": simple("SparseTensorDenseMatMul", "operation, 16 columns", 3200,
            32 * 50_000, lambda tf, n: part(0)(tf, n // 32), lambda tf, n: part(1)(tf, n // 32),
            lambda tf, n: part(2)(tf, n // 32), constant(np.zeros((8, 16), np.float32))),
        "SparseSegmentSum": simple("SparseSegmentSum", "number, rows of 64", 6400, 640_000,
            constant(np.zeros((1000, 64), np.float32)), lambda tf, n: numbers(1000, "int32")(tf, n // 64),
            lambda tf, n: tf.range(n // 64) // 10),
        "UnsortedSegmentSum": simple("UnsortedSegmentSum", "number, rows of 64", 6400, 640_000, floats(64),
            lambda tf, n: numbers(100, "int32")(tf, n // 64), constant(int32(100))),
        "EditDistance": simple("EditDistance", "pair of sequences of one", 100, 100_000, part(0), part(1), part(2),
            part(0), part(1), part(2)),
        "Bucketize": simple("Bucketize", "number, 10 boundaries", 100, 500_000, floats(),
            boundaries=[k / 10 for k in range(10)]),
        "HistogramFixedWidth": simple("HistogramFixedWidth", "number", 100, 500_000, floats(),
            constant(np.array([0, 1], np.float32)), constant(int32(30))),
        "InvertPermutation": simple("InvertPermutation", "element", 100, 500_000, lambda tf, n: tf.range(n)),
        "ReverseSequence": simple("ReverseSequence", "number, rows of 64", 6400, 640_000, floats(64),
            lambda tf, n: tf.constant([30] * (n // 64), tf.int64), seq_dim=1, batch_dim=0),
        "Multinomial": simple("Multinomial", "logit, a sample for each row of 1,000", 1000, 500_000, floats(1000),
            constant(int32(1))),
        "LogUniformCandidateSampler": Case("sampled class", 10, 5000, sampling),
        "CTCGreedyDecoder": simple("CTCGreedyDecoder", "logit, 50 classes", 5000, 500_000,
            lambda tf, n: tf.zeros([n // 500, 10, 50]), lambda tf, n: tf.constant([n // 500] * 10)),
        "CTCLoss": simple("CTCLoss", "logit, 50 classes", 50_000, 500_000, lambda tf, n: tf.zeros([n // 500, 10, 50]),
            lambda tf, n: tf.constant([[k, 0] for k in range(10)], "int64"), constant(np.array([1] * 10, int32)),
            lambda tf, n: tf.constant([n // 500] * 10)),
        "CTCBeamSearchDecoder": simple("CTCBeamSearchDecoder", "logit, 50 classes", 250, 2500,
            lambda tf, n: floats(50)(tf, n)[:, None], lambda tf, n: tf.constant([n // 50]), beam_width=100,
            top_paths=1),
        "RaggedTensorToTensor": simple("RaggedTensorToTensor", "number, rows of 64", 6400, 640_000,
            lambda tf, n: tf.constant([-1, 64], tf.int64), floats(), constant(np.float32(0)),
            lambda tf, n: [tf.range(0, n + 1, 64, dtype=tf.int64)], row_partition_types=["ROW_SPLITS"]),
        "RandomUniform": simple("RandomUniform", "number", 100, 1_000_000, lambda tf, n: tf.constant([n]),
            dtype="float32"),
        "RandomStandardNormal": simple("RandomStandardNormal", "number", 100, 1_000_000, lambda tf, n: tf.constant([n]),
            dtype="float32"),
        "TruncatedNormal": simple("TruncatedNormal", "number", 100, 1_000_000, lambda tf, n: tf.constant([n]),
            dtype="float32"),
        "RandomGamma": simple("RandomGamma", "number", 100, 100_000, lambda tf, n: tf.constant([n]),
            constant(np.float32(2))),
        "FFT": simple("FFT", "point of 1,024", 1024, 1024 * 500,
            lambda tf, n: tf.cast(floats(1024)(tf, n), tf.complex64)),
        "HistogramSummary": simple("HistogramSummary", "number", 100, 200_000, constant(b"h"), floats()),
        "ScalarSummary": simple("ScalarSummary", "call", 1, 1, constant(b"s"), constant(np.float32(1))),
        "ImageSummary": simple("ImageSummary", "sample", 3 * 32**2, 3 * 400**2, constant(b"i"), image()),
        "MergeSummary": Case("summary", 1, 1000, merging),
        "DecodeWav": simple("DecodeWav", "sample", 1000, 500_000, wave),
        "AudioSpectrogram": simple("AudioSpectrogram", "sample, windows of 512 every 160", 10_000, 500_000, floats(1),
            window_size=512, stride=160),
        "Mfcc": simple("Mfcc", "number of the spectrogram", 257 * 10, 257 * 1000,
            lambda tf, n: tf.ones([1, n // 257, 257]), constant(int32(16000))),
        **uniform_cases(),
        "PyFunc": Case("call", 1, 1, python(True)),
        "IteratorGetNext": Case("call", 1, 1, pipeline),
        "QueueEnqueueV2, QueueDequeueV2": Case("pair of calls", 1, 1, queue),
        "QueueEnqueueManyV2, QueueDequeueManyV2": Case("number, one of each", 1, 10_000, many),
        "Stage, Unstage": Case("pair of calls", 1, 1, staging),
        "Neg": simple("Neg", "number", 1, 1, floats()),
    }  # fmt: skip


def uniform_cases() -> Mapping[str, Case]:
    """Kernels of numbers that a scale and a zero point make of others."""
    import numpy as np

    def quantised(shape: Callable[[int], tuple[int, ...]], dtype: str = "qint8") -> Callable[[Any, int], Any]:
        """Numbers of that type, of a shape for a size."""
        return lambda tf, n: tf.bitcast(tf.zeros(shape(n), getattr(tf, dtype[1:])), getattr(tf, dtype))

    def limits(*names: str, bits: int = 8) -> dict[str, int]:
        """The least and the largest number of each operand."""
        both = {"min": -(2 ** (bits - 1)), "max": 2 ** (bits - 1) - 1}
        return {f"{name}quantization_{end}_val": value for name in names for end, value in both.items()}

    scale, zero = constant(np.float32(0.1)), constant(np.int32(0))
    rest = [scale, zero] * 3
    sums, wide = limits("output_", bits=32), {"Tout": "qint32"}
    first = {"window_strides": [1, 1], "padding": "SAME", "lhs_dilation": [1, 1], "rhs_dilation": [1, 1]}
    return {
        "UniformQuantize": simple("UniformQuantize", "number", 100, 1_000_000, floats(), scale, zero, Tout="qint8",
            **limits("")),
        "UniformDequantize": simple("UniformDequantize", "number", 100, 1_000_000, quantised(lambda n: (n,)), scale,
            zero, Tout="float32", **limits("")),
        "UniformRequantize": simple("UniformRequantize", "number", 100, 1_000_000,
            quantised(lambda n: (n,), "qint32"), *rest[:4], Tout="qint8", **limits("input_", bits=32),
            **limits("output_")),
        "UniformQuantizedAdd": simple("UniformQuantizedAdd", "number", 100, 1_000_000,
            quantised(lambda n: (n,), "qint32"), quantised(lambda n: (n,), "qint32"), *rest,
            **limits("lhs_", "rhs_", "output_", bits=32)),
        "UniformQuantizedClipByValue": simple("UniformQuantizedClipByValue", "number", 100, 1_000_000,
            quantised(lambda n: (n,), "qint32"), quantised(lambda n: (), "qint32"), quantised(lambda n: (), "qint32"),
            scale, zero, **limits("", bits=32)),
        "UniformQuantizedDot": simple("UniformQuantizedDot", "multiplication, 64 x 64", 4096, 4096 * 300,
            quantised(lambda n: (n // 64**2, 64)), quantised(lambda n: (64, 64)), *rest, **wide,
            **limits("lhs_", "rhs_"), **sums),
        "UniformQuantizedDotHybrid": simple("UniformQuantizedDotHybrid", "multiplication, 64 x 64", 4096, 4096 * 300,
            lambda tf, n: tf.zeros((n // 64**2, 64)), quantised(lambda n: (64, 64)), scale, zero, Tout="float32",
            **limits("rhs_")),
        "UniformQuantizedConvolution": simple("UniformQuantizedConvolution", "multiplication, 3 x 3 x 16 to 8",
            9216, 9216 * 100, quantised(lambda n: (1, 16, 1, n // 1152)), quantised(lambda n: (8, 16, 3, 3)), *rest,
            **first, **wide, **limits("lhs_", "rhs_"), **sums),
        "UniformQuantizedConvolutionHybrid": simple("UniformQuantizedConvolutionHybrid",
            "multiplication, 3 x 3 x 16 to 8", 9216, 9216 * 100, lambda tf, n: tf.zeros((1, 16, 1, n // 1152)),
            quantised(lambda n: (8, 16, 3, 3)), scale, zero, Tout="float32", **first, **limits("rhs_")),
        "QuantizedInstanceNorm": simple("QuantizedInstanceNorm", "number, 8 channels", 6400, 640_000,
            quantised(lambda n: (1, 8, n // 64, 8), "quint8"), constant(np.float32(0)), constant(np.float32(1))),
    }  # fmt: skip


def sampling(tf: Any, n: int) -> Callable[[], Any]:
    true = tf.constant([[1]], tf.int64)
    return lambda: tf.raw_ops.LogUniformCandidateSampler(
        true_classes=true, num_true=1, num_sampled=n, unique=True, range_max=100_000
    )


def joining(tf: Any, n: int) -> Callable[[], Any]:
    one = tf.constant(strings(n, 8))
    return lambda: tf.raw_ops.StringJoin(inputs=[one, one])


def merging(tf: Any, n: int) -> Callable[[], Any]:
    made = [tf.compat.v1.Summary(value=[{"tag": f"loss{k}", "simple_value": 1.0}]) for k in range(n)]
    texts = [tf.constant(one.SerializeToString()) for one in made]
    return lambda: tf.raw_ops.MergeSummary(inputs=texts)


def staging(tf: Any, n: int) -> Callable[[], Any]:
    value = tf.constant(0.0)

    def both() -> Any:
        with tf.control_dependencies([tf.raw_ops.Stage(values=[value], shared_name="s")]):
            return tf.raw_ops.Unstage(dtypes=[tf.float32], shared_name="s")

    return both


def file_of(tf: Any, n: int) -> Any:
    path = Path(f"/tmp/host_ops_{os.getpid()}_{n}")
    path.write_bytes(b"x" * n)
    return tf.constant(str(path))


def wave(tf: Any, n: int) -> Any:
    import struct

    body = b"\1\0" * n
    head = struct.pack("<4sI4s4sIHHIIHH4sI", b"RIFF", 36 + len(body), b"WAVE", b"fmt ", 16, 1, 1, 16000, 32000, 2, 16,
                       b"data", len(body))  # fmt: skip
    return tf.constant(io.BytesIO(head + body).getvalue())


def configuration(tf: Any, threads: int) -> Any:
    """One op at a time, by so many threads, and nothing optimised away. The first session's threads stay for all."""
    config = tf.compat.v1.ConfigProto(intra_op_parallelism_threads=threads, inter_op_parallelism_threads=1)
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    config.graph_options.optimizer_options.opt_level = -1  # L0: no constant folding
    return config


def measured(tf: Any, case: Case, size: int, copies: int, repeats: int) -> tuple[float, bool]:
    """Processor time of one kernel in ns, and whether a second pool thread worked."""
    v1 = tf.compat.v1
    with v1.Graph().as_default() as graph, v1.device("/CPU:0"):
        add = case.make(tf, size)
        made = [operation(add()) for _ in range(copies)]
        # The other step has the constants and as many ops, which hand one on.
        sources = list(dict.fromkeys(value.op for op in made for value in op.inputs if value.op not in made))
        handed = sources[0].outputs[0] if sources and sources[0].outputs else tf.constant(0)
        with tf.control_dependencies(sources):
            empty = tf.group(*[tf.raw_ops.Identity(input=handed) for _ in range(copies)], name="empty")
        full = tf.group(*made, name="full")
        before = v1.get_collection("before")
    with v1.Session(graph=graph, config=configuration(tf, 1)) as session:
        for op in before:
            session.run(op)
        session.run(full)
        session.run(empty)
        begun = time.process_time_ns()
        session.run(full)
        took = max(1, time.process_time_ns() - begun)
        runs = max(repeats, min(10 * repeats, round(2e8 / took)))
        samples: dict[Any, list[int]] = {full: [], empty: []}
        threads_before = on_processor()
        for _ in range(runs):
            for step, seen in samples.items():
                begun = time.process_time_ns()
                session.run(step)
                seen.append(time.process_time_ns() - begun)
        worked = {tid: ns - threads_before.get(tid, 0) for tid, ns in on_processor().items() if tid != os.getpid()}
    busiest = sorted(worked.values(), reverse=True)
    shared = len(busiest) > 1 and busiest[1] > SHARED * busiest[0]
    return (statistics.median(samples[full]) - statistics.median(samples[empty])) / copies, shared


def operation(made: Any) -> Any:
    """The op of a tensor, or of the first of several."""
    while isinstance(made, (list, tuple)):
        made = made[0]
    return getattr(made, "op", made)


def on_processor() -> dict[int, int]:
    """Nanoseconds for which each thread of this process has run (Linux)."""
    found = {}
    for task in Path("/proc/self/task").iterdir():
        try:
            found[int(task.name)] = int((task / "schedstat").read_text().split()[0])
        except FileNotFoundError:
            continue  # it has ended
    return found


def main() -> None:
    """Measure the named kernels, or all, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--sharing", action="store_true", help="only say which kernels two threads share")
    asked = parser.parse_args()
    if find_spec("tensorflow") is None:
        sys.exit('TensorFlow is needed to measure it: pip install "simviz[tensorflow]"')
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import tensorflow as tf

    with tf.Graph().as_default(), tf.compat.v1.Session(config=configuration(tf, 2 if asked.sharing else 1)) as session:
        session.run(tf.constant(0))
    known = cases()
    if asked.sharing:
        for name in asked.names or known:
            if known[name].small == known[name].large:
                continue
            shared = measured(tf, known[name], known[name].large, 1, 2 * asked.repeats)[1]
            print(f"{name}\t{shared}", flush=True)
        return
    command = [sys.executable, __file__, *asked.names, "--sharing", f"--repeats={asked.repeats}"]
    told = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    shares = dict(line.split("\t") for line in told.splitlines() if "\t" in line)
    print("| kernel | unit | ns per unit | ns per call | threads |\n|---|---|---|---|---|")
    for name in asked.names or known:
        case = known[name]
        small, _ = measured(tf, case, case.small, SMALL_COPIES, asked.repeats)
        if case.large == case.small:
            print(f"| {name} | {case.unit} | | {small:.0f} | |", flush=True)
            continue
        large, _ = measured(tf, case, case.large, LARGE_COPIES, asked.repeats)
        slope = (large - small) / (case.large - case.small)
        rest = max(0.0, small - slope * case.small)
        print(
            f"| {name} | {case.unit} | {slope:.3g} | {rest:.0f} | {'yes' if shares[name] == 'True' else 'no'} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
