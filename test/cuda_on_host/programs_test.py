#!/usr/bin/env python3
"""Whole CUDA programs on the emulated devices: tiny models train there over
many seeds with the losses of the CPU target and without a finding; a program
with one fault fails.

Needs $CIUICC, $CIUIC_TRAIN_ON_HOST (the runner), $CIUIC_ON_HOST_LIBRARY and
$CIUIC_ON_HOST_FLAGS (how sources of kernels are compiled); ctest sets them.
$CIUIC_ON_HOST_SEEDS asks for more than the usual number of seeds."""

import concurrent.futures
import dataclasses
import math
import os
import pathlib
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(ROOT / "test" / "e2e"))

from harness import (  # noqa: E402
    MODELS,
    cut_files,
    ds_config,
    read_log,
    succeed,
    write_json,
    write_tokens,
)

TRAIN = os.environ["CIUIC_TRAIN_ON_HOST"]
LIBRARY = pathlib.Path(os.environ["CIUIC_ON_HOST_LIBRARY"])
FLAGS = os.environ["CIUIC_ON_HOST_FLAGS"].split()
COMPILER = os.environ.get("CIUIC_ON_HOST_COMPILER", "clang++-22")
SEEDS = int(os.environ.get("CIUIC_ON_HOST_SEEDS", "3"))
# A runner takes seconds and less than a GiB: more is one that runs away, and
# is ended before it takes the machine with it.
MOST_SECONDS = 900
MOST_MEMORY = 4 << 30
MOST_OUTPUT = 1 << 28
FOUND = 97  # The exit status of a process whose devices found something.
LENGTH = 12

SHARDED = {"stage3_param_persistence_threshold": 0}
OFFLOADED = {**SHARDED, "offload_optimizer": {"device": "cpu"}}
IN_FILES = {
    **SHARDED,
    "offload_optimizer": {
        "device": "nvme",
        "nvme_path": tempfile.gettempdir(),
    },
}
# Parameters and activations wait in host memory.
MOVED = ("--offload-param", "cpu", "--offload-activations", "all")
# The first steps overflow, then the scale fits.
OVERFLOWING = {"enabled": True, "initial_scale_power": 19, "hysteresis": 1}


@dataclasses.dataclass
class Job:
    """A training job, and how near its losses are to the CPU's."""

    model: str
    devices: int
    batch: int
    config: dict
    options: tuple = ()
    steps: int = 3
    tolerance: float = 1e-5


JOBS = {
    "one device, fp32, accumulation": Job(
        "tiny-llama", 1, 4, {"gradient_accumulation_steps": 2}
    ),
    "stage 1, fp16 with overflow, recompute": Job(
        "tiny-llama",
        2,
        4,
        {"stage": 1, "fp16": OVERFLOWING},
        ("--recompute", "block"),
        steps=5,
        tolerance=2e-3,
    ),
    "stage 3, fp16 with overflow, offload, recompute, accumulation": Job(
        "tiny-llama",
        8,
        16,
        {
            "stage": 3,
            "fp16": OVERFLOWING,
            "zero": OFFLOADED,
            "gradient_accumulation_steps": 2,
        },
        ("--recompute", "block", *MOVED),
        steps=4,
        tolerance=2e-3,
    ),
    "Qwen2, stage 2, bf16, offload": Job(
        "tiny-qwen2",
        2,
        4,
        {"stage": 2, "bf16": {"enabled": True}, "zero": OFFLOADED},
        tolerance=2e-3,
    ),
    "stage 3, fp16 with overflow, states in files, in parts": Job(
        "tiny-llama",
        2,
        4,
        {"stage": 3, "fp16": OVERFLOWING, "zero": IN_FILES},
        ("--nvme-buffer", "4096"),
        steps=4,
        tolerance=2e-3,
    ),
    "stage 1, fp32, states in files": Job(
        "tiny-llama", 2, 4, {"stage": 1, "zero": IN_FILES}
    ),
    "Qwen2, stage 3, fp32": Job(
        "tiny-qwen2", 8, 8, {"stage": 3, "zero": SHARDED}, MOVED
    ),
}
SHARED = "stage 3, fp16 with overflow, offload, recompute, accumulation"
FAULTY = "Qwen2, stage 2, bf16, offload"


