#!/usr/bin/env python3
"""Writes float64 results of single operators, forward and backward.

  ops.safetensors   tensors named CASE.TENSOR; float64, integers are int32
  ops.json          for each case what it computes and its scalar settings

Names: `dy` is the incoming gradient of `y`, `dx` the outgoing one of `x`.
Shapes are odd on purpose. Gradients come from PyTorch's autograd over each
operator's definition.

  python3 make_operator_references.py [--out DIR]
"""

import argparse
import math
import pathlib
import types

import torch
from safetensors.torch import save_file
from torch.nn import functional
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

import double_precision as dp
import tiny_models

tensors = {}
cases = {}


def random(case, name, shape, scale=1.0):
    """A float64 leaf that requires a gradient; its values fit float32."""
    values = tiny_models.generator("ops", case, name).standard_normal(shape)
    tensor = torch.from_numpy(scale * values).float().double()
    return tensor.requires_grad_()


def integers(case, name, shape, high):
    values = tiny_models.generator("ops", case, name).integers(0, high, shape)
    return torch.from_numpy(values).int()


def add(case, what, named, **settings):
    """Records a case; `named` maps tensor names to tensors."""
    cases[case] = {"what": what, **settings}
    for name, tensor in named.items():
        tensors[f"{case}.{name}"] = tensor.detach().contiguous().clone()


def add_differentiated(case, what, inputs, outputs, constants=None, **settings):
    """Records a case with the gradients of all inputs. Each output but the
    scalar ones gets a random incoming gradient; a scalar gets 1."""
    seeds = {}
    for name, output in outputs.items():
        if output.dim():
            seeds["d" + name] = random(case, "d" + name, output.shape).detach()
    torch.autograd.backward(
        list(outputs.values()),
        [
            seeds.get("d" + name, torch.ones((), dtype=torch.float64))
            for name in outputs
        ],
    )
    gradients = {"d" + name: tensor.grad for name, tensor in inputs.items()}
    add(
        case,
        what,
        {**inputs, **(constants or {}), **outputs, **seeds, **gradients},
        **settings,
    )


def rms_norm_cases():
    for case, shape, scale in (
        ("rms_norm", (3, 5, 37), 1.0),
        # The mean square is below eps, which then decides.
        ("rms_norm_small", (4, 7), 1e-3),
    ):
        eps = 1e-5
        x = random(case, "x", shape, scale)
        weight = random(case, "weight", shape[-1:])
        norm = dp.RmsNorm(
            types.SimpleNamespace(
                weight=torch.nn.Parameter(weight.detach()), variance_epsilon=eps
            )
        )
        y = norm(x)
        dy = random(case, "dy", shape).detach()
        y.backward(dy)
        add(
            case,
            "y = weight * x / sqrt(mean(x^2 over the last dim) + eps)",
            {
                "x": x,
                "weight": weight,
                "y": y,
                "dy": dy,
                "dx": x.grad,
                "dweight": norm.weight.grad,
            },
            eps=eps,
        )


# Settings of rotary tables: head size, base, and rope_scaling as in
# config.json.
ROTARY = {
    "rotary_default": (10, 10000.0, None),
    "rotary_linear": (64, 10000.0, {"rope_type": "linear", "factor": 4.0}),
    # Llama 3.1's own.
    "rotary_llama3": (
        128,
        500000.0,
        {
            "rope_type": "llama3",
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 8192,
        },
    ),
    # The same with the base 10000, for which a published checksum exists.
    "rotary_llama3_base10000": (
        128,
        10000.0,
        {
            "rope_type": "llama3",
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 8192,
        },
    ),
}
POSITIONS = (0, 1, 2, 5, 31, 127, 1000, 4095, 8191)


def transformers_rotary(dim, theta, scaling, positions):
    """Inverse frequencies, cos and sin, float32, from transformers itself;
    cos and sin cut to their first half, of which the second is a copy."""
    config = LlamaConfig(
        hidden_size=4 * dim,
        num_attention_heads=4,
        head_dim=dim,
        max_position_embeddings=131072,
        rope_parameters={
            "rope_theta": theta,
            **(scaling or {"rope_type": "default"}),
        },
    )
    module = LlamaRotaryEmbedding(config)
    cos, sin = module(torch.zeros(1, 1, dtype=torch.float32), positions[None])
    half = dim // 2
    return module.inv_freq, cos[0, :, :half], sin[0, :, :half]


