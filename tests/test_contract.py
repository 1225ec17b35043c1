"""Row ↔ method ↔ docstring, the two backends alike, and the floors of the house."""

import ast
import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from support import seeded
from table import ROWS

import cpuops

PACKAGE = Path(cpuops.__file__).parent
NOT_OPERATIONS = {"name", "num_threads", "has_attention_backward", "has_ctc_loss_backward"}
METHODS = sorted({method for row in ROWS.values() for method in row.methods()})
ROW_OF = {method: row for row in ROWS.values() for method in row.methods()}


def public(cls):
    return {n for n in dir(cls) if not n.startswith("_")} - NOT_OPERATIONS


# ---------------------------------------------------------------- rows and methods


@pytest.mark.parametrize("cls", [cpuops.CpuBackend, cpuops.ThreadedCpuBackend], ids=lambda cls: cls.__name__)
def test_every_method_has_a_row_and_every_row_a_method(cls):
    have = public(cls)
    assert not have - set(METHODS), "methods without a row in tests/table"
    assert not set(METHODS) - have, "rows whose method is missing"


def test_gradients_live_in_backward_ops():
    names = {g.name for row in ROWS.values() for g in row.gradients} | {"conv2d_input_backward"}
    assert names <= public(cpuops.BackwardOps) | public(cpuops.Backend)
    assert public(cpuops.BackwardOps) <= names, "gradients without a row"
    assert not {n for n in public(cpuops.Backend) if n.endswith("_backward")} - {"conv2d_input_backward"}
    assert not issubclass(cpuops.BackwardOps, cpuops.Backend)


def test_the_backends_are_one_class_with_another_thread_decision():
    for name in METHODS:
        serial, threaded = getattr(cpuops.CpuBackend, name), getattr(cpuops.ThreadedCpuBackend, name)
        assert inspect.signature(serial) == inspect.signature(threaded), name
        assert serial is threaded, f"{name} is written twice"
    overridden = {n for n in vars(cpuops.ThreadedCpuBackend) if not n.startswith("__")} - {"_abc_impl"}
    assert overridden == {"name", "num_threads", "_threads", "_small_ns"}


def test_backend_is_abstract():
    assert cpuops.Backend.__abstractmethods__ == {"name", "num_threads", "_kernel", "_threads"}


@pytest.mark.parametrize("method", METHODS)
def test_signature(method):
    """Operands in the row's order, positional or by name; options keyword-only; nothing else is required."""
    row = ROW_OF[method]
    calls = list(row.calls(seeded("signature", row.name)))
    if method == row.name:
        operands = list(max((c.args for c in calls), key=len))
        options = {k for c in calls for k in c.options}
        several = bool(row.result)
    else:
        gradient = next(g for g in row.gradients if g.name == method)
        operands = gradient.takes.split()
        options = {k for c in calls for k in (*c.options, *gradient.more(c))} - set(gradient.without)
        several = len(gradient.gives) > 1
    parameters = inspect.signature(getattr(cpuops.CpuBackend(), method)).parameters
    positional = [p.name for p in parameters.values() if p.kind is p.POSITIONAL_OR_KEYWORD]
    keywords = {p.name for p in parameters.values() if p.kind is p.KEYWORD_ONLY}
    assert positional == operands
    assert len(parameters) == len(positional) + len(keywords)
    assert options <= keywords and ("out" in keywords) != several
    for p in parameters.values():
        if p.kind is p.KEYWORD_ONLY and not (p.name == "axis" and method.endswith("softmax_backward")):
            assert p.default is not p.empty, f"{p.name} has no default"


