"""ONNX Runtime: one model of one node a workload, run with its operands and results bound to memory that exists.

Weights are initialisers, which the runtime may repack when it loads the model, as in inference. There are no gradients.
"""

from functools import partial

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from ..engine import Contestant, Engine

__all__ = ["OnnxPeer"]

OPSET = 21
IR_VERSION = 10
# method -> (operator, attributes from the options); operands become inputs in their order
PLAIN = {
    "add": "Add", "sub": "Sub", "mul": "Mul", "div": "Div", "maximum": "Max", "minimum": "Min", "neg": "Neg", "exp": "Exp",
    "log": "Log", "sqrt": "Sqrt",
    "reciprocal": "Reciprocal", "abs": "Abs", "erf": "Erf", "relu": "Relu", "sigmoid": "Sigmoid", "tanh": "Tanh",
    "elu": "Elu", "softplus": "Softplus", "hard_swish": "HardSwish", "mish": "Mish", "matmul": "MatMul",
}  # fmt: skip
# operands that are weights
WEIGHTS = ("weight", "weights", "bias", "gamma", "beta", "mean", "variance")


def pads(padding, n):
    """ONNX lists all beginnings, then all ends."""
    return (list(padding) if isinstance(padding, tuple | list) else [padding] * n) * 2


def per_axis(value, n):
    return list(value) if isinstance(value, tuple | list) else [value] * n


def convolution(args, options):
    n = args["x"].ndim - 2
    lists = {"strides": ("stride", 1), "dilations": ("dilation", 1)}
    attributes = {name: per_axis(options.get(key, default), n) for name, (key, default) in lists.items()}
    return node("Conv", args, pads=pads(options.get("padding", 0), n), group=options.get("groups", 1), **attributes)


def pool(operator, results=1):
    def build(args, options):
        n = args["x"].ndim - 2
        kernel = per_axis(args["kernel_size"], n)
        stride = per_axis(options["stride"], n) if options.get("stride") else kernel
        more = {"count_include_pad": int(options.get("count_include_pad", True))} if operator == "AveragePool" else {}
        spatial = {"kernel_shape": kernel, "strides": stride, "pads": pads(options.get("padding", 0), n)}
        return node(operator, {"x": args["x"]}, results=results, **spatial, **more)

    return build


def global_average(args, options):
    return node("GlobalAveragePool", {"x": args["x"]}) if args["output_size"] == 1 else None


def reduction(operator):
    def build(args, options):
        axis = options.get("axis")
        axes = list(range(args["x"].ndim)) if axis is None else per_axis(axis, 1)
        return node(operator, {**args, "axes": np.array(axes, np.int64)}, keepdims=0)

    return build


def axis_of(operator):
    return lambda args, options: node(operator, args, axis=options.get("axis", -1))


def batch_norm(args, options):
    order = ("x", "gamma", "beta", "mean", "variance")
    return node("BatchNormalization", {k: args[k] for k in order}, epsilon=args["epsilon"])


def layer_norm(args, options):
    return node("LayerNormalization", {k: args[k] for k in ("x", "gamma", "beta")}, axis=-1, epsilon=args["epsilon"])


def instance_norm(args, options):
    return node("InstanceNormalization", {k: args[k] for k in ("x", "gamma", "beta")}, epsilon=args["epsilon"])


def group_norm(args, options):
    arrays = {k: args[k] for k in ("x", "gamma", "beta")}
    return node("GroupNormalization", arrays, num_groups=args["num_groups"], epsilon=args["epsilon"])


BUILDERS = {
    **{method: (lambda args, options, operator=operator: node(operator, args)) for method, operator in PLAIN.items()},
    **{f"conv{n}d": convolution for n in (1, 2, 3)},
    **{f"max_pool{n}d": pool("MaxPool") for n in (1, 2, 3)},
    **{f"max_pool{n}d_with_indices": pool("MaxPool", results=2) for n in (1, 2, 3)},
    **{f"avg_pool{n}d": pool("AveragePool") for n in (1, 2, 3)},
    "adaptive_avg_pool2d": global_average,
    "gelu": lambda args, options: node("Gelu", args, approximate=options.get("approximate", "none")),
    "linear": lambda args, options: node("Gemm", args),
    "embedding": lambda args, options: node("Gather", args),
    "softmax": axis_of("Softmax"),
    "log_softmax": axis_of("LogSoftmax"),
    "reduce_sum": reduction("ReduceSum"),
    "reduce_mean": reduction("ReduceMean"),
    "reduce_max": reduction("ReduceMax"),
    "logsumexp": reduction("ReduceLogSumExp"),
    "argmax": lambda args, options: node("ArgMax", args, axis=options["axis"], keepdims=0),
    "batch_norm": batch_norm,
    "layer_norm": layer_norm,
    "instance_norm": instance_norm,
    "group_norm": group_norm,
}


def node(operator, arrays, results=1, **attributes):
    """(the node, its arrays by input name, how many results it has)"""
    outputs = [f"result{i}" for i in range(results)]
    return helper.make_node(operator, list(arrays), outputs, **attributes), arrays, outputs


class OnnxPeer(Engine):
    name = "onnxruntime"

    def __init__(self, threads):
        self.settings = onnxruntime.SessionOptions()
        self.settings.intra_op_num_threads = threads
        self.settings.inter_op_num_threads = 1
        self.settings.log_severity_level = 4

    def version(self):
        return onnxruntime.__version__

    def contestants(self, job):
        build = BUILDERS.get(job.workload.method)
        made = build(job.args, job.options) if build else None
        if made is None:
            return []
        session = self._session(*made)
        if session is None:
            return []
        _, arrays, outputs = made
        feeds = {i.name: arrays[i.name] for i in session.get_inputs()}
        results = [np.zeros_like(r) for r in session.run(outputs, feeds)]
        binding = session.io_binding()
        for name, array in feeds.items():
            binding.bind_cpu_input(name, array)
        for name, array in zip(outputs, results, strict=True):
            binding.bind_output(name, "cpu", 0, array.dtype, array.shape, array.ctypes.data)
        call = partial(session.run_with_iobinding, binding)
        return [Contestant("bound", call, lambda _: _in_our_indices(results, job))]

    def _session(self, one, arrays, outputs):
        # second results, and the only one of ArgMax, are positions
        values = helper.np_dtype_to_tensor_dtype(next(iter(arrays.values())).dtype)
        kinds = dict.fromkeys(outputs, TensorProto.INT64) | {outputs[0]: values}
        if one.op_type == "ArgMax":
            kinds[outputs[0]] = TensorProto.INT64
        graph = helper.make_graph(
            [one],
            "workload",
            [_info(name, a) for name, a in arrays.items() if not _is_constant(name)],
            [helper.make_tensor_value_info(name, kind, None) for name, kind in kinds.items()],
            [numpy_helper.from_array(a, name) for name, a in arrays.items() if _is_constant(name)],
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)
        model = onnx.shape_inference.infer_shapes(model)
        try:
            return onnxruntime.InferenceSession(model.SerializeToString(), self.settings, providers=["CPUExecutionProvider"])
        except onnxruntime.capi.onnxruntime_pybind11_state.NotImplemented:
            return None  # no kernel for this dtype


def _is_constant(name):
    return name in WEIGHTS or name == "axes"


def _info(name, array):
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)


def _in_our_indices(results, job):
    """Its pooling indices count through the whole tensor, ours through one plane."""
    if len(results) == 2:
        x = job.args["x"]
        return results[0], results[1] % int(np.prod(x.shape[2:]))
    return tuple(results)
