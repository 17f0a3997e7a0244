#!/usr/bin/env python3
"""What --fit chooses keeps within the limits and trains the same, whichever
way it makes room."""

import json
import re
import unittest

from harness import (
    MODELS,
    ScratchCase,
    ds_config,
    losses_of,
    read_log,
    succeed,
    worst_difference,
    write_json,
    write_text,
)

OPTIONS = ("--seq-len", 64, "--devices", 2)
# Nothing is said of stages or offload: all that is free to choose.
FREE = ds_config(16, zero_optimization=None)


class Fit(ScratchCase):
    def setUp(self):
        super().setUp()
        self.data = write_text(self.path("text.txt"))

    def run_job(self, name, *options, config=None):
        """Compiles and trains; returns (device bytes, host bytes of all
        ranks, losses)."""
        bundle = self.compile(name, config or FREE, *OPTIONS, *options)
        plan = json.loads((bundle / "plan" / "memory.json").read_text())
        log = self.train(bundle, self.data, "--steps", 6, log=f"{name}.jsonl")
        for record in read_log(log):
            if "tensor_bytes" in record:
                self.assertEqual(
                    record["device_arena_bytes"], plan["device_arena_bytes"]
                )
        host = plan["ranks"] * plan["host_arena_bytes_a_rank"]
        return plan["device_arena_bytes"], host, losses_of(log)

    # Less and less memory: each time something else must give, and the
    # training stays what it was.
    def test_trains_the_same(self):
        device, host, losses = self.run_job("plain")
        self.assertEqual(host, 0)
        chosen = set()
        for share in (0.8, 0.4, 0.25):
            limit = int(share * device)
            bytes_, _, fitted = self.run_job(
                f"fit{share}", "--fit", "--device-memory", limit
            )
            self.assertLessEqual(bytes_, limit)
            self.assertLess(worst_difference(fitted, losses), 1e-5)
            chosen.add(bytes_)
        self.assertEqual(len(chosen), 3)

    # Where the host has no room nothing goes there.
    def test_minds_the_host(self):
        device, _, losses = self.run_job("plain")
        limits = ("--device-memory", int(0.4 * device), "--host-memory", 4096)
        bytes_, host, fitted = self.run_job("fit", "--fit", *limits)
        self.assertLessEqual(bytes_, 0.4 * device)
        self.assertLessEqual(host, 4096)
        self.assertLess(worst_difference(fitted, losses), 1e-5)

    # The least that is needed is exact: one byte less and another job is
    # chosen, or none.
    def test_limits_are_exact(self):
        device, _, _ = self.run_job("plain")
        flags = ("--fit", "--micro-batch", 8, "--device-memory")
        bytes_, _, _ = self.run_job("fit", *flags, device // 2)
        same, _, _ = self.run_job("same", *flags, bytes_)
        self.assertEqual(same, bytes_)
        config = write_json(self.path("job.json"), FREE)
        less = (
            *("compile", "--model", MODELS / "tiny-llama", "--config", config),
            *OPTIONS,
            *("--stop-after", "allocate", "--remarks", "memory"),
            *(*flags, bytes_ - 1),
        )
        outcome = succeed(*less)
        arena = re.search(r"device arena: (\d+) bytes", outcome.err)
        self.assertLess(int(arena.group(1)), bytes_)

    # From files to weights in one command.
    def test_trains_in_one_go(self):
        config = write_json(self.path("job.json"), FREE)
        outcome = succeed(
            *("train", "--model", MODELS / "tiny-llama", "--config", config),
            *OPTIONS,
            *("--device-memory", "3MB", "--fit"),
            *("--data", self.data, "--steps", 2),
        )
        self.assertIn("--fit: chosen: ", outcome.err)


if __name__ == "__main__":
    unittest.main()