def test_default_options():
    """The defaults that the contract writes down."""
    want = {
        "leaky_relu": {"negative_slope": 0.01}, "elu": {"alpha": 1}, "celu": {"alpha": 1}, "hardtanh": {"min": -1, "max": 1},
        "hard_sigmoid": {"alpha": 0.2, "beta": 0.5},
        "gelu": {"approximate": "none"}, "softplus": {"beta": 1}, "glu": {"axis": -1}, "softmax": {"axis": -1},
        "log_softmax": {"axis": -1}, "argmax": {"axis": None, "keepdims": False},
        "reduce_sum": {"axis": None, "keepdims": False}, "reduce_max": {"axis": None, "keepdims": False},
        "logsumexp": {"axis": None, "keepdims": False},
        "cross_entropy": {"reduction": "mean", "ignore_index": None, "label_smoothing": 0.0}, "mse_loss": {"reduction": "mean"},
        "linear": {"bias": None},
        "conv1d": {"bias": None, "stride": 1, "padding": 0, "dilation": 1, "groups": 1},
        "conv2d": {"stride": 1, "padding": 0, "dilation": 1, "groups": 1, "layout": "NCHW"},
        "conv3d_backward": {"bias": True, "stride": 1, "padding": 0, "dilation": 1, "groups": 1},
        "max_pool2d": {"stride": None, "padding": 0, "dilation": 1, "ceil_mode": False, "layout": "NCHW"},
        "max_pool1d_with_indices": {"indices_dtype": np.int64},
        "avg_pool3d": {"stride": None, "padding": 0, "dilation": 1, "ceil_mode": False},
        "avg_pool1d": {"count_include_pad": True, "divisor_override": None},
        "layer_norm": {"beta": None, "epsilon": 1e-5}, "rms_norm": {"epsilon": 1e-5},
        "group_norm": {"gamma": None, "beta": None, "epsilon": 1e-5},
        "instance_norm": {"gamma": None, "beta": None, "epsilon": 1e-5},
    }  # fmt: skip
    for name, defaults in want.items():
        for method in (
            (name, name + "_backward") if hasattr(cpuops.CpuBackend, name + "_backward") and "bias" not in defaults else (name,)
        ):
            parameters = inspect.signature(getattr(cpuops.CpuBackend, method)).parameters
            for option, value in defaults.items():
                if option in parameters and (method == name or parameters[option].kind is inspect.Parameter.KEYWORD_ONLY):
                    if method.endswith("softmax_backward"):
                        continue
                    assert parameters[option].default == value, (method, option)


def test_by_keyword(row, serial):
    """Every operand also by its name."""
    call = next(c for c in row.calls(seeded("keyword", row.name)) if all(a.size > 1 for a in c.arrays.values())).cast(np.float32)
    positional = call.on(serial, row.name)
    named = getattr(serial, row.name)(**call.args, **call.options)
    first = positional[0] if isinstance(positional, tuple) else positional
    second = named[0] if isinstance(named, tuple) else named
    assert first.tobytes() == second.tobytes()
    if row.gradients:
        results = tuple(positional) if isinstance(positional, tuple) else (positional,)
        for gradient, gcall in row.gradient_calls(call, results, np.ones(first.shape, np.float32)):
            assert type(getattr(serial, gradient.name)(**gcall.args, **gcall.options)) is type(gcall.on(serial, gradient.name))


# ---------------------------------------------------------------- docstrings


def sections(text):
    """{heading: lines} of a numpydoc docstring."""
    lines = inspect.cleandoc(text).splitlines()
    found, heading = {"": []}, ""
    for line, after in zip(lines, [*lines[1:], ""], strict=True):
        if after and set(after) == {"-"} and len(after) >= 3 and line.strip():
            heading = line.strip()
            found[heading] = []
        elif not (line and set(line) == {"-"}):
            found[heading].append(line)
    return found


