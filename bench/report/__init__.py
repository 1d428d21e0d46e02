"""`slipbench report`: one static page from a results folder; `bench.report.page` writes it."""
