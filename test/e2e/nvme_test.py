#!/usr/bin/env python3
"""Optimizer states in files: the same bits as in host memory, whatever the
layout; files that go with the process; limits and errors."""

import json
import os
import resource
import signal
import time
import unittest

import layouts
from harness import (
    MODELS,
    ScratchCase,
    cut_files,
    describe,
    ds_config,
    files_held,
    read_safetensors,
    start_ciuicc,
    steps_of,
    succeed,
    write_json,
)

SMALL = "4096"  # Bytes of a state at once: buckets become many parts.


class OptimizerInFiles(ScratchCase):
    def setUp(self):
        super().setUp()
        self.files = self.path("files")
        self.files.mkdir()
        self.data = layouts.write_data(self.scratch)

    def settings(self, device, stage, **changes):
        offload = {"device": device}
        if device == "nvme":
            offload["nvme_path"] = str(self.files)
        zero = {
            "offload_optimizer": {**offload, **changes.pop("offload", {})},
            "stage3_param_persistence_threshold": 0,
        }
        return ds_config(layouts.BATCH, stage, zero=zero, **changes)

    def make(self, device, stage, devices, *options, **changes):
        """The bundle of a job with its optimizer's states on `device`."""
        bundle = self.path(f"{device}-bundle")
        config = write_json(
            self.path("ds.json"), self.settings(device, stage, **changes)
        )
        succeed(
            *("compile", "--model", MODELS / "tiny-llama"),
            *("--config", config, "--devices", devices),
            *("--seq-len", layouts.LENGTH, "-o", bundle, *options),
        )
        return bundle

    def run_bundle(self, bundle, *options):
        """The steps of a run and the weights at its end."""
        folder = self.path("weights")
        log = layouts.train_bundle(
            self.scratch, bundle, self.data, "--export", folder, *options
        )
        return steps_of(log), read_safetensors(folder / "model.safetensors")

    # States in files train to the bits of states in host memory, in parts and
    # whole, whoever moves them; and leave nothing.
    def test_same_bits_as_on_the_host(self):
        fp16 = {"enabled": True, "initial_scale_power": 24, "hysteresis": 1}
        for stage, devices, options, changes in (
            (0, 1, ("--nvme-buffer", SMALL), {}),
            (1, 2, (), {"bf16": {"enabled": True}}),
            (2, 4, ("--nvme-buffer", SMALL), {"fp16": fp16}),
            (3, 4, ("--nvme-buffer", SMALL), {"gradient_clipping": 0.1}),
            (3, 2, ("--nvme-buffer", "20kB"), {"bf16": {"enabled": True}}),
        ):
            name = f"stage {stage}, {devices} devices, {changes}"
            with self.subTest(name):
                expected = self.run_bundle(
                    self.make("cpu", stage, devices, **changes)
                )
                bundle = self.make("nvme", stage, devices, *options, **changes)
                for by in ("auto", "threads"):
                    found = self.run_bundle(bundle, "--disk-io", by)
                    self.assertEqual(found, expected, by)
                self.assertEqual(list(self.files.iterdir()), [])

    # A share of the states, and another optimizer.
    def test_share_and_sgd(self):
        sgd = {
            "optimizer": {
                "type": "SGD",
                "params": {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.01},
            },
            "zero_allow_untested_optimizer": True,
            "zero_force_ds_cpu_optimizer": False,
        }
        for changes in ({"offload": {"ratio": 0.5}}, sgd):
            with self.subTest(str(changes)):
                expected = self.run_bundle(self.make("cpu", 3, 2, **changes))
                bundle = self.make(
                    *("nvme", 3, 2, "--nvme-buffer", SMALL), **changes
                )
                self.assertEqual(self.run_bundle(bundle), expected)

    # The plan counts the files, and staging is small: what it takes of the
    # host does not grow with the states.
    def test_plan(self):
        bundle = self.make("nvme", 1, 2, "--nvme-buffer", SMALL)
        plan = json.loads((bundle / "plan" / "memory.json").read_text())
        states = [b for b in plan["buffers"] if b["arena"] == "nvme"]
        self.assertGreater(len(states), 3)
        self.assertEqual(
            plan["nvme_arena_bytes_a_rank"], sum(b["bytes"] for b in states)
        )
        self.assertEqual({b["holds"] for b in states}, {"master", "moment"})
        # Two parts of gradient, master and two moments, and some scalars.
        self.assertLessEqual(
            plan["host_arena_bytes_a_rank"], 2 * 4 * 4096 + 16 * 4096
        )
        shown = succeed("inspect", bundle, "memory").out
        self.assertIn(
            f"nvme arena of each rank: {plan['nvme_arena_bytes_a_rank']} bytes",
            shown,
        )

    # One byte less than the files take is refused at once.
    def test_space_is_a_limit(self):
        bundle = self.make("nvme", 1, 2)
        plan = json.loads((bundle / "plan" / "memory.json").read_text())
        needs = 2 * plan["nvme_arena_bytes_a_rank"]
        self.make("nvme", 1, 2, "--nvme-space", needs)
        config = self.path("ds.json")
        self.refuse(
            1,
            *("compile", "--model", MODELS / "tiny-llama", "--config", config),
            *("--devices", 2, "--nvme-space", needs - 1, "-o", self.path("no")),
            says=("does not fit: needs", "of NVMe", str(needs)),
        )

    # Checkpoints move between files, host memory and other layouts.
    def test_checkpoints_move(self):
        inFiles = self.make("nvme", 3, 4, "--nvme-buffer", SMALL)
        expected = self.run_bundle(inFiles)
        saves = self.path("saves")
        succeed(
            *("train", inFiles, "--data", *self.data, "--steps", 5),
            *("--save", saves),
        )
        onHost = self.make("cpu", 3, 4)
        for bundle in (inFiles, onHost):
            steps, weights = self.run_bundle(bundle, "--resume", saves)
            self.assertEqual(weights, expected[1])
        other = self.path("other")
        succeed(
            *("train", onHost, "--data", *self.data, "--steps", 5),
            *("--save", other),
        )
        self.assertEqual(
            self.run_bundle(inFiles, "--resume", other)[1], expected[1]
        )
        exported = self.path("exported")
        succeed("export", saves, "--bundle", inFiles, "-o", exported)
        self.assertTrue((exported / "model.safetensors").exists())

    # The command line gives the folder; training may give another one. A
    # missing folder is made for as long as the run takes.
    def test_folders(self):
        bundle = self.path("flags")
        config = write_json(self.path("plain.json"), ds_config(4, 1))
        succeed(
            *("compile", "--model", MODELS / "tiny-llama", "--config", config),
            *("--offload-optimizer", "nvme", "--nvme-path", "/dev/null/files"),
            *("--seq-len", 16, "-o", bundle),
        )
        run = ("train", bundle, "--data", *self.data, "--steps", 1)
        self.refuse(
            1,
            *run,
            says=('cannot make the folder "/dev/null/files"', "Not a directory"),
        )
        succeed(*run, "--nvme-path", self.files)
        succeed(*run, "--nvme-path", self.files / "not" / "yet")
        self.assertEqual(list(self.files.iterdir()), [])
        self.refuse(
            1,
            *("compile", "--model", MODELS / "tiny-llama", "--config", config),
            *("--offload-optimizer", "nvme", "-o", bundle),
            says=("offload_optimizer.nvme_path: missing",),
        )
        self.refuse(
            1,
            *("compile", "--model", MODELS / "tiny-llama", "--config", config),
            *("--nvme-path", self.files, "-o", bundle),
            says=("expected nvme (--offload-optimizer nvme)",),
        )

    def start(self, bundle, name, *options):
        """A run that has begun and would not end."""
        log = self.path(f"{name}.jsonl")
        process = start_ciuicc(
            *("train", bundle, "--data", *self.data, "--steps", 10**6),
            *("--log", log, *options),
        )
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        while not log.exists() or '"loss"' not in log.read_text():
            self.assertIsNone(process.poll())
            time.sleep(0.01)
        return process

    # Files that fail in the midst of a run end it with the file and the task,
    # whoever moves them. Nothing is left but the checkpoint from before, which
    # goes on.
    def test_files_that_fail(self):
        bundle = self.make("nvme", 3, 2, "--nvme-buffer", SMALL)
        plan = json.loads((bundle / "plan" / "memory.json").read_text())
        size = plan["nvme_arena_bytes_a_rank"]
        saves = self.path("saves")
        succeed(
            *("train", bundle, "--data", *self.data, "--steps", 2),
            *("--save", saves),
        )
        before = describe(saves)

        def cut(process):
            cut_files(process, self.files, size // 2)

        def limit(process):
            _, most = resource.prlimit(process.pid, resource.RLIMIT_FSIZE)
            # Enough for the log, not for the states.
            resource.prlimit(
                process.pid, resource.RLIMIT_FSIZE, (size // 2, most)
            )

        for by in ("auto", "threads"):
            for fault, says in (
                (cut, "have no bytes from "),
                (limit, "File too large"),
            ):
                name = f"{by}-{fault.__name__}"
                with self.subTest(name):
                    process = self.start(
                        *(bundle, name, "--disk-io", by, "--save", saves),
                        *("--resume", saves),
                    )
                    fault(process)
                    said = process.communicate(timeout=300)[1]
                    self.assertEqual(process.returncode, 3, said)
                    for text in (
                        says,
                        f"in {self.files}",
                        "the optimizer states of rank ",
                        'while running task "',
                    ):
                        self.assertIn(text, said)
                    self.assertEqual(list(self.files.iterdir()), [])
                    self.assertEqual(describe(saves), before)
        self.run_bundle(bundle, "--resume", saves)

    # A run that is killed leaves no file either.
    def test_killed_run_leaves_nothing(self):
        bundle = self.make("nvme", 1, 2)
        process = self.start(bundle, "killed")
        self.assertTrue(files_held(process.pid, self.files))
        process.send_signal(signal.SIGKILL)
        process.wait()
        self.assertEqual(list(self.files.iterdir()), [])

    # The time that files take is told apart.
    def test_breakdown(self):
        bundle = self.make("nvme", 1, 1, wall_clock_breakdown=True)
        shown = succeed("train", bundle, "--data", *self.data, "--steps", 3)
        self.assertRegex(shown.out, "time .ms.*disk")


if __name__ == "__main__":
    unittest.main()
