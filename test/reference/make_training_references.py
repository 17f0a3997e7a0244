#!/usr/bin/env python3
"""Writes what PyTorch's losses are when a tiny model trains.

  training.inputs.safetensors
      tokens, labels  int32[20, 4, 32]: one batch of 4 sequences a step
      masked_labels   int32[20, 4, 32]: the labels with very uneven numbers of
                      -100 a sequence
      stream          int32[2561]: sequence i of step s is tokens
                      32 * (4 * s + i) and on; its labels start one later
  training.<model>.json
      runs.float64         50 steps; steps after the 20th take the batches
                           from the first again
      runs.float64_masked  20 steps with masked_labels
      runs.float32 .bfloat16 .float16
                           50 steps of transformers' own float32 model, and of
                           16-bit copies of it with float32 master weights
      parameters_after_20_steps
                           their norms, and the norms of their change

A record holds the loss before the update (mean over labelled tokens) and the
gradient norm before clipping; float16 also its loss scale and what it skipped.

  python3 make_training_references.py [--out DIR] [--models DIR]
"""

import argparse
import pathlib

import numpy as np
import torch
from safetensors.torch import save_file

import adamw
import double_precision as dp
import tiny_models
from make_references import versions

MODELS = ("tiny-llama", "tiny-qwen2")
STEPS = 20
LONG_STEPS = 50
BATCH = 4
LENGTH = tiny_models.LENGTH


def draw_inputs():
    count = STEPS * BATCH * LENGTH
    stream = tiny_models.draw_windows("training", 1, count + 1)[0]
    shape = (STEPS, BATCH, LENGTH)
    labels = stream[1:].reshape(shape)
    # Sequence i of a step keeps 32, 20, 7 or 1 labels, rotating with the step.
    kept = (32, 20, 7, 1)
    masked = labels.copy()
    for step in range(STEPS):
        for row in range(BATCH):
            keep = kept[(row + step) % len(kept)]
            masked[step, row, : LENGTH - keep] = tiny_models.IGNORED
    inputs = {
        "stream": stream,
        "tokens": stream[:-1].reshape(shape),
        "labels": labels,
        "masked_labels": masked,
    }
    return {
        key: torch.from_numpy(np.ascontiguousarray(value))
        for key, value in inputs.items()
    }


def train(model, tokens, labels, steps):
    """Trains in the type of the model. Returns one record a step."""
    optimizer = adamw.AdamW(list(model.parameters()))
    records = []
    for step in range(steps):
        batch = step % len(tokens)
        _, loss, gradients = dp.logits_and_gradients(
            model, tokens[batch], labels[batch]
        )
        norm = optimizer.step(list(gradients.values()))
        records.append({"loss": loss.item(), "grad_norm": norm})
    return records


def train_mixed(model, tokens, labels, steps, dtype):
    """Trains a 16-bit copy of a float32 model: forward and backward in
    `dtype` with the loss in float32, update of float32 master weights.
    float16 has a dynamic loss scale."""
    names = [name for name, _ in model.named_parameters()]
    master = [p.detach().clone() for p in model.parameters()]
    model = model.to(dtype)
    optimizer = adamw.AdamW(master)
    scaler = adamw.LossScale() if dtype == torch.float16 else None
    records = []
    for step in range(steps):
        batch = step % len(tokens)
        scale = scaler.scale if scaler else 1.0
        model.zero_grad()
        logits = dp.logits_of(model, tokens[batch]).float()
        loss = dp.mean_loss(logits, labels[batch])
        (loss * scale).backward()
        own = dict(model.named_parameters())
        gradients = [own[name].grad.float() / scale for name in names]
        skipped = not all(g.isfinite().all() for g in gradients)
        norm = 0.0 if skipped else optimizer.step(gradients)
        if scaler:
            scaler.update(skipped)
        with torch.no_grad():
            for name, p in zip(names, master):
                own[name].copy_(p)
        record = {"loss": loss.item(), "grad_norm": norm}
        if scaler:
            record.update(loss_scale=scale, skipped=skipped)
        records.append(record)
    return records


def check_against_torch(folder, config, tokens, labels, records):
    """Our AdamW must be torch's on clipped gradients."""
    model = dp.load_float64(folder, config)
    optimizer = torch.optim.AdamW(
        model.parameters(),
        lr=adamw.LEARNING_RATE,
        betas=adamw.BETAS,
        eps=adamw.EPSILON,
        weight_decay=adamw.WEIGHT_DECAY,
    )
    for step, record in enumerate(records):
        optimizer.zero_grad()
        loss = dp.mean_loss(dp.logits_of(model, tokens[step]), labels[step])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), adamw.CLIP)
        optimizer.step()
        if not abs(loss.item() - record["loss"]) < 1e-10:
            raise SystemExit(
                f"{folder}: step {step}: torch's AdamW has loss "
                f"{loss.item()}, ours {record['loss']}"
            )


def mean_of_last_ten(records):
    return sum(record["loss"] for record in records[-10:]) / 10


def make_training_reference(name, config, folder, inputs):
    tokens, labels = inputs["tokens"], inputs["labels"]
    model = dp.load_float64(folder, config)
    before = {key: p.detach().clone() for key, p in model.named_parameters()}
    short = train(model, tokens, labels, STEPS)
    check_against_torch(folder, config, tokens, labels, short)
    parameters = {
        key: {
            "norm": p.norm().item(),
            "change_norm": (p - before[key]).norm().item(),
        }
        for key, p in model.named_parameters()
    }
    runs = {
        "float64": train(
            dp.load_float64(folder, config), tokens, labels, LONG_STEPS
        ),
        "float64_masked": train(
            dp.load_float64(folder, config),
            tokens,
            inputs["masked_labels"],
            STEPS,
        ),
        "float32": train(dp.load_float32(folder), tokens, labels, LONG_STEPS),
    }
    for dtype in (torch.bfloat16, torch.float16):
        runs[str(dtype).removeprefix("torch.")] = train_mixed(
            dp.load_float32(folder), tokens, labels, LONG_STEPS, dtype
        )
    means = {
        key: mean_of_last_ten(run)
        for key, run in runs.items()
        if len(run) == LONG_STEPS
    }
    print(f"{name}: {means}")
    return {
        "model": name,
        "versions": versions(),
        "settings": adamw.SETTINGS,
        "mean_loss_of_last_10_of_50": means,
        "parameters_after_20_steps": parameters,
        "runs": runs,
    }


def main():
    parser = argparse.ArgumentParser(
        description="Write the losses of tiny training runs."
    )
    parser.add_argument("--out", default=tiny_models.HERE, metavar="DIR")
    parser.add_argument("--models", default=tiny_models.MODELS, metavar="DIR")
    arguments = parser.parse_args()
    out = pathlib.Path(arguments.out)
    torch.set_num_threads(1)
    inputs = draw_inputs()
    save_file(inputs, out / "training.inputs.safetensors")
    for name in MODELS:
        reference = make_training_reference(
            name,
            tiny_models.CONFIGS[name],
            pathlib.Path(arguments.models) / name,
            inputs,
        )
        tiny_models.write_json(out / f"training.{name}.json", reference)


if __name__ == "__main__":
    main()
