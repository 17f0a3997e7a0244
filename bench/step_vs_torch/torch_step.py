#!/usr/bin/env python3
"""Times one training step of a 110M Llama in PyTorch on the CPU.

  python3 torch_step.py [--dtype fp32|bf16|both] [--threads N] [--steps 5]
      [--variants NAME,...] [--compile]

A step is forward, backward and AdamW (decay on all parameters) on 4 x 256
tokens; the model has hidden 768, 12 layers, 12 heads, ffn 2048, vocabulary
32000 and a tied head: 109.5 M parameters. Prints JSON lines:

  machine  versions, threads, environment, instruction set
  copy     bytes read and written a second by a large copy
  gemm     the best rate of plain matrix products, for each type
  probe    one short timing a variant, unless --variants leaves only one
  floor    seconds that the step's matrix products and Adam's and the logits'
           bytes take at the best rates seen before and after the steps
  step     the two best variants, timed in turn: seconds (median, least, all),
           tokens_per_s, and their ratio to the floor

Only a quiet machine gives times that mean something. `load` is the load
average (of a minute, this process included); a `spread` above some hundredths,
or gemm lines that differ, tell of a machine that was not quiet.

PyTorch is tuned: it starts itself again with all cores, passive OpenMP
waiting, huge pages for malloc and, on CPUs with AVX-512 that are not Intel's,
MKL's AVX-512 kernels (--keep-environment leaves all that alone);
q, k and v are one product, and so are gate and up; attention is
scaled_dot_product_attention, the norm torch's own rms_norm. Variants of fp32
differ in the optimizer's implementation; those of bf16 also in where the
16-bit copy is made:

  autocast     float32 parameters, cast in the forward by torch.autocast
  master       bfloat16 parameters, float32 master copies for AdamW
  pure         bfloat16 parameters and moments: less work than a training with
               float32 master weights, and so not what others are compared with
"""

import argparse
import json
import math
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

HIDDEN, LAYERS, HEADS, FFN, VOCABULARY = 768, 12, 12, 2048, 32000
BATCH, LENGTH = 4, 256
HEAD_DIM = HIDDEN // HEADS
TOKENS = BATCH * LENGTH

ENVIRONMENT = {
    "OMP_WAIT_POLICY": "passive",
    "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",
}


SHIM = "libmkl_any_vendor.so"
SHIM_SOURCE = """
int mkl_serv_intel_cpu(void) { return 1; }
int mkl_serv_intel_cpu_true(void) { return 1; }
"""


def build_shim():
    """MKL, which PyTorch's wheels multiply float32 with, takes its AVX-512
    kernels only where it believes the maker of the CPU to be Intel; elsewhere
    it runs at half the rate. Returns the path of a library that makes it
    believe so, or None where that is not needed or cannot be built."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            cpu = file.read()
    except OSError:
        return None
    if "GenuineIntel" in cpu or "avx512f" not in cpu:
        return None
    compilers = ("cc", "gcc", "clang", "clang-22")
    compiler = next(filter(None, map(shutil.which, compilers)), None)
    if not compiler:
        print(
            "no C compiler: float32 products run at half rate", file=sys.stderr
        )
        return None
    folder = tempfile.mkdtemp(prefix="torch_step.")
    path = os.path.join(folder, SHIM)
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-x", "c", "-", "-o", path],
        input=SHIM_SOURCE,
        text=True,
        check=True,
    )
    return path


def restart_tuned(threads):
    """OpenMP, malloc and the loader read their settings when a process
    starts. Comes back only in the process that has them."""
    wanted = {**ENVIRONMENT, "OMP_NUM_THREADS": str(threads)}
    if all(os.environ.get(key) == value for key, value in wanted.items()):
        return
    shim = build_shim()
    if shim:
        wanted["LD_PRELOAD"] = shim
    sys.stdout.flush()
    os.execve(
        sys.executable,
        [sys.executable, *sys.argv],
        {**os.environ, **wanted},
    )


def remove_shim():
    """Removes the library's file, once it is loaded. Tells whether it was."""
    path = os.environ.get("LD_PRELOAD", "")
    if os.path.basename(path) != SHIM:
        return False
    # Not for the processes that torch.compile starts.
    del os.environ["LD_PRELOAD"]
    shutil.rmtree(os.path.dirname(path), ignore_errors=True)
    return True


