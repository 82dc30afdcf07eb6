"""skillfeed: personalized skill routing as batch and serving jobs on Ray."""

from importlib.metadata import version

__version__ = version("skillfeed")
