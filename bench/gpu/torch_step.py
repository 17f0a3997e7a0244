#!/usr/bin/env python3
"""Times a training step of a Llama in PyTorch on a GPU.

  python3 torch_step.py config.json --micro-batch N --sequence T --steps K
      [--compile] [--device cuda]

The model is transformers' own with scaled_dot_product_attention, in bf16 with
float32 master weights kept by AdamW (fused) as mixed-precision training does:
parameters in float32, autocast to bf16. Gradients are clipped to 1, as the
jobs do. Prints one JSON line: seconds (all after the warm-up), tokens_per_s
of their median, peak bytes.
"""
import argparse
import json
import statistics
import time


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("--micro-batch", type=int, required=True)
    parser.add_argument("--sequence", type=int, required=True)
    parser.add_argument("--steps", type=int, default=15)
    parser.add_argument("--warmup", type=int, default=4)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--master", choices=["autocast", "copies"],
                        default="autocast")
    parser.add_argument("--device", default="cuda")
    options = parser.parse_args()

    import torch
    import transformers

    with open(options.model, encoding="utf-8") as file:
        values = json.load(file)
    values.pop("model_type")
    config = transformers.LlamaConfig(**values)
    config._attn_implementation = "sdpa"
    torch.manual_seed(1)
    device = torch.device(options.device)
    on_gpu = device.type == "cuda"
    with torch.device(device):
        model = transformers.LlamaForCausalLM(config)
    model.train()
    # The same number of bytes moved as with 16-bit parameters and float32
    # masters: either autocast from float32, or 16-bit copies refreshed after
    # the update.
    masters = None
    if options.master == "copies":
        masters = [p.detach().clone() for p in model.parameters()]
        model = model.to(torch.bfloat16)
    optimized = masters or list(model.parameters())
    optimizer = torch.optim.AdamW(optimized, lr=3e-4, betas=(0.9, 0.95),
                                  eps=1e-8, weight_decay=0.1, fused=on_gpu)
    loss_of = model
    if options.compile:
        loss_of = torch.compile(model)
    shape = (options.micro_batch, options.sequence)
    tokens = torch.randint(0, config.vocab_size, shape, device=device)

    def step():
        with torch.autocast(device.type, torch.bfloat16,
                            enabled=masters is None):
            loss = loss_of(input_ids=tokens, labels=tokens,
                           use_cache=False).loss
        loss.backward()
        if masters:
            for master, p in zip(masters, model.parameters()):
                master.grad = p.grad.float()
        torch.nn.utils.clip_grad_norm_(optimized, 1.0, foreach=True)
        optimizer.step()
        if masters:
            with torch.no_grad():
                torch._foreach_copy_(list(model.parameters()), masters)
        model.zero_grad(set_to_none=True)
        optimizer.zero_grad(set_to_none=True)
        return loss

    times = []
    for i in range(options.warmup + options.steps):
        start = time.perf_counter()
        loss = step().item()
        if on_gpu:
            torch.cuda.synchronize()
        if i >= options.warmup:
            times.append(time.perf_counter() - start)
    median = statistics.median(times)
    peak = torch.cuda.max_memory_allocated() if on_gpu else 0
    print(json.dumps({
        "torch": torch.__version__, "transformers": transformers.__version__,
        "compile": options.compile, "master": options.master,
        "seconds": times, "median": median,
        "tokens_per_s": options.micro_batch * options.sequence / median,
        "peak_bytes": peak, "loss": loss}))


if __name__ == "__main__":
    main()
