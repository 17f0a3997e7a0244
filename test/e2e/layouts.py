"""The layouts in which one job can run, for layouts_test.py and
full_matrix.py: every one must train to the same losses."""

import itertools
import json
import random
import re

from harness import (
    MODELS,
    ds_config,
    losses_of,
    succeed,
    write_json,
    write_tokens,
)

STEPS = 10
BATCH = 32  # Sequences a step: 8 devices in 4 micro-steps have one each.
LENGTH = 16

# Each choice with all its values. The first values are the plain ones.
CHOICES = {
    "model": ("tiny-llama", "tiny-qwen2"),
    "devices": (1, 2, 4, 8),
    "stage": (0, 1, 2, 3),
    "offload": (False, True, 0.4),  # A share of the optimizer's states.
    "param": ("none", "cpu"),  # Where parameters live between uses.
    "activations": ("none", "all", 1),
    "accumulation": (1, 2, 4),
    "recompute": ("none", "block", "block:1,selective"),
    "keep": ("none", "all", 1),  # Gathers that serve the backward, too.
    "bucket": (500_000_000, 9_000),  # Below a layer's size: it is split.
    "prefetch": (1, 0, 2),
    "threshold": (100_000, 0),
}


def is_distinct(layout):
    """Whether a choice has an effect: some have one only where parameters are
    gathered."""
    return layout["stage"] == 3 or all(
        layout[key] == CHOICES[key][0]
        for key in ("keep", "prefetch", "threshold")
    )


def all_layouts():
    for values in itertools.product(*CHOICES.values()):
        layout = dict(zip(CHOICES, values))
        if is_distinct(layout):
            yield layout


def pairs_of(layout):
    """The pairs of choices that a layout covers."""
    return set(itertools.combinations(sorted(layout.items()), 2))


def pairwise_cover(among=None):
    """Few layouts that contain every pair of values that any layout (of those
    given, or of all) has. Greedy, and the same in every run: the first of the
    best ones is taken."""
    among = among or all_layouts()
    candidates = [(layout, pairs_of(layout)) for layout in among]
    left = set().union(*(pairs for _, pairs in candidates))
    cover = []
    while left:
        layout, pairs = max(candidates, key=lambda c: len(c[1] & left))
        cover.append(layout)
        left -= pairs
    return cover


def describe(layout):
    return " ".join(f"{key}={value}" for key, value in layout.items())


def settings_of(layout, precision=None, **changes):
    """The layout's DeepSpeed file, with some keys changed."""
    zero = {
        "reduce_bucket_size": layout["bucket"],
        "stage3_param_persistence_threshold": layout["threshold"],
    }
    if layout["offload"]:
        zero["offload_optimizer"] = {"device": "cpu"}
    if precision:
        changes[precision] = {"enabled": True}
    return ds_config(
        BATCH,
        layout["stage"],
        gradient_accumulation_steps=layout["accumulation"],
        zero=zero,
        **changes,
    )


def compile_layout(folder, layout, precision=None, **changes):
    """The bundle of a layout, made in `folder`."""
    config = write_json(
        folder / "ds.json", settings_of(layout, precision, **changes)
    )
    bundle = folder / "bundle"
    ratio = layout["offload"]
    share = () if isinstance(ratio, bool) else ("--offload-ratio", ratio)
    succeed(
        "compile",
        *("--model", MODELS / layout["model"], "--config", config),
        *("--devices", layout["devices"], "--seq-len", LENGTH),
        *("--recompute", layout["recompute"], *share),
        *("--keep-gathered", layout["keep"]),
        *("--offload-param", layout["param"]),
        *("--offload-activations", layout["activations"]),
        *("--prefetch", layout["prefetch"], "-o", bundle),
    )
    return bundle


def train_bundle(folder, bundle, data, *options):
    """Runs STEPS steps; returns the log."""
    log = folder / "log.jsonl"
    succeed(
        *("train", bundle, "--data", *data, "--steps", STEPS, "--log", log),
        *options,
    )
    return log


def plain(model="tiny-llama"):
    """The layout that all are compared with: one device, nothing chosen."""
    first = {key: values[0] for key, values in CHOICES.items()}
    return {**first, "model": model}


