"""Layers: thin modules over `cpuops.autograd`, with their parameters under nested names.

    from cpuops import nn

    net = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(8 * 14 * 14, 10))
    net(images)                 # a Var
    net.state_dict()            # {"0.weight": array, …}
    print(net.summary(images))

Shapes are those of the operations: channels first, and `Linear` has a weight of [d_in, d_out].
"""

from . import _activation, _attention, _container, _conv, _dropout, _linear, _module, _norm, _pool, _recurrent, init
from ._activation import *  # noqa: F403
from ._attention import *  # noqa: F403
from ._container import *  # noqa: F403
from ._conv import *  # noqa: F403
from ._dropout import *  # noqa: F403
from ._linear import *  # noqa: F403
from ._module import *  # noqa: F403
from ._norm import *  # noqa: F403
from ._pool import *  # noqa: F403
from ._recurrent import *  # noqa: F403

_FILES = (_module, _container, _linear, _conv, _norm, _activation, _pool, _dropout, _attention, _recurrent)
__all__ = ["init"]
__all__ += [name for file in _FILES for name in file.__all__]
