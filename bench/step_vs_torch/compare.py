#!/usr/bin/env python3
"""Times one training step here and in PyTorch, in turn, and prints ratios.

Both train a Llama of 109.5 M parameters on 4 x 256 tokens with AdamW on the
same threads. PyTorch runs torch_step.py's variants; name the fastest of this
machine with --fp32-variant and --bf16-variant (torch_step.py without
--variants finds it). Runs alternate; each ratio is of medians, with the least
and most of the pairs.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
MODEL = {
    "model_type": "llama", "hidden_size": 768, "intermediate_size": 2048,
    "num_hidden_layers": 12, "num_attention_heads": 12,
    "num_key_value_heads": 12, "vocab_size": 32000,
    "max_position_embeddings": 1024, "rms_norm_eps": 1e-6,
    "rope_theta": 10000.0, "hidden_act": "silu", "tie_word_embeddings": True,
}
BATCH, SEQUENCE = 4, 256


def ours(options, folder, dtype):
    """Seconds of each step after the first two."""
    bundle = folder / f"bundle-{dtype}"
    if not bundle.exists():
        subprocess.run(
            [options.ciuicc, "compile", "--model", str(folder), "--batch",
             str(BATCH), "--micro-batch", str(BATCH), "--precision", dtype,
             "--max-grad-norm", "0", "--seq-len", str(SEQUENCE), "-o",
             str(bundle)], check=True, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL)
    log = folder / "log.jsonl"
    log.unlink(missing_ok=True)
    subprocess.run(
        [options.ciuicc, "train", str(bundle), "--data", str(folder / "text"),
         "--steps", str(options.steps + 2), "--log", str(log)], check=True,
        stdout=subprocess.DEVNULL)
    records = [json.loads(line) for line in log.read_text().splitlines()]
    steps = [r["step_ms"] / 1e3 for r in records if "step_ms" in r]
    return steps[2:]


def theirs(options, dtype):
    """Seconds of each step of the best variant, the floor, its name."""
    variant = getattr(options, f"{dtype}_variant")
    command = [options.python, str(HERE / "torch_step.py"), "--dtype", dtype,
               "--steps", str(options.steps)]
    if variant:
        command += ["--variants", variant]
    command += options.torch_option
    output = subprocess.run(command, check=True, capture_output=True,
                            text=True).stdout
    records = [json.loads(line) for line in output.splitlines()
               if line.startswith("{")]
    steps = [r for r in records if r.get("kind") == "step"]
    floors = [r for r in records if r.get("kind") == "floor"]
    if not steps or not floors:
        sys.exit("torch_step.py printed no steps:\n" + output)
    best = min(steps, key=lambda r: r["seconds"])
    return best["seconds_all"], floors[0]["seconds"], best["variant"]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ciuicc", default="build/bin/ciuicc")
    parser.add_argument("--python", required=True,
                        help="an interpreter with torch")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--dtype", choices=["fp32", "bf16", "both"],
                        default="both")
    parser.add_argument("--fp32-variant", default="")
    parser.add_argument("--bf16-variant", default="")
    parser.add_argument("--torch-option", action="append", default=[],
                        help="passed on to torch_step.py, e.g. --compile")
    options = parser.parse_args()

    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        (folder / "config.json").write_text(json.dumps(MODEL))
        words = " ".join(str(i * 7919 % 10007) for i in range(20000))
        (folder / "text").write_text(words)
        dtypes = ["fp32", "bf16"] if options.dtype == "both" else [
            options.dtype]
        for dtype in dtypes:
            mine, torch, floors = [], [], []
            for _ in range(options.rounds):
                mine.append(statistics.median(ours(options, folder, dtype)))
                times, floor, variant = theirs(options, dtype)
                torch.append(statistics.median(times))
                floors.append(floor)
            ratios = [a / b for a, b in zip(mine, torch)]
            tokens = BATCH * SEQUENCE
            print(f"{dtype}: {tokens / statistics.median(mine):.0f} tokens/s "
                  f"here, {tokens / statistics.median(torch):.0f} in PyTorch; "
                  f"time here / PyTorch {statistics.median(ratios):.2f} "
                  f"(least {min(ratios):.2f}, most {max(ratios):.2f}, "
                  f"{len(ratios)} rounds, {variant}); time here / floor "
                  f"{statistics.median(mine) / min(floors):.2f}; load "
                  f"{os.getloadavg()[0]:.1f}", flush=True)


if __name__ == "__main__":
    main()
