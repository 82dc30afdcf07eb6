"""skillfeed: personalized skill routing as batch and serving jobs on Ray."""

__version__ = "0.1.0"
