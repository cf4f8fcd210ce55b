"""The component side: a `Server` that calls the bindings, and the export that runs a handler.

The bindings (`wit_world`) are generated from the WIT at each build. This module and the plugin's own are imported at build
time; the component starts from a snapshot of that.
"""

from __future__ import annotations

import gc
import linecache
import re
import sys
import time
import traceback
from typing import Any, Callable, Optional

# Imported by the standard library only when they are needed, which is too late in a component.
import _strptime  # noqa: F401
import encodings.ascii  # noqa: F401
import encodings.idna  # noqa: F401
import encodings.latin_1  # noqa: F401
import encodings.utf_16  # noqa: F401
import encodings.utf_8_sig  # noqa: F401

from componentize_py_types import Err
from wit_world import exports
from wit_world.exports import run as wit
from wit_world.imports import cancel, checkpoint, children, config, log, progress, records, secrets, spawn

from . import handlers
from .context import Context
from .duration import millis
from .errors import Cancelled, Fatal, RetryAfter, Waiting
from .job import Cancel, Child, ChildCounts, ChildListed, Job, Progress, Recorded

# The bindings call the module of shared types by its short name where no other package has one.
_types = getattr(log, "windlass_job_types", None) or log.types

_DETAIL_CHARACTERS = 16_000
_U64 = (1 << 64) - 1
#: How many children to ask for at once; the server returns no more.
_PAGE = 100


class Run(exports.Run):
    def run(self, job: Any) -> bytes:
        sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
        # The snapshot holds a state of the generator, and every instance would draw the same numbers.
        if "random" in sys.modules:
            sys.modules["random"].seed()
        if "logging" in sys.modules:
            sys.modules["logging"]._startTime = time.time_ns()  # type: ignore[attr-defined]
        saved = job.checkpoint and (job.checkpoint.schema, job.checkpoint.state)
        ours = Job(
            id=job.id,
            queue=job.queue,
            payload=job.payload,
            attempt=job.attempt,
            max_attempts=job.max_attempts,
            tags=dict(job.tags),
            scope=job.scope,
            round=job.round,
            created_at_ms=job.created_at_ms,
            deadline_ms=job.deadline_ms,
        )
        try:
            return handlers.find(job.queue).run(Context(ours, saved, _Imports()))
        except Waiting:
            return b""  # The server knows that the job waits, and ignores its result.
        except BaseException as error:  # also SystemExit: uncaught, it would be a trap without a message
            raise failed(error, skip=_is_ours) from None
        finally:
            sys.stdout.flush()
            sys.stderr.flush()


def _is_ours(path: str) -> bool:
    """Frames of the SDK around the handler, which its author does not want to see."""
    return path == __file__ or path == handlers.__file__


def failed(error: BaseException, skip: Callable[[str], bool]) -> Err:
    """An error in the form that the server takes. Frames in files for which `skip` is true are left out of its traceback."""
    retry: Any = wit.Retry_Backoff()
    detail: Optional[str] = None
    if isinstance(error, Cancelled):
        pass  # The server knows that it asked, and why; to it this is no failure.
    elif isinstance(error, Fatal):
        retry = wit.Retry_Never()
    elif isinstance(error, RetryAfter):
        retry = wit.Retry_AfterMs(millis(error.delay))
    if not isinstance(error, Cancelled):
        trace = traceback.TracebackException.from_exception(error)
        _leave_out(trace, skip)
        # Folders have numbers for names in a component; the file is what its author knows.
        detail = re.sub(r'File "/[0-9]+/', 'File "', _text("".join(trace.format())))[-_DETAIL_CHARACTERS:]
    return Err(wit.Failure(message=_message(error), detail=detail, retry=retry))


def _leave_out(trace: Any, skip: Callable[[str], bool]) -> None:
    """Of the error, and of those it came from."""
    trace.stack[:] = [frame for frame in trace.stack if not skip(frame.filename)]
    for other in (trace.__cause__, trace.__context__):
        if other is not None:
            _leave_out(other, skip)


def _message(error: BaseException) -> str:
    words, kind = _text(error), type(error)
    if kind in (Fatal, RetryAfter, Cancelled, Exception, RuntimeError):
        return words or kind.__name__
    return f"{kind.__name__}: {words}" if words else kind.__name__


