"""Before torch is imported: threads that wait spin but briefly, so that tests do not slow each other down."""

from __future__ import annotations

import os

os.environ.setdefault("GOMP_SPINCOUNT", "10000")
