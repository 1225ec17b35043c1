"""The progress bar."""

from .errors import BenchError

__all__ = ["Bar"]


class Bar:
    """tqdm with the time left, on standard error; `step` moves it on by one visit of a workload."""

    def __init__(self, total, what):
        try:
            from tqdm import tqdm
        except ImportError:
            raise BenchError("the progress bar needs tqdm: pip install 'cpuops[bench]'") from None
        self._bar = tqdm(total=total, desc=what, unit="visit", smoothing=0.05, dynamic_ncols=True)

    def step(self, name):
        self._bar.set_postfix_str(name, refresh=False)
        self._bar.update()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._bar.close()
