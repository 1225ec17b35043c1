# cython: binding=True
"""A memory of recent geometries: a network has some dozens of them, and a small operation takes less time than its checks."""

cdef Py_ssize_t MOST = 256      # geometries of one function


cdef bint plain(tuple values):
    """Whether these may be a key of the memory: it would take True and 1.0 for 1."""
    for value in values:
        kind = type(value)
        if kind is tuple:
            if not plain(<tuple> value):
                return False
        elif kind is not int and kind is not str:
            return False
    return True


def remembered(function):
    """`function` of positional arguments, answered from memory where all of them are plain; refusals are not kept."""
    cdef dict memory = {}

    def call(*args):
        if not plain(args):
            return function(*args)
        answer = memory.get(args)
        if answer is None:
            answer = function(*args)
            if len(memory) >= MOST:
                del memory[next(iter(memory))]
            memory[args] = answer
        return answer

    call.__name__ = function.__name__
    call.__doc__ = function.__doc__
    return call
