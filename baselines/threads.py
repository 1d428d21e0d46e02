"""The threads that compiled loops run in beside the calling one.

They come from a pool of our own, since a system may update and gather at the same time, which numba's own thread pool
does not allow.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import pairwise
from typing import Any, TypeVar

import torch

Result = TypeVar("Result")


def shares(size: int, at_least: int) -> list[slice]:
    """Stretches of `size` things, one a thread, of at least so many each; one stretch where there are fewer."""
    parts = max(1, min(torch.get_num_threads(), size // at_least))
    ends = [size * part // parts for part in range(parts + 1)]
    return [slice(first, last) for first, last in pairwise(ends)]


def together(work: Callable[..., Result], calls: Sequence[tuple[Any, ...]]) -> list[Result]:
    """The results of the work on each tuple of arguments: the first in this thread, the others beside it.

    The work must not itself wait for threads of this pool.
    """
    others = [_pool(len(calls) - 1).submit(work, *call) for call in calls[1:]]
    return [work(*calls[0]), *(other.result() for other in others)]


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix="loop")


os.register_at_fork(after_in_child=_pool.cache_clear)  # a child of fork has none of its parent's threads
