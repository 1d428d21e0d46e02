"""What a run ran on: versions, processor, threads, memory, GPU. No names of users, hosts or folders."""

from __future__ import annotations

import importlib.util
import os
import platform
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

THREAD_VARIABLES = ("OMP_NUM_THREADS", "OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "MKL_NUM_THREADS")
DISTRIBUTIONS = ("slipbench", "torch", "torchrec", "fbgemm-gpu", "fbgemm-gpu-cpu", "numpy", "numba", "pandas", "scipy")
ROOT = Path(__file__).resolve().parent.parent


def datasets_conflict() -> str | None:
    """A sentence where another package than this project's is what `import datasets` finds."""
    spec = importlib.util.find_spec("datasets")
    origin = None if spec is None or spec.origin is None else Path(spec.origin).resolve()
    if origin == ROOT / "datasets" / "__init__.py":
        return None
    if importlib.util.find_spec("datasets.fingerprint") is not None:
        return (
            "Hugging Face's library is what gets imported as `datasets` here; "
            "install slipbench into an environment of its own (make setup makes one)."
        )
    return "another package is what gets imported as `datasets` here; install slipbench into an environment of its own."


def processor() -> str:
    """The processor's name as the system gives it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def num_cpus() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0))


@cache
def describe() -> dict[str, Any]:
    """The environment as it is kept in `env.json`."""
    import psutil
    import torch

    return {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "processor": processor(),
        "cpus": num_cpus(),
        "memory_bytes": psutil.virtual_memory().total,
        "torch_threads": torch.get_num_threads(),
        "threads_set_by": {name: os.environ[name] for name in THREAD_VARIABLES if name in os.environ},
        "gpus": [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())],
        "cuda": torch.version.cuda,
        "bf16_in_hardware": bool(torch.backends.cpu.get_cpu_capability() != "DEFAULT" and _has_flag("avx512_bf16")),
        "versions": {name: _version(name) for name in DISTRIBUTIONS},
        "datasets_conflict": datasets_conflict(),
    }


@cache
def machine() -> str:
    """The machine in a few words, for a column."""
    facts = describe()
    gpus = "".join(f", {name}" for name in facts["gpus"])
    return f"{facts['processor']}, {facts['cpus']} CPUs, {facts['memory_bytes'] / 2**30:.0f} GiB{gpus}"


def text() -> str:
    """The environment as lines, fit for a bug report."""
    from bench.config import code_version

    facts = dict(describe())
    versions = facts.pop("versions")
    conflict = facts.pop("datasets_conflict")
    facts["memory"] = f"{facts.pop('memory_bytes') / 2**30:.1f} GiB"
    facts["gpus"] = ", ".join(facts["gpus"]) or "none"
    facts["threads_set_by"] = " ".join(f"{key}={value}" for key, value in facts["threads_set_by"].items()) or "nothing"
    lines = [f"{key.replace('_', ' ')}: {value}" for key, value in {"code": code_version(), **facts}.items()]
    lines += [f"{name}: {found or 'not installed'}" for name, found in versions.items()]
    return "\n".join(lines + ([f"warning: {conflict}"] if conflict else []))


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _has_flag(flag: str) -> bool:
    try:
        return flag in Path("/proc/cpuinfo").read_text().split()
    except OSError:
        return False