def emit(kind, **values):
    print(json.dumps({"kind": kind, **values}), flush=True)


def timed(function, count):
    times = []
    for _ in range(count):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return times


# --- The machine's rates ----------------------------------------------------


def measure_copy(torch):
    """A copy between buffers that no cache holds: bytes read plus written."""
    source = torch.ones(64 << 20)
    target = torch.zeros_like(source)
    best = min(timed(lambda: target.copy_(source), 8))
    rate = 2 * source.numel() * source.element_size() / best
    emit("copy", bytes_per_s=rate)
    return rate


def gemm_seconds(torch, a, b):
    out = torch.empty(a.shape[0], b.shape[1], dtype=a.dtype)
    timed(lambda: torch.mm(a, b, out=out), 2)
    return min(timed(lambda: torch.mm(a, b, out=out), 5))


def measure_gemm(torch, dtype, name):
    """The best rate over the shapes of the step and two large ones. Each is
    tried with the second operand as stored and transposed."""
    shapes = (
        (TOKENS, HIDDEN, HIDDEN),
        (TOKENS, 3 * HIDDEN, HIDDEN),
        (TOKENS, 2 * FFN, HIDDEN),
        (TOKENS, HIDDEN, FFN),
        (TOKENS, VOCABULARY, HIDDEN),
        (2048, 2048, 2048),
        (1024, 4096, 4096),
    )
    best = (0.0, None)
    for m, n, k in shapes:
        a = torch.randn(m, k).to(dtype)
        for b in (torch.randn(k, n).to(dtype), torch.randn(n, k).to(dtype).T):
            seconds = gemm_seconds(torch, a, b)
            best = max(best, (2.0 * m * n * k / seconds, (m, n, k)))
    emit("gemm", dtype=name, flops_per_s=best[0], shape=best[1])
    return best[0]


def step_flops():
    """Products of forward and backward (each forward product has two of its
    size in the backward); attention counted causally, at half."""
    layer = 4 * HIDDEN * HIDDEN + 3 * HIDDEN * FFN
    weights = LAYERS * layer + HIDDEN * VOCABULARY
    attention = LAYERS * 2 * LENGTH * HIDDEN // 2
    return 6 * TOKENS * (weights + attention)


def step_bytes(parameters, name):
    """What must pass through memory besides the operands of the products,
    which caches may hold: AdamW reads parameter, gradient and two moments and
    writes three of them, and with bf16 writes the 16-bit copy; the logits are
    written, read for the loss, and their gradient written and read."""
    element = 2 if name == "bf16" else 4
    adam = parameters * (28 + (2 if name == "bf16" else 0))
    return adam + 4 * TOKENS * VOCABULARY * element


# --- The model --------------------------------------------------------------


