"""What a unit of a job is to do: the unit's name in, counts out. See units.py, which runs them on Ray."""

from collections.abc import Callable

Counts = dict[str, int]
Work = Callable[[str], Counts]
