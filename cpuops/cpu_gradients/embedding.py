"""Gradient of embedding by kernel."""

from .. import _threads

__all__ = ["EmbeddingKernelGradients"]


class EmbeddingKernelGradients:
    """The hook of embedding_backward."""

    def _embedding_backward(self, g, indices, accumulate, out):
        v, d = out.shape
        work = _threads.work(bytes_=3 * g.nbytes + (0 if accumulate else out.nbytes))
        self._run("embedding.embedding_backward", g.dtype, work, g, indices, out, indices.size, v, d, accumulate)
        return out
