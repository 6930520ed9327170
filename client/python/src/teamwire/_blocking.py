"""Runs coroutines for programs without asyncio, on an event loop in a background thread."""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, ParamSpec, TypeVar

_P = ParamSpec("_P")
_R = TypeVar("_R")
_T = TypeVar("_T")


@functools.cache
def _loop() -> asyncio.AbstractEventLoop:
    """Returns the event loop that all clients share: gRPC supports only one well. It lives as long as the process."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="teamwire", daemon=True).start()
    return loop


def run(coroutine: Coroutine[Any, Any, _R]) -> _R:
    """Runs a coroutine on the loop, and waits for it."""
    future = asyncio.run_coroutine_threadsafe(coroutine, _loop())
    try:
        return future.result()
    except BaseException:
        # Such as KeyboardInterrupt. Cancelling a finished coroutine does nothing.
        future.cancel()
        raise


def blocking(method: Callable[Concatenate[_T, _P], Coroutine[Any, Any, _R]]) -> Callable[Concatenate[Any, _P], _R]:
    """Returns a blocking version of a coroutine method, for a class that wraps its object in `_aio`."""

    def call(self: Any, /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        return run(method(self._aio, *args, **kwargs))

    return functools.update_wrapper(call, method)
