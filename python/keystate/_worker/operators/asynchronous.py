"""An async function at work in a subtask: rows of different keys overlap.

Each message's rows are processed to their end before it is answered, so all that states know of
slots and generations holds while calls are in flight. A message has thousands of rows: there is
little to gain from calls that go on beyond it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Any

from keystate._compiled import collect
from keystate._compiled.plain import Take
from keystate._spec.protocol import Message
from keystate._worker.calls.event_loop import EventLoop, cancel
from keystate._worker.calls.function_errors import function_error
from keystate._worker.calls.function_spec import FunctionSpec
from keystate._worker.calls.guarded import GuardedCalls
from keystate._worker.contexts.async_context import AsyncRowContext, Call
from keystate._worker.contexts.row_context import RowContext
from keystate._worker.contexts.runtime_context import WorkerRuntimeContext
from keystate._worker.messages.columns import Columns
from keystate._worker.operators.keyed import KeyedOperator
from keystate._worker.operators.task_spec import TaskSpec
from keystate._worker.state.timer_turns import TimerTurns
from keystate.errors import KeystateError
from keystate.functions import AsyncKeyedProcessFunction

#: What a call emitted, as it was then, and what it raised.
_Outcome = tuple[list[Any], Exception | None]

#: How long a call that took too long may use its key to clean up.
_CLEAN_UP_SECONDS = 0.1


class AsyncOperator(KeyedOperator):
    """A function whose calls are awaited."""

    _context: AsyncRowContext

    def __init__(
        self, function_spec: FunctionSpec, declared: TaskSpec, control: dict[str, Any]
    ) -> None:
        assert function_spec.calls is not None
        self._calls = function_spec.calls
        self._loop = EventLoop(function_spec.calls.capacity)
        self._ending = False
        # Calls that still run after their timeout: a loop keeps no task alive.
        self._left_behind: set[asyncio.Task[_Outcome]] = set()
        # A plain callable has no hook of its own.
        default = partial(AsyncKeyedProcessFunction.timeout, function_spec.function)
        self._on_timeout = getattr(function_spec.function, "timeout", default)
        try:
            super().__init__(function_spec, declared, control)
        except BaseException:
            self._loop.close()
            raise

    def _open(self, runtime: WorkerRuntimeContext) -> None:
        self._loop.finish(self._function_spec.open(runtime))

    def close(self) -> None:
        self._forget()
        try:
            self._loop.finish(self._function_spec.close())
        finally:
            self._loop.close()

    def _make_context(self) -> RowContext:
        return AsyncRowContext()

    def _decode_rows(self, message: Columns) -> Any:
        return self._input.as_sent(message, Message.ROWS)

    def _run(self, slots: list[int], rows: list[Any], results: list[Any]) -> None:
        calls = [Call(slot, row, index=i) for i, (slot, row) in enumerate(zip(slots, rows))]
        self._loop.run(self._overlapping(calls, self._process, results))

    def _fire_each(self, turns: TimerTurns, results: list[Any]) -> None:
        while firsts := turns.firsts():
            calls = [Call(slot, timer=timer) for slot, timer in firsts]
            self._loop.run(self._overlapping(calls, self._fire_one, results))

    # -- in the event loop ----------------------------------------------------------------------

    async def _overlapping(
        self,
        calls: list[Call],
        process: Callable[[Call], Awaitable[list[Any]]],
        results: list[Any],
    ) -> None:
        """Makes all calls, those of a key one after the other; if one fails, ends the others."""
        of_keys: dict[int | None, list[Call]] = {}
        for call in calls:
            of_keys.setdefault(call.slot, []).append(call)
        # First the keys with the most calls, so that nobody waits for one of them in the end.
        left = iter(sorted(of_keys.values(), key=len, reverse=True))
        unordered = None if self._calls.ordered else results
        workers = [
            asyncio.ensure_future(self._work(left, process, unordered))
            for _ in range(min(self._calls.capacity, len(of_keys)))
        ]
        self._ending = False
        try:
            await asyncio.gather(*workers)
        finally:
            self._ending = True
            await cancel([worker for worker in workers if not worker.done()])
        if self._guarded is not None:
            self._settle(calls, self._guarded, unordered)
        if self._calls.ordered:
            for call in calls:
                results.extend(call.results)

    def _settle(
        self, calls: list[Call], guarded: GuardedCalls, unordered: list[Any] | None
    ) -> None:
        """Counts the letters in the order of the calls, whichever ended first."""
        succeeded = 0
        for call in calls:
            if call.letter is None:
                succeeded += 1
                continue
            call.results = guarded.taken(call.letter, succeeded)
            succeeded = 0
            if unordered is not None:
                unordered.extend(call.results)
        guarded.dead_letters.succeeded(succeeded)

    async def _work(
        self,
        left: Iterable[list[Call]],
        process: Callable[[Call], Awaitable[list[Any]]],
        unordered: list[Any] | None,
    ) -> None:
        """Takes key after key from those that are left."""
        for calls in left:
            for call in calls:
                if self._ending:  # and the call before did not let itself be cancelled
                    return
                call.begin()
                try:
                    call.results = await self._attended(call, process)
                finally:
                    call.end()
                if unordered is not None:
                    unordered.extend(call.results)

    async def _attended(
        self, call: Call, process: Callable[[Call], Awaitable[list[Any]]]
    ) -> list[Any]:
        try:
            if self._guarded is None:
                return await process(call)
            return await self._process_guarded(call, process, self._guarded)
        except KeystateError:
            raise
        except asyncio.CancelledError as e:
            if self._ending:
                raise
            # By the user's code: its row must not seem to be processed.
            raise function_error(e, self._where()) from None
        except Exception as e:
            raise function_error(e, self._where()) from None

    async def _process_guarded(
        self,
        call: Call,
        process: Callable[[Call], Awaitable[list[Any]]],
        guarded: GuardedCalls,
    ) -> list[Any]:
        assert call.slot is not None
        marks = guarded.marks((), [], call.journal)
        marks.mark(call.slot)
        try:
            return await process(call)
        except Exception as e:
            row = self._row_at(call.index) if call.timer is None else None
            call.letter = guarded.undone(e, marks, call.journal, row)
            if call.timer is not None and self._timers is not None:
                self._timers.take(call.slot, call.timer)  # it was undone too
            return []

    async def _process(self, call: Call) -> list[Any]:
        call.row = self._input.made(call.row)
        seconds = self._calls.timeout
        outcome: _Outcome | None
        if seconds is None:
            outcome = await self._attempts(call)
        else:
            outcome = await self._in_time(call, seconds)
        if outcome is None:
            return await _results_of(self._on_timeout(call.row, self._context), self._results.take)
        results, error = outcome
        if error is not None:
            raise error
        return results

    async def _in_time(self, call: Call, seconds: float) -> _Outcome | None:
        """The outcome of a call; ``None`` if that took too long.

        Python can only ask a call to end. One that goes on all the same is left behind, without a
        key: what it makes of its cancellation comes too late.
        """
        own = replace(call)
        task = asyncio.ensure_future(self._attempts_of(own))
        try:
            await asyncio.wait([task], timeout=seconds)
            return task.result() if task.done() else None
        finally:
            try:
                if not task.done():
                    await self._give_up(own, task)
            finally:
                own.leave()

    async def _attempts_of(self, own: Call) -> _Outcome:
        own.begin()
        return await self._attempts(own)

    async def _give_up(self, call: Call, task: asyncio.Task[_Outcome]) -> None:
        call.is_late = True
        self._left_behind.add(task)
        task.add_done_callback(self._forget_late)
        task.cancel()
        await asyncio.wait([task], timeout=_CLEAN_UP_SECONDS)

    def _forget_late(self, task: asyncio.Task[_Outcome]) -> None:
        self._left_behind.discard(task)
        if not task.cancelled():
            task.exception()  # or asyncio says that nobody looked

    async def _attempts(self, call: Call) -> _Outcome:
        """The last attempt's results, or its error: returned, so that no other is taken for it."""
        retry = self._calls.retry
        attempt = 0
        while True:
            attempt += 1
            results: list[Any] = []
            emitted: list[Any] = []  # as the function gave them: a strategy looks at them

            def take(result: Any, emitted: list[Any] = emitted) -> Any:
                emitted.append(result)
                return self._results.take(result)

            error: Exception | None = None
            try:
                taking = self._results.take if retry is None else take
                results = await _results_of(self._call(call.row, self._context), taking)
            except KeystateError:
                raise
            except Exception as e:
                error = e
            if call.is_late or retry is None or not retry.can_retry(attempt):
                return results, error
            if not retry.should_retry(emitted, error):
                return results, error
            await asyncio.sleep(retry.get_backoff_time_millis(attempt) / 1000)

    async def _fire_one(self, call: Call) -> list[Any]:
        assert self._timers is not None and self._on_timer is not None
        assert call.slot is not None and call.timer is not None
        # Not before its turn: another timer of the key may have deleted it.
        if not self._timers.take(call.slot, call.timer):
            return []
        return await _results_of(self._on_timer(call.timer[1], self._context), self._results.take)


async def _results_of(returned: Any, take: Take) -> list[Any]:
    """All results of a call, whatever kind of function it was of."""
    if hasattr(type(returned), "__aiter__"):
        return [take(result) async for result in returned]
    if hasattr(type(returned), "__await__"):
        returned = await returned
    results: list[Any] = []
    collect(returned, take, results)
    return results
