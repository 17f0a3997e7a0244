"""The tiny models of this folder: their configurations, and how weights and
batches are drawn.

All random numbers come from NumPy's PCG64, whose streams do not change between
releases, so that the committed files can be made again bit for bit.
"""

import json
import pathlib
import zlib

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
MODELS = HERE / "models"

BATCH = 2  # sequences in <model>.inputs.safetensors
LENGTH = 32  # tokens a sequence
IGNORED = -100  # the label that takes no part in the loss

_COMMON = {
    "attention_dropout": 0.0,
    "bos_token_id": 256,
    "eos_token_id": 257,
    "pad_token_id": 258,
    "hidden_act": "silu",
    "initializer_range": 0.02,
    "torch_dtype": "float32",
    "use_cache": True,
    "vocab_size": 259,
}

_LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "attention_bias": False,
    "mlp_bias": False,
    "pretraining_tp": 1,
    **_COMMON,
}

# One entry a folder under models/. Each tells what it is there for.
CONFIGS = {
    # Grouped-query attention and a head of its own.
    "tiny-llama": {
        **_LLAMA,
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "max_position_embeddings": 128,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "rope_scaling": None,
        "tie_word_embeddings": False,
    },
    # Biases on q, k and v; the head is the embedding; no head_dim in the file;
    # a window is named but switched off.
    "tiny-qwen2": {
        "architectures": ["Qwen2ForCausalLM"],
        "model_type": "qwen2",
        **_COMMON,
        "hidden_size": 64,
        "intermediate_size": 112,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 128,
        "max_window_layers": 2,
        "rms_norm_eps": 1e-6,
        "rope_theta": 1000000.0,
        "sliding_window": 32768,
        "use_sliding_window": False,
        "tie_word_embeddings": True,
    },
    # Llama-3.1's position scaling, small enough that 32 positions meet all of
    # its three bands (wavelengths below 16, between, above 64). Heads whose
    # widths do not add up to the hidden size.
    "tiny-llama3-rope": {
        **_LLAMA,
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 1,
        "head_dim": 16,
        "max_position_embeddings": 512,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "rope_scaling": {
            "factor": 8.0,
            "high_freq_factor": 4.0,
            "low_freq_factor": 1.0,
            "original_max_position_embeddings": 64,
            "rope_type": "llama3",
        },
        "tie_word_embeddings": True,
    },
    # Linear position scaling, under the older spelling of its type; biases on
    # every projection of attention and MLP; as many key as query heads.
    "tiny-linear-rope": {
        **_LLAMA,
        "attention_bias": True,
        "mlp_bias": True,
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 1,
        "num_attention_heads": 4,
        "num_key_value_heads": 4,
        "max_position_embeddings": 512,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "rope_scaling": {"type": "linear", "factor": 4.0},
        "tie_word_embeddings": False,
    },
}


def generator(*key):
    """A generator that depends on the key's text alone."""
    return np.random.Generator(
        np.random.PCG64(zlib.crc32("/".join(map(str, key)).encode()))
    )


def head_dim(config):
    return config.get("head_dim") or (
        config["hidden_size"] // config["num_attention_heads"]
    )


def draw_parameter(model, name, shape):
    """Weights far from zero and norms far from one, so that every term of
    every gradient is large enough to be compared."""
    values = generator("weights", model, name).standard_normal(shape)
    if name.endswith("norm.weight"):
        return (1.0 + 0.2 * values).astype(np.float32)
    return (0.1 * values).astype(np.float32)


def draw_windows(key, count, length):
    """Sequences that a model can learn: each byte is followed by one of three
    others, with the odds 6 : 3 : 1; one row in four starts with 256 (begin of
    text). Returns int32[count, length]."""
    table = generator("successors").integers(0, 256, (256, 3))
    random = generator("windows", key)
    rows = np.empty((count, length), np.int32)
    for row in range(count):
        byte = int(random.integers(0, 256))
        for column in range(length):
            rows[row, column] = byte
            byte = int(table[byte, random.choice(3, p=(0.6, 0.3, 0.1))])
        if row % 4 == 1:
            rows[row, 0] = 256
    return rows


def draw_batch(key, rows, length, ignored):
    """Tokens and the labels that belong to them: label t is token t + 1, and
    `ignored` labels are masked. Both int32[rows, length]."""
    windows = draw_windows(key, rows, length + 1)
    tokens = np.ascontiguousarray(windows[:, :-1])
    labels = np.ascontiguousarray(windows[:, 1:])
    hidden = generator("ignored", key).choice(
        labels.size, size=ignored, replace=False
    )
    labels.reshape(-1)[hidden] = IGNORED
    return tokens, labels


def write_json(path, value):
    """JSON with numbers that read back as the same doubles."""
    text = json.dumps(value, indent=1, allow_nan=False)
    pathlib.Path(path).write_text(text + "\n")
