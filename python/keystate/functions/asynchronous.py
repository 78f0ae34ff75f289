"""Asynchronous functions: while one key's row waits for a service, other keys are processed."""

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
    one key are processed one after the other: each row sees the state that the row before it left.
    Until a call ends, states, context and timers belong to the call's key, also in coroutines that
    the call awaits and in tasks that it starts.
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

        It is an ``async def`` that returns or yields any number of results, in the forms of
        :meth:`~keystate.functions.KeyedProcessFunction.process_element`.
        """

    def on_timer(self, timestamp: int, ctx: OnTimerContext[KEY]) -> Any:
        """Called when a timer fires, with its time in ms and its key's state.

        May be async, with results like :meth:`process_element`. Timers of different keys overlap.
        """
        return None

    def timeout(self, value: IN, ctx: Context[KEY]) -> Any:
        """Called when a row took longer than the timeout, once its call was cancelled.

        May be async, with results like :meth:`process_element`. By default the query fails.
        """
        raise TimeoutError("process_element did not end within the timeout")


class AsyncRetryStrategy(ABC):
    """Says when a row whose call failed is processed again, and how soon.

    The timeout covers all attempts together. Results of an attempt are dropped if another attempt
    follows; its changes of states and timers stay.
    """

    @abstractmethod
    def can_retry(self, current_attempts: int) -> bool:
        """Whether another attempt may follow ``current_attempts`` attempts, at least one."""

    @abstractmethod
    def get_backoff_time_millis(self, current_attempts: int) -> int:
        """How long to wait before the next attempt, in ms."""

    @abstractmethod
    def should_retry(self, results: list[Any], exception: Exception | None) -> bool:
        """Whether an attempt with this outcome needs another attempt.

        Args:
            results: the results that the attempt emitted.
            exception: the exception that the attempt raised; ``None`` if it succeeded.
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
    """Waits the same time before each new attempt.

    Args:
        max_attempts: the most attempts after the first one.
        backoff_time_millis: how long to wait before each of them, in ms.
        result_predicate: takes the list of results and returns whether to try again.
        exception_predicate: takes the exception and returns whether to try again. Without either
            predicate, a call is tried again after every exception.
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
        """The strategy's delay, for any number of attempts."""
        return self._delay


class ExponentialBackoffDelayRetryStrategy(_RetryByPredicate):
    """Waits longer before each attempt.

    Args:
        max_attempts: the most attempts after the first one.
        initial_delay: how long to wait before the first of them, in ms.
        max_retry_delay: the longest wait, in ms.
        multiplier: the factor by which each wait is longer than the one before.
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
        """A longer delay for each attempt, up to ``max_retry_delay``."""
        try:
            delay = self._initial_delay * self._multiplier ** (current_attempts - 1)
        except OverflowError:
            return self._max_delay
        return int(min(delay, self._max_delay))