def in_parallel(function, items):
    """Calls function on all items, two at a time."""
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        return list(pool.map(function, items))


def run(*command, **options):
    return subprocess.run(
        [str(part) for part in command],
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
        **options,
    )


def resident_bytes(pid):
    """The memory that a process holds; 0 of one that has ended."""
    try:
        text = pathlib.Path(f"/proc/{pid}/statm").read_text(encoding="ascii")
    except OSError:
        return 0
    return int(text.split()[1]) * resource.getpagesize()


def run_within_limits(
    *command, seconds=MOST_SECONDS, memory=MOST_MEMORY, **options
):
    """As run(); a command that takes too long or too much memory is ended, and
    is an error with the last that it said."""
    command = [str(part) for part in command]
    begin, held, beyond = time.monotonic(), 0, None
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:

        def sizes():
            return sum(os.fstat(f.fileno()).st_size for f in (out, err))

        with subprocess.Popen(
            command, stdout=out, stderr=err, **options
        ) as process:
            try:
                while beyond is None:
                    try:
                        process.wait(0.05)
                        break
                    except subprocess.TimeoutExpired:
                        pass
                    held = max(held, resident_bytes(process.pid))
                    if held > memory:
                        beyond = f"more than {memory >> 20} MiB of memory"
                    elif time.monotonic() - begin > seconds:
                        beyond = f"more than {seconds} s"
                    elif sizes() > MOST_OUTPUT:
                        beyond = f"more than {MOST_OUTPUT >> 20} MiB of output"
            finally:
                process.kill()
        texts = []
        for file in (out, err):
            # A runner that runs away may say the same for ever.
            size = file.seek(0, os.SEEK_END)
            file.seek(0 if beyond is None else max(0, size - 4000))
            texts.append(file.read().decode(errors="replace"))
    if beyond is not None:
        devices = options.get("env", {}).get("CIUIC_ON_HOST", "")
        raise AssertionError(
            f"ran away and was ended: {beyond}, after "
            f"{time.monotonic() - begin:.0f} s with {held >> 20} MiB\n"
            f"CIUIC_ON_HOST={devices} {' '.join(command)}\n"
            + "\n".join(texts)
        )
    return subprocess.CompletedProcess(command, process.returncode, *texts)


def build(bundle):
    """Compiles lib/libjob.so of a CUDA bundle for the emulated devices."""
    (bundle / "lib").mkdir(exist_ok=True)
    cache = [shutil.which("ccache")] if shutil.which("ccache") else []
    source = bundle / "src"

    def compile_one(file):
        made = bundle / "lib" / (file.name + ".o")
        flags = FLAGS if file.suffix == ".cu" else ["-std=c++20", "-O1"]
        # Paths relative to the bundle, so that ccache knows the file again.
        process = run(
            *(*cache, COMPILER, *flags, "-x", "c++", "-fPIC", "-w", "-I."),
            *("-DCIUIC_CUDA_ON_HOST", f"-I{HERE / 'include'}", "-DNDEBUG"),
            *(["-march=x86-64-v3"] if file.name == "kernels.cpp" else []),
            *("-c", file.name, "-o", made),
            cwd=source,
        )
        if process.returncode != 0:
            raise AssertionError(f"{file.name}: {process.stderr}")
        return made

    files = [*source.glob("*.cu"), *source.glob("*.cpp")]
    objects = [compile_one(file) for file in files]
    process = run(
        *(COMPILER, "-shared", "-o", bundle / "lib" / "libjob.so", *objects),
        *(LIBRARY, f"-Wl,-rpath,{LIBRARY.parent}"),
    )
    if process.returncode != 0:
        raise AssertionError(process.stderr)


