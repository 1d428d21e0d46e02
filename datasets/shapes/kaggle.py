"""`synthetic-kaggle`: generated inputs of the shape of the Criteo Kaggle set.

Numbers of values are those of the whole file, 33.8 million; shares and integer features were measured on its first
80,000 lines. A missing id is a value of its own.
"""

from __future__ import annotations

from functools import partial

from datasets import criteo_kaggle, synthetic
from datasets.shapes import generated
from datasets.shapes.spec import Column, Dense, Shape

# Where columns go missing together, or are functions of one another, they follow one latent number here: "entity" (the
# ad: C3, C4, C12, C16, C21, C24 are nearly one column), "user" or "page". Which the small columns follow is a guess.
COLUMNS = (
    Column(name="C1", values=1_460, heads=(0.503,), top10=0.909, follows="page"),
    Column(name="C2", values=583, heads=(0.1265,), top10=0.429, follows="entity", shift=0.31),
    Column(
        name="C3", values=10_131_227, heads=(0.0387,), missing=0.0392, follows="entity",
        levels=(2_600, 45_000, 400_000, 8_010_000),
    ),
    Column(
        name="C4", values=2_202_608, heads=(0.0565,), missing=0.0392, follows="entity",
        levels=(2_300, 39_000, 290_000, 1_508_000),
    ),
    Column(name="C5", values=305, heads=(0.670,), top10=0.979, follows="page", shift=0.4),
    Column(name="C6", values=24, heads=(0.538,), slope=1.5, block="C6"),
    Column(name="C7", values=12_517, heads=(0.0096,), top10=0.0678, follows="user"),
    Column(name="C8", values=633, heads=(0.592,), top10=0.957, follows="page", shift=0.7),
    Column(name="C9", values=3, heads=(0.885, 0.11)),
    Column(
        name="C10", values=93_145, heads=(0.267,), top10=0.327, slope=0.9, follows="user",
        levels=(1_600, 6_500, 29_000, 40_500),
    ),
    Column(name="C11", values=5_683, heads=(0.0212,), top10=0.1064, follows="user"),
    Column(
        name="C12", values=8_351_593, heads=(0.0387,), missing=0.0392, follows="entity",
        levels=(2_600, 43_000, 370_000, 6_557_000),
    ),
    Column(name="C13", values=3_194, heads=(0.0231,), top10=0.1239, follows="user"),
    Column(name="C14", values=27, heads=(0.364,), top10=0.9865, follows="entity", shift=0.62),
    Column(name="C15", values=14_992, heads=(0.0203,), top10=0.104, follows="user"),
    Column(
        name="C16", values=5_461_306, heads=(0.0387,), missing=0.0392, follows="entity",
        levels=(2_400, 39_500, 310_000, 4_208_000),
    ),
    Column(name="C17", values=10, heads=(0.425,), slope=1.2, follows="entity", shift=0.17),
    Column(name="C18", values=5_652, heads=(0.0538,), top10=0.2329, follows="user"),
    Column(name="C19", values=2_173, heads=(0.593,), top10=0.714, block="profile", follows="user"),
    Column(name="C20", values=4, heads=(0.374,), slope=0.5, block="profile"),
    Column(
        name="C21", values=7_046_547, heads=(0.0386,), missing=0.0392, follows="entity",
        levels=(2_500, 41_000, 340_000, 5_500_000),
    ),
    Column(name="C22", values=18, heads=(0.516,), slope=2.0, block="C22"),
    Column(name="C23", values=15, heads=(0.444,), slope=1.2, follows="entity", shift=0.83),
    Column(
        name="C24", values=286_181, heads=(0.0765,), missing=0.0392, slope=1.05, follows="entity",
        levels=(2_000, 16_000, 115_000, 106_000),
    ),
    Column(name="C25", values=105, heads=(0.323,), top10=0.902, block="profile", follows="user", shift=0.5),
    Column(
        name="C26", values=142_572, heads=(0.084,), block="profile", follows="user",
        levels=(2_200, 9_000, 60_000, 48_000),
    ),
)  # fmt: skip
# Integer features as in `synthetic`, where half of the inputs get them from a latent number
FOLLOWS = {
    "I1": ("user", 0.2), "I2": ("entity", 0.45), "I6": ("user", 0.2), "I7": ("user", 0.6), "I9": ("user", 0.6),
    "I10": ("user", 0.2), "I11": ("user", 0.6), "I13": ("entity", 0.45),
}  # fmt: skip
NEGATIVE = {"I2": 0.36}  # of what is stored as zero
DENSE = tuple(
    Dense(
        name=name,
        mean=mean,
        deviation=deviation,
        zeros=zeros,
        block=block,
        follows=FOLLOWS.get(name, ("", 0.0))[0],
        shift=FOLLOWS.get(name, ("", 0.0))[1],
        negative=NEGATIVE.get(name, 0.0),
    )
    for name, (mean, deviation, zeros, block) in zip(synthetic.DENSE, synthetic.DENSE_SHAPE, strict=True)
)
SHAPE = Shape(
    name="kaggle",
    inputs=39_291_958,  # six sevenths of the file
    width=16,
    hot_mb=(4.2, 19.5, 142.0, 1814.0),
    hot_inputs=(0.504, 0.651, 0.758, 1.0),
    columns=COLUMNS,
    dense=DENSE,
    missing={"profile": 0.4135, "C6": 0.137, "C22": 0.817}
    | {dense.block: synthetic.MISSING[dense.block] for dense in DENSE if dense.block},
    base_rate=0.256,
    best_auc=0.802,
    planted={
        ("C14",): 0.45, ("C17",): 0.40, ("C23",): 0.35, ("C9",): 0.25, ("C6",): 0.35, ("C20",): 0.30, ("C5",): 0.30,
        ("C25",): 0.25, ("C8",): 0.20, ("C1",): 0.20, ("C2",): 0.15, ("C19",): 0.10,
        ("I1",): 0.44, ("I2",): -0.28, ("I6",): -0.38, ("I9",): 0.22, ("I11",): 0.28, ("C14", "C20"): 0.40,
    },
)  # fmt: skip

SUMMARY = "Generated inputs of Criteo Kaggle's shape: its table sizes, skew and missing values, at any number of rows."
NEEDS_SOURCE, VERSION = False, generated.VERSION
OPTIONS = generated.OPTIONS
DEFAULTS, PAPER = generated.defaults("rm2", lr=0.005), criteo_kaggle.PAPER
write = partial(generated.write, SHAPE)
