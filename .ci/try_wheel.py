"""Install the wheel of a folder into a fresh environment, away from the source tree, and train one layer with it."""

import subprocess
import sys
import tempfile
import venv
from pathlib import Path

SMOKE = """
import numpy as np
import cpuops

config = cpuops.show_config()
assert "site-packages" in cpuops.__file__, cpuops.__file__
rng = np.random.default_rng(0)
x, w = rng.standard_normal((4, 3, 16, 16)), rng.standard_normal((8, 3, 3, 3))
for dtype in (np.float32, np.float64):
    results = []
    for ops in (cpuops.CpuBackend(), cpuops.ThreadedCpuBackend(2)):
        y = ops.relu(ops.conv2d(x.astype(dtype), w.astype(dtype), padding=1))
        grads = ops.conv2d_backward(x.astype(dtype), w.astype(dtype), ops.relu_backward(y, y), padding=1)
        results.append([a.tobytes() for a in (y, *grads)])
    assert results[0] == results[1], dtype
step = 1e-6 * rng.standard_normal(w.shape)
ops = cpuops.CpuBackend()
loss = lambda w: 0.5 * np.square(ops.conv2d(x, w, padding=1)).sum()
change = loss(w + step) - loss(w - step)
expected = 2 * (ops.conv2d_weight_backward(x, w, ops.conv2d(x, w, padding=1), padding=1) * step).sum()
assert abs(change - expected) < 1e-4 * abs(expected), (change, expected)
try:
    ops.conv2d(x, w[:, :2])
except cpuops.ShapeError as error:
    print(error)
else:
    raise AssertionError("a weight of two channels was taken for three")
"""


def main():
    (wheel,) = Path(sys.argv[1]).resolve().glob("*.whl")
    with tempfile.TemporaryDirectory() as folder:
        python = Path(folder) / "venv" / "bin" / "python"
        venv.create(python.parents[1], with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", wheel], check=True, cwd=folder)
        subprocess.run([python, "-I", "-W", "error", "-c", SMOKE], check=True, cwd=folder)
        installed = sum(f.stat().st_size for f in python.parents[1].rglob("site-packages/cpuops/**/*") if f.suffix != ".pyc")
    print(f"{wheel.name}: {wheel.stat().st_size / 1e6:.1f} MB, {installed / 1e6:.1f} MB installed")


if __name__ == "__main__":
    main()
