#!/usr/bin/env python3
"""The plan is what a run allocates: arenas to the byte, limits exact, savings
planned and real."""

import json
import re
import unittest

from harness import (
    MODELS,
    ScratchCase,
    ciuicc,
    ds_config,
    read_log,
    write_text,
)

OFFLOAD = {"offload_optimizer": {"device": "cpu"}}


class Memory(ScratchCase):
    def setUp(self):
        super().setUp()
        self.data = write_text(self.path("text.txt"))

    def plan_of(self, bundle):
        return json.loads((bundle / "plan" / "memory.json").read_text())

    def measure(self, name, config, *options):
        """Compiles and runs two steps. Returns the bytes of each device and
        each rank's host memory after checking that plan, arenas and
        allocations are one."""
        bundle = self.compile(name, config, "--seq-len", 64, *options)
        log = self.train(bundle, self.data, "--steps", 2, log=f"{name}.jsonl")
        records = [r for r in read_log(log) if "tensor_bytes" in r]
        self.assertEqual(len(records), 2, "before the first and after the last")
        plan = self.plan_of(bundle)
        device = plan["device_arena_bytes"]
        host = plan["host_arena_bytes_a_rank"]
        for record in records:
            self.assertEqual(record["device_arena_bytes"], device)
            self.assertEqual(record["host_arena_bytes"], host)
            total = plan["ranks"] * (device + host)
            self.assertEqual(record["tensor_bytes"], total)
            self.assertEqual(record["tensor_peak_bytes"], total)
        # Nothing is allocated, nor freed and allocated again, in between.
        self.assertEqual(
            records[0]["tensor_allocations"], records[1]["tensor_allocations"]
        )
        self.assertEqual(
            records[0]["tensor_allocations"],
            plan["ranks"] * (2 if host else 1),
        )
        self.check_places(plan)
        return device, host

    def check_places(self, plan):
        """Every buffer lies inside its arena, and the highest end is the
        arena: no byte is held in vain."""
        for arena, bytes_ in (
            ("device", plan["device_arena_bytes"]),
            ("host", plan["host_arena_bytes_a_rank"]),
        ):
            ends = [
                b["offset"] + b["bytes"]
                for b in plan["buffers"]
                if b["arena"] == arena
            ]
            highest = max(ends, default=0)
            self.assertLessEqual(highest, bytes_)
            self.assertGreater(highest, bytes_ - 4096 if bytes_ else -1)

    # Each stage holds less of the state on each device than the one before,
    # by what the table of ZeRO says of 8 devices.
    def test_stages_save(self):
        devices = {}
        for stage in (0, 1, 2, 3):
            devices[stage], host = self.measure(
                f"stage{stage}",
                ds_config(
                    8, stage, zero={"stage3_param_persistence_threshold": 0}
                ),
                *("--devices", 8),
            )
            self.assertEqual(host, 0)
        # With the padding that makes buckets divide by the ranks.
        parameters = sum(
            buffer["bytes"]
            for buffer in self.plan_of(self.path("stage0"))["buffers"]
            if buffer["holds"] == "parameter"
        )
        self.assertGreaterEqual(parameters, 125_760 * 4)
        self.assertLess(parameters, 1.1 * 125_760 * 4)
        # Stage 1 keeps an eighth of two moments, to the byte. Stages 2 and 3
        # win less than gradients and parameters: some are whole for a while.
        self.assertEqual(devices[0] - devices[1], 2 * parameters * 7 / 8)
        self.assertLess(devices[2], devices[1])
        self.assertLess(devices[3], devices[2])

    # The optimizer's state moves from the device to the host.
    def test_offload_saves(self):
        with_, host = self.measure(
            "offload", ds_config(8, 2, zero=OFFLOAD), "--devices", 2
        )
        without, none = self.measure("kept", ds_config(8, 2), "--devices", 2)
        self.assertEqual(none, 0)
        self.assertLess(with_, without)
        # Master weights and two moments of half the parameters each.
        self.assertGreaterEqual(host, 3 * 4 * 125_760 / 2)

    # Parameters move to the host, all but what is copied up at once; an
    # optimizer that is there too needs no copy of its own.
    def test_parameter_offload_saves(self):
        sharded = {"stage3_param_persistence_threshold": 0}
        config = ds_config(8, 3, zero=sharded)
        moved = ("--devices", 2, "--offload-param", "cpu")
        with_, host = self.measure("moved", config, *moved)
        without, _ = self.measure("kept", config, "--devices", 2)
        chunk = 4 * 125_760 / 2
        self.assertGreaterEqual(host, chunk)
        self.assertLess(host, 1.1 * chunk)
        self.assertLess(with_, without - 0.4 * chunk)
        both = ds_config(8, 3, zero={**sharded, **OFFLOAD})
        _, host = self.measure("both", both, *moved)
        self.assertLess(host, 3.5 * chunk + self.largest_on_host("both"))

    def largest_on_host(self, name):
        """Bytes of the gradients that are on the host at once, at most."""
        return sum(
            buffer["bytes"]
            for buffer in self.plan_of(self.path(name))["buffers"]
            if buffer["arena"] == "host" and "program" in buffer
        )

    # Activations wait on the host: the more blocks, the less of the device.
    # With recompute a block's input is all that it keeps.
    def test_activation_offload_saves(self):
        bytes_ = [
            self.measure(
                f"{blocks}", ds_config(8), "--offload-activations", blocks
            )
            for blocks in ("none", 1, "all")
        ]
        devices, hosts = zip(*bytes_)
        self.assertEqual(hosts[0], 0)
        self.assertEqual(sorted(hosts), list(hosts))
        self.assertGreater(hosts[2], hosts[1])
        self.assertEqual(sorted(devices, reverse=True), list(devices))
        self.assertLess(devices[2], devices[0])
        recomputed, host = self.measure(
            "again", ds_config(8), "--offload-activations", "all",
            *("--recompute", "block"),
        )
        self.assertLess(recomputed, devices[2])
        # 8 sequences of 64 tokens of 64 numbers, for each layer.
        layers = json.loads(
            (MODELS / "tiny-llama" / "config.json").read_text()
        )
        self.assertEqual(
            host,
            layers["num_hidden_layers"] * 8 * 64 * layers["hidden_size"] * 4,
        )

    # Recomputing blocks saves activations.
    def test_recompute_saves(self):
        all_, _ = self.measure("all", ds_config(8))
        blocks, _ = self.measure(
            "blocks", ds_config(8), "--recompute", "block"
        )
        self.assertLess(blocks, 0.7 * all_)
        # Fewer blocks or single ops save less.
        some, _ = self.measure(
            "some", ds_config(8), "--recompute", "block:1"
        )
        both, _ = self.measure(
            "both", ds_config(8), "--recompute", "block:1,selective"
        )
        self.assertLess(blocks, both)
        self.assertLess(both, some)
        self.assertLess(some, all_)

    # What stays gathered takes room, and saves gathers.
    def test_kept_gathers_cost(self):
        config = ds_config(
            8, 3, zero={"stage3_param_persistence_threshold": 0}
        )
        again, _ = self.measure("again", config, "--devices", 4)
        kept, _ = self.measure(
            "kept", config, "--devices", 4, "--keep-gathered", "all"
        )
        self.assertGreater(kept, again)

    # The share that is offloaded is the nearest that whole buckets give.
    def test_ratio_is_honoured(self):
        config = ds_config(8, 3, zero={**OFFLOAD,
                                       "stage3_param_persistence_threshold": 0})
        _, whole = self.measure("whole", config, "--devices", 2)
        _, half = self.measure(
            "half", config, "--devices", 2, "--offload-ratio", 0.5
        )
        self.assertAlmostEqual(half / whole, 0.5, delta=0.1)

    # A device of exactly the planned bytes will do; one byte less is refused
    # with both numbers and the largest holders. The same for the host.
    def test_limits(self):
        config = ds_config(8, 2, zero=OFFLOAD)
        device, host = self.measure("job", config, "--devices", 2)
        for option, bytes_ in (
            ("--device-memory", device),
            ("--host-memory", 2 * host),
        ):
            exact = self.measure(
                "exact", config, "--devices", 2, option, bytes_
            )
            self.assertEqual(exact, (device, host))
            outcome = self.refuse(
                1,
                *("compile", "--model", MODELS / "tiny-llama"),
                *("--config", self.path("job.json"), "--seq-len", 64),
                *("--devices", 2, option, bytes_ - 1),
                *("-o", self.path("less")),
                says=(f"exactly {bytes_} bytes",
                      f"of which there are {bytes_ - 1};"),
            )
            self.assertFalse(self.path("less").exists())
            # Ten holders, the largest first: as the plan has them, and none
            # smaller than what is held all the time.
            arena = "device" if option == "--device-memory" else "host"
            sizes = {
                buffer["name"]: buffer["bytes"]
                for buffer in self.plan_of(self.path("job"))["buffers"]
                if buffer["arena"] == arena
            }
            always = sorted(
                (
                    buffer["bytes"]
                    for buffer in self.plan_of(self.path("job"))["buffers"]
                    if buffer["arena"] == arena and not buffer.get("program")
                ),
                reverse=True,
            )
            told = [
                (name, int(size))
                for size, name in re.findall(
                    r"note: model: (\d+) bytes for ([\w.]+)", outcome.err
                )
            ]
            self.assertEqual(len(told), 10)
            for (name, size), least in zip(told, always):
                self.assertEqual(size, sizes[name], name)
                self.assertGreaterEqual(size, least)
            self.assertEqual(
                [size for _, size in told],
                sorted((size for _, size in told), reverse=True),
            )

    # `inspect memory` tells the arenas and who holds the peak.
    def test_inspect(self):
        device, host = self.measure(
            "job", ds_config(8, 2, zero=OFFLOAD), "--devices", 2
        )
        text = ciuicc("inspect", self.path("job"), "memory").out
        self.assertIn(f"device arena of each rank: {device} bytes", text)
        self.assertIn(f"host arena of each rank: {host} bytes", text)
        for program in ("micro_first", "apply"):
            self.assertIn(program, text)


if __name__ == "__main__":
    unittest.main()
