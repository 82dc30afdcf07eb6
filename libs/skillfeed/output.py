"""One output for one set of settings: done once, resumed after a kill, never mixed with another run or other files.

While a run works, the output holds `_progress/` (whose it is, and the markers of finished units) and `_work/` (pieces
that units hand to each other). Both go when `manifest.json` is written. Nothing but what a job left is ever deleted.
"""

import json
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from skillfeed import __version__
from skillfeed.errors import SettingError
from skillfeed.job import Summary
from skillfeed.manifest import MANIFEST, Manifest, fingerprint, read_manifest, write_manifest
from skillfeed.storage import (
    delete_directory,
    delete_file,
    delete_partials,
    exists,
    join,
    list_files,
    read_bytes,
    write_bytes,
)

IDENTITY = "_progress/identity"  # of the run that began here
RUN = "_progress/run"  # the process that works here now; the last one to start
OWNER = "_work/owner"  # there as long as the pieces are whole
DISCARDED = "discarded"  # an identity that no run has


def once(
    job: str,
    output: str,
    identity: dict[str, Any],
    *,
    inputs: Sequence[str],
    settings: dict[str, Any],
    overwrite: bool,
    work: Callable[[], Mapping[str, int]],
) -> Summary:
    """Does the work unless the output already holds it; continues what an interrupted run with the same identity began.

    Args:
        identity: the settings and input fingerprints that decide the rows, as JSON values.
        inputs: URIs that are read; the output must lie apart from them.
        settings: all that the job was told, for the manifest.
        work: writes the tables below `output` and gives their row counts.

    Raises:
        SettingError: the output cannot be used, or holds something else and `overwrite` is off.
        RuntimeError: another run took this output over.
    """
    started = time.monotonic()
    identity = json.loads(json.dumps(identity))
    _refuse_overlap(output, inputs)
    done = _ours(job, output)
    if overwrite:
        _discard(output)
    elif done is not None:
        _refuse_other_identity(done, output, identity)
        _clear_work(output)
        return Summary(job, output, done.rows, 0.0, already_done=True)
    run = _claim(output, fingerprint([job, identity, __version__]))
    rows = dict(work())
    if not exists(join(output, RUN)) or read_bytes(join(output, RUN)).decode() != run:
        raise RuntimeError(f"{output}: another run of {job} took this output over; what it finishes is whole")
    seconds = round(time.monotonic() - started, 3)
    write_manifest(output, Manifest(job=job, identity=identity, settings=settings, rows=rows, seconds=seconds))
    _clear_work(output)
    return Summary(job, output, rows, seconds)


def _refuse_overlap(output: str, inputs: Sequence[str]) -> None:
    for given in inputs:
        if output == given or output.startswith(f"{given}/") or given.startswith(f"{output}/"):
            raise SettingError(f"output: {output} and the input {given} lie in each other; give another place")


def _ours(job: str, output: str) -> Manifest | None:
    """The manifest of a finished run, if there is one.

    Raises:
        SettingError: the place holds files that this job did not write.
    """
    done = read_manifest(output)
    if done is not None and done.job != job:
        raise SettingError(f"output: {output} holds the output of {done.job}; give another place")
    began = done is not None or exists(join(output, IDENTITY))
    if not began and exists(output) and next(list_files(output), None) is not None:
        raise SettingError(f"output: {output} holds files that no job wrote; give an empty or new place")
    return done


def _refuse_other_identity(done: Manifest, output: str, identity: dict[str, Any]) -> None:
    if done.identity != identity:
        changed = sorted(key for key in {*done.identity, *identity} if done.identity.get(key) != identity.get(key))
        raise SettingError(
            f"output: {output} holds a run that differs in {', '.join(changed)}; give another --output, or --overwrite"
        )


def _claim(output: str, identity: str) -> str:
    """Takes the output for this process and gives its token. Finished units of the same identity are kept.

    Raises:
        SettingError: an unfinished run of another identity is there, or the place cannot be written.
    """
    began = read_bytes(join(output, IDENTITY)).decode() if exists(join(output, IDENTITY)) else None
    if began == DISCARDED:
        _discard(output)
    elif began not in (None, identity):
        raise SettingError(
            f"output: {output} holds an unfinished run of other settings or inputs; start that one again, "
            "or discard it by --overwrite"
        )
    run = uuid.uuid4().hex
    try:
        for name, text in ((IDENTITY, identity), (RUN, run), (OWNER, run)):
            write_bytes(join(output, name), text.encode())
    except OSError as error:
        raise SettingError(f"output: {output} cannot be written: {error}") from error
    return run


def _discard(output: str) -> None:
    """Deletes what a job left. The manifest goes first and the mark that it is ours last, so a kill is made good."""
    if not exists(output):
        return
    write_bytes(join(output, IDENTITY), DISCARDED.encode())
    delete_file(join(output, MANIFEST))
    names = {info.path.split(output.removeprefix("s3://") + "/", 1)[1].split("/")[0] for info in list_files(output)}
    for name in sorted(names - {"_progress"}):
        delete_directory(join(output, name))
    delete_directory(join(output, "_progress"))


def _clear_work(output: str) -> None:
    """Removes what only unfinished runs need. The owner's mark goes first: who reads pieces then knows."""
    delete_file(join(output, OWNER))
    delete_directory(join(output, "_work"))
    delete_directory(join(output, "_progress"))
    delete_partials(output)
