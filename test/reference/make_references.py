#!/usr/bin/env python3
"""Writes, for each tiny model, a batch and what double precision makes of it.

<model>.inputs.safetensors   tokens, labels: int32[2, 32]; label t is token
                             t + 1 already, -100 is ignored
<model>.outputs.safetensors  float64: logits [2, 32, V], logsumexp [2, 32],
                             token_loss [2, 32], loss [] (mean over labelled
                             tokens)
<model>.grads.safetensors    float64: d loss / d parameter, by its Hugging
                             Face name; a tied head adds to the embedding
references.json              loss, counts, versions, difference to float32

python3 make_references.py [--out DIR] [--models DIR]
"""

import argparse
import math
import pathlib

import numpy as np
import safetensors
import torch
import transformers
from safetensors.torch import save_file

import double_precision as dp
import tiny_models


def versions():
    return {
        "numpy": np.__version__,
        "safetensors": safetensors.__version__,
        "torch": torch.__version__,
        "transformers": transformers.__version__,
    }


def make_reference(name, config, folder, out):
    batch = tiny_models.draw_batch(
        name, tiny_models.BATCH, tiny_models.LENGTH, ignored=7
    )
    tokens, labels = map(torch.from_numpy, batch)
    save_file(
        {"tokens": tokens, "labels": labels},
        out / f"{name}.inputs.safetensors",
    )
    logits, loss, gradients = dp.logits_and_gradients(
        dp.load_float64(folder, config), tokens, labels
    )
    outputs = {
        "logits": logits,
        "logsumexp": torch.logsumexp(logits, -1),
        "token_loss": dp.token_losses(logits, labels),
        "loss": loss,
    }
    save_file(outputs, out / f"{name}.outputs.safetensors")
    save_file(gradients, out / f"{name}.grads.safetensors")

    smallest = min((g.norm().item(), key) for key, g in gradients.items())
    summary = {
        "loss": loss.item(),
        "labelled_tokens": int((labels != tiny_models.IGNORED).sum()),
        "parameters": sum(g.numel() for g in gradients.values()),
        "logits_norm": logits.norm().item(),
        "gradient_norm": math.sqrt(
            sum(g.square().sum().item() for g in gradients.values())
        ),
        "smallest_gradient": {"name": smallest[1], "norm": smallest[0]},
        "float32": compare_float32(folder, tokens, labels, logits, gradients),
    }
    print(f"{name}: loss {loss.item():.6f}, float32 {summary['float32']}")
    return summary


def compare_float32(folder, tokens, labels, logits, gradients):
    """How far transformers' own float32 run, nothing replaced, is from double
    precision: the proof that the replacements mean the same, and what a
    float32 implementation may hope to reach."""
    single_logits, _, single = dp.logits_and_gradients(
        dp.load_float32(folder), tokens, labels
    )
    logits_difference = dp.relative_difference(single_logits, logits)
    worst = max(
        (dp.relative_difference(single[key], gradients[key]), key)
        for key in gradients
    )
    if not (logits_difference < 2e-6 and worst[0] < 5e-6):
        raise SystemExit(
            f"{folder}: float32 differs from float64 by {logits_difference} "
            f"in the logits and by {worst[0]} in the gradient of {worst[1]}"
        )
    return {
        "logits_relative_difference": logits_difference,
        "worst_gradient_relative_difference": worst[0],
        "worst_gradient": worst[1],
    }


def main():
    parser = argparse.ArgumentParser(
        description="Write float64 logits, losses and gradients."
    )
    parser.add_argument("--out", default=tiny_models.HERE, metavar="DIR")
    parser.add_argument("--models", default=tiny_models.MODELS, metavar="DIR")
    arguments = parser.parse_args()
    out = pathlib.Path(arguments.out)
    torch.set_num_threads(1)
    summary = {"versions": versions()}
    for name, config in tiny_models.CONFIGS.items():
        folder = pathlib.Path(arguments.models) / name
        summary[name] = make_reference(name, config, folder, out)
    tiny_models.write_json(out / "references.json", summary)


if __name__ == "__main__":
    main()
