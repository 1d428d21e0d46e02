"""How a process that computes is set up: its threads, and the C library's allocator."""

from __future__ import annotations

import ctypes
from typing import Any

import torch

# numbers of glibc's mallopt
TRIM_THRESHOLD, TOP_PAD, MMAP_THRESHOLD = -1, -2, -3
LARGEST_THRESHOLD = 32 << 20  # for MMAP_THRESHOLD, that glibc takes


def set_up(threads: int) -> None:
    """Compute in so many threads, and keep freed memory rather than give it back to the system.

    A step of training frees and makes the same few megabytes again and again; fetching them anew, page by page, took 5
    to 25 % of it.
    """
    torch.set_num_threads(threads)
    mallopt = _from_libc("mallopt")
    if mallopt:
        mallopt(TRIM_THRESHOLD, 1 << 30)
        mallopt(TOP_PAD, 64 << 20)
        mallopt(MMAP_THRESHOLD, LARGEST_THRESHOLD)


def give_back_memory() -> None:
    """Give the memory that was kept back to the system: what comes next shall not be charged with it."""
    trim = _from_libc("malloc_trim")
    if trim:
        trim(0)


def _from_libc(name: str) -> Any:
    """A function of the C library; None where it is not glibc."""
    return getattr(ctypes.CDLL(None), name, None)
