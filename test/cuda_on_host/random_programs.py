#!/usr/bin/env python3
"""Random jobs on emulated GPUs: each allocates what it has planned, on a device
that has no more, and trains without a finding and with the losses of CPU
devices, also on from a checkpoint.

  random_programs.py [--seeds FIRST END]

Needs the environment that ctest gives to programs_test.py. Prints a line a
job; its status is 1 if any is wrong."""

import argparse
import os
import pathlib
import random
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "e2e"))

import jobs  # noqa: E402
import programs_test as programs  # noqa: E402
from harness import read_log, steps_of, succeed  # noqa: E402

# The last one has states in files, in fp16 at stage 3, kept gathers, single ops
# that are repeated, and activations on the host.
SEEDS = (0, 1, 2, 3, 1050)
# An emulated device gives whole pieces of this size.
PAGE = 512
# Products may be split along k; the CPU's are not.
TOLERANCE = {"fp32": 1e-5, "bf16": 6e-3, "fp16": 2e-3}


def train_on_host(bundle, data, log, plan, seed, *options, steps=jobs.STEPS):
    """Runs a bundle on devices that have the planned bytes; its steps."""
    pages = -(-plan["device_arena_bytes"] // PAGE)
    process = programs.run_within_limits(
        *(programs.TRAIN, bundle, "--data", data, "--log", log),
        *("--steps", steps, *options),
        env={
            **os.environ,
            "CIUIC_ON_HOST": f"devices={plan['ranks']},seed={seed},"
            f"memory={pages * PAGE}",
        },
    )
    jobs.require(process.returncode == 0, process.returncode, process.stderr)
    jobs.require("cuda_on_host:" not in process.stderr, process.stderr)
    return steps_of(log)


def check_device_memory(log, plan):
    """Nothing but the arena is allocated on a device."""
    records = [r for r in read_log(log) if "device_used" in r]
    jobs.require(len(records) == 2, len(records), "records of memory")
    for record in records:
        planned, used = record["device_planned"], record["device_used"]
        jobs.require(planned == plan["device_arena_bytes"], planned)
        jobs.require(planned <= used < planned + PAGE, used, planned)


def check_resume(bundle, folder, data, plan, seed, steps, cpu, tolerance):
    """A run that goes on from a checkpoint has the bits of one that never
    ended; and goes on on CPU devices, and theirs here."""
    saves = {name: folder / f"{name}.saves" for name in ("cpu", "cuda")}
    train_on_host(
        *(bundle, data, folder / "begin.jsonl", plan, seed + 1),
        *("--save", saves["cuda"]),
        steps=jobs.STEPS - 1,
    )
    succeed(
        *("train", folder / "cpu", "--data", data, "--steps", jobs.STEPS - 1),
        *("--threads", 2, "--save", saves["cpu"]),
    )
    for name, save in saves.items():
        weights = folder / f"{name}.weights"
        found = train_on_host(
            *(bundle, data, folder / f"on-{name}.jsonl", plan, seed + 2),
            *("--resume", save, "--export", weights),
        )
        if name == "cuda":
            jobs.require(found == steps[-1:], f"resumed {found}, not {steps}")
        jobs.check_near(found, cpu[-1:], tolerance)
        jobs.require((weights / "model.safetensors").exists(), "no weights")
    log = folder / "cpu-on.jsonl"
    succeed(
        *("train", folder / "cpu", "--data", data, "--log", log),
        *("--steps", jobs.STEPS, "--threads", 2, "--resume", saves["cuda"]),
    )
    jobs.check_near(steps_of(log), cpu[-1:], tolerance)


def check(seed, folder):
    """Raises jobs.Wrong if the seed's job is; returns what it was."""
    folder.mkdir()
    job = jobs.make_job(random.Random(seed))
    data = jobs.write_data(folder / "data.tok", job, seed)
    command = jobs.write_job(folder, job)
    cuda = [*command, "--target", "cuda", "--arch", "sm_80", "--no-build"]
    bundle = folder / "cuda"
    plan = jobs.compile_job(cuda, bundle)
    jobs.check_places(plan)
    jobs.check_limits(cuda, folder, plan)
    programs.build(bundle)
    log = folder / "cuda.jsonl"
    steps = train_on_host(bundle, data, log, plan, seed)
    check_device_memory(log, plan)

    jobs.compile_job(command, folder / "cpu")
    cpu = jobs.train(folder / "cpu", data, folder / "cpu.jsonl")
    jobs.require(len(steps) == len(cpu), len(steps), "steps")
    tolerance = TOLERANCE[job["precision"]]
    jobs.check_near(steps, cpu, tolerance)
    check_resume(bundle, folder, data, plan, seed, steps, cpu, tolerance)
    return jobs.describe(job)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, nargs=2,
                        metavar=("FIRST", "END"))
    options = parser.parse_args()
    seeds = range(*options.seeds) if options.seeds else SEEDS

    def one(seed):
        try:
            said, right = check(seed, scratch / str(seed)), True
        except (jobs.Wrong, AssertionError) as error:
            said, right = f"WRONG: {error}", False
        print(f"seed {seed}: {said}", flush=True)
        return right

    with tempfile.TemporaryDirectory(prefix="ciuicc-on-host-") as name:
        scratch = pathlib.Path(name)
        right = programs.in_parallel(one, seeds)
    print(f"{len(right)} jobs, {right.count(False)} wrong")
    raise SystemExit(0 if all(right) else 1)


if __name__ == "__main__":
    main()
