"""Functions that wait for others: a service is asked for each row, while other keys go on."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterable, Awaitable, Callable
from typing import Any, Generic

from keystate.functions.base import OutputTag, Results
from keystate.functions.contexts import Context, OnTimerContext
from keystate.functions.runtime import RuntimeContext
from keystate.functions.type_variables import IN, KEY, OUT

ResultPredicate = Callable[[list[Any]], bool]
ExceptionPredicate = Callable[[Exception], bool]


class AsyncKeyedProcessFunction(ABC, Generic[KEY, IN, OUT]):
    """A function of one row and its key's state that awaits something, such as a service's answer.

    While the row of one key waits, rows of other keys are processed, up to a capacity. The rows of
    a key come one after the other: each sees the state that the one before it left. States, the
    context and its timers are those of the key in all that a call awaits, and in tasks that it
    starts, until it ends.
    """

    def open(self, runtime_context: RuntimeContext) -> Awaitable[None] | None:
        """Prepares the function, as :meth:`~keystate.functions.Function.open`; may be async."""
        return None

    def close(self) -> Awaitable[None] | None:
        """Releases what ``open`` took; may be async."""
        return None

    @abstractmethod
    def process_element(
        self, value: IN, ctx: Context[KEY]
    ) -> Awaitable[Results[OUT]] | AsyncIterable[OUT | tuple[OutputTag, Any]]:
        """Processes one row.

        An ``async def`` that returns any number of results, or yields them, in the forms of
        :meth:`~keystate.functions.KeyedProcessFunction.process_element`.
        """

    def on_timer(self, timestamp: int, ctx: OnTimerContext[KEY]) -> Any:
        """Called when a timer fires, with its time in ms and its key's state.

        May be async; results as above. Timers of different keys overlap, too.
        """
        return None

    def timeout(self, value: IN, ctx: Context[KEY]) -> Any:
        """Called when a row took longer than the timeout, once its call was cancelled.

        May be async; results as above. If it is not overridden, the query fails.
        """
        raise TimeoutError("process_element did not end within the timeout")


class AsyncRetryStrategy(ABC):
    """When a row whose call failed is processed again, and how soon.

    All attempts together have the timeout. What an attempt emitted is dropped if another one
    follows; what it did to states and timers stays.
    """

    @abstractmethod
    def can_retry(self, current_attempts: int) -> bool:
        """Whether another attempt may follow these, of which there is at least one."""

    @abstractmethod
    def get_backoff_time_millis(self, current_attempts: int) -> int:
        """How long to wait before it, in ms."""

    @abstractmethod
    def should_retry(self, results: list[Any], exception: Exception | None) -> bool:
        """Whether an outcome asks for another attempt.

        Args:
            results: what the attempt emitted.
            exception: what it raised; ``None`` if it ended well.
        """


class _RetryByPredicate(AsyncRetryStrategy):
    def __init__(
        self,
        max_attempts: int,
        result_predicate: ResultPredicate | None,
        exception_predicate: ExceptionPredicate | None,
    ) -> None:
        if max_attempts < 1:
            raise ValueError(f"max_attempts must be at least 1, got {max_attempts}")
        self._max_attempts = max_attempts
        self._of_result = result_predicate
        self._of_exception = exception_predicate

    def can_retry(self, current_attempts: int) -> bool:
        return current_attempts <= self._max_attempts

    def should_retry(self, results: list[Any], exception: Exception | None) -> bool:
        if exception is None:
            return self._of_result is not None and self._of_result(results)
        if self._of_exception is None:
            return self._of_result is None
        return self._of_exception(exception)


class FixedDelayRetryStrategy(_RetryByPredicate):
    """Tries again after the same time.

    Args:
        max_attempts: how often at most, after the first attempt.
        backoff_time_millis: how long to wait before each, in ms.
        result_predicate: tells of the list of what was emitted whether to try again.
        exception_predicate: tells the same of an exception. If there is neither, every exception is
            tried again.
    """

    def __init__(
        self,
        max_attempts: int,
        backoff_time_millis: int,
        result_predicate: ResultPredicate | None = None,
        exception_predicate: ExceptionPredicate | None = None,
    ) -> None:
        super().__init__(max_attempts, result_predicate, exception_predicate)
        if backoff_time_millis < 0:
            raise ValueError(f"a delay can't be negative, got {backoff_time_millis} ms")
        self._delay = backoff_time_millis

    def get_backoff_time_millis(self, current_attempts: int) -> int:
        """The delay of this strategy, however often a row was tried."""
        return self._delay


class ExponentialBackoffDelayRetryStrategy(_RetryByPredicate):
    """Waits longer before each attempt.

    Args:
        max_attempts: how often at most, after the first attempt.
        initial_delay: how long to wait before the first of them, in ms.
        max_retry_delay: the most to wait, in ms.
        multiplier: by how much a wait is longer than the one before.
        result_predicate: as for :class:`FixedDelayRetryStrategy`.
        exception_predicate: as for :class:`FixedDelayRetryStrategy`.
    """

    def __init__(
        self,
        max_attempts: int,
        initial_delay: int,
        max_retry_delay: int,
        multiplier: float,
        result_predicate: ResultPredicate | None = None,
        exception_predicate: ExceptionPredicate | None = None,
    ) -> None:
        super().__init__(max_attempts, result_predicate, exception_predicate)
        if min(initial_delay, max_retry_delay) < 0 or multiplier < 1:
            raise ValueError(
                "delays can't be negative and the multiplier is at least 1, got "
                f"{initial_delay} ms, {max_retry_delay} ms, {multiplier}"
            )
        self._initial_delay = initial_delay
        self._max_delay = max_retry_delay
        self._multiplier = multiplier

    def get_backoff_time_millis(self, current_attempts: int) -> int:
        """Longer each time, up to the most."""
        try:
            delay = self._initial_delay * self._multiplier ** (current_attempts - 1)
        except OverflowError:
            return self._max_delay
        return int(min(delay, self._max_delay))
