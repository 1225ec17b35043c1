"""What every operation means, in plain float64 NumPy: slow, short and obviously right.

One function for each method of a backend, with its name, arguments and results (several results come as a tuple).
Nothing here is shared with cpuops: neither formulas, nor argument handling. A reader who doubts a kernel reads here.
"""

from oracle.attention import *  # noqa: F403
from oracle.conv import *  # noqa: F403
from oracle.conv_activation import *  # noqa: F403
from oracle.conv_transpose import *  # noqa: F403
from oracle.ctc import *  # noqa: F403
from oracle.deform import *  # noqa: F403
from oracle.elementwise import *  # noqa: F403
from oracle.grid_sample import *  # noqa: F403
from oracle.interpolate import *  # noqa: F403
from oracle.matmul import *  # noqa: F403
from oracle.norm import *  # noqa: F403
from oracle.pad import *  # noqa: F403
from oracle.pool import *  # noqa: F403
from oracle.reduce import *  # noqa: F403
from oracle.unfold import *  # noqa: F403
