#!/usr/bin/env python3
"""Opens an exported folder as transformers' users do and compares its logits.

  python3 check_export.py DIR REFERENCE [--inputs FILE] [--tolerance 1e-5]

DIR is a Hugging Face folder. REFERENCE is a safetensors file with `logits`
[B, T, V]; the inputs file has `tokens` int32[B, T] and is by default the
REFERENCE's neighbour, <model>.inputs.safetensors for
<model>.outputs.safetensors. Fails with status 1 when a parameter is missing or
left over, or when ||logits - reference|| > tolerance * ||reference||.

With --write FILE the logits are stored too: a reference for
weights that have none yet. --double computes in true double precision.
"""

import argparse
import json
import pathlib
import sys

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

import double_precision as dp


def fail(message):
    print(f"check_export: {message}", file=sys.stderr)
    raise SystemExit(1)


def read_tensor(path, name):
    try:
        tensors = load_file(path)
    except (OSError, SafetensorError) as error:
        fail(f"{path}: {error}")
    if name not in tensors:
        fail(f"{path}: has no tensor '{name}', only {sorted(tensors)}")
    return tensors[name]


def check_parameters(folder):
    """Every parameter must come from the folder, and nothing be left over."""
    if not (pathlib.Path(folder) / "config.json").is_file():
        fail(f"{folder}: has no config.json")
    try:
        _, info = AutoModelForCausalLM.from_pretrained(
            folder, output_loading_info=True
        )
    except (
        KeyError,
        OSError,
        RuntimeError,
        SafetensorError,
        ValueError,
    ) as error:
        fail(f"{folder}: transformers cannot open it: {error}")
    for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"):
        if info.get(kind):
            fail(f"{folder}: {kind}: {sorted(map(str, info[kind]))}")


def compute_logits(folder, tokens, double):
    if double:
        config = json.loads((pathlib.Path(folder) / "config.json").read_text())
        model = dp.load_float64(folder, config)
    else:
        model = dp.load_float32(folder)
    with torch.no_grad():
        return dp.logits_of(model.eval(), tokens)


def compare(logits, reference, tolerance):
    if logits.shape != reference.shape:
        fail(
            f"logits are {tuple(logits.shape)}, the reference has "
            f"{tuple(reference.shape)}"
        )
    if not (logits.isfinite().all() and reference.isfinite().all()):
        fail("logits or reference are not finite")
    difference = dp.relative_difference(logits, reference)
    largest = (logits.double() - reference.double()).abs().max().item()
    verdict = "ok" if difference <= tolerance else "DIFFERENT"
    print(
        f"{verdict}: relative difference {difference:.3e} "
        f"(tolerance {tolerance:.1e}), largest {largest:.3e}"
    )
    return difference <= tolerance


def main():
    parser = argparse.ArgumentParser(
        description="Open an exported folder with transformers and compare "
        "its logits with a reference."
    )
    parser.add_argument("folder", metavar="DIR")
    parser.add_argument("reference", metavar="REFERENCE", nargs="?")
    parser.add_argument("--inputs", metavar="FILE")
    parser.add_argument("--tolerance", type=float, default=1e-5)
    parser.add_argument("--double", action="store_true")
    parser.add_argument("--write", metavar="FILE")
    arguments = parser.parse_args()
    if not (arguments.reference or arguments.write):
        parser.error("needs REFERENCE or --write FILE")
    inputs = arguments.inputs
    if not inputs:
        if not (arguments.reference or "").endswith(".outputs.safetensors"):
            parser.error("needs --inputs FILE")
        inputs = arguments.reference.replace(".outputs.", ".inputs.")

    tokens = read_tensor(inputs, "tokens")
    check_parameters(arguments.folder)
    logits = compute_logits(arguments.folder, tokens, arguments.double)
    if arguments.write:
        save_file({"logits": logits.contiguous()}, arguments.write)
    if arguments.reference:
        reference = read_tensor(arguments.reference, "logits")
        if not compare(logits, reference, arguments.tolerance):
            raise SystemExit(1)


if __name__ == "__main__":
    main()
