#!/usr/bin/env python3
"""Sends random small training jobs through the passes and runs them.

  python3 random_models.py --seeds 0 8 --work DIR

A seed makes a configuration (shapes, heads, biases, rotary scaling, a tied
head), an optimizer, a precision and a layout (ranks, stage, buckets, offload,
recompute). After every pass the module must train, in exact arithmetic, as
the plain one of one rank and one large batch does; its gradients must be the
slopes of its loss, and it must run in its own precision too. Prints a line a
seed; at the first failure the commands that show it, with status 1.
"""

import argparse
import json
import os
import random
import shlex
import subprocess
import sys


def make_config(rng):
    heads = rng.choice([1, 2, 3, 4])
    head_dim = 2 * rng.randint(1, 5)
    config = {
        "hidden_act": "silu",
        "head_dim": head_dim,
        "hidden_size": rng.choice([heads * head_dim, rng.randint(3, 33)]),
        "initializer_range": rng.choice([0.02, 0.3]),
        "intermediate_size": rng.randint(1, 40),
        "max_position_embeddings": 64,
        "num_attention_heads": heads,
        "num_hidden_layers": rng.randint(1, 3),
        "num_key_value_heads": rng.choice(
            [kv for kv in range(1, heads + 1) if heads % kv == 0]
        ),
        "rms_norm_eps": rng.choice([1e-6, 1e-5]),
        "rope_theta": rng.choice([1e4, 1e6]),
        "tie_word_embeddings": rng.random() < 0.5,
        "vocab_size": rng.randint(2, 70),
    }
    if rng.random() < 0.3:
        config.update(
            model_type="qwen2",
            architectures=["Qwen2ForCausalLM"],
            use_sliding_window=False,
        )
        return config
    config.update(
        model_type="llama",
        architectures=["LlamaForCausalLM"],
        attention_bias=rng.random() < 0.3,
        mlp_bias=rng.random() < 0.3,
    )
    scaling = rng.choice(["none", "linear", "llama3"])
    if scaling == "linear":
        config["rope_scaling"] = {"rope_type": "linear", "factor": 4.0}
    if scaling == "llama3":
        config["rope_scaling"] = {
            "rope_type": "llama3",
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 32,
        }
    return config


def make_optimizer(rng):
    options = [
        f"optimizer={rng.choice(['adamw', 'adam', 'sgd'])}",
        f"base={rng.choice([1e-2, 1e-3])}",
        f"decay={rng.choice([0.0, 0.1])}",
        f"clip={rng.choice([0.0, 1.0])}",
        f"momentum={rng.choice([0.0, 0.9])}",
    ]
    if rng.random() < 0.5:
        options.append("no-decay=norm,bias")
    if rng.random() < 0.3:
        options.append("kind=WarmupLR warmup=4 min=1e-4")
    return " ".join(options)


class Job:
    """One seed's commands; each is kept, to be shown if one fails."""

    def __init__(self, work):
        self.work = work
        self.commands = []

    def path(self, name):
        return os.path.join(self.work, name)

    def run(self, *command):
        self.commands.append(shlex.join(command))
        result = subprocess.run(command, capture_output=True, text=True)
        if result.returncode != 0:
            print("\n".join(self.commands))
            print(result.stdout + result.stderr, end="")
            raise SystemExit(1)

    def load(self, name, batch, sequence):
        self.run("ciuic-import", self.path("config.json"),
                 f"--micro-batch={batch}", f"--seq-len={sequence}",
                 "-o", self.path(name))

    def passes(self, before, after, *flags):
        self.run("ciuic-opt", self.path(before), *flags,
                 "-o", self.path(after))


def check(seed, work):
    rng = random.Random(seed)
    job = Job(work)
    with open(job.path("config.json"), "w", encoding="utf-8") as file:
        json.dump(make_config(rng), file, indent=1)
    ranks, stage = rng.choice([1, 2, 3, 4]), rng.randint(0, 3)
    batch, accumulation = rng.randint(1, 2), rng.randint(1, 3)
    sequence = rng.randint(1, 12)
    optimizer = make_optimizer(rng)

    # The seed of the backward, 1 / tokens, is rounded to f32. All else is
    # exact, so only a power of two lets layouts agree to the last digits.
    tokens = ranks * batch * accumulation * sequence
    tolerance = "1e-9" if tokens & (tokens - 1) == 0 else "1e-6"

    def compare(name):
        job.run("ciuic-run", "--compare", job.path("plain.mlir"),
                job.path(name), "--f64", "--random-inputs", f"--seed={seed}",
                "--steps=3", f"--tolerance={tolerance}")

    job.load("whole.mlir", batch * accumulation * ranks, sequence)
    job.passes("whole.mlir", "plain.mlir", "--ciuic-train-differentiate",
               f"--ciuic-train-append-optimizer={optimizer}")
    job.load("model.mlir", batch, sequence)
    job.passes("model.mlir", "precise.mlir",
               f"--ciuic-train-differentiate=accumulation={accumulation}",
               f"--ciuic-train-append-optimizer={optimizer} "
               f"accumulation={accumulation}")
    precision = rng.choice(["f32", "bf16", "f16"])
    job.passes("precise.mlir", "lowered.mlir",
               f"--ciuic-train-lower-precision=compute-type={precision}",
               "--ciuic-verify-precision")
    shard = (f"--ciuic-comm-shard-states=ranks={ranks} stage={stage} "
             f"persistence-threshold={rng.choice([0, 40, 300])} "
             f"min-bucket-elements={rng.choice([0, 0, 2000])} "
             f"max-bucket-elements={rng.choice([0, 0, 500])}")
    job.passes("lowered.mlir", "sharded.mlir", shard, "--ciuic-verify-sharded")
    compare("sharded.mlir")
    job.run("ciuic-run", "--check-gradients", job.path("sharded.mlir"),
            "--random-inputs", f"--seed={seed}", "--tolerance=1e-5")

    last = "sharded.mlir"
    optional = [
        ("elided", ["--ciuic-comm-elide-trivial-collectives"]),
        ("offloaded", ["--ciuic-comm-offload-optimizer="
                       f"ratio={rng.choice([1.0, 0.5])}"]),
        ("recomputed", ["--ciuic-comm-recompute-blocks="
                        f"count={rng.choice([-1, 1])}"]),
        ("repeated", ["--ciuic-comm-recompute-ops"]),
        ("kept", ["--ciuic-comm-keep-gathered="
                  f"count={rng.choice([-1, 1])}"]),
        ("pointwise", ["--ciuic-train-recompute-pointwise"]),
        ("cleaned", ["--cse", "--canonicalize"]),
    ]
    chosen = [entry for entry in optional if rng.random() < 0.7]
    for name, flags in chosen:
        job.passes(last, name + ".mlir", *flags)
        last = name + ".mlir"
        compare(last)
    job.run("ciuic-run", job.path(last), "--random-inputs", f"--seed={seed}",
            "--steps=2", f"--ranks={ranks}")
    steps = ", ".join(name for name, _ in chosen)
    print(f"seed {seed}: {precision}, {ranks} ranks, stage {stage}; {steps}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, nargs=2, default=[0, 8],
                        metavar=("FIRST", "END"))
    parser.add_argument("--work", required=True)
    options = parser.parse_args()
    for seed in range(*options.seeds):
        work = os.path.join(options.work, str(seed))
        os.makedirs(work, exist_ok=True)
        try:
            check(seed, work)
        except SystemExit:
            print(f"seed {seed} failed")
            raise
    return 0


if __name__ == "__main__":
    sys.exit(main())
