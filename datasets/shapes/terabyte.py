"""`synthetic-terabyte`: generated inputs of the shape of the Criteo Terabyte set.

Table sizes are those of the whole set with ids cut to 10 million a table and 7 in 8 of the negative inputs left out, as
the papers train on it. Shares and integer features were measured on 1,000 lines; what those do not show (the shares in
C2, C3, C4, C7, C8, C11, C12, C15 and C24, the spread of the integers) is a guess after Criteo Kaggle.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from datasets import criteo_terabyte
from datasets.shapes import generated
from datasets.shapes.spec import Column, Dense, Shape

COLUMNS = (
    Column(
        name="C1", values=9_980_333, heads=(0.38,), missing=0.022, follows="entity",
        levels=(2_400, 56_000, 232_000, 5_800_000),
    ),
    Column(name="C2", values=36_084, heads=(0.05,), follows="user", levels=(14_000, 10_000, 8_000, 4_000)),
    Column(name="C3", values=17_217, heads=(0.03,), follows="user", levels=(8_000, 5_000, 3_000, 1_200)),
    Column(name="C4", values=7_378, heads=(0.03,), follows="user", levels=(4_000, 2_000, 1_000, 370)),
    Column(name="C5", values=20_134, heads=(0.02,), follows="user", levels=(9_000, 6_000, 3_500, 1_600)),
    Column(name="C6", values=3, heads=(0.87, 0.12)),
    Column(name="C7", values=7_112, heads=(0.01,), follows="user", levels=(4_000, 1_900, 900, 300)),
    Column(name="C8", values=1_442, heads=(0.5,), slope=1.5, follows="page"),
    Column(name="C9", values=61, heads=(0.53,), slope=1.5, follows="page", shift=0.3),
    Column(
        name="C10", values=9_758_201, missing=0.022, follows="entity", levels=(2_400, 15_000, 225_000, 5_450_000)
    ),
    Column(name="C11", values=1_333_352, missing=0.022, follows="entity", levels=(2_000, 9_500, 95_000, 600_000)),
    Column(name="C12", values=313_829, heads=(0.05,), follows="user", levels=(1_500, 7_000, 55_000, 130_000)),
    Column(name="C13", values=10, heads=(0.43,), slope=1.2, follows="entity", shift=0.17),
    Column(name="C14", values=2_208, heads=(0.88,), slope=1.2, block="profile", follows="user"),
    Column(name="C15", values=11_156, heads=(0.02,), follows="user", levels=(5_500, 3_200, 1_800, 650)),
    Column(name="C16", values=122, heads=(0.88,), slope=1.5, block="profile", follows="user", shift=0.5),
    Column(name="C17", values=4, heads=(0.85,), slope=1.5, block="profile"),
    Column(name="C18", values=970, heads=(0.51,), slope=1.3, follows="page", shift=0.7),
    Column(name="C19", values=14, heads=(0.44,), slope=1.2, follows="entity", shift=0.83),
    Column(
        name="C20", values=9_994_222, heads=(0.38,), missing=0.022, follows="entity",
        levels=(2_400, 57_000, 236_000, 5_850_000),
    ),
    Column(
        name="C21", values=7_267_859, heads=(0.38,), missing=0.022, follows="entity",
        levels=(2_300, 12_000, 165_000, 3_900_000),
    ),
    Column(
        name="C22", values=9_946_608, heads=(0.38,), missing=0.022, follows="entity",
        levels=(2_400, 56_000, 233_000, 5_800_000),
    ),
    Column(
        name="C23", values=415_421, heads=(0.69,), block="profile", follows="user",
        levels=(1_400, 5_000, 44_000, 160_000),
    ),
    Column(name="C24", values=12_420, heads=(0.08,), follows="user", levels=(6_000, 3_500, 2_000, 900)),
    Column(name="C25", values=101, heads=(0.52,), slope=1.3, follows="entity", shift=0.62),
    Column(name="C26", values=36, heads=(0.4,), slope=1.2, follows="page", shift=0.5),
)  # fmt: skip
DENSE = (
    Dense(name="I1", mean=2.1, deviation=1.2, zeros=0.2, block="I1", follows="user", shift=0.2),
    Dense(name="I2", mean=5.4, deviation=1.8, zeros=0.02, block="history"),
    Dense(name="I3", mean=1.6, deviation=1.0, zeros=0.05, block="recent", follows="entity", shift=0.45),
    Dense(name="I4", mean=3.6, deviation=1.6, zeros=0.02, block="I4"),
    Dense(name="I5", mean=1.8, deviation=1.2, zeros=0.1, block="visits", follows="user", shift=0.6),
    Dense(name="I6", mean=1.2, deviation=0.8, zeros=0.6, block="history", follows="user", shift=0.2),
    Dense(name="I7", mean=1.3, deviation=0.8, zeros=0.6, block="I7"),
    Dense(name="I8", mean=2.3, deviation=1.3, zeros=0.15, negative=0.36),
    Dense(name="I9", mean=1.6, deviation=1.0, zeros=0.1, follows="user", shift=0.6),
    Dense(name="I10", mean=1.0, deviation=0.6, zeros=0.6, block="history", follows="user", shift=0.2),
    Dense(name="I11", mean=1.3, deviation=0.8, zeros=0.25, block="visits", follows="user", shift=0.6),
    Dense(name="I12", mean=8.3, deviation=1.8, zeros=0.01, block="I12"),
    Dense(name="I13", mean=1.8, deviation=1.0, zeros=0.08, block="recent", follows="entity", shift=0.45),
)
SHAPE = Shape(
    name="terabyte",
    inputs=80_000_000,
    width=64,
    hot_mb=(18.5, 82.0, 416.0, 7509.0),
    hot_inputs=(0.525, 0.730, 0.816, 1.0),
    columns=COLUMNS,
    dense=DENSE,
    missing={
        "profile": 0.46,
        "I1": 0.225, "history": 0.09, "recent": 0.25, "I4": 0.52, "visits": 0.44, "I7": 0.03, "I12": 0.014,
    },
    base_rate=0.2144,  # of the inputs that are kept; 0.033 of all
    negatives_kept=0.125,
    best_auc=0.802,
    planted={
        ("C13",): 0.40, ("C19",): 0.35, ("C25",): 0.40, ("C9",): 0.40, ("C6",): 0.20, ("C26",): 0.35, ("C18",): 0.25,
        ("C16",): 0.15, ("C8",): 0.20, ("I1",): 0.40, ("I3",): -0.28, ("I6",): 0.38, ("I9",): 0.22, ("I11",): 0.28,
        ("C25", "C26"): 0.40,
    },
)  # fmt: skip

SUMMARY = "Generated inputs of Criteo Terabyte's shape, ids cut to 10 million a table; at scale=1 13 GB of rows."
NEEDS_SOURCE, VERSION = False, generated.VERSION
OPTIONS = tuple(  # at full scale the rows take 13 GB
    replace(option, default=0.05) if option.key == "scale" else option for option in generated.OPTIONS
)
DEFAULTS, PAPER = generated.defaults("rm3", lr=0.005), criteo_terabyte.PAPER
write = partial(generated.write, SHAPE)
