#!/usr/bin/env python3
"""The largest Llama-like model that `--fit` trains on a machine, as a table.

Of the widths of Llama-3-8B and Llama-3-70B, the largest number of layers for
which `--fit` finds a job that fits: bf16, Adam, a global batch of 64 sequences,
everything else free to choose. Found by bisection; no weights are needed.
"""
import argparse
import json
import pathlib
import re
import subprocess
import tempfile

WIDTHS = {
    "4096 (Llama-3-8B)": {"hidden_size": 4096, "intermediate_size": 14336,
                          "num_attention_heads": 32},
    "8192 (Llama-3-70B)": {"hidden_size": 8192, "intermediate_size": 28672,
                           "num_attention_heads": 64},
}
COMMON = {"model_type": "llama", "architectures": ["LlamaForCausalLM"],
          "hidden_act": "silu", "num_key_value_heads": 8,
          "vocab_size": 128256, "rms_norm_eps": 1e-5, "rope_theta": 500000.0,
          "tie_word_embeddings": False, "attention_bias": False,
          "max_position_embeddings": 8192, "torch_dtype": "bfloat16"}
JOB = {"train_batch_size": 64, "bf16": {"enabled": True}}
CHOSEN = re.compile(r"the same as without it with (--.*) \((.*) on each device, "
                    r"host (.*?), (?:costs|saves)")


def parameters(width, layers):
    hidden = width["hidden_size"]
    keys = hidden // width["num_attention_heads"] * 8
    layer = (2 * hidden * hidden + 2 * hidden * keys
             + 3 * hidden * width["intermediate_size"] + 2 * hidden)
    return layers * layer + 2 * COMMON["vocab_size"] * hidden + hidden


def fit(options, width, layers, sequence):
    """The flags that make it fit, and what it takes; None if nothing does."""
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        (folder / "job.json").write_text(json.dumps(JOB))
        (folder / "model.json").write_text(
            json.dumps({**COMMON, **width, "num_hidden_layers": layers}))
        result = subprocess.run(
            [options.ciuicc, "compile", "--model", folder / "model.json",
             "--config", folder / "job.json", "--seq-len", str(sequence),
             "--machine", options.machine, "--fit", *options.flags,
             "--stop-after", "allocate"], capture_output=True, text=True)
    if result.returncode not in (0, 1):
        raise SystemExit(result.stderr)
    if result.returncode == 1:
        if "does not fit" not in result.stderr:
            raise SystemExit(result.stderr)
        return None
    found = CHOSEN.search(result.stderr)
    return found.groups() if found else ("nothing", "", "")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ciuicc", default="build/bin/ciuicc")
    parser.add_argument("--machine", default="ciuic-monster")
    parser.add_argument("--least", type=int, default=0,
                        help="layers that are known to fit")
    parser.add_argument("--most", type=int, default=1024, help="layers")
    parser.add_argument("--step", type=int, default=1, help="layers")
    parser.add_argument("--width", choices=WIDTHS, nargs="+", default=WIDTHS)
    parser.add_argument("--sequences", type=int, nargs="+",
                        default=[512, 4096])
    parser.add_argument("flags", nargs="*",
                        help="more options of the compilation, after --")
    options = parser.parse_args()
    print("| width | tokens | layers | parameters | chosen | device | host |")
    print("|---|---|---|---|---|---|---|")
    for name in options.width:
        width = WIDTHS[name]
        for sequence in options.sequences:
            low, best, high = options.least, None, options.most + 1
            while high - low > options.step:  # `low` fits, `high` does not.
                # Few are likely to fit: look among them first.
                middle = (low + high) // 2 if low else max(1, high // 4)
                found = fit(options, width, middle, sequence)
                low, best, high = ((middle, found, high) if found
                                   else (low, best, middle))
            if best is None and low > 0:
                best = fit(options, width, low, sequence)
            flags, device, host = best or ("nothing fits", "", "")
            print(f"| {name} | {sequence} | {low} | "
                  f"{parameters(width, low) / 1e9:.1f} B | `{flags}` | "
                  f"{device} | {host} |", flush=True)


if __name__ == "__main__":
    main()