def rotary_table_cases():
    positions = torch.tensor(POSITIONS, dtype=torch.int32)
    for case, (dim, theta, scaling) in ROTARY.items():
        frequencies = dp.inverse_frequencies(dim, theta, scaling)
        angles = positions.double()[:, None] * frequencies
        hf = transformers_rotary(dim, theta, scaling, positions)
        difference = ((hf[0].double() - frequencies) / frequencies).abs().max()
        if not difference < 1e-6:
            raise SystemExit(f"{case}: transformers differs: {difference}")
        every = torch.arange(4096, dtype=torch.float64)[:, None] * frequencies
        add(
            f"{case}_table",
            "inv_freq [dim / 2]; cos, sin [positions, dim / 2] of position * "
            "inv_freq; hf_*: the same from transformers in float32; checksum: "
            "the sum of all cos and sin over positions 0..4095",
            {
                "inv_freq": frequencies,
                "positions": positions,
                "cos": angles.cos(),
                "sin": angles.sin(),
                "hf_inv_freq": hf[0],
                "hf_cos": hf[1],
                "hf_sin": hf[2],
            },
            dim=dim,
            theta=theta,
            rope_scaling=scaling,
            checksum=(every.cos() + every.sin()).sum().item(),
        )
    checksum = cases["rotary_llama3_base10000_table"]["checksum"]
    if not abs(checksum - 91141.7656) < 0.02:
        raise SystemExit(f"the Llama-3.1 checksum is {checksum}")


