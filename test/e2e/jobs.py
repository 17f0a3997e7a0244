"""Random training jobs: models of every kind that is read, layouts, and all
choices that make room. For room_test.py, random_jobs.py and
random_programs.py.

A job is a dictionary of choices. What makes room must not change what is
trained: `without_room` is the same job with less of it, whose results have the
same bits; `alone` has the same global batches on one device and none of it."""

import json
import os
import pathlib
import random
import re
import shlex
import subprocess
import time

from harness import (
    CIUICC,
    ciuicc,
    ds_config,
    read_log,
    read_safetensors,
    steps_of,
    write_json,
    write_tokens,
)

STEPS = 3

# What makes room, and its value where nothing is said. A value None leaves the
# option out.
ROOM = {
    "offload": "none",
    "ratio": None,
    "recompute": "none",
    "prefetch": 1,
    "parameters": "none",
    "activations": "none",
    "keep": "1",
}

# The values that a random job draws from, `neutral` among them.
CHOICES = {
    "offload": ("none", "none", "cpu", "nvme"),
    "ratio": (None, 0.5),
    "recompute": ("none", "block", "selective", "block:1,selective", "block:2"),
    "prefetch": (1, 0, 2),
    "parameters": ("none", "none", "cpu"),
    "activations": ("none", "none", "1", "all"),
    "keep": ("none", "1", "1", "all"),
}

# Given as options; what is None, or what is not said as well, is left out.
OPTIONS = {
    "recompute": "--recompute",
    "prefetch": "--prefetch",
    "ratio": "--offload-ratio",
    "parameters": "--offload-param",
    "activations": "--offload-activations",
    "keep": "--keep-gathered",
}

PLAIN = {
    "model": None,
    "devices": 1,
    "stage": 0,
    "precision": "fp32",
    "micro": 1,
    "accumulation": 1,
    "sequence": 8,
    "threshold": 100_000,
    "bucket": 500_000_000,
    "optimizer": "AdamW",
    "clip": 1.0,
    **ROOM,
}

# Relative to a run whose sums are taken in another order.
TOLERANCE = {"fp32": 1e-5, "bf16": 6e-3, "fp16": 1e-3}


def make_model(rng):
    """A configuration that a Hugging Face folder could have, odd sizes and
    all."""
    heads = rng.choice([1, 2, 3, 4])
    kv_heads = rng.choice([n for n in (1, 2, 3, 4) if heads % n == 0])
    head = 2 * rng.randint(1, 9)
    config = {
        "hidden_act": "silu",
        "head_dim": head,
        "hidden_size": rng.choice([heads * head, rng.randint(3, 70)]),
        "initializer_range": rng.choice([0.02, 0.1]),
        "intermediate_size": rng.randint(1, 90),
        "max_position_embeddings": 64,
        "num_attention_heads": heads,
        "num_hidden_layers": rng.randint(1, 5),
        "num_key_value_heads": kv_heads,
        "rms_norm_eps": rng.choice([1e-6, 1e-5]),
        "rope_theta": rng.choice([1e4, 1e6]),
        "tie_word_embeddings": rng.random() < 0.5,
        "vocab_size": rng.randint(2, 130),
    }
    if rng.random() < 0.3:
        return {
            **config,
            "model_type": "qwen2",
            "architectures": ["Qwen2ForCausalLM"],
            "use_sliding_window": False,
        }
    return {
        **config,
        "model_type": "llama",
        "architectures": ["LlamaForCausalLM"],
        "attention_bias": rng.random() < 0.3,
        "mlp_bias": rng.random() < 0.3,
    }


def make_job(rng):
    """A random job; the same for the same state of `rng`."""
    job = {
        **PLAIN,
        "model": make_model(rng),
        "devices": rng.choice([1, 2, 2, 3, 4, 8]),
        "stage": rng.choice([0, 1, 2, 3, 3]),
        "precision": rng.choice(["fp32", "fp32", "bf16", "fp16"]),
        "micro": rng.randint(1, 2),
        "accumulation": rng.randint(1, 3),
        "sequence": rng.randint(1, 20),
        "threshold": rng.choice([100_000, 0, 200]),
        "bucket": rng.choice([500_000_000, 9_000, 1_500]),
        "optimizer": rng.choice(["AdamW", "AdamW", "Adam", "SGD"]),
        "clip": rng.choice([1.0, 0.1, 0.0]),
    }
    return choose_room(rng, job)


