#!/usr/bin/env python3
"""What jobs of full size take of each device and of the host, as a table.

DeepSeek-Coder-1.3B, DeepSeek-LLM-7B, Llama-2-13B and Llama-3-8B dimensions on
8 devices, one sequence a device and two micro-steps a step, nothing computed
again; no weights are needed. Prints Markdown: for each job the bytes of a
device's arena, how much of it is held all the time, the live bound, and the
host's bytes for all ranks.
"""
import argparse
import concurrent.futures
import json
import pathlib
import re
import subprocess
import tempfile

DIMENSIONS = (pathlib.Path(__file__).resolve().parents[2]
              / "test/pipelines/Inputs/dimensions")
MODELS = {"DeepSeek-Coder-1.3B": "deepseek-coder-1.3b",
          "DeepSeek-LLM-7B": "deepseek-llm-7b",
          "Llama-2-13B": "llama-2-13b", "Llama-3-8B": "llama-3-8b"}
RANKS = 8
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

    for model in MODELS:
        print(f"\n### {model}\n")
        print("| tokens | type | offload | ZeRO-0 | ZeRO-1 | ZeRO-2 | ZeRO-3 | "
              "held all the time, ZeRO-3 | host, ZeRO-3 |")
        print("|---|---|---|---|---|---|---|---|---|")
        for sequence in (512, 4096):
            for precision in ("fp32", "fp16"):
                for offload in (False, True):
                    row = [(model, sequence, precision, offload, stage)
                           for stage in range(4)]
                    print(f"| {sequence} | {precision} | "
                          f"{'optimizer' if offload else 'none'} | "
                          + " | ".join(giga(case, 0) for case in row)
                          + f" | {giga(row[3], 1)} | {giga(row[3], 3)} |")
    lost = max(found.items(), key=lambda item: item[1][0] / item[1][2])
    transients = [(found[m, s, "fp16", o, 3][0] - found[m, s, "fp16", o, 3][1])
                  / (found[m, s, "fp32", o, 3][0]
                     - found[m, s, "fp32", o, 3][1])
                  for m, s, p, o, z in cases if p == "fp16" and z == 3]
    saved = [1 - found[m, s, p, o, 3][0] / found[m, s, p, o, 0][0]
             for m, s, p, o, z in cases if z == 0]
    size, _, live, _ = lost[1]
    print(f"\n{len(cases)} jobs. Most lost to fragmentation: "
          f"{100 * (size / live - 1):.2f} % ({size} bytes, {live} live at "
          f"once; {lost[0]}). What is not held all the time takes "
          f"{min(transients):.2f} to {max(transients):.2f} times as much in "
          f"fp16 as in fp32 at ZeRO-3. ZeRO-3 takes {100 * min(saved):.0f} to "
          f"{100 * max(saved):.0f} % less than ZeRO-0.")


if __name__ == "__main__":
    main()
