"""Work on a stream of blocks, several at a time, results in order."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

S = TypeVar("S")
T = TypeVar("T")
MOST = 8  # at work: each holds a block


def in_threads(work: Callable[[S], T], items: Iterable[S]) -> Iterator[T]:
    """The results in order; as many at work as there are processors, one more read ahead."""
    workers = min(MOST, len(os.sched_getaffinity(0)))
    pool = ThreadPoolExecutor(workers, thread_name_prefix="blocks")
    pending: deque[Future[T]] = deque()
    try:
        for item in items:
            pending.append(pool.submit(work, item))
            if len(pending) > workers:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)
