"""Operations of which several results have gradients."""

import numpy as np
import pytest

from cpuops import autograd
from cpuops.autograd import Var


def normal(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


@pytest.mark.parametrize("name", ["add_layer_norm", "add_rms_norm"])
def test_a_residual_branch(name, serial):
    """The fused operation against add and the norm one after the other, by whichever results are used; once and twice."""
    norm = getattr(autograd, name.removeprefix("add_"))

    def fused(x, r, gamma):
        result = getattr(autograd, name)(x, r, gamma)
        assert type(result).__name__ in ("AddLayerNorm", "AddRmsNorm") and isinstance(result.sum, Var)
        return result

    def apart(x, r, gamma):
        total = x + r
        return norm(total, gamma), total

    arrays = normal(3, 4, 5), normal(3, 4, 5, seed=1), normal(5, seed=2)
    weights = normal(3, 4, 5, seed=3), normal(3, 4, 5, seed=4)

    def losses(run, which):
        values = [Var(a) for a in arrays]
        terms = [autograd.square(y * y * w).sum() for y, w in zip(run(*values), weights, strict=True)]
        return (terms[0] + terms[1] + terms[0] if which == "both" else terms[which]), values

    with autograd.using(serial):
        for which in ("both", 0, 1):
            found = []
            for run in (fused, apart):
                loss, values = losses(run, which)
                first = autograd.grad(loss, values, create_graph=True)
                needed = [g for g in first if g is not None and g.requires_grad]
                second = autograd.grad(sum((autograd.square(g).sum() for g in needed[1:]), autograd.square(needed[0]).sum()), values)
                loss, values = losses(run, which)
                loss.backward()
                assert values[0].grad is not values[1].grad and not np.shares_memory(values[0].grad, values[1].grad)
                found.append(([v.grad for v in values], [None if g is None else g.array for g in first], second))
            for mine, other in zip(*found, strict=True):
                for a, b in zip(mine, other, strict=True):
                    a, b = (np.zeros(1) if v is None else v for v in (a, b))
                    np.testing.assert_allclose(a, np.broadcast_to(b, a.shape), rtol=1e-9, atol=1e-9)
        with autograd.no_grad():
            assert not any(v.requires_grad for v in fused(*map(Var, arrays)))
