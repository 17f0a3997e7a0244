#!/usr/bin/env python3
"""Compiled training against PyTorch's: losses and gradient norms of the runs
under test/reference/, step by step."""

import array
import subprocess
import sys
import unittest

from harness import (
    MODELS,
    REFERENCE,
    ScratchCase,
    ds_config,
    read_safetensors,
    write_tokens,
)

LENGTH = 32  # As the references are made (test/reference/README.md).


class Parity(ScratchCase):
    def setUp(self):
        super().setUp()
        inputs = read_safetensors(REFERENCE / "training.inputs.safetensors")
        stream = array.array("i", inputs["stream"][2])
        self.tokens = write_tokens(self.path("stream.tok"), stream)

    def run_reference(self, model, steps, *options, **changes):
        """Trains on the reference's batches, in their order; returns the
        log."""
        name = f"{model}-{len(list(self.scratch.iterdir()))}"
        bundle = self.compile(
            name,
            ds_config(4, **changes),
            *("--seq-len", LENGTH, *options),
            model=model,
        )
        return self.train(
            bundle,
            self.tokens,
            *("--weights", MODELS / model, "--steps", steps, "--no-shuffle"),
            log=f"{name}.jsonl",
        )

    def check(self, log, reference, *options):
        process = subprocess.run(
            [
                *(sys.executable, "-B", REFERENCE / "check_losses.py"),
                *map(str, (log, reference, *options)),
            ],
            capture_output=True,
            text=True,
            check=False,
        )
        self.assertEqual(process.returncode, 0, process.stdout + process.stderr)

    # 20 steps of AdamW in fp32 against PyTorch in float64: each loss to 1e-4,
    # each gradient norm to 1e-3 of it.
    def test_steps_in_fp32(self):
        for model in ("tiny-llama", "tiny-qwen2"):
            reference = REFERENCE / f"training.{model}.json"
            for options, changes in (
                ((), {}),
                (
                    ("--devices", 2, "--recompute", "block"),
                    {
                        "stage": 3,
                        "gradient_accumulation_steps": 2,
                        "zero": {
                            "stage3_param_persistence_threshold": 0,
                            "offload_optimizer": {"device": "cpu"},
                        },
                    },
                ),
            ):
                with self.subTest(f"{model} {options}"):
                    log = self.run_reference(model, 20, *options, **changes)
                    self.check(
                        log,
                        reference,
                        *("--steps", 20, "--tolerance", 1e-4),
                        *("--grad-norm-tolerance", 1e-3),
                    )

    # The mean of the last 10 of 50 steps in 16 bits is within 2 % of that in
    # fp32, ours and PyTorch's.
    def test_means_in_16_bits(self):
        for model in ("tiny-llama", "tiny-qwen2"):
            reference = REFERENCE / f"training.{model}.json"
            last = ("--steps", 50, "--mean-of-last", 10)
            full = self.run_reference(model, 50)
            self.check(full, reference, *last, "--relative-tolerance", 1e-4)
            for precision in ("bf16", "fp16"):
                with self.subTest(f"{model} {precision}"):
                    log = self.run_reference(
                        model, 50, **{precision: {"enabled": True}}
                    )
                    for other in (full, reference):
                        self.check(
                            log, other, *last, "--relative-tolerance", 0.02
                        )


if __name__ == "__main__":
    unittest.main()
