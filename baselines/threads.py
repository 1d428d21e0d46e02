"""The threads that compiled loops run in beside the calling one.

They come from a pool of our own, since a system may update and gather at the same time, which numba's own thread pool
does not allow.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from itertools import pairwise
from typing import Any

import torch


def shares(size: int, at_least: int) -> list[slice]:
    """Stretches of `size` things, one a thread, of at least so many each; one stretch where there are fewer."""
    parts = max(1, min(torch.get_num_threads(), size // at_least))
    ends = [size * part // parts for part in range(parts + 1)]
    return [slice(first, last) for first, last in pairwise(ends)]


def submit(work: Callable[..., Any], *arguments: Any) -> Future[Any]:
    """Have another thread do the work, which must not wait for other work of this pool."""
    return _pool(max(1, torch.get_num_threads() - 1)).submit(work, *arguments)


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix="loop")


os.register_at_fork(after_in_child=_pool.cache_clear)  # a child of fork has none of its parent's threads