@pytest.mark.parametrize("method", METHODS)
def test_docstring(method):
    function = getattr(cpuops.CpuBackend, method)
    assert function.__doc__, "no docstring"
    found = sections(function.__doc__)
    summary = found[""][0]
    assert summary and summary.endswith(".") and len(summary) < 140, summary
    for heading in ("Parameters", "Returns", "Raises"):
        assert any(line.strip() for line in found.get(heading, [])), f"no section {heading}"
    described = {}
    for line in found["Parameters"]:
        entry = re.match(r"^(\w+(?:, \w+)*)(?: : (.+))?$", line)
        if entry:  # options that mean what they mean in the forward need no type of their own
            described.update(dict.fromkeys(entry[1].split(", "), entry[2]))
    parameters = [p for p in inspect.signature(function).parameters.values() if p.name != "self"]
    names = {p.name for p in parameters}
    assert not names - set(described), "the section Parameters leaves out arguments"
    assert not set(described) - names, "the section Parameters lists arguments that do not exist"
    row = ROW_OF[method]
    named = {k for c in list(row.calls(seeded("docs", row.name)))[:40] for k in c.arrays} | {
        "output_grad",
        "output",
        "indices",
        "mean",
        "variance",
    }
    for p in parameters:
        kind = described[p.name]
        if kind is None:
            assert p.name not in named, f"{p.name} has no type"
            continue
        if p.name in named and p.default is not True:  # (the flag `bias` shares the operand's name); out has the shape of what is returned
            assert "[" in kind or "shape" in kind, f"{p.name} : {kind} gives no shape"
        if p.default is None:
            assert "optional" in kind or "None" in kind, f"{p.name} : {kind} does not say that it may be left out"
    returned = " ".join(found["Returns"])
    gradients = [g for g in row.gradients if g.name == method and g.result]
    if gradients:  # each has the shape of its operand
        for gradient in gradients:
            assert gradient.result in returned, f"Returns does not name {gradient.result}"
    else:
        assert "[" in returned or "shape" in returned, "Returns gives no shape"
    assert re.search(r"\w+Error", " ".join(found["Raises"])), "Raises names no class"


def test_public_classes_have_docstrings():
    for name in cpuops.__all__:
        assert inspect.getdoc(getattr(cpuops, name)), name


# ---------------------------------------------------------------- floors: an arrow may only point down

FLOORS = [
    {"_memory", "_omp", "_operand", "_remembered", "_types"},
    {"_kernels.*"},
    {"_kernels"},
    {"_small"},
    {"errors", "_check", "_alloc", "_contention", "_threads", "results", "memory"},
    {"ops", "ops.*"},
    {"backend", "backward"},
    {"cpu", "cpu_gradients", "cpu_gradients.*"},
    {"config", "explain"},
    {""},
    {"autograd", "autograd.*", "nn", "nn.*", "optim", "optim.*", "io", "data"},
]


def floor_of(module):
    for floor, names in enumerate(FLOORS):
        if module in names or (f"{module.rpartition('.')[0]}.*" in names and "." in module):
            return floor
    raise AssertionError(f"cpuops.{module} stands on no floor: add it to FLOORS")


def module_name(path):
    parts = list(path.relative_to(PACKAGE).with_suffix("").parts)
    if parts[-1] == "__init__":
        parts.pop()
    return ".".join(parts)


def exists(module):
    path = PACKAGE.joinpath(*module.split(".")) if module else PACKAGE
    return path.is_dir() or any(path.parent.glob(path.name + ".*"))


def python_imports(path, module):
    """Modules of the package that a Python file imports when it is imported (not inside its functions)."""
    package = module.split(".") if path.name == "__init__.py" else module.split(".")[:-1]
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Import):
            yield from (a.name.removeprefix("cpuops").lstrip(".") for a in node.names if a.name.split(".")[0] == "cpuops")
        elif isinstance(node, ast.ImportFrom):
            if node.level:
                base = [p for p in package if p][: len([p for p in package if p]) - node.level + 1]
            elif node.module and node.module.split(".")[0] == "cpuops":
                base = []
            else:
                continue
            stem = ".".join([*base, *(node.module or "").removeprefix("cpuops").strip(".").split(".")]).strip(".")
            for alias in node.names:
                inner = f"{stem}.{alias.name}".strip(".")
                yield inner if exists(inner) else stem


