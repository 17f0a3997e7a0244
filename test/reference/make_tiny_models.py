#!/usr/bin/env python3
"""Writes the tiny Hugging Face folders under models/: config.json and
model.safetensors in float32.

  python3 make_tiny_models.py [--out DIR]

Needs torch, transformers and safetensors; see README.md.
"""

import argparse
import json
import pathlib
import tempfile

import torch
from safetensors.numpy import save_file
from transformers import AutoConfig, AutoModelForCausalLM

import tiny_models


def parameter_shapes(folder):
    """Names and shapes as transformers declares them. A tied head is one
    tensor and appears once, as the embedding."""
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(
            AutoConfig.from_pretrained(folder)
        )
    model.tie_weights()
    return {name: tuple(p.shape) for name, p in model.named_parameters()}


def make_model(name, config, out):
    folder = pathlib.Path(out) / name
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(dict(sorted(config.items())), indent=2)
    (folder / "config.json").write_text(text + "\n")
    tensors = {
        parameter: tiny_models.draw_parameter(name, parameter, shape)
        for parameter, shape in parameter_shapes(folder).items()
    }
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    write_newest_config(folder)
    total = sum(tensor.size for tensor in tensors.values())
    print(f"{name}: {len(tensors)} tensors, {total} parameters")


def write_newest_config(folder):
    """The same configuration as the installed transformers would save it:
    version 5 nests the rotary settings under rope_parameters."""
    with tempfile.TemporaryDirectory() as scratch:
        config = AutoConfig.from_pretrained(folder)
        config.save_pretrained(scratch)
        saved = json.loads((pathlib.Path(scratch) / "config.json").read_text())
    text = json.dumps(saved, indent=2)
    (folder / "config.resaved.json").write_text(text + "\n")


def main():
    parser = argparse.ArgumentParser(
        description="Write the tiny Hugging Face folders under models/."
    )
    parser.add_argument("--out", default=tiny_models.MODELS, metavar="DIR")
    arguments = parser.parse_args()
    for name, config in tiny_models.CONFIGS.items():
        make_model(name, config, arguments.out)


if __name__ == "__main__":
    main()
