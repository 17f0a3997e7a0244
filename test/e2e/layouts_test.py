#!/usr/bin/env python3
"""One job in many layouts: the same losses, and as many collectives as the
layout implies."""

import pathlib
import tempfile
import unittest

import layouts
from harness import (
    ScratchCase,
    losses_of,
    read_log,
    read_safetensors,
    steps_of,
    worst_difference,
)

TOLERANCE = 1e-5


class SameLosses(ScratchCase):
    @classmethod
    def setUpClass(cls):
        scratch = tempfile.TemporaryDirectory(prefix="ciuicc-e2e-")
        cls.addClassCleanup(scratch.cleanup)
        folder = pathlib.Path(scratch.name)
        cls.data = layouts.write_data(folder)
        cls.expected = {
            model: layouts.losses_in(folder, layouts.plain(model), cls.data)
            for model in layouts.CHOICES["model"]
        }

    # A pair-wise cover of all choices agrees with one device; and learns.
    def test_layouts_agree(self):
        cover = layouts.pairwise_cover()
        self.assertLessEqual(len(cover), 30)
        for layout in cover:
            expected = self.expected[layout["model"]]
            with self.subTest(layouts.describe(layout)):
                losses = layouts.losses_in(self.scratch, layout, self.data)
                self.assertLessEqual(
                    worst_difference(losses, expected), TOLERANCE
                )
        for losses in self.expected.values():
            self.assertLess(losses[-1], 0.9 * losses[0])

    # Other optimizers and rates agree in all layouts, too.
    def test_optimizers_agree(self):
        sgd = {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.01}
        adam = {"lr": 1e-3, "weight_decay": 0.1, "adam_w_mode": False}
        warmup = {"warmup_num_steps": 3, "total_num_steps": 10}
        for changes in (
            {
                "optimizer": {"type": "SGD", "params": sgd},
                "zero_allow_untested_optimizer": True,
                "zero_force_ds_cpu_optimizer": False,
            },
            {
                "optimizer": {"type": "Adam", "params": adam},
                "scheduler": {"type": "WarmupCosineLR", "params": warmup},
            },
        ):
            plain = layouts.losses_in(
                self.scratch, layouts.plain(), self.data, **changes
            )
            # The optimizer is in effect.
            self.assertGreater(
                worst_difference(plain, self.expected["tiny-llama"]), 1e-3
            )
            for stage, offload in ((0, True), (1, False), (2, True), (3, True)):
                layout = {
                    **layouts.plain(),
                    "devices": 4,
                    "stage": stage,
                    "offload": offload,
                    "threshold": 0,
                }
                name = f"{changes['optimizer']['type']} {stage}"
                with self.subTest(name):
                    losses = layouts.losses_in(
                        self.scratch, layout, self.data, **changes
                    )
                    self.assertLessEqual(
                        worst_difference(losses, plain), TOLERANCE
                    )

    # In 16 bits layouts agree within rounding.
    def test_16_bit_layouts_agree(self):
        for precision in ("bf16", "fp16"):
            for devices, stage, accumulation in (
                (1, 0, 2),
                (2, 1, 1),
                (4, 3, 2),
            ):
                layout = {
                    **layouts.plain(),
                    "devices": devices,
                    "stage": stage,
                    "accumulation": accumulation,
                    "offload": stage == 3,
                    "threshold": 0,
                }
                name = f"{precision} {layouts.describe(layout)}"
                with self.subTest(name):
                    losses = layouts.losses_in(
                        self.scratch, layout, self.data, precision=precision
                    )
                    self.assertLessEqual(
                        worst_difference(losses, self.expected["tiny-llama"]),
                        ROUNDING[precision],
                        name,
                    )


# Relative to the fp32 losses; measured, times about three.
ROUNDING = {"bf16": 1e-3, "fp16": 5e-5}


