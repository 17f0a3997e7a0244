#!/usr/bin/env python3
"""random_jobs.py WORK SEED...: small random models and jobs, one a seed.

The oracle trains two steps with the module of each phase of a sharded job and
with that of one device over the same sequences, in f64, where all must agree to
rounding. One line a seed; a difference ends the script with the job's files
left in WORK.
"""
import json
import os
import random
import subprocess
import sys


def run(*command):
    done = subprocess.run([str(c) for c in command], capture_output=True,
                          text=True, check=False)
    if done.returncode != 0:
        print("failed:", " ".join(str(c) for c in command))
        print(done.stdout + done.stderr)
        sys.exit(1)


def random_model(rng):
    kv_heads = rng.choice([1, 2])
    heads = kv_heads * rng.choice([1, 2, 3])
    kind = rng.choice(["llama", "qwen2"])
    model = {
        "architectures": [{"llama": "LlamaForCausalLM",
                           "qwen2": "Qwen2ForCausalLM"}[kind]],
        "model_type": kind,
        "hidden_act": "silu",
        "hidden_size": heads * rng.choice([2, 4, 8]),
        "intermediate_size": rng.randint(3, 40),
        "max_position_embeddings": 32,
        "num_attention_heads": heads,
        "num_hidden_layers": rng.randint(1, 3),
        "num_key_value_heads": kv_heads,
        "rms_norm_eps": 1e-5,
        "initializer_range": 0.05,
        "rope_theta": rng.choice([100.0, 10000.0]),
        "tie_word_embeddings": rng.random() < 0.5,
        "vocab_size": rng.randint(5, 60),
    }
    if kind == "llama":
        model["attention_bias"] = rng.random() < 0.5
        model["mlp_bias"] = rng.random() < 0.5
    return model


def random_job(rng):
    stage = rng.randint(0, 3)
    zero = {"stage": stage}
    if stage > 0 and rng.random() < 0.5:
        zero["offload_optimizer"] = {"device": "cpu"}
    if stage == 3:
        zero["stage3_param_persistence_threshold"] = rng.choice([0, 50, 500])
    ranks = rng.choice([1, 2, 4])
    job = {"zero_optimization": zero,
           "gradient_accumulation_steps": rng.choice([1, 2])}
    return job, ranks, rng.choice(["none", "block"]), rng.choice(
        ["fp32", "bf16", "fp16"])


def dump(model, job, micro_batch, ranks, last, folder, precision, *more):
    path = folder + ".json"
    with open(path, "w", encoding="utf-8") as file:
        json.dump(dict(job, train_micro_batch_size_per_gpu=micro_batch), file)
    run("ciuicc", "compile", "--model", model, "--config", path, "--devices",
        ranks, "--seq-len", 6, "--stop-after", last, "--dump", folder,
        "--precision", precision, *more)


def compare(one, other):
    run("ciuic-run", "--compare", one, other, "--f64", "--random-inputs",
        "--steps", 2, "--tolerance", "1e-10")


def main():
    work = sys.argv[1]
    os.makedirs(work, exist_ok=True)
    for seed in sys.argv[2:]:
        rng = random.Random(int(seed))
        base = os.path.join(work, seed)
        model = base + ".config.json"
        with open(model, "w", encoding="utf-8") as file:
            json.dump(random_model(rng), file, indent=1)
        job, ranks, recompute, precision = random_job(rng)
        plain = {"gradient_accumulation_steps":
                 job["gradient_accumulation_steps"]}
        dump(model, plain, 4, 1, "precision", base + ".one", precision)
        # To the end of planning: its gates check the schedule and the places.
        dump(model, job, 4 // ranks, ranks, "allocate", base + ".many",
             precision, "--recompute", recompute,
             "--prefetch", rng.randint(0, 3))
        reference = base + ".one/02-differentiate.mlir"
        compare(reference, base + ".one/03-precision.mlir")
        compare(reference, base + ".many/04-shard.mlir")
        compare(reference, base + ".many/05-place.mlir")
        print("seed", seed + ": same")


main()
