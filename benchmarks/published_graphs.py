"""Build the graphs whose steps others measured, as far as published.csv names them.

    python benchmarks/published_graphs.py FOLDER      writes NAME.pb for each graph that FOLDER lacks

The models are those of tf_cnn_benchmarks (tensorflow/benchmarks) and of NVIDIA's DeepLearningExamples, from their
papers and in the same form: channels first, plain SGD, weight decay by L2Loss, images in a variable. A name says what
a graph is:

    MODEL_GPUS_BATCH_parameter_server_cpu    training; variables and updates on the CPU
    MODEL_GPUS_BATCH_replicated_nccl         training; a copy of the variables per GPU, gradients summed by NCCL
    MODEL_GPUS_BATCH_replicated_nccl_half    the same in mixed precision: float16, weights cast each time, a scaled loss
    MODEL_GPUS_BATCH_momentum                training with momentum, variables on the GPU
    MODEL_GPUS_BATCH_adam                    training with Adam: Transformer-XL (published_attention.py), recommenders
                                             (published_recommending.py)
    MODEL_GPUS_BATCH_rmsprop                 training with RMSProp: V-Net (published_volumes.py)
    MODEL_forward_BATCH                      a forward step with variables on the GPU
    MODEL_forward_half_BATCH                 the same in mixed precision: float16, channels last, weights cast each time
"""

import argparse
import csv
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any  # Any: what TensorFlow makes

try:
    import tensorflow as tf
    from published_attention import transformer_xl
    from published_recommending import neumf, vaecf
    from published_volumes import vnet
except ModuleNotFoundError:
    sys.exit('TensorFlow is needed to make these graphs: pip install "simviz[tensorflow]"')

v1 = tf.compat.v1
FIELDS = Path(__file__).with_name("published.csv")
NAME = re.compile(
    r"(?P<model>[a-z0-9]+)_"
    r"(?:(?P<gpus>\d+)_(?P<batch>\d+)_(?P<update>\w+)|forward_(?P<half>half_)?(?P<forward>\d+))"
)
SCALE = 128.0  # of the loss in mixed precision
DECAY = 4e-5  # tf_cnn_benchmarks' weight_decay in 2017
CLASSES = 1001
MEANS, DEVIATIONS = [123.68, 116.28, 103.53], [58.395, 57.12, 57.385]  # of the channels of ImageNet


