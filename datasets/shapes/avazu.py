"""`synthetic-avazu`: generated inputs of the shape of the Avazu set.

Numbers of values are those of the whole file, 9.4 million. Shares are over the whole file where they were published
(C1, banner_pos, site_*, app_*, device_*, C15, C16), and guesses elsewhere. What is missing in the real file is a
frequent value there, such as a99f214a for devices without an id, and is one here.
"""

from __future__ import annotations

from functools import partial

from datasets import avazu as real
from datasets.shapes import generated
from datasets.shapes.spec import Column, Shape

APPS = 0.361  # of the inputs: shown in an app, all of them with one site_id; the others have one app_id

# "entity" is the device: its address, and what it is. An input is a page of a site or an app, and shows an ad.
COLUMNS = (
    Column(name="C1", values=7, heads=(0.919,), slope=1.5),
    Column(name="banner_pos", values=7, heads=(0.720, 0.278)),
    Column(name="site_id", values=4_737, heads=(APPS, 0.160, 0.065), follows="page"),
    Column(name="site_domain", values=7_745, heads=(0.374, 0.160, 0.082), follows="page"),
    Column(name="site_category", values=26, heads=(0.409, 0.313, 0.182, 0.075), follows="page"),
    Column(name="app_id", values=8_552, heads=(0.639,), slope=1.1, follows="page", shift=-APPS),
    Column(name="app_domain", values=559, heads=(0.674,), slope=1.3, follows="page", shift=-APPS),
    Column(name="app_category", values=36, heads=(0.647,), slope=1.3, follows="page", shift=-APPS),
    Column(
        name="device_id", values=2_686_408, heads=(0.825,), slope=0.8, follows="user",
        levels=(600, 10_500, 240_000, 2_073_000), served=(1.0, 0.11, 0.19, 0.30),
    ),
    Column(
        name="device_ip", values=6_729_486, heads=(0.0052, 0.0033), slope=0.9, follows="entity",
        levels=(5_000, 74_000, 1_230_000, 4_520_000),
    ),
    Column(name="device_model", values=8_251, heads=(0.061, 0.035, 0.035), slope=0.95, follows="entity", shift=0.37),
    Column(name="device_type", values=5, heads=(0.923,), slope=1.5),
    Column(name="device_conn_type", values=4, heads=(0.863, 0.082, 0.054)),
    Column(name="C14", values=2_626, heads=(0.023,), slope=0.9, follows="ad"),
    Column(name="C15", values=8, heads=(0.933,), slope=1.5, follows="ad", shift=0.1),
    Column(name="C16", values=9, heads=(0.943,), slope=1.5, follows="ad", shift=0.1),
    Column(name="C17", values=435, heads=(0.11,), slope=1.0, follows="ad"),
    Column(name="C18", values=4, heads=(0.42,), slope=0.5, follows="ad", shift=0.45),
    Column(name="C19", values=68, heads=(0.22,), slope=1.2, follows="ad", shift=0.7),
    Column(name="C20", values=172, heads=(0.47,), slope=1.0),
    Column(name="C21", values=60, heads=(0.22,), slope=1.1, follows="ad", shift=0.25),
)  # fmt: skip
SHAPE = Shape(
    name="avazu",
    inputs=32_343_174,  # four fifths of the file
    width=16,
    hot_mb=(1.0, 7.9, 102.0, 524.0),  # the first is printed as about 1, but the small tables alone have 2.1
    hot_inputs=(0.218, 0.445, 0.750, 1.0),
    columns=COLUMNS,
    dense=(),
    missing={},
    base_rate=0.1698,
    best_auc=0.758,
    planted={
        ("site_category",): 0.30, ("app_category",): 0.30, ("banner_pos",): 0.15, ("C1",): 0.15,
        ("device_conn_type",): 0.30, ("device_type",): 0.10, ("C18",): 0.35, ("C19",): 0.25, ("C21",): 0.35,
        ("C17",): 0.30, ("C20",): 0.30, ("app_domain",): 0.20, ("hour",): 0.05, ("C18", "device_conn_type"): 0.20,
    },
    hours=240,
)  # fmt: skip

SUMMARY = "Generated inputs of Avazu's shape: the hour and 21 columns, its table sizes and skew, at any number of rows."
NEEDS_SOURCE, VERSION = False, generated.VERSION
OPTIONS = generated.OPTIONS
DEFAULTS, PAPER = generated.defaults("rm4", lr=0.01), real.PAPER
write = partial(generated.write, SHAPE)
