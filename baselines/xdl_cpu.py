"""`xdl-cpu`: XDL with everything on the CPU. The parameter-server system is in baselines/xdl.py."""

from __future__ import annotations

from dataclasses import replace

from baselines import work, xdl
from baselines.devices import HOST
from baselines.job import Job
from baselines.link import NoLink
from baselines.system import System

SUMMARY = "XDL on the CPU alone: parameter servers own rows and dense weights; the worker computes on the host"
SETTINGS = xdl.SETTINGS


def build(job: Job) -> System:
    """As `xdl`, with the dense network on the host, whatever the device."""
    job.clock.dense_on = work.HOST
    return System(xdl.Xdl(replace(job, device=HOST), NoLink(job.clock)))