def rotary_case():
    case = "rotary"
    dim, theta, _ = ROTARY["rotary_default"]
    x = random(case, "x", (2, 7, 3, dim))
    frequencies = dp.inverse_frequencies(dim, theta)
    angles = torch.arange(7, dtype=torch.float64)[:, None] * frequencies
    cos, sin = angles.cos()[:, None], angles.sin()[:, None]
    low, high = x[..., : dim // 2], x[..., dim // 2 :]
    y = torch.cat((low * cos - high * sin, high * cos + low * sin), -1)
    add_differentiated(
        case,
        "rotate-half of x [B, T, H, D] by position * inv_freq, positions "
        "0..T-1: (a, b) -> (a cos - b sin, b cos + a sin), where a and b are "
        "the halves of the last dimension",
        {"x": x},
        {"y": y},
        theta=theta,
    )


def attention_cases():
    for case, (batch, heads, kv_heads, length, dim), scale in (
        ("attention_gqa", (2, 4, 2, 9, 8), 1.0),
        # One key head, a head size and a length that divide by nothing.
        ("attention_mqa", (1, 3, 1, 37, 5), 1.0),
        ("attention_one_token", (2, 2, 2, 1, 4), 1.0),
        # Scores up to some thousands: exp overflows unless the row maximum
        # is taken off first.
        ("attention_large_scores", (1, 2, 2, 17, 6), 40.0),
    ):
        q = random(case, "q", (batch, heads, length, dim), scale)
        k = random(case, "k", (batch, kv_heads, length, dim), scale)
        v = random(case, "v", (batch, kv_heads, length, dim))
        factor = 1 / math.sqrt(dim)
        out, lse = dp.causal_attention(q, k, v, factor)
        expected = functional.scaled_dot_product_attention(
            q, k, v, is_causal=True, enable_gqa=True
        )
        if not (out - expected).abs().max() < 1e-12:
            raise SystemExit(f"{case}: scaled_dot_product_attention differs")
        add_differentiated(
            case,
            "causal: out = softmax(scale * q k^T) v; q, out [B, H, T, D]; "
            "k, v [B, K, T, D], head h reads key head h // (H / K); lse "
            "[B, H, T] is the natural log of the sum of exp of a row's scaled "
            "scores",
            {"q": q, "k": k, "v": v},
            {"out": out},
            {"lse": lse},
            scale=factor,
        )


def pointwise_cases():
    gate = random("swiglu", "gate", (3, 7, 11), 2.0)
    up = random("swiglu", "up", (3, 7, 11))
    add_differentiated(
        "swiglu",
        "y = silu(gate) * up",
        {"gate": gate, "up": up},
        {"y": functional.silu(gate) * up},
    )
    x = torch.tensor(
        [
            0.0,
            -0.0,
            1e-30,
            -1e-30,
            1.0,
            -1.0,
            20.0,
            -20.0,
            88.0,
            -88.0,
            104.0,
            -104.0,
            745.0,
            -745.0,
            1e4,
            -1e4,
            3e38,
            -3e38,
        ],
        dtype=torch.float64,
    ).requires_grad_()
    y = functional.silu(x)
    y.sum().backward()
    add(
        "silu_extreme",
        "y = x / (1 + exp(-x)) and dy/dx where exp overflows or underflows; "
        "all finite",
        {"x": x, "y": y, "dx": x.grad},
    )


def matrix_cases():
    x = random("linear", "x", (3, 5, 7))
    weight = random("linear", "weight", (11, 7))
    bias = random("linear", "bias", (11,))
    add_differentiated(
        "linear",
        "y = x weight^T + bias",
        {"x": x, "weight": weight, "bias": bias},
        {"y": functional.linear(x, weight, bias)},
    )
    tokens = integers("embedding", "tokens", (2, 9), 13)
    tokens[0, :3] = 4  # one row used often
    table = random("embedding", "weight", (13, 6))
    add_differentiated(
        "embedding",
        "y[b, t] = weight[tokens[b, t]]; rows used more than once add up, "
        "unused ones have gradient 0",
        {"weight": table},
        {"y": functional.embedding(tokens.long(), table)},
        {"tokens": tokens},
    )


def cross_entropy_cases():
    for case, shape, scale in (
        ("cross_entropy", (2, 5, 13), 1.0),
        # exp of a logit overflows even in double precision.
        ("cross_entropy_large", (1, 6, 259), 3e3),
    ):
        logits = random(case, "logits", shape, scale)
        labels = integers(case, "labels", shape[:2], shape[2])
        labels[0, 1] = labels[-1, -1] = tiny_models.IGNORED
        add_differentiated(
            case,
            "loss = mean over labels other than -100 of logsumexp(logits) - "
            "logits[label]; token_loss is 0 where ignored; dlogits for an "
            "incoming gradient of 1",
            {"logits": logits},
            {"loss": dp.mean_loss(logits, labels)},
            {
                "labels": labels,
                "token_loss": dp.token_losses(logits, labels),
                "logsumexp": torch.logsumexp(logits, -1),
            },
        )


def optimizer_cases():
    """Five steps of torch's own optimizers over given gradients, two of them
    tiny or zero in places; nothing is clipped."""
    steps, size = 5, 19
    makers = {
        "adamw": lambda p: torch.optim.AdamW(
            [p], lr=1e-2, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1
        ),
        "adam_l2": lambda p: torch.optim.Adam(
            [p], lr=1e-2, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1
        ),
        "sgd": lambda p: torch.optim.SGD([p], lr=1e-2, weight_decay=0.1),
        "sgd_momentum": lambda p: torch.optim.SGD(
            [p], lr=1e-2, momentum=0.9, weight_decay=0.1
        ),
    }
    what = {
        "adamw": "decoupled decay: parameter *= 1 - lr * weight_decay first",
        "adam_l2": "gradient += weight_decay * parameter first",
        "sgd": "gradient += weight_decay * parameter; no momentum",
        "sgd_momentum": "gradient += weight_decay * parameter; momentum = "
        "0.9 * momentum + gradient, the first one the gradient itself",
    }
    for case, make in makers.items():
        gradients = random(case, "gradients", (steps, size)).detach()
        gradients[:, 0] = 0.0
        gradients[:, 1] *= 1e-9  # comparable with eps
        gradients[1:, 2] = 0.0
        initial = random(case, "initial", (size,)).detach()
        parameter = torch.nn.Parameter(initial.clone())
        optimizer = make(parameter)
        history = {}
        for gradient in gradients:
            parameter.grad = gradient.clone()
            optimizer.step()
            state = optimizer.state[parameter]
            named = {
                "parameters": parameter.detach(),
                "first_moments": state.get("exp_avg"),
                "second_moments": state.get("exp_avg_sq"),
                "momentum": state.get("momentum_buffer"),
            }
            for name, value in named.items():
                if value is not None:
                    history.setdefault(name, []).append(value.clone())
        group = optimizer.param_groups[0]
        add(
            case,
            what[case] + "; all tensors [steps, size] after each step",
            {
                "initial": initial,
                "gradients": gradients,
                **{name: torch.stack(rows) for name, rows in history.items()},
            },
            **{
                key: group[key]
                for key in ("lr", "betas", "eps", "weight_decay", "momentum")
                if key in group
            },
        )


def clip_case():
    gradients = [
        random("clip", f"g{i}", shape).detach()
        for i, shape in enumerate(((3, 5), (7,), (1,)))
    ]
    norm = torch.stack([g.norm() for g in gradients]).norm()
    clip = 0.5
    coefficient = (clip / (norm + 1e-6)).clamp(max=1.0)
    add(
        "clip",
        "norm over all tensors; coefficient = min(1, clip / (norm + 1e-6)); "
        "clipped = coefficient * gradient",
        {
            **{f"g{i}": g for i, g in enumerate(gradients)},
            **{f"clipped{i}": g * coefficient for i, g in enumerate(gradients)},
            "norm": norm,
            "coefficient": coefficient,
        },
        clip=clip,
    )


def main():
    parser = argparse.ArgumentParser(
        description="Write float64 references of single operators."
    )
    parser.add_argument("--out", default=tiny_models.HERE, metavar="DIR")
    out = pathlib.Path(parser.parse_args().out)
    torch.set_num_threads(1)
    rms_norm_cases()
    rotary_table_cases()
    rotary_case()
    attention_cases()
    pointwise_cases()
    matrix_cases()
    cross_entropy_cases()
    optimizer_cases()
    clip_case()
    save_file(tensors, out / "ops.safetensors")
    tiny_models.write_json(out / "ops.json", cases)
    print(f"{len(cases)} cases, {len(tensors)} tensors")


if __name__ == "__main__":
    main()