def cython_imports(path):
    for line in path.read_text().splitlines():
        found = re.match(r"\s*from cpuops\.?([\w.]*) c?import|\s*c?import cpuops\.?([\w.]*)", line)
        if found:
            yield found[1] or found[2] or ""


def edges():
    for path in sorted(PACKAGE.rglob("*.py")):
        module = module_name(path)
        yield from ((path, module, target) for target in python_imports(path, module))
    for path in sorted((*PACKAGE.rglob("*.pyx"), *PACKAGE.rglob("*.pxd"))):
        yield from ((path, module_name(path), target) for target in cython_imports(path))


def test_imports_point_down():
    count = 0
    for path, module, target in edges():
        count += 1
        assert floor_of(target) <= floor_of(module), f"{path.relative_to(PACKAGE)} imports cpuops.{target}, which stands above it"
    assert count > 20


def test_kernels_do_not_call_python():
    """A kernel file imports neither a checking module nor a Python module of the package."""
    for path in (PACKAGE / "_kernels").rglob("*.pyx"):
        text = path.read_text()
        assert not re.search(r"^\s*import numpy as np\b", text, re.M) or path.stem == "cpuid", (
            f"{path.name} imports NumPy's Python side"
        )
        assert "np.dot" not in text and "np.matmul" not in text, path.name


def test_the_isa_is_named_in_one_place():
    """No word of an instruction set in Python above the kernels, nor in a kernel's Cython."""
    words = re.compile(r"\b(avx\w*|sse\w*|x86-64-v\d|neon)\b", re.I)
    for path in (*PACKAGE.rglob("*.py"), *(PACKAGE / "_kernels").glob("*.pyx")):
        if (path.parent.name == "_kernels" and path.name in ("__init__.py", "cpuid.pyx")) or path.name == "config.py":
            continue
        assert not words.search(path.read_text()), path.relative_to(PACKAGE)


# ---------------------------------------------------------------- what an import does

FRESH = """
import os, sys
before = len(os.listdir("/proc/self/task")) if os.path.isdir("/proc/self/task") else 0
import cpuops
loaded = [m for m in ("cpuops.autograd", "scipy", "torch", "hypothesis", "pytest") if m in sys.modules]
assert not loaded, loaded
after = len(os.listdir("/proc/self/task")) if os.path.isdir("/proc/self/task") else 0
import numpy as np
backend = cpuops.CpuBackend()
backend.relu(np.ones(3)), backend.softmax(np.ones((2, 3))), backend.conv2d(np.ones((1, 1, 4, 4)), np.ones((1, 1, 3, 3)))
assert "cpuops.autograd" not in sys.modules
print(after - before)
"""


def fresh(code, **env):
    path = os.pathsep.join([str(PACKAGE.parent), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": path, **env}, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr[-1500:]
    return done.stdout.strip()


def test_import_is_light():
    # NumPy's own BLAS may start threads when NumPy is imported; it is kept to one here
    assert fresh(FRESH, OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1") == "0", "the import started threads"


def test_the_serial_backend_starts_no_thread():
    code = """
import os
import numpy as np, cpuops
backend = cpuops.CpuBackend()
x = np.ones((300, 1000), np.float32)
backend.gelu(x), backend.softmax(x), backend.reduce_sum(x), backend.matmul(x, x.T)
print(len(os.listdir("/proc/self/task")))
"""
    if not os.path.isdir("/proc/self/task"):
        pytest.skip("threads are counted in /proc, which this platform lacks")
    assert fresh(code, OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1") == "1"


def test_a_third_party_overrides_a_forward():
    """A default gradient calls the forward methods of the class it is mixed into."""

    class Counting(cpuops.CpuBackend):
        calls = 0

        def relu(self, x, *, out=None):
            type(self).calls += 1
            return super().relu(x, out=out)

    backend, x = Counting(), np.arange(-3, 4, dtype=np.float32)
    assert (backend.relu(x) == np.maximum(x, 0)).all() and Counting.calls == 1
    assert (backend.relu_backward(x, x) == np.where(x > 0, x, 0)).all()
