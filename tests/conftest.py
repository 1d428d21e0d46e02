"""Before torch is imported: threads that wait do not spin, so that tests do not slow each other down."""

from __future__ import annotations

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