class Net:
    """One copy of a model in the making: layers act on `top`."""

    def __init__(self, images: Any, home: str, *, training: bool, half: bool) -> None:
        self.top, self.home, self.training = images, home, training
        self.number = tf.float16 if half else tf.float32
        # NVIDIA's runner has channels last in mixed precision, tf_cnn_benchmarks first
        self.format = "NHWC" if half and not training else "NCHW"
        self.weights: list[Any] = []
        self.decayed: list[Any] = []  # all weights but those of batch normalisation
        self.count = 0
        self.normed = True  # convolutions have batch normalisation, not a bias
        self.scaled = True  # batch normalisation learns a scale, too

    @property
    def channels(self) -> int:
        """Channels of the tensor on top."""
        return int(self.top.shape[1 if self.format == "NCHW" else 3])

    def _square(self, size: int | tuple[int, int]) -> list[int]:
        height, width = (size, size) if isinstance(size, int) else size
        return [1, 1, height, width] if self.format == "NCHW" else [1, height, width, 1]

    def variable(self, name: str, shape: list[int], *, trainable: bool = True, cast: bool = True) -> Any:
        """A variable on its device, in the format in which the network computes if `cast`."""
        with tf.device(self.home):
            made = v1.get_variable(name, shape, trainable=trainable)
        if trainable:
            self.weights.append(made)
        if cast:
            self.decayed.append(made)
        return tf.cast(made, self.number) if cast and self.number != tf.float32 else made

    def layer(self, kind: str) -> Any:
        """A scope with the next number for its layer."""
        self.count += 1
        return v1.variable_scope(f"{kind}{self.count}")

    def conv(
        self,
        width: int,
        size: int | tuple[int, int],
        stride: int = 1,
        padding: str = "SAME",
        *,
        relu: bool = True,
        groups: int = 1,
    ) -> None:
        """A convolution, with batch normalisation or a bias. Padding `RESNET` pads ahead where the stride is 2."""
        height, broad = (size, size) if isinstance(size, int) else size
        with self.layer("conv"):
            x = self.top
            if padding == "RESNET":
                sides = [[0, 0], [0, 0], [height // 2] * 2, [broad // 2] * 2]
                ordered = sides if self.format == "NCHW" else [sides[0], sides[2], sides[3], sides[1]]
                x, padding = (tf.pad(x, ordered), "VALID") if stride > 1 and height > 1 else (x, "SAME")
            kernel = self.variable("kernel", [height, broad, self.channels // groups, width])
            x = tf.nn.conv2d(x, kernel, self._square(stride), padding, data_format=self.format)
            self.top = self._normalised(x, width) if self.normed else self._biased(x, width)
            if relu:
                self.top = tf.nn.relu(self.top)

    def _biased(self, x: Any, width: int) -> Any:
        return tf.nn.bias_add(x, self.variable("biases", [width]), data_format=self.format)

    def _normalised(self, x: Any, width: int) -> Any:
        scale = self.variable("gamma", [width], cast=False) if self.scaled else tf.ones([width])
        offset = self.variable("beta", [width], cast=False)
        kept = [self.variable(name, [width], trainable=False, cast=False) for name in ("mean", "variance")]
        if not self.training:
            return v1.nn.fused_batch_norm(x, scale, offset, *kept, is_training=False, data_format=self.format)[0]
        y, *found = v1.nn.fused_batch_norm(x, scale, offset, is_training=True, data_format=self.format)
        for old, new in zip(kept, found, strict=True):
            with tf.device(self.home):
                v1.add_to_collection("updates", v1.assign_sub(old, (old - new) * 0.1))
        return y

    def pool(self, kind: str, size: int, stride: int = 2, padding: str = "VALID") -> None:
        """Pool the tensor on top; `kind` is max or avg."""
        pool = tf.nn.max_pool2d if kind == "max" else tf.nn.avg_pool2d
        self.top = pool(self.top, self._square(size), self._square(stride), padding, data_format=self.format)

    def dense(self, width: int, *, relu: bool = True) -> None:
        """Add a fully connected layer, with dropout where the network has it."""
        with self.layer("dense"):
            weights = self.variable("weights", [int(self.top.shape[-1]), width])
            self.top = tf.nn.bias_add(tf.matmul(self.top, weights), self.variable("biases", [width]))
            if relu:
                self.top = tf.nn.relu(self.top)
                if self.training:
                    self.top = v1.nn.dropout(self.top, 0.5)

    def flat(self) -> None:
        """Make a row of each example."""
        self.top = tf.reshape(self.top, [int(self.top.shape[0]), -1])

    def mean(self) -> None:
        """Take the mean over each image."""
        self.top = tf.reduce_mean(self.top, [2, 3] if self.format == "NCHW" else [1, 2])

    def excite(self) -> None:
        """Weigh the channels by what their means say (Hu et al., Squeeze-and-Excitation Networks, 2017)."""
        x, width = self.top, self.channels
        self.mean()
        self.dense(width // 16)
        self.dense(width, relu=False)
        weights = tf.reshape(tf.sigmoid(self.top), [-1, width, 1, 1] if self.format == "NCHW" else [-1, 1, 1, width])
        self.top = x * weights

    def branches(self, *columns: str) -> None:
        """Columns of layers side by side, joined by channel; a column is read by `_steps`."""
        begin, ends = self.top, []
        trunks: dict[tuple[str, ...], Any] = {(): begin}
        for column in columns:
            layers = tuple(column.split())
            shared = max((trunk for trunk in trunks if layers[: len(trunk)] == trunk), key=len)
            self.top = trunks[shared]
            for depth in range(len(shared), len(layers)):
                self._step(layers[depth])
                trunks[layers[: depth + 1]] = self.top
            ends.append(self.top)
        self.top = tf.concat(ends, 1 if self.format == "NCHW" else 3)

    def _step(self, text: str) -> None:
        """`64:1x7` a convolution, `64:3/2` one at stride 2 without padding, `max/2`, `avg` and `max` pools of 3."""
        what, _, stride = text.partition("/")
        if what in ("max", "avg"):
            self.pool(what, 3, int(stride or 1), "VALID" if stride else "SAME")
            return
        width, _, size = what.partition(":")
        valid, size = size.endswith("v"), size.rstrip("v")
        height, _, broad = size.partition("x")
        self.conv(
            int(width), (int(height), int(broad or height)), int(stride or 1), "VALID" if stride or valid else "SAME"
        )


# --- models ----------------------------------------------------------------------------------------------------------


def alexnet(*widths: int) -> Callable[[Net], None]:
    """Krizhevsky, One weird trick (2014); tf_cnn_benchmarks has a wider layer than the paper."""

    def build(net: Net) -> None:
        net.normed = False
        net.conv(64, 11, 4, "VALID")
        net.pool("max", 3)
        net.conv(192, 5)
        net.pool("max", 3)
        for width in widths:
            net.conv(width, 3)
        net.pool("max", 3)
        net.flat()
        net.dense(4096)
        net.dense(4096)

    return build


def overfeat(net: Net) -> None:
    """Sermanet et al., OverFeat (2013), the fast model."""
    net.normed = False
    net.conv(96, 11, 4, "VALID")
    net.pool("max", 2)
    net.conv(256, 5, 1, "VALID")
    net.pool("max", 2)
    for width in (512, 1024, 1024):
        net.conv(width, 3)
    net.pool("max", 2)
    net.flat()
    net.dense(3072)
    net.dense(4096)


def vgg(*times: int) -> Callable[[Net], None]:
    """Simonyan and Zisserman, Very Deep Convolutional Networks (2014), with so many layers of each width."""

    def build(net: Net) -> None:
        net.normed = False
        for width, count in zip((64, 128, 256, 512, 512), times, strict=True):
            for _ in range(count):
                net.conv(width, 3)
            net.pool("max", 2)
        net.flat()
        net.dense(4096)
        net.dense(4096)

    return build


def googlenet(net: Net) -> None:
    """Szegedy et al., Going Deeper with Convolutions (2014)."""
    net.normed = False
    net.conv(64, 7, 2)
    net.pool("max", 3, 2, "SAME")
    net.conv(64, 1)
    net.conv(192, 3)
    for stage in (
        ((64, 96, 128, 16, 32, 32), (128, 128, 192, 32, 96, 64)),
        (
            (192, 96, 208, 16, 48, 64),
            (160, 112, 224, 24, 64, 64),
            (128, 128, 256, 24, 64, 64),
            (112, 144, 288, 32, 64, 64),
            (256, 160, 320, 32, 128, 128),
        ),
        ((256, 160, 320, 32, 128, 128), (384, 192, 384, 48, 128, 128)),
    ):
        net.pool("max", 3, 2, "SAME")
        for one, before_three, three, before_five, five, pooled in stage:
            # a digit ahead keeps layers of one width apart
            net.branches(f"{one}:1", f"0{before_three}:1 {three}:3", f"00{before_five}:1 {five}:5", f"max {pooled}:1")
    net.pool("avg", 7, 1)
    net.flat()


def resnet(
    blocks: tuple[int, ...], *, late: bool = False, groups: int = 1, excited: bool = False
) -> Callable[[Net], None]:
    """He et al., Deep Residual Learning (2015); `late` strides are in the 3 x 3 layer; Xie et al. (2016) has groups."""

    def build(net: Net) -> None:
        net.conv(64, 7, 2, "RESNET")
        net.pool("max", 3, 2, "SAME")
        for stage, times in enumerate(blocks):
            inner, outer = (64 << stage) * (2 if groups > 1 else 1), 256 << stage
            for block in range(times):
                stride, begin = 2 if stage and not block else 1, net.top
                if not block:
                    net.conv(outer, 1, stride, relu=False)
                shortcut, net.top = net.top, begin
                net.conv(inner, 1, 1 if late else stride)
                net.conv(inner, 3, stride if late else 1, "RESNET", groups=groups)
                net.conv(outer, 1, relu=False)
                if excited:
                    net.excite()
                net.top = tf.nn.relu(shortcut + net.top)
        net.mean()

    return build


def inception3(net: Net) -> None:
    """Szegedy et al., Rethinking the Inception Architecture (2015)."""
    net.scaled = False
    for width, size, stride, padding in ((32, 3, 2, "VALID"), (32, 3, 1, "VALID"), (64, 3, 1, "SAME")):
        net.conv(width, size, stride, padding)
    net.pool("max", 3)
    net.conv(80, 1, 1, "VALID")
    net.conv(192, 3, 1, "VALID")
    net.pool("max", 3)
    for width in (32, 64, 64):
        net.branches("64:1", "48:1 64:5", "064:1 96:3 096:3", f"avg {width}:1")
    net.branches("384:3/2", "64:1 96:3 96:3/2", "max/2")
    for n in (128, 160, 160, 192):
        tall = f"0{n}:1 {n}:7x1 {n}:1x7 0{n}:7x1 192:1x7"
        net.branches("192:1", f"{n}:1 {n}:1x7 192:7x1", tall, "avg 0192:1")
    net.branches("192:1 320:3/2", "0192:1 192:1x7 192:7x1 192:3/2", "max/2")
    for kind in ("avg", "max"):
        ends = ("384:1 384:1x3", "384:1 384:3x1", "448:1 384:3 384:1x3", "448:1 384:3 384:3x1")
        net.branches("320:1", *ends, f"{kind} 192:1")
    net.pool("avg", 8, 1)
    net.flat()


def inception4(net: Net) -> None:
    """Szegedy et al., Inception-v4 (2016)."""
    net.scaled = False
    for width, stride, padding in ((32, 2, "VALID"), (32, 1, "VALID"), (64, 1, "SAME")):
        net.conv(width, 3, stride, padding)
    net.branches("max/2", "96:3/2")
    net.branches("64:1 96:3v", "064:1 64:7x1 64:1x7 96:3v")
    net.branches("192:3/2", "max/2")
    for _ in range(4):
        net.branches("avg 96:1", "96:1", "64:1 96:3", "064:1 96:3 096:3")
    net.branches("max/2", "384:3/2", "192:1 224:3 256:3/2")
    for _ in range(7):
        tall = "0192:1 192:1x7 224:7x1 0224:1x7 256:7x1"
        net.branches("avg 128:1", "384:1", "192:1 224:1x7 256:7x1", tall)
    net.branches("max/2", "192:1 192:3/2", "256:1 256:1x7 320:7x1 320:3/2")
    for _ in range(3):
        deep = "0384:1 448:1x3 512:3x1"
        ends = ("384:1 256:1x3", "384:1 256:3x1", f"{deep} 256:3x1", f"{deep} 256:1x3")
        net.branches("avg 256:1", "256:1", *ends)
    net.mean()
    if net.training:
        net.top = v1.nn.dropout(net.top, 0.8)


MODELS: dict[str, tuple[int, Callable[[Net], None]]] = {  # side of an image, layers up to the classes
    "alexnet": (227, alexnet(384, 384, 256)),
    "alexnetowt": (227, alexnet(384, 256, 256)),
    "overfeat": (231, overfeat),
    "vgg11": (224, vgg(1, 1, 2, 2, 2)),
    "vgg13": (224, vgg(2, 2, 2, 2, 2)),
    "vgg16": (224, vgg(2, 2, 3, 3, 3)),
    "vgg19": (224, vgg(2, 2, 4, 4, 4)),
    "googlenet": (224, googlenet),
    "inception3": (299, inception3),
    "inception4": (299, inception4),
    "resnet50": (224, resnet((3, 4, 6, 3))),
    "resnet152": (224, resnet((3, 8, 36, 3))),
    "resnet50v15": (224, resnet((3, 4, 6, 3), late=True)),
    "resnext101": (224, resnet((3, 4, 23, 3), late=True, groups=32)),
    "seresnext101": (224, resnet((3, 4, 23, 3), late=True, groups=32, excited=True)),
}

OTHERS: dict[str, Callable[..., None]] = {  # of other kinds, which make their step by themselves
    "transformerxl": transformer_xl,
    "vnet": vnet,
    "neumf": neumf,
    "vaecf": vaecf,
}

# --- graphs ----------------------------------------------------------------------------------------------------------


def _images(tower: int, batch: int, side: int) -> Any:
    """Synthetic images in a variable of the tower, in the layout of the layers."""
    with v1.variable_scope(f"tower{tower}"):
        images = v1.get_variable("images", [batch, side, side, 3], trainable=False)
    return tf.transpose(images, [0, 3, 1, 2])


def _forward(model: str, batch: int, *, half: bool) -> None:
    """An evaluation, as NVIDIA's runner has it: images come from the host in each step, and hits are counted."""
    side, layers = MODELS[model]
    with tf.device("/cpu:0"):
        images = v1.get_variable("images", [batch, side, side, 3], trainable=False)
        labels = v1.get_variable("labels", [batch], tf.int32, trainable=False, initializer=v1.zeros_initializer())
    with tf.device("/gpu:0"):
        images = (images - MEANS) / DEVIATIONS
        images = tf.cast(images, tf.float16) if half else tf.transpose(images, [0, 3, 1, 2])
        net = Net(images, "/gpu:0", training=False, half=half)
        layers(net)
        net.dense(CLASSES, relu=False)
        logits = tf.cast(net.top, tf.float32)
        loss = v1.losses.softmax_cross_entropy(tf.one_hot(labels, CLASSES), logits)
        hits = [v1.metrics.mean(tf.nn.in_top_k(labels, logits, k))[1] for k in (1, 5)]
        tf.group(*hits, v1.metrics.mean(loss)[1], name="train")


def _gradients(net: Net, batch: int, *, decays: bool) -> list[Any]:
    labels = v1.random_uniform([batch], maxval=CLASSES - 1, dtype=tf.int32)
    loss = v1.losses.sparse_softmax_cross_entropy(labels, tf.cast(net.top, tf.float32))
    if decays:
        loss += DECAY * tf.add_n([tf.nn.l2_loss(weight) for weight in net.decayed])
    if net.number == tf.float32:
        return list(v1.gradients(loss, net.weights))
    return [gradient * (1 / SCALE) for gradient in v1.gradients(loss * SCALE, net.weights)]


def _training(model: str, gpus: int, batch: int, update: str) -> None:
    side, layers = MODELS[model]
    half, update = update.endswith("_half"), update.removesuffix("_half")
    shared = update != "replicated_nccl"
    homes = ["/cpu:0" if update == "parameter_server_cpu" else f"/gpu:{tower}" for tower in range(gpus)]
    nets, found = [], []
    for tower, home in enumerate(homes):
        with tf.device(f"/gpu:{tower}"), tf.name_scope(f"tower_{tower}"):
            images = _images(tower, batch, side)
            with v1.variable_scope("v" if shared else f"v{tower}", reuse=tower > 0 and shared):
                net = Net(tf.cast(images, tf.float16) if half else images, home, training=True, half=half)
                layers(net)
                net.dense(CLASSES, relu=False)
            # where variables are shared, the last tower decays them for all
            found.append(_gradients(net, batch, decays=not shared or tower == gpus - 1))
        nets.append(net)
    updates = []
    for row, gradients in enumerate(zip(*found, strict=True)):
        for tower, gradient in enumerate(_summed(list(gradients), homes, str(row), shared=shared)):
            with tf.device(homes[tower]):
                updates.append(_applied(nets[tower].weights[row], gradient, update))
    with tf.control_dependencies([*updates, *v1.get_collection("updates")]):
        tf.no_op(name="train")


def _summed(gradients: list[Any], homes: list[str], name: str, *, shared: bool) -> list[Any]:
    """The sum of the towers' gradients, once where variables are shared, else on each GPU."""
    if len(gradients) == 1:
        return gradients
    if shared:
        with tf.device(homes[0]):
            return [tf.add_n(gradients)]
    sums = []
    for home, gradient in zip(homes, gradients, strict=True):
        with tf.device(home):
            sums.append(
                tf.raw_ops.NcclAllReduce(input=gradient, reduction="sum", num_devices=len(homes), shared_name=name)
            )
    return sums


def _applied(weight: Any, gradient: Any, update: str) -> Any:
    momentum = update == "momentum"
    optimizer = v1.train.MomentumOptimizer(0.1, 0.9) if momentum else v1.train.GradientDescentOptimizer(0.1)
    return optimizer.apply_gradients([(gradient, weight)])


def built(name: str) -> Any:
    """The graph of that name. Raises ValueError for a name of another form."""
    found = NAME.fullmatch(name)
    if not found or found["model"] not in (*MODELS, *OTHERS):
        raise ValueError(f"{name}: no graph has a name of this form")
    with tf.Graph().as_default() as graph:
        if found["model"] in OTHERS:
            OTHERS[found["model"]](int(found["forward"] or found["batch"]), training=not found["forward"])
        elif found["forward"]:
            _forward(found["model"], int(found["forward"]), half=bool(found["half"]))
        else:
            _training(found["model"], int(found["gpus"]), int(found["batch"]), found["update"])
        return graph.as_graph_def(add_shapes=True)


def write(folder: Path) -> None:
    """Write the graphs that published.csv names and that the folder lacks."""
    v1.disable_eager_execution()
    v1.disable_resource_variables()
    folder.mkdir(parents=True, exist_ok=True)
    with FIELDS.open(encoding="utf-8") as file:
        names = sorted({row["graph"] for row in csv.DictReader(file)})
    for name in names:
        path = folder / f"{name}.pb"
        if not path.exists():
            graph = built(name)
            print(f"{name}: {len(graph.node)} nodes", file=sys.stderr)
            path.write_bytes(graph.SerializeToString(deterministic=True))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    write(parser.parse_args().folder)
