"""The one place where a device is chosen."""

from __future__ import annotations

import torch

from datasets.errors import UserError

HOST = torch.device("cpu")


def pick(name: str) -> torch.device:
    """The device behind `auto`, `cpu` or `cuda`; `auto` is the first GPU, or this CPU where there is none."""
    if name == "cpu":
        return HOST
    available = torch.cuda.is_available()
    if name == "cuda" and not available:
        raise UserError("--device cuda: torch sees no GPU here; use --device cpu, or install a CUDA build of torch.")
    return torch.device("cuda", torch.cuda.current_device()) if available else HOST


def synchronize(device: torch.device) -> None:
    """Wait until the device has done all that was asked of it."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
