"""The errors a person may see: each message says what is wrong, where, and what to do."""


class SettingError(Exception):
    """A setting is wrong or something it names is missing. Jobs stop before any work and exit with 2."""


class SnapshotError(Exception):
    """A snapshot is damaged, incomplete or made for other models. The message names the file."""


class ConflictError(Exception):
    """Another writer changed an object between our read and our conditional write."""
