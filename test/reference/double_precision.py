"""Runs transformers' models in true double precision.

`model.double()` alone is not enough: the RMSNorm modules, the softmax of eager
attention and the rotary tables of transformers go through float32 whatever
the type of the weights. Here those three are replaced by their definitions,
written out in the type of their input; all else (projections, residuals, MLP,
embedding, head, tying) stays transformers' own. make_references.py compares
the result with the untouched model.
"""

import math

import torch
import transformers
from transformers import AttentionInterface, AutoModelForCausalLM

transformers.utils.logging.disable_progress_bar()

ATTENTION = "causal_in_input_type"


class RmsNorm(torch.nn.Module):
    """weight * x / sqrt(mean(x^2) + eps), over the last dimension."""

    def __init__(self, norm):
        super().__init__()
        self.weight = norm.weight
        self.eps = norm.variance_epsilon

    def forward(self, x):
        mean_square = x.pow(2).mean(-1, keepdim=True)
        return self.weight * (x * torch.rsqrt(mean_square + self.eps))


class Rotary(torch.nn.Module):
    """cos and sin of position * inverse frequency, each [1, T, head_dim]: the
    frequencies stand twice, as the rotate-half form wants them."""

    def __init__(self, inverse_frequencies):
        super().__init__()
        self.inverse_frequencies = inverse_frequencies

    def forward(self, x, position_ids=None, **_):
        angles = position_ids[0].double()[:, None] * self.inverse_frequencies
        angles = torch.cat((angles, angles), dim=-1)[None]
        return angles.cos().to(x.dtype), angles.sin().to(x.dtype)


def inverse_frequencies(dim, theta, scaling=None):
    """float64[dim / 2]. `scaling` is the rope_scaling or rope_parameters
    object of config.json or None; types "default", "linear" and "llama3"."""
    exponents = torch.arange(0, dim, 2, dtype=torch.float64) / dim
    frequencies = theta**-exponents
    kind = (scaling or {}).get("rope_type", (scaling or {}).get("type"))
    if kind in (None, "default"):
        return frequencies
    factor = scaling["factor"]
    if kind == "linear":
        return frequencies / factor
    if kind != "llama3":
        raise ValueError(f"rope_scaling: unknown type {kind!r}")
    # Long waves are slowed by the factor, short ones kept; between the two
    # the frequency is blended linearly in (old context / wavelength).
    low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
    turns = (
        scaling["original_max_position_embeddings"]
        * frequencies
        / (2 * math.pi)
    )
    keep = ((turns - low) / (high - low)).clamp(0.0, 1.0)
    return keep * frequencies + (1 - keep) * frequencies / factor


def causal_attention(q, k, v, scale):
    """q [B, H, T, D]; k and v [B, K, T, D], head h reads key head
    h // (H / K). Returns the output [B, H, T, D] and the natural-log
    log-sum-exp of the scaled scores [B, H, T]."""
    group = q.shape[1] // k.shape[1]
    k = k.repeat_interleave(group, dim=1)
    v = v.repeat_interleave(group, dim=1)
    scores = torch.einsum("bhtd,bhsd->bhts", q, k) * scale
    length = q.shape[2]
    later = torch.ones(length, length, dtype=torch.bool).triu(1)
    scores = scores.masked_fill(later, -math.inf)
    lse = torch.logsumexp(scores, dim=-1)
    weights = torch.exp(scores - lse[..., None])
    return torch.einsum("bhts,bhsd->bhtd", weights, v), lse


def _attention_function(module, q, k, v, attention_mask, scaling, **_):
    out, _ = causal_attention(q, k, v, scaling)
    return out.transpose(1, 2).contiguous(), None


AttentionInterface.register(ATTENTION, _attention_function)


def load_float32(folder):
    """The model as transformers runs it, eager attention, in training mode
    (there is no dropout)."""
    model = AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager"
    )
    return model.train()


def load_float64(folder, config):
    """The same model in double precision throughout; `config` is the plain
    config.json object."""
    model = AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, attn_implementation=ATTENTION
    ).double()
    dim = config.get("head_dim") or (
        config["hidden_size"] // config["num_attention_heads"]
    )
    # transformers 5 keeps base and scaling in one object.
    scaling = config.get("rope_parameters") or config.get("rope_scaling")
    theta = config.get("rope_theta") or scaling["rope_theta"]
    model.model.rotary_emb = Rotary(inverse_frequencies(dim, theta, scaling))
    for module in list(model.modules()):
        for child_name, child in list(module.named_children()):
            if type(child).__name__.endswith("RMSNorm"):
                setattr(module, child_name, RmsNorm(child))
    return model.train()


def logits_of(model, tokens):
    """[B, T, V] for int32[B, T], in the model's type."""
    return model(input_ids=tokens.long(), use_cache=False).logits


def token_losses(logits, labels):
    """Per-token -log p(label), 0 where the label is -100; [B, T]. The labels
    are already shifted: label t belongs to logit t."""
    return torch.nn.functional.cross_entropy(
        logits.reshape(-1, logits.shape[-1]),
        labels.reshape(-1).long(),
        ignore_index=-100,
        reduction="none",
    ).reshape(labels.shape)


def mean_loss(logits, labels):
    """The mean over labelled tokens, a scalar."""
    return token_losses(logits, labels).sum() / (labels != -100).sum()


def logits_and_gradients(model, tokens, labels):
    """The logits, the mean loss, and its gradient by parameter name."""
    model.zero_grad()
    logits = logits_of(model, tokens)
    loss = mean_loss(logits, labels)
    loss.backward()
    gradients = {name: p.grad for name, p in model.named_parameters()}
    return logits.detach(), loss.detach(), gradients


def relative_difference(values, reference):
    """||values - reference|| / ||reference||."""
    reference = reference.double()
    return ((values.double() - reference).norm() / reference.norm()).item()