class _Imports:
    """The real server, behind the imports."""

    def progress(self, event: Progress) -> None:
        amount: Any = None
        if event.percent is not None:
            amount = progress.Amount_Percent(float(event.percent))
        elif event.current is not None:
            weight = None if event.weight is None else float(event.weight)
            counted = progress.Count(_count(event.current), _count(event.total), _text(event.unit), weight)
            amount = progress.Amount_Count(counted)
        level = _types.Level[event.level.upper()]
        progress.report(progress.Event(_text(event.phase), _text(event.message), level, _text(event.detail), amount))

    def checkpoint(self, schema: int, state: bytes) -> None:
        try:
            checkpoint.save(schema, state)
        except Err as refused:
            if isinstance(refused.value, checkpoint.Refusal_TooLarge):
                raise Fatal(f"the state has {len(state)} bytes, and a checkpoint may have {refused.value.value}") from None
            raise RuntimeError(f"the checkpoint was not saved: {refused.value.value}") from None

    def cancelled(self) -> Optional[Cancel]:
        request = cancel.cancelled()
        return request and Cancel(reason=request.reason.name.lower(), time_left=request.time_left_ms / 1000)

    def log(self, level: str, message: str) -> None:
        log.write(_types.Level[level.upper()], _text(message))

    def spawn(self, child: Child) -> int:
        wanted = spawn.Child(
            queue=_text(child.queue),
            payload=child.payload,
            priority=child.priority and spawn.Priority[child.priority.upper()],
            delay_ms=_count(child.delay_ms),
            max_attempts=_count(child.max_attempts),
            unique_key=_text(child.unique_key),
            unique_period_ms=_count(child.unique_period_ms),
            tags=[(_text(name), _text(value)) for name, value in child.tags.items()],
            scope=_text(child.scope),
        )
        try:
            return spawn.start(wanted)
        except Err as refused:
            limit = refused.value.value
            if isinstance(refused.value, spawn.Refusal_TooMany):
                raise Fatal(f"more than {limit} children wait for a checkpoint; save one in between") from None
            if isinstance(refused.value, spawn.Refusal_TooLarge):
                raise Fatal(f"the children that wait for a checkpoint have more than {limit} bytes; save one in between") from None
            raise Fatal(limit) from None

    def joined(self) -> Optional[ChildCounts]:
        found = children.joined()
        return found and ChildCounts(found.total, found.completed, found.dead, found.cancelled)

    def children(self, start: int) -> tuple[list[ChildListed], Optional[int]]:
        try:
            page = children.read(start, _PAGE)
        except Err as refused:
            raise _not_read(refused.value) from None
        found = [
            ChildListed(
                each.ordinal, each.id, each.queue, each.state.name.lower(), each.result, each.result_bytes, each.error
            )
            for each in page.children
        ]
        return found, page.next

    def child_result(self, ordinal: int) -> Optional[bytes]:
        try:
            return children.result(ordinal)
        except Err as refused:
            raise _not_read(refused.value) from None

    def wait(self, on_failure: str, state: Optional[tuple[int, bytes]]) -> None:
        saved = state and _types.SavedState(*state)
        try:
            children.wait(children.OnFailure[on_failure.upper()], saved)
        except Err as refused:
            if state is not None and isinstance(refused.value, children.Refusal_TooLarge):
                size, limit = len(state[1]), refused.value.value
                raise Fatal(f"the state has {size} bytes, and a checkpoint may have {limit}") from None
            raise _not_read(refused.value) from None

    def put_record(self, key: str, value: bytes) -> None:
        try:
            records.put(_text(key), value)
        except Err as refused:
            raise _not_recorded(refused.value) from None

    def get_record(self, queue: str, key: str) -> Optional[Recorded]:
        try:
            found = records.get(_text(queue), _text(key))
        except Err as refused:
            raise _not_recorded(refused.value) from None
        return found and Recorded(found.value, found.mark)

    def mark(self, queue: str, key: str, mark: Optional[str]) -> None:
        try:
            records.mark(_text(queue), _text(key), _text(mark))
        except Err as refused:
            raise _not_recorded(refused.value) from None

    def config(self, name: str) -> Optional[str]:
        return config.get(name)

    def secret(self, name: str) -> str:
        try:
            return secrets.get(name)
        except Err as refused:
            raise Fatal(refused.value.value) from None


def _not_read(refusal: Any) -> Exception:
    if isinstance(refusal, children.Refusal_Unavailable):
        return RuntimeError(f"the children were not read: {refusal.value}")
    return Fatal(str(refusal.value))


def _not_recorded(refusal: Any) -> Exception:
    if isinstance(refusal, records.Refusal_TooMany):
        return Fatal(f"more than {refusal.value} records wait for a checkpoint; save one in between")
    if isinstance(refusal, records.Refusal_TooLarge):
        return Fatal(f"the record has more than {refusal.value} bytes, alone or with those that wait for a checkpoint")
    if isinstance(refusal, records.Refusal_Unavailable):
        return RuntimeError(f"the record was not read: {refusal.value}")
    return Fatal(str(refusal.value))


def _text(value: Any) -> Any:
    """As the interface takes it: half a surrogate pair is no UTF-8, and would trap."""
    return None if value is None else str(value).encode("utf-8", "replace").decode()


def _count(value: Any) -> Any:
    return None if value is None else max(0, min(int(value), _U64))


def ready(folder: str) -> None:
    """Called at build time, when the plugin is imported: whatever is wrong with its handlers is said now."""
    try:
        handlers.check()
    except TypeError as error:
        raise SystemExit(str(error)) from None
    # In the snapshot there are no files. The plugin's own lines are kept, for tracebacks.
    for module in list(sys.modules.values()):
        path = getattr(module, "__file__", None) or ""
        if path.startswith(folder):
            lines = linecache.getlines(path)
            linecache.cache[path] = (sum(map(len, lines)), None, lines, path)
    settle()


def settle() -> None:
    """Called when modules have been imported."""
    if "logging" in sys.modules:
        _log_through(sys.modules["logging"])
    gc.collect()


def _log_through(logging: Any) -> None:
    """Sends what is logged to the job's log, with its level; unless the plugin has set up something else."""

    class JobLog(logging.Handler):  # type: ignore[misc, name-defined]
        def emit(self, record: Any) -> None:
            number = record.levelno
            level = "DEBUG" if number < 20 else "INFO" if number < 30 else "WARN" if number < 40 else "ERROR"
            log.write(_types.Level[level], _text(self.format(record)))

    root = logging.getLogger()
    if not root.handlers:
        root.addHandler(JobLog())
        root.setLevel(logging.INFO)
