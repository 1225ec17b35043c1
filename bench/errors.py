"""The one error that a user is meant to see."""

__all__ = ["BenchError"]


class BenchError(Exception):
    """Nothing could be measured or compared, for a reason that fits a line. The command ends with status 2."""