def choose_room(rng, job):
    """`job` with random choices of what makes room, as far as its layout has
    them."""
    job = dict(job)
    for choice, values in CHOICES.items():
        job[choice] = rng.choice(values)
    if job["offload"] == "none":
        job["ratio"] = None
    return job


def without_room(job):
    """The same job without what makes room. What is computed again has the bits
    that it had before, by whichever kernel."""
    return {**job, **ROOM}


def alone(job):
    """The same global batches on one device, nothing split or offloaded."""
    return {
        **job,
        **ROOM,
        "devices": 1,
        "stage": 0,
        "micro": job["devices"] * job["micro"],
    }


def describe(job):
    return " ".join(f"{k}={v}" for k, v in job.items() if k != "model")


def settings_of(job, folder):
    """The job's DeepSpeed file; states in files are below `folder`."""
    zero = {
        "reduce_bucket_size": job["bucket"],
        "stage3_param_persistence_threshold": job["threshold"],
    }
    if job["offload"] != "none":
        zero["offload_optimizer"] = {"device": job["offload"]}
    if job["offload"] == "nvme":
        zero["offload_optimizer"]["nvme_path"] = str(folder)
    changes = {}
    if job["precision"] == "bf16":
        changes["bf16"] = {"enabled": True}
    if job["precision"] == "fp16":
        # Steps that overflow would be others with other sums.
        changes["fp16"] = {"enabled": True, "initial_scale_power": 6}
    if job["optimizer"] == "SGD":
        changes["zero_allow_untested_optimizer"] = True
        changes["zero_force_ds_cpu_optimizer"] = False
    parameters = {"lr": 1e-2, "weight_decay": 0.01}
    if job["optimizer"] == "SGD":
        parameters["momentum"] = 0.9
    return ds_config(
        job["devices"] * job["micro"] * job["accumulation"],
        job["stage"],
        gradient_accumulation_steps=job["accumulation"],
        gradient_clipping=job["clip"],
        optimizer={"type": job["optimizer"], "params": parameters},
        zero=zero,
        **changes,
    )


def write_job(folder, job):
    """Writes what the job reads into `folder`; returns the command line of its
    compilation, without an output."""
    model = folder / "model"
    model.mkdir(parents=True, exist_ok=True)
    write_json(model / "config.json", job["model"])
    config = write_json(folder / "ds.json", settings_of(job, folder))
    command = [
        *("compile", "--model", model, "--config", config),
        *("--devices", job["devices"], "--seq-len", job["sequence"]),
    ]
    for choice, option in OPTIONS.items():
        if job[choice] is not None and job[choice] != ROOM[choice]:
            command += [option, job[choice]]
    return list(map(str, command))