def build_model(torch):
    nn, functional = torch.nn, torch.nn.functional

    def turn(x, cos, sin):
        low, high = x.chunk(2, -1)
        return x * cos + torch.cat((-high, low), -1) * sin

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.attention_norm = nn.Parameter(torch.ones(HIDDEN))
            self.mlp_norm = nn.Parameter(torch.ones(HIDDEN))
            self.qkv = nn.Linear(HIDDEN, 3 * HIDDEN, bias=False)
            self.out = nn.Linear(HIDDEN, HIDDEN, bias=False)
            self.gate_up = nn.Linear(HIDDEN, 2 * FFN, bias=False)
            self.down = nn.Linear(FFN, HIDDEN, bias=False)

        def forward(self, x, cos, sin):
            y = functional.rms_norm(x, (HIDDEN,), self.attention_norm, 1e-5)
            qkv = self.qkv(y).view(BATCH, LENGTH, 3, HEADS, HEAD_DIM)
            q, k, v = qkv.permute(2, 0, 3, 1, 4)
            y = functional.scaled_dot_product_attention(
                turn(q, cos, sin), turn(k, cos, sin), v, is_causal=True
            )
            x = x + self.out(y.transpose(1, 2).reshape(x.shape))
            y = functional.rms_norm(x, (HIDDEN,), self.mlp_norm, 1e-5)
            gate, up = self.gate_up(y).chunk(2, -1)
            return x + self.down(functional.silu(gate) * up)

    class Llama(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Parameter(torch.empty(VOCABULARY, HIDDEN))
            self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
            self.norm = nn.Parameter(torch.ones(HIDDEN))
            exponents = torch.arange(0, HEAD_DIM, 2) / HEAD_DIM
            angles = torch.arange(LENGTH)[:, None] * 10000.0**-exponents
            angles = torch.cat((angles, angles), -1)
            self.register_buffer("cos", angles.cos())
            self.register_buffer("sin", angles.sin())
            for parameter in self.parameters():
                if parameter.dim() == 2:
                    nn.init.normal_(parameter, std=0.02)

        def forward(self, tokens, labels):
            x = functional.embedding(tokens, self.embedding)
            cos, sin = self.cos.to(x.dtype), self.sin.to(x.dtype)
            for layer in self.layers:
                x = layer(x, cos, sin)
            x = functional.rms_norm(x, (HIDDEN,), self.norm, 1e-5)
            logits = functional.linear(x, self.embedding)
            return functional.cross_entropy(
                logits.view(TOKENS, VOCABULARY).float(), labels.view(TOKENS)
            )

    torch.manual_seed(0)
    return Llama()


# --- The step ---------------------------------------------------------------


class Step:
    """One way of taking the step; call it to take one. Returns the loss."""

    def __init__(self, torch, variant, clip):
        placement, optimizer, *rest = variant.split("+")
        self.torch, self.clip = torch, clip
        self.autocast = placement == "autocast"
        self.model = build_model(torch)
        self.master = None
        if placement == "master":
            self.master = [
                torch.nn.Parameter(p.detach().clone())
                for p in self.model.parameters()
            ]
        if placement in ("master", "pure"):
            self.model.to(torch.bfloat16)
        self.own = list(self.model.parameters())
        self.optimizer = torch.optim.AdamW(
            self.master or self.own,
            lr=1e-4,
            weight_decay=0.01,
            fused=optimizer == "fused",
            foreach=optimizer == "foreach",
        )
        # The loss as a function of a batch; compiled or not.
        self.loss = (
            torch.compile(self.model) if "compile" in rest else self.model
        )
        windows = torch.randint(0, VOCABULARY, (BATCH, LENGTH + 1))
        self.tokens = windows[:, :-1].contiguous()
        self.labels = windows[:, 1:].contiguous()

    def __call__(self):
        torch = self.torch
        with torch.autocast("cpu", torch.bfloat16, enabled=self.autocast):
            loss = self.loss(self.tokens, self.labels)
        loss.backward()
        if self.master:
            for master, own in zip(self.master, self.own):
                master.grad = own.grad.float()
                own.grad = None
        if self.clip:
            torch.nn.utils.clip_grad_norm_(self.master or self.own, self.clip)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        if self.master:
            with torch.no_grad():
                torch._foreach_copy_(self.own, self.master)
        return loss.item()


VARIANTS = {
    "fp32": ("plain+fused", "plain+foreach"),
    "bf16": (
        "autocast+fused",
        "autocast+foreach",
        "master+fused",
        "pure+fused",
    ),
}


def check_losses(variant, losses):
    """The same batch again and again: a step that trains lowers its loss."""
    if not (math.isfinite(losses[-1]) and losses[-1] < losses[0]):
        raise SystemExit(f"{variant}: losses {losses} do not fall")


def probe(torch, name, variant, clip):
    step = Step(torch, variant, clip)
    losses = [step(), step()]
    times = timed(lambda: losses.append(step()), 2)
    check_losses(variant, losses)
    emit(
        "probe",
        dtype=name,
        variant=variant,
        seconds=min(times),
        tokens_per_s=TOKENS / min(times),
        losses=losses,
        load=os.getloadavg()[0],
    )
    return min(times)


def choose_variants(name, arguments):
    variants = list(VARIANTS[name])
    if arguments.compile:
        variants += [f"{v}+compile" for v in variants if "fused" in v]
    if arguments.variants:
        wanted = arguments.variants.split(",")
        if not set(wanted) & set(variants):
            raise SystemExit(f"{name}: --variants: choose from {variants}")
        variants = [v for v in variants if v in wanted]
    return variants


def time_finalists(torch, name, arguments):
    """Times the two best variants step by step in turn, so that whatever else
    the machine does meets both. Returns variant -> (seconds, losses)."""
    variants = choose_variants(name, arguments)
    finalists = [v for v in variants if not v.startswith("pure")]
    if len(variants) > 1:
        probes = {v: probe(torch, name, v, arguments.clip) for v in variants}
        finalists = sorted(finalists, key=probes.get)[:2]
    steps = {v: Step(torch, v, arguments.clip) for v in finalists}
    results = {v: ([], [step(), step()]) for v, step in steps.items()}
    for _ in range(arguments.steps):
        for variant, step in steps.items():
            times, losses = results[variant]
            start = time.perf_counter()
            losses.append(step())
            times.append(time.perf_counter() - start)
    for variant, (_, losses) in results.items():
        check_losses(variant, losses)
    return results


def measure(torch, name, dtype, parameters, bandwidth, arguments):
    """The rates are taken before and after the steps and the better ones
    count: a floor from a busier moment than the steps' would be too high."""
    rate = measure_gemm(torch, dtype, name)
    results = {}
    if not arguments.rates_only:
        results = time_finalists(torch, name, arguments)
        rate = max(rate, measure_gemm(torch, dtype, name))
        bandwidth = max(bandwidth, measure_copy(torch))
    floor = step_flops() / rate + step_bytes(parameters, name) / bandwidth
    emit(
        "floor",
        dtype=name,
        seconds=floor,
        flops=step_flops(),
        bytes=step_bytes(parameters, name),
        flops_per_s=rate,
        bytes_per_s=bandwidth,
    )
    for variant, (times, losses) in results.items():
        median = statistics.median(times)
        emit(
            "step",
            dtype=name,
            variant=variant,
            seconds=median,
            seconds_least=min(times),
            seconds_all=times,
            spread=(max(times) - min(times)) / median,
            tokens_per_s=TOKENS / median,
            over_floor=median / floor,
            final_loss=losses[-1],
            load=os.getloadavg()[0],
        )


def main():
    parser = argparse.ArgumentParser(
        description="Time one training step of a 110M Llama in PyTorch."
    )
    parser.add_argument(
        "--dtype", choices=("fp32", "bf16", "both"), default="both"
    )
    parser.add_argument("--threads", type=int, default=None, help="all cores")
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument(
        "--variants", help="only these, as the probe lines name them"
    )
    parser.add_argument(
        "--compile", action="store_true", help="try torch.compile too (slow)"
    )
    parser.add_argument(
        "--clip", type=float, default=0.0, help="clip the gradient norm"
    )
    parser.add_argument("--rates-only", action="store_true")
    parser.add_argument("--keep-environment", action="store_true")
    arguments = parser.parse_args()
    threads = arguments.threads or len(os.sched_getaffinity(0))
    if not arguments.keep_environment:
        restart_tuned(threads)

    shim = remove_shim()

    import torch

    torch.set_num_threads(threads)
    model = build_model(torch)
    parameters = sum(p.numel() for p in model.parameters())
    del model
    emit(
        "machine",
        torch=torch.__version__,
        python=platform.python_version(),
        threads=torch.get_num_threads(),
        capability=torch.backends.cpu.get_cpu_capability(),
        mkl_avx512_shim=shim,
        environment={key: os.environ.get(key) for key in ENVIRONMENT},
        parameters=parameters,
        load=os.getloadavg()[0],
        clip=arguments.clip,
    )
    bandwidth = measure_copy(torch)
    for name, dtype in (("fp32", torch.float32), ("bf16", torch.bfloat16)):
        if arguments.dtype not in (name, "both"):
            continue
        measure(torch, name, dtype, parameters, bandwidth, arguments)


if __name__ == "__main__":
    main()
