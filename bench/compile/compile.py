#!/usr/bin/env python3
"""Seconds a phase and peak memory of compiling a job for 8 devices.

DeepSeek-LLM-7B's dimensions, ZeRO-3, bf16, optimizer offload, block
recompute; no weights are needed. Each phase is timed by ciuicc itself
(--timing); peak memory is the operating system's figure for the process. With
--target cuda the phase emit compiles all kernels and the host program with
nvcc, which is to take less than 60 s on 2 cores.

--case deep is the same model with 976 layers, --case experts a graph of
DeepSeek-V3's size (experts.py), both up to allocate and, unless --recompute
says otherwise, without recompute: planning time is to grow with the graph, not
with its square.
"""
import argparse
import json
import os
import pathlib
import resource
import statistics
import subprocess
import tempfile

from experts import write_experts

MODEL = {
    "model_type": "llama", "hidden_size": 4096, "intermediate_size": 11008,
    "num_hidden_layers": 30, "num_attention_heads": 32,
    "num_key_value_heads": 32, "vocab_size": 102400,
    "max_position_embeddings": 4096, "rms_norm_eps": 1e-6,
    "rope_theta": 10000.0, "hidden_act": "silu",
    "tie_word_embeddings": False,
}
JOB = {
    "train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 4,
    "bf16": {"enabled": True},
    "zero_optimization": {"stage": 3, "offload_optimizer": {"device": "cpu"}},
}
# Seconds that planning may take, up to allocate.
LIMITS = {"7b": 10, "deep": 20, "experts": 60}


def arguments(case, recompute, folder):
    """What the case is compiled from and how; its files go to `folder`."""
    job = dict(JOB)
    if case == "experts":
        job["train_micro_batch_size_per_gpu"] = 1
        write_experts(folder / "experts.mlir")
        model = ["--model", str(folder / "experts.mlir"),
                 "--start-from", "differentiate", "--seq-len", "512"]
    else:
        layers = 976 if case == "deep" else MODEL["num_hidden_layers"]
        (folder / "config.json").write_text(
            json.dumps(MODEL | {"num_hidden_layers": layers}))
        model = ["--model", str(folder), "--seq-len", "2048"]
    (folder / "job.json").write_text(json.dumps(job))
    until = (["-o", str(folder / "bundle")] if case == "7b"
             else ["--stop-after", "allocate"])
    recompute = recompute or ("block" if case == "7b" else "none")
    return [*model, "--config", str(folder / "job.json"), "--devices", "8",
            "--recompute", recompute, *until]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ciuicc", default="build/bin/ciuicc")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--case", choices=sorted(LIMITS), default="7b")
    parser.add_argument("--recompute", help="as ciuicc's; default block for "
                        "7b, none for the others")
    parser.add_argument("--target", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--arch", default="sm_80", help="for cuda")
    options = parser.parse_args()
    target = ["--target", options.target]
    if options.target == "cuda":
        target += ["--arch", options.arch]
    limit = LIMITS[options.case]

    phases = {}
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        given = arguments(options.case, options.recompute, folder)
        for _ in range(options.runs):
            result = subprocess.run(
                [options.ciuicc, "compile", *given, "--timing", *target],
                check=True, capture_output=True, text=True)
            if options.target == "cuda" and options.case == "7b" and not (
                    folder / "bundle/lib/libjob.so").exists():
                parser.error("no nvcc is on the path")
            for line in result.stderr.splitlines():
                words = line.split()
                if words[:2] == ["ciuicc:", "timing:"]:
                    phases.setdefault(words[2], []).append(float(words[3]))
    load = os.getloadavg()[0]
    total = 0.0
    print(f"{'phase':<14} {'median s':>9} {'least':>7} {'most':>7}")
    for name, times in phases.items():
        median = statistics.median(times)
        if name != "emit":
            total += median
        print(f"{name:<14} {median:9.3f} {min(times):7.3f} {max(times):7.3f}")
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    peak = used.ru_maxrss / 1e6
    print(f"up to allocate: {total:.2f} s, {total / limit:.2f} of the "
          f"{limit} s limit; {used.ru_utime / options.runs:.2f} s of a "
          "processor's time a run, what follows allocate included; peak of "
          "any process, the C++ compiler's included: "
          f"{peak:.2f} GB; load {load:.1f}")
    if "emit" in phases and options.target == "cuda":
        emit = statistics.median(phases["emit"])
        print(f"emit: {emit:.2f} s for {options.arch}, {emit / 60:.2f} of the "
              f"60 s limit")


if __name__ == "__main__":
    main()
