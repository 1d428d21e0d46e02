"""Hardware replay: what the work that a run recorded would cost on other hardware."""
