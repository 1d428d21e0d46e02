"""The link between host and device: every copy from one to the other goes through here and is counted."""

from __future__ import annotations

import torch

from baselines.clock import Clock
from baselines.devices import HOST


class Link:
    """Copies tensors to the device and back. Where both are the same CPU the copy is only counted."""

    def __init__(self, device: torch.device, clock: Clock) -> None:
        self.device = device
        self._clock = clock

    def to_device(self, tensor: torch.Tensor) -> torch.Tensor:
        """The tensor on the device; the copy may still be under way, in the order of the device's stream."""
        self._clock.count(link_to_device_bytes=tensor.nbytes, link_copies=1)
        if self.device == HOST:
            return tensor
        return tensor.pin_memory().to(self.device, non_blocking=True)

    def to_host(self, tensor: torch.Tensor) -> torch.Tensor:
        """The tensor on the host, complete."""
        self._clock.count(link_to_host_bytes=tensor.nbytes, link_copies=1)
        return tensor.to(HOST)


class NoLink(Link):
    """For a system that computes where its rows are: nothing crosses."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(HOST, clock)

    def to_device(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor

    def to_host(self, tensor: torch.Tensor) -> torch.Tensor:
        return tensor
