"""The jobs of the GPU benchmark, shared by what prepares and what runs it."""

TINY = {
    "model_type": "llama", "hidden_size": 256, "intermediate_size": 704,
    "num_hidden_layers": 4, "num_attention_heads": 4,
    "num_key_value_heads": 2, "vocab_size": 259,
    "max_position_embeddings": 256, "rms_norm_eps": 1e-6,
    "rope_theta": 10000.0, "hidden_act": "silu",
    "tie_word_embeddings": False,
}
LLAMA_110M = {
    "model_type": "llama", "hidden_size": 768, "intermediate_size": 2048,
    "num_hidden_layers": 12, "num_attention_heads": 12,
    "num_key_value_heads": 12, "vocab_size": 32000,
    "max_position_embeddings": 2048, "rms_norm_eps": 1e-6,
    "rope_theta": 10000.0, "hidden_act": "silu",
    "tie_word_embeddings": True,
}
# The dimensions of DeepSeek-Coder-1.3B.
LLAMA_1B = {
    "model_type": "llama", "hidden_size": 2048, "intermediate_size": 5504,
    "num_hidden_layers": 24, "num_attention_heads": 16,
    "num_key_value_heads": 16, "vocab_size": 32256,
    "max_position_embeddings": 2048, "rms_norm_eps": 1e-6,
    "rope_theta": 10000.0, "hidden_act": "silu",
    "tie_word_embeddings": False,
}

ADAMW = {"type": "AdamW", "params": {
    "lr": 3e-4, "betas": [0.9, 0.95], "eps": 1e-8, "weight_decay": 0.1}}


def config(micro_batch, precision, stage=0, offload=False):
    """A ds_config.json."""
    job = {
        "train_micro_batch_size_per_gpu": micro_batch,
        "gradient_accumulation_steps": 1,
        "gradient_clipping": 1.0,
        "optimizer": ADAMW,
        "zero_optimization": {"stage": stage},
    }
    if precision != "fp32":
        job[precision] = {"enabled": True}
    if precision == "fp16":
        # Overflows in the first steps, so that skipped ones are in the test.
        job[precision]["initial_scale_power"] = 24
    if offload:
        job["zero_optimization"]["offload_optimizer"] = {"device": "cpu"}
    return job


# name: model, ds_config, devices, sequence, steps
CORRECTNESS = {
    "tiny-fp32-1": (TINY, config(8, "fp32"), 1, 256, 30),
    "tiny-bf16-1": (TINY, config(8, "bf16"), 1, 256, 30),
    "tiny-fp16-8": (TINY, config(1, "fp16", 3, offload=True), 8, 256, 30),
}
SPEED = {
    "110m": (LLAMA_110M, config(16, "bf16"), 1, 2048, 20),
    "1.3b": (LLAMA_1B, config(8, "bf16"), 1, 2048, 15),
    "1.3b-offload": (LLAMA_1B, config(8, "bf16", 2, offload=True), 1, 2048,
                     8),
}


def parameters(model):
    """Their number, and that of those in matrix products."""
    hidden, ffn = model["hidden_size"], model["intermediate_size"]
    heads, kv = model["num_attention_heads"], model["num_key_value_heads"]
    layer = 2 * hidden * hidden + 2 * hidden * hidden * kv // heads
    layer += 3 * hidden * ffn
    head = model["vocab_size"] * hidden
    products = model["num_hidden_layers"] * layer + head
    norms = (2 * model["num_hidden_layers"] + 1) * hidden
    embedding = 0 if model["tie_word_embeddings"] else head
    return products + norms + embedding, products


def flops_per_token(model, sequence):
    """Of forward and backward: six for each weight of a product, and those
    of causal attention (half of the full square)."""
    _, products = parameters(model)
    attention = 6 * model["num_hidden_layers"] * model["hidden_size"] * sequence
    return 6 * products + attention