class SameBits(ScratchCase):
    # The same bundle and data give the same bits: again, and with one thread
    # or two.
    def test_runs_are_equal(self):
        data = layouts.write_data(self.scratch)
        for stage, precision in ((3, None), (2, "bf16")):
            layout = {
                **layouts.plain(),
                "devices": 4,
                "stage": stage,
                "accumulation": 2,
                "threshold": 0,
            }
            bundle = layouts.compile_layout(self.scratch, layout, precision)
            runs = []
            for number, threads in enumerate((1, 2, 2)):
                folder = self.path(f"weights{stage}{number}")
                log = layouts.train_bundle(
                    self.scratch,
                    bundle,
                    data,
                    *("--threads", threads, "--export", folder),
                )
                weights = read_safetensors(folder / "model.safetensors")
                runs.append((steps_of(log), weights))
            self.assertEqual(runs[0], runs[1], "1 thread and 2 threads")
            self.assertEqual(runs[1], runs[2], "run after run")

    # What makes room or gives it up, and changes no arithmetic, keeps the bits.
    # (A norm that is computed again by itself may sum in another order.)
    def test_room_is_equal(self):
        data = layouts.write_data(self.scratch)
        moved = {"param": "cpu", "activations": "all"}
        for devices, stage, precision, changes in (
            (1, 0, None, [{"recompute": "block:1", "keep": 2}, moved]),
            (
                2,
                3,
                "bf16",
                [
                    {"keep": "all", "offload": 0.3},
                    {"recompute": "block", **moved},
                    {"keep": 1, "offload": True, **moved},
                ],
            ),
        ):
            layout = {
                **layouts.plain(),
                "devices": devices,
                "stage": stage,
                "threshold": 0,
            }
            kept = layouts.losses_in(
                self.scratch, layout, data, precision=precision
            )
            for change in changes:
                other = {**layout, **change}
                with self.subTest(layouts.describe(other)):
                    self.assertEqual(
                        layouts.losses_in(
                            self.scratch, other, data, precision=precision
                        ),
                        kept,
                    )

    # Another seed means other weights: what is compared above can differ.
    def test_seed_matters(self):
        data = layouts.write_data(self.scratch)
        bundle = layouts.compile_layout(self.scratch, layouts.plain())
        first, second = (
            losses_of(
                layouts.train_bundle(self.scratch, bundle, data, "--seed", seed)
            )
            for seed in (1, 2)
        )
        self.assertNotEqual(first, second)


class Collectives(ScratchCase):
    # What runs is what the stage implies, at threshold 0 and with buckets
    # whole and split.
    def test_counts(self):
        data = layouts.write_data(self.scratch)
        for model, devices, stage, accumulation, recompute, keep, bucket in (
            ("tiny-llama", 1, 3, 2, "none", "none", 500_000_000),
            ("tiny-llama", 2, 0, 2, "none", "none", 500_000_000),
            ("tiny-llama", 2, 1, 2, "none", "none", 9_000),
            ("tiny-llama", 4, 2, 2, "none", "none", 500_000_000),
            ("tiny-llama", 2, 3, 2, "none", "none", 500_000_000),
            ("tiny-llama", 2, 3, 1, "block", "none", 9_000),
            ("tiny-llama", 2, 3, 1, "block", "all", 9_000),
            ("tiny-qwen2", 2, 3, 1, "none", "none", 9_000),
            ("tiny-qwen2", 2, 3, 1, "selective", 2, 9_000),
            ("tiny-qwen2", 2, 3, 2, "block", "none", 500_000_000),
        ):
            layout = {
                **layouts.plain(model),
                "devices": devices,
                "stage": stage,
                "accumulation": accumulation,
                "recompute": recompute,
                "keep": keep,
                "bucket": bucket,
                "threshold": 0,
            }
            with self.subTest(layouts.describe(layout)):
                bundle = layouts.compile_layout(self.scratch, layout)
                buckets = layouts.buckets_of(bundle)
                self.check_buckets(buckets, bucket)
                log = layouts.train_bundle(self.scratch, bundle, data)
                executed = read_log(log)[-1]["executed"]
                implied = layouts.implied_collectives(bundle, layout)
                self.assertEqual(
                    {key: executed[key] for key in implied}, implied
                )

    def check_buckets(self, buckets, bucket):
        """Small buckets split the layers."""
        layers = [b for b in buckets if b.startswith("layers.0")]
        self.assertEqual(len(layers) > 1, bucket < 10_000, sorted(buckets))


if __name__ == "__main__":
    unittest.main()