def write_data(folder):
    """Streams whose last sequences are partial, so that ranks and micro-steps
    have unequal numbers of labels, and one batch that is not full."""
    numbers = random.Random(7)
    paths = []
    for index, count in enumerate((16 * 60 + 1, 16 * 31 + 4, 16 * 50 + 11)):
        # Words of a small alphabet: their losses fall within ten steps.
        tokens = [numbers.randrange(97, 97 + 12) for _ in range(count)]
        paths.append(write_tokens(folder / f"{index}.tok", tokens))
    return paths


def losses_in(folder, layout, data, *options, precision=None, **changes):
    """The losses of a run in a layout."""
    bundle = compile_layout(folder, layout, precision, **changes)
    return losses_of(train_bundle(folder, bundle, data, *options))


#
# What a stage implies
#


def buckets_of(bundle):
    """bucket -> its parameters, by the dump of the phase that makes them."""
    text = (bundle / "ir" / "04-shard.mlir").read_text(encoding="utf-8")
    buckets = {}
    # A declaration ends with the place in the bucket: `in @layers.0 at 128`.
    for name, bucket in re.findall(
        r"train\.state (?:\w+ )*@([\w.]+)[^\n]* in @([\w.]+) at \d+", text
    ):
        buckets.setdefault(bucket, []).append(name)
    return buckets


def block_of(name):
    """The block that a parameter belongs to."""
    layer = re.match(r"model\.layers\.(\d+)\.", name)
    if layer:
        return f"layers.{layer[1]}"
    return "embed" if "embed_tokens" in name else "head"


def use_groups(name, tied, recompute):
    """(block, direction) of every group that reads a parameter. The backward
    of a lookup needs no table and that of a bias no bias; but the recomputed
    forward does."""
    block = block_of(name)
    groups = {(block, "fwd")}
    if block == "embed":
        return groups | ({("head", "fwd"), ("head", "bwd")} if tied else set())
    recomputed = recompute == "block" and block.startswith("layers.")
    if not name.endswith(".bias") or recomputed:
        groups.add((block, "bwd"))
    return groups


def gathers_of(groups, keeping):
    """How many gathers serve the groups of one bucket: one each, but one for
    the two of a block that keeps what it gathered."""
    return len({block if block in keeping else (block, d)
                for block, d in groups})


def keeping_blocks(groups, keep):
    """The blocks whose backward uses their forward's gathers: of those that
    gather a bucket twice, the last ones. `groups` are those of each bucket."""
    twice = {
        block
        for group in groups
        for block, direction in group
        if direction == "bwd" and (block, "fwd") in group
    }
    # Layers come before the head and after the embedding.
    ordered = sorted(twice, key=lambda block: (block == "head", block))
    if keep == "all":
        return set(ordered)
    return set(ordered[-keep:]) if keep != "none" else set()


def implied_collectives(bundle, layout):
    """How many gathers, and how many reductions of gradients, a run of STEPS
    steps makes at threshold 0."""
    buckets = buckets_of(bundle)
    count = len(buckets)
    if layout["devices"] == 1:
        return {"all_gather": 0, "reduce_scatter": 0, "all_reduce": 0}
    config = json.loads((MODELS / layout["model"] / "config.json").read_text())
    tied = config["tie_word_embeddings"]
    micro_steps = STEPS * layout["accumulation"]
    if layout["stage"] == 0:
        # Loss and label count; nothing else than gradients besides.
        return {
            "all_gather": 0,
            "reduce_scatter": 0,
            "all_reduce": STEPS * (count + 2),
        }
    gathers = STEPS * count
    if layout["stage"] == 3:
        groups = [
            set().union(
                *(use_groups(n, tied, layout["recompute"]) for n in names)
            )
            for names in buckets.values()
        ]
        keeping = keeping_blocks(groups, layout["keep"])
        gathers = micro_steps * sum(gathers_of(g, keeping) for g in groups)
    reductions = STEPS if layout["stage"] == 1 else micro_steps
    return {
        "all_gather": gathers,
        "reduce_scatter": count * reductions,
        # Loss, label count and the square of the gradients' norm.
        "all_reduce": STEPS * 3,
    }
