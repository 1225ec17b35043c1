# cython: binding=True
"""A memory of recent geometries: a network has some dozens of them, and a small operation takes less time than its checks."""

from libc.math cimport signbit

cdef Py_ssize_t MOST = 256      # geometries of one function
cdef enum:
    FOREIGN, PLAIN, TYPED


cdef int sort_of(tuple values):
    """PLAIN where these may be a key of the memory as they are, TYPED where they need their types beside them: the memory would
    take True and 1.5 for what is equal to them, and a named tuple for its contents. FOREIGN: no key at all."""
    cdef int found = PLAIN, inner
    for value in values:
        kind = type(value)
        if kind is int or kind is str or value is None:
            continue
        if isinstance(value, tuple):
            inner = sort_of(<tuple> value)
            if inner == FOREIGN:
                return FOREIGN
            if inner == TYPED or kind is not tuple:
                found = TYPED
        elif kind is bool or (kind is float and value == value and not (value == 0 and signbit(value))):
            # -0.0 equals 0.0, and NaN nothing
            found = TYPED
        else:
            return FOREIGN
    return found


cdef add_types(list types, tuple values):
    for value in values:
        types.append(type(value))
        if isinstance(value, tuple):
            add_types(types, <tuple> value)


def remembered(function):
    """`function` of positional arguments, answered from memory where these are numbers, words, None and tuples of them; refusals
    are not kept."""
    cdef dict memory = {}

    def call(*args):
        cdef int sort = sort_of(args)
        cdef list types
        if sort == FOREIGN:
            return function(*args)
        key = args
        if sort == TYPED:
            types = []
            add_types(types, args)
            key = args, tuple(types)
        answer = memory.get(key)
        if answer is None:
            answer = function(*args)
            if len(memory) >= MOST:
                del memory[next(iter(memory))]
            memory[key] = answer
        return answer

    call.__name__ = function.__name__
    call.__doc__ = function.__doc__
    return call