def write_data(path, job, seed=0):
    """Tokens for all steps of a job. The last sequence of the file is not
    full, so that some ranks have fewer labels."""
    sequences = STEPS * job["devices"] * job["micro"] * job["accumulation"]
    numbers = random.Random(seed)
    vocabulary = job["model"]["vocab_size"]
    words = min(vocabulary, 12)
    count = max(2, sequences * job["sequence"] - job["sequence"] // 2 + 1)
    tokens = [numbers.randrange(words) for _ in range(count)]
    return write_tokens(path, tokens, vocabulary=vocabulary)


def plan_of(bundle):
    file = pathlib.Path(bundle) / "plan" / "memory.json"
    return json.loads(file.read_text(encoding="utf-8"))


class Wrong(Exception):
    """A job that does not do what its plan says."""


def require(condition, *what):
    if not condition:
        raise Wrong(" ".join(map(str, what)))


def compile_job(command, bundle, *options, plans=True):
    outcome = ciuicc(*command, "-o", bundle, *options)
    require(outcome.code == 0, outcome)
    return plan_of(bundle) if plans else None


def check_limits(command, folder, plan):
    """Devices, host and disk of exactly the planned bytes will do, and the
    plan stays as it was; with one byte less of any the job is refused."""
    ranks = plan["ranks"]
    sizes = {
        "--device-memory": plan["device_arena_bytes"],
        "--host-memory": ranks * plan["host_arena_bytes_a_rank"],
        "--nvme-space": ranks * plan["nvme_arena_bytes_a_rank"],
    }
    limits = [str(part) for pair in sizes.items() for part in pair if pair[1]]
    exact = compile_job(command, folder / "exact", "--no-build", *limits)
    require(exact == plan, "limits that hold change the plan")
    for option, bytes_ in sizes.items():
        if bytes_ < 2:  # 0 is no limit.
            continue
        outcome = ciuicc(
            *command,
            *("-o", folder / "less", option, bytes_ - 1),
        )
        require(outcome.code == 1, option, bytes_ - 1, outcome)
        for text in (
            f"exactly {bytes_} bytes",
            f"of which there are {bytes_ - 1}",
        ):
            require(text in outcome.err, f"no '{text}' in", outcome)
        require(not (folder / "less").exists(), "a refused job left files")


def free_job(folder, job):
    """Writes a job that fixes nothing but its batch, and returns the command
    line of its compilation."""
    command = write_job(folder, {**job, **ROOM})
    file = folder / "ds.json"
    settings = json.loads(file.read_text(encoding="utf-8"))
    for key in ("zero_optimization", "gradient_accumulation_steps"):
        del settings[key]
    write_json(file, settings)
    return command


def check_fit(command, folder, plan, limit):
    """--fit keeps a limit and says how, or what fits instead does. Returns
    the bundle, None if the job is refused."""
    memory = ("--device-memory", limit)
    bundle = folder / "fit"
    outcome = ciuicc(*command, *memory, "--fit", "-o", bundle)
    if outcome.code == 0:
        made = plan_of(bundle)
        require(made["device_arena_bytes"] <= limit, outcome)
        if plan["device_arena_bytes"] <= limit:
            require("fits as it is" in outcome.err, outcome)
            require(made == plan, "--fit changes a job that fits")
            return bundle
        said = re.search(r"the same as without it with (--.*?) \(", outcome.err)
        require(said, outcome)
        flags = shlex.split(said[1])
        same = compile_job(
            [*command, *flags], folder / "told", *memory, "--no-build"
        )
        require(same == made, said[1], "makes another plan")
        return bundle
    require(outcome.code == 1, outcome)
    require("does not fit" in outcome.err, outcome)
    require(plan["device_arena_bytes"] > limit, outcome)
    require(not bundle.exists(), "a refused job left files")
    return None


def check_nearest(command, folder, limit):
    """A job that is refused names jobs that fit, and they do."""
    memory = ("--device-memory", limit)
    outcome = ciuicc(*command, *memory, "-o", folder / "refused")
    require(outcome.code == 1, outcome)
    nearest = re.findall(r"note: fits with (--[^:]*):", outcome.err)
    require(
        bool(nearest) != ("none fits" in outcome.err),
        "neither or both",
        outcome,
    )
    for flags in nearest:
        compile_job(
            [*command, *shlex.split(flags)],
            folder / "near",
            *memory,
            *("--stop-after", "allocate"),
            plans=False,
        )
    return len(nearest)


def check_records(log, plan):
    """What a run allocated is its plan, to the byte and at all times."""
    records = [r for r in read_log(log) if "tensor_bytes" in r]
    require(len(records) == 2, len(records), "records of memory")
    ranks = plan["ranks"]
    device = plan["device_arena_bytes"]
    host = plan["host_arena_bytes_a_rank"]
    for record in records:
        for key, planned in (
            ("ranks", ranks),
            ("device_arena_bytes", device),
            ("host_arena_bytes", host),
            ("tensor_bytes", ranks * (device + host)),
            ("tensor_peak_bytes", ranks * (device + host)),
            ("tensor_allocations", ranks * ((device > 0) + (host > 0))),
        ):
            require(
                record[key] == planned, key, record[key], "planned", planned
            )


def check_places(plan):
    """No buffer ends above its arena, and the highest one ends at its end; no
    packing can take less than what lives at once."""
    for arena, size in (
        ("device", plan["device_arena_bytes"]),
        ("host", plan["host_arena_bytes_a_rank"]),
        ("nvme", plan["nvme_arena_bytes_a_rank"]),
    ):
        ends = [
            buffer["offset"] + buffer["bytes"]
            for buffer in plan["buffers"]
            if buffer["arena"] == arena
        ]
        highest = max(ends, default=0)
        require(highest <= size < highest + 4096, arena, highest, size)
        require(plan["live_bound"][arena] <= size, arena, "below its bound")
        require(
            size - plan["live_bound"][arena] == plan["fragmentation"][arena],
            arena,
            "is neither bound nor fragmentation",
        )


def train(bundle, data, log, *options):
    """Runs a job; returns what each step was, without its times."""
    outcome = ciuicc(
        *("train", bundle, "--data", data, "--steps", STEPS, "--log", log),
        *("--threads", 2, *options),
    )
    require(outcome.code == 0, outcome)
    steps = steps_of(log)
    require(len(steps) == STEPS, len(steps), "steps")
    return steps


def check_resume(first, second, data, folder, steps, weights=None):
    """A run that one bundle starts and another, of the same layout with other
    room, ends: its last step has the bits of `steps`, and its export those of
    `weights`."""
    folder.mkdir()
    common = ("--data", data, "--threads", 2)
    outcome = ciuicc(
        *("train", first, *common, "--steps", STEPS - 1),
        *("--save", folder / "saves"),
    )
    require(outcome.code == 0, outcome)
    log = folder / "log.jsonl"
    outcome = ciuicc(
        *("train", second, *common, "--steps", STEPS),
        *("--resume", folder / "saves", "--log", log),
        *("--export", folder / "weights"),
    )
    require(outcome.code == 0, outcome)
    last = steps_of(log)
    require(last == steps[-1:], f"resumed {last}, without {steps[-1:]}")
    if weights:
        check_same_weights(folder / "weights", weights)


def check_same_weights(folder, expected):
    """Two exports have the same weights, bit for bit."""
    got, other = (
        read_safetensors(path / "model.safetensors")
        for path in (folder, expected)
    )
    require(got.keys() == other.keys(), "exports", folder, "not", other.keys())
    for name, tensor in got.items():
        require(tensor == other[name], f"{name} of {folder} differs")


def mappings_of(process):
    """(KiB that are resident, flags) of each mapping of a process."""
    text = pathlib.Path(f"/proc/{process}/smaps").read_text(encoding="utf-8")
    return [
        (int(resident), flags.split())
        for resident, flags in re.findall(
            r"^Rss: +(\d+) kB$.*?^VmFlags:([^\n]*)$", text, re.M | re.S
        )
    ]


def resident_memory(bundle, data, log):
    """Runs a job for a while. Returns the resident bytes of each arena, tasks'
    scratch among them (they alone ask for huge pages), and the most bytes that
    the process ever held."""
    process = subprocess.Popen(
        [
            *(CIUICC, "train", bundle, "--data", data, "--log", log),
            *("--steps", "1000000", "--threads", "2"),
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        while not log.exists() or log.read_text().count('"loss"') < STEPS:
            require(process.poll() is None, bundle, "ended early")
            time.sleep(0.02)
        arenas = [
            1024 * size
            for size, flags in mappings_of(process.pid)
            if "hg" in flags
        ]
    finally:
        process.kill()
        _, _, usage = os.wait4(process.pid, 0)
        process.returncode = -9
    return sorted(arenas), usage.ru_maxrss * 1024


def first_record(log):
    """Of a run that may have been ended in the midst of a later one."""
    with open(log, encoding="utf-8") as file:
        return json.loads(file.readline())


def check_same(steps, expected):
    """Room changes no bit of losses, norms and rates."""
    for got, other in zip(steps, expected):
        require(got == other, f"{got}, without room {other}")


def check_near(steps, expected, tolerance):
    """The same losses but for the order of sums."""
    got, other = ([step["loss"] for step in run] for run in (steps, expected))
    for a, b in zip(got, other):
        require(
            a is not None
            and b is not None
            and abs(a - b) <= tolerance * max(1.0, abs(b)),
            f"losses {got}, on one device {other}",
        )