class Limits(unittest.TestCase):
    """A command that runs away is ended, with a message that says so."""

    def run_away(self, script, **limits):
        with self.assertRaises(AssertionError) as caught:
            run_within_limits(sys.executable, "-c", script, **limits)
        return str(caught.exception)

    # One that ends by itself is told as it is.
    def test_within(self):
        process = run_within_limits(
            sys.executable, "-c", "print('out'); exit(3)"
        )
        self.assertEqual((process.returncode, process.stdout), (3, "out\n"))

    # One that takes ever more memory.
    def test_memory(self):
        said = self.run_away(
            "print('begun', flush=True)\nheld = []\n"
            "while True: held.append(bytes(1 << 20))",
            memory=200 << 20,
        )
        self.assertIn("ran away and was ended: more than 200 MiB", said)
        self.assertIn("begun", said)

    # One that does not end and says the same for ever: its last words are told.
    def test_time(self):
        said = self.run_away("while True: print('again')", seconds=0.5)
        self.assertIn("ran away and was ended: more than 0.5 s", said)
        self.assertIn("again", said)
        self.assertLess(len(said), 10000)


class Programs(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        scratch = tempfile.TemporaryDirectory(prefix="ciuicc-on-host-")
        cls.addClassCleanup(scratch.cleanup)
        cls.scratch = pathlib.Path(scratch.name)
        random_tokens = random.Random(7)
        tokens = [random_tokens.randrange(256) for _ in range(4000)]
        cls.data = write_tokens(cls.scratch / "data.tok", tokens)
        cls.bundles = {}
        cls.expected = {}

        def prepare(item):
            number, (name, job) = item
            config = write_json(
                cls.scratch / f"{number}.json",
                ds_config(job.batch, **job.config),
            )
            common = (
                *("--model", MODELS / job.model, "--config", config),
                *("--devices", job.devices, "--seq-len", LENGTH, *job.options),
            )
            cpu, cuda = (cls.scratch / f"{number}.{t}" for t in ("cpu", "cuda"))
            succeed("compile", *common, "-o", cpu)
            log = cls.scratch / f"{number}.jsonl"
            succeed(
                *("train", cpu, "--data", cls.data, "--steps", job.steps),
                *("--log", log),
            )
            succeed(
                *("compile", *common, "-o", cuda, "--target", "cuda"),
                *("--arch", "sm_80", "--no-build"),
            )
            build(cuda)
            cls.bundles[name] = cuda
            cls.expected[name] = cls.steps_of(log)

        in_parallel(prepare, enumerate(JOBS.items()))

    @staticmethod
    def steps_of(log):
        """(loss, skipped) of each step."""
        return [
            (record["loss"], record["skipped"])
            for record in read_log(log)
            if "loss" in record
        ]

    def train(self, name, settings, *options, steps=None, devices=None):
        """Trains on emulated devices; returns the process and its steps."""
        job = JOBS[name]
        log = pathlib.Path(
            tempfile.mkstemp(suffix=".jsonl", dir=self.scratch)[1]
        )
        process = run_within_limits(
            *(TRAIN, self.bundles[name], "--data", self.data, "--log", log),
            *("--steps", steps or job.steps, *options),
            env={
                **os.environ,
                "CIUIC_ON_HOST": f"devices={devices or job.devices},{settings}",
            },
        )
        return process, self.steps_of(log)

    def check(self, name, process, steps):
        """The run is clean and its losses are the CPU target's."""
        self.assertEqual(process.returncode, 0, process.stderr)
        self.assertEqual(process.stderr.count("cuda_on_host:"), 0)
        expected = self.expected[name]
        self.assertEqual(
            [skipped for _, skipped in steps],
            [skipped for _, skipped in expected],
        )
        for (loss, _), (other, _) in zip(steps, expected):
            self.assertTrue(
                math.isclose(loss, other, rel_tol=JOBS[name].tolerance),
                f"{steps}, expected {expected}",
            )

    def check_seeds(self, name, settings="", options=(), seeds=SEEDS, **more):
        def one(seed):
            return self.train(name, f"seed={seed}{settings}", *options, **more)

        for seed, outcome in enumerate(in_parallel(one, range(1, seeds + 1))):
            with self.subTest(f"{name} {settings} seed {seed + 1}"):
                self.check(name, *outcome)

    # Every job, over the seeds, trains without a finding and with the CPU
    # target's losses; steps that overflow are skipped on both.
    def test_losses_are_those_of_the_cpu_target(self):
        for name, job in JOBS.items():
            self.check_seeds(name)
            if job.config.get("fp16") == OVERFLOWING:
                skipped = [skipped for _, skipped in self.expected[name]]
                self.assertIn(True, skipped)
                self.assertIn(False, skipped)

    # Eight ranks that share one device do the same.
    def test_ranks_share_a_device(self):
        self.check_seeds(
            SHARED, "", ("--share-device",), seeds=2, devices=1
        )

    # So do devices without memory operations of streams: events take over.
    def test_without_stream_memory_operations(self):
        self.check_seeds(FAULTY, ",stream_memory_operations=0")

    # Files are read and written by threads where io_uring is not allowed, and
    # without stream memory operations as well.
    def test_states_in_files(self):
        name = "stage 3, fp16 with overflow, states in files, in parts"
        self.check_seeds(name, "", ("--disk-io", "threads"), seeds=1)
        self.check_seeds(name, ",stream_memory_operations=0", seeds=2)
        self.check_seeds(name, "", ("--cuda-graphs",), seeds=1)

    # A file that fails in the midst of a run ends it with the file and the task;
    # whatever streams wait for, nothing hangs.
    def test_files_that_fail(self):
        name = "stage 3, fp16 with overflow, states in files, in parts"
        for number, (settings, options) in enumerate((
            ("", ()),
            ("", ("--disk-io", "threads")),
            (",stream_memory_operations=0", ()),
            ("", ("--cuda-graphs",)),
        )):
            log = self.scratch / f"cut{number}.jsonl"
            process = subprocess.Popen(
                [TRAIN, self.bundles[name], "--data", self.data, "--log", log]
                + ["--steps", str(10**6), *options],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
                env={
                    **os.environ,
                    "CIUIC_ON_HOST": f"devices=2,seed={number + 1}{settings}",
                },
            )
            try:
                while not log.exists() or '"loss"' not in log.read_text():
                    self.assertIsNone(process.poll())
                    time.sleep(0.02)
                cut_files(process, tempfile.gettempdir(), 0)
                said = process.communicate(timeout=MOST_SECONDS)[1]
            finally:
                process.kill()
                process.wait()
                process.stderr.close()
            with self.subTest(f"{settings} {options}"):
                self.assertEqual(process.returncode, 3, said)
                self.assertNotIn("cuda_on_host:", said)
                for text in (
                    "the optimizer states of rank ",
                    "have no bytes from ",
                    'while running task "',
                ):
                    self.assertIn(text, said)

    # Stretches replayed as graphs give the same losses.
    def test_graphs(self):
        self.check_seeds(FAULTY, "", ("--cuda-graphs",))

    # Whatever the interleaving, the losses have the same bits.
    def test_bits_do_not_depend_on_the_interleaving(self):
        _, first = self.train(FAULTY, "seed=101")
        _, second = self.train(FAULTY, "seed=102")
        self.assertEqual(len(first), JOBS[FAULTY].steps)
        self.assertEqual(first, second)

    def faults(self, kind, numbers):
        """Runs one step with each fault; returns those that went unnoticed."""

        def one(number):
            settings = f"seed={number},stuck=10,fault={kind}:{number}"
            process, _ = self.train(FAULTY, settings, steps=1)
            self.assertIn("faults struck: 1", process.stderr, settings)
            return number, process

        return [
            number
            for number, process in in_parallel(one, numbers)
            if process.returncode != FOUND
        ]

    # Two collectives of a device that change places are found, whichever.
    def test_swapped_collectives_are_found(self):
        self.assertEqual(self.faults("swap_collectives", range(0, 8, 3)), [])

    # A collective that is one element short is found, whichever.
    def test_a_short_collective_is_found(self):
        self.assertEqual(self.faults("shrink_collective", range(0, 8, 3)), [])

    # A device arena of 256 bytes less is found.
    def test_a_short_arena_is_found(self):
        self.assertEqual(self.faults("shrink_allocation", [0, 1]), [])

    # A host task that is ordered after nothing is found.
    def test_an_unordered_host_task_is_found(self):
        self.assertEqual(self.faults("drop_host_order", [2, 3]), [])

    # Most dropped waits for an event are found; the rest order nothing that
    # others do not.
    def test_most_dropped_waits_are_found(self):
        numbers = range(6, 46, 4)
        unnoticed = self.faults("drop_wait", numbers)
        self.assertLessEqual(len(unnoticed), len(numbers) // 3, unnoticed)


if __name__ == "__main__":
    unittest.main()
