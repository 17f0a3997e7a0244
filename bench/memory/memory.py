#!/usr/bin/env python3
"""What jobs of full size take of each device and of the host, as a table.

DeepSeek-Coder-1.3B, DeepSeek-LLM-7B, Llama-2-13B and Llama-3-8B dimensions on
8 devices, one sequence a device and two micro-steps a step, no block computed
again; no weights are needed. Prints Markdown: for each job the bytes of a
device's arena and, at ZeRO-3, by how much that is less than at ZeRO-0, how much
is held all the time, what is not held as a share of the same in fp32, and the
host's bytes for all ranks. Exits with 1 if a row misses what is promised:
ZeRO-3 at least 40 % less than ZeRO-0, fp16 at most 0.55 of fp32.
"""
import argparse
import concurrent.futures
import json
import pathlib
import re
import subprocess
import sys
import tempfile

DIMENSIONS = (pathlib.Path(__file__).resolve().parents[2]
              / "test/pipelines/Inputs/dimensions")
MODELS = {"DeepSeek-Coder-1.3B": "deepseek-coder-1.3b",
          "DeepSeek-LLM-7B": "deepseek-llm-7b",
          "Llama-2-13B": "llama-2-13b", "Llama-3-8B": "llama-3-8b"}
RANKS = 8
LEAST_SAVED = 0.40
MOST_OF_FP32 = 0.55
ARENA = re.compile(r"(device|host) arena: (\d+) bytes, (\d+) live at once")
STATES = re.compile(r"program micro_first, device: (\d+) bytes in \d+ buffers "
                    r"over (\d+) bytes of state")


def settings(stage, precision, offload):
    zero = {"stage": stage}
    if offload:
        zero["offload_optimizer"] = {"device": "cpu"}
    job = {"train_micro_batch_size_per_gpu": 1,
           "gradient_accumulation_steps": 2, "zero_optimization": zero}
    if precision != "fp32":
        job[precision] = {"enabled": True}
    return job


def plan(ciuicc, model, stage, precision, offload, sequence):
    """Device bytes, of which lasting, live bound; host bytes of all ranks."""
    with tempfile.TemporaryDirectory() as folder:
        job = pathlib.Path(folder) / "job.json"
        job.write_text(json.dumps(settings(stage, precision, offload)))
        result = subprocess.run(
            [ciuicc, "compile", "--model",
             DIMENSIONS / (MODELS[model] + ".json"), "--config", job,
             "--devices", str(RANKS), "--seq-len", str(sequence),
             "--stop-after", "allocate", "--remarks", "memory"],
            check=True, capture_output=True, text=True)
    arenas = {name: (int(size), int(live))
              for name, size, live in ARENA.findall(result.stderr)}
    lasting = int(STATES.search(result.stderr).group(2))
    device, live = arenas["device"]
    return device, lasting, live, RANKS * arenas.get("host", (0, 0))[0]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ciuicc", default="build/bin/ciuicc")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    cases = [(model, sequence, precision, offload, stage)
             for model in MODELS for sequence in (512, 4096)
             for precision in ("fp32", "fp16") for offload in (False, True)
             for stage in range(4)]
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        found = dict(zip(cases, pool.map(
            lambda case: plan(options.ciuicc, case[0], case[4], case[2],
                              case[3], case[1]), cases)))

    def giga(case, index):
        return f"{found[case][index] / 1e9:.2f}"

    def transients(case):
        """What is not held all the time: activations, gathered parameters,
        gradients before their reduction."""
        return found[case][0] - found[case][1]

    def of_fp32(model, sequence, precision, offload, stage):
        return (transients((model, sequence, precision, offload, stage))
                / transients((model, sequence, "fp32", offload, stage)))

    def saved(model, sequence, precision, offload, _):
        job = (model, sequence, precision, offload)
        return 1 - found[*job, 3][0] / found[*job, 0][0]

    for model in MODELS:
        print(f"\n### {model}\n")
        print("| tokens | type | offload | ZeRO-0 | ZeRO-1 | ZeRO-2 | ZeRO-3 | "
              "less than ZeRO-0 | held all the time, ZeRO-3 | "
              "not held, of fp32's | host, ZeRO-3 |")
        print("|---|---|---|---|---|---|---|---|---|---|---|")
        for sequence in (512, 4096):
            for precision in ("fp32", "fp16"):
                for offload in (False, True):
                    row = [(model, sequence, precision, offload, stage)
                           for stage in range(4)]
                    print(f"| {sequence} | {precision} | "
                          f"{'optimizer' if offload else 'none'} | "
                          + " | ".join(giga(case, 0) for case in row)
                          + f" | {100 * saved(*row[3]):.0f} %"
                          f" | {giga(row[3], 1)} | {of_fp32(*row[3]):.2f}"
                          f" | {giga(row[3], 3)} |")
    lost = max(found.items(), key=lambda item: item[1][0] / item[1][2])
    shares = [of_fp32(*case) for case in cases
              if case[2] == "fp16" and case[4] == 3]
    savings = [saved(*case) for case in cases if case[4] == 0]
    size, _, live, _ = lost[1]
    print(f"\n{len(cases)} jobs. Most lost to fragmentation: "
          f"{100 * (size / live - 1):.2f} % ({size} bytes, {live} live at "
          f"once; {lost[0]}). What is not held all the time takes "
          f"{min(shares):.2f} to {max(shares):.2f} times as much in "
          f"fp16 as in fp32 at ZeRO-3. ZeRO-3 takes {100 * min(savings):.0f} to "
          f"{100 * max(savings):.0f} % less than ZeRO-0.")
    return min(savings) < LEAST_SAVED or max(shares) > MOST_OF_FP32


if __name__ == "__main__":
    sys.exit(main())
