#!/usr/bin/env python3
"""What a process holds beside its arenas when it starts, makes steps, saves,
resumes and exports is planned, and it keeps to that: by its own count and by
what the system says it holds. A machine that has no room for it is refused."""

import json
import unittest

from harness import CIUICC, ScratchCase, ciuicc, ds_config, read_log, succeed
from harness import write_json, write_text
from processes_test import finish_all, free_port, start

# Its table alone is more than what is staged of one tensor, its states are
# several times what is staged of all.
MODEL = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "hidden_act": "silu",
    "hidden_size": 512,
    "initializer_range": 0.02,
    "intermediate_size": 1024,
    "max_position_embeddings": 256,
    "num_attention_heads": 8,
    "num_hidden_layers": 2,
    "num_key_value_heads": 8,
    "rms_norm_eps": 1e-5,
    "rope_theta": 1e4,
    "tie_word_embeddings": True,
    "vocab_size": 16384,
}
THREADS = 2
HUGE_PAGE = 2 << 20
# What is counted while it is staged, by phase.
STAGED = {
    "start": "staging of values",
    "resume": "staging of values",
    "checkpoint": "staging of a tensor",
    "export": "staging of a tensor",
}
MACHINE = {
    "name": "small",
    "shared_memory": True,
    "devices": {"count": 2},
    "host": {"memory": "64GB", "cores": THREADS},
    "reserve": [
        # As of the machine at hand.
        {
            "name": "libraries and start-up",
            "where": "process",
            "bytes": "160MiB",
            "source": "measured",
        },
        {
            "name": "stacks and packed matrices",
            "where": "thread",
            "bytes": "8MiB",
            "source": "measured",
        },
    ],
}


class Phases(ScratchCase):
    def setUp(self):
        super().setUp()
        self.data = write_text(self.path("text.txt"))
        write_json(self.path("model.json"), MODEL)

    def command(self, config, *options, **machine):
        """Of a compilation for the machine, but for its output."""
        file = write_json(self.path("machine.json"), {**MACHINE, **machine})
        return [
            *("compile", "--model", self.path("model.json")),
            *("--config", write_json(self.path("job.json"), config)),
            *("--seq-len", 32, "--machine", file, *options),
        ]

    def run_all(self, bundle, processes, log, *options):
        """Runs a job in so many processes; the phases of its last record."""
        command = [
            *(CIUICC, "train", bundle, "--data", self.data),
            *("--threads", THREADS, "--log", self.path(log), *options),
        ]
        command = list(map(str, command))
        port = free_port()
        started = [
            start(command, process, processes, port)
            for process in range(processes)
        ]
        for outcome in finish_all([command] * processes, started):
            self.assertEqual(outcome.code, 0, str(outcome))
        return read_log(self.path(log))

    def check(self, plan, records, names):
        """Each phase was measured, and is within its plan."""
        measured = records[-1]["phases"]
        self.assertEqual(sorted(measured), sorted(names))
        last = records[-1]
        arenas = last["ranks"] * (
            plan["device_arena_bytes"] + plan["host_arena_bytes_a_rank"]
        )
        slack = 2 * last["ranks"] * HUGE_PAGE
        for name, peak in measured.items():
            planned = plan["phases"][name]
            parts = {p["name"]: p["bytes"] for p in planned["parts"]}
            self.assertEqual(planned["bytes"], sum(parts.values()))
            with self.subTest(name, staged=peak["staged_bytes"]):
                most = parts.get(STAGED.get(name), 0)
                self.assertLessEqual(peak["staged_bytes"], most)
                # It counts: a whole piece of the table, or of each thread.
                if "tensor" in STAGED.get(name, ""):
                    self.assertGreater(peak["staged_bytes"], 16 << 20)
                elif most:
                    self.assertGreater(peak["staged_bytes"], 1 << 18)
            # Tasks' scratch lies in one piece more.
            self.assertLessEqual(
                last["scratch_bytes"], parts.get("scratch of tasks", 0)
            )
            if not peak["resident_bytes"]:
                continue
            with self.subTest(name, resident=peak["resident_bytes"]):
                beside = peak["resident_bytes"] - arenas
                self.assertLessEqual(beside, planned["bytes"] + slack)
                # Neither is the plan so large that anything would do.
                self.assertGreater(beside, planned["bytes"] / 4)

    # Every part of a run, in both types, alone and with another process, with
    # states in files.
    def test_runs_keep_to_the_plan(self):
        for name, processes, precision, zero, options in (
            ("fp32", 1, None, {"stage": 2}, ()),
            ("bf16", 1, "bf16", {"stage": 3}, ()),
            (
                "fp32, 2 processes, host and files",
                *(2, None, {"stage": 3}),
                (
                    *("--offload-optimizer", "nvme"),
                    *("--nvme-path", self.scratch, "--offload-param", "cpu"),
                ),
            ),
            ("bf16, 2 processes", 2, "bf16", {"stage": 3}, ()),
        ):
            with self.subTest(name):
                config = ds_config(2, zero.pop("stage"), zero=zero)
                if precision:
                    config[precision] = {"enabled": True}
                bundle = self.path(name.replace(", ", "-"))
                succeed(
                    *self.command(config, "--processes", processes, *options),
                    *("-o", bundle),
                )
                plan = json.loads((bundle / "plan/memory.json").read_text())
                self.assertEqual(plan["processes"], processes)
                self.assertEqual(plan["threads_a_process"], THREADS)
                folder = self.path(bundle.name + ".out")
                records = self.run_all(
                    bundle,
                    processes,
                    "first.jsonl",
                    *("--steps", 2, "--save", folder / "save"),
                    *("--save-every", 1, "--export", folder / "export"),
                )
                self.check(
                    plan, records, ("start", "step", "checkpoint", "export")
                )
                records = self.run_all(
                    bundle,
                    processes,
                    "resumed.jsonl",
                    *("--steps", 3, "--resume", folder / "save"),
                )
                self.check(plan, records, ("start", "resume", "step"))
                records = self.run_all(
                    bundle,
                    processes,
                    "weights.jsonl",
                    *("--steps", 1, "--weights", folder / "export"),
                )
                self.check(plan, records, ("start", "step"))

    # A machine with room for the arenas and the highest phase, to the byte,
    # will do; with one byte less it is refused, and the phase is told. Bytes
    # given for the arenas alone stay what they are.
    def test_limits(self):
        config = ds_config(2, 2, zero={"offload_optimizer": {"device": "cpu"}})
        bundle = self.path("job")
        succeed(*self.command(config), "-o", bundle)
        plan = json.loads((bundle / "plan/memory.json").read_text())
        phase, beside = max(
            ((name, value["bytes"]) for name, value in plan["phases"].items()),
            key=lambda item: item[1],
        )
        arenas = 2 * (
            plan["device_arena_bytes"] + plan["host_arena_bytes_a_rank"]
        )
        dry = ("--stop-after", "allocate")
        for need, machine in (
            (arenas + beside, {}),
            # Devices have memory of their own.
            (
                2 * plan["host_arena_bytes_a_rank"] + beside,
                {
                    "shared_memory": False,
                    "devices": {"count": 2, "memory": "40GB"},
                },
            ),
        ):
            for processes in (1, 2):
                if processes == 2:
                    need = self.need_of_two(config, machine)
                host = lambda bytes_: {
                    "host": {"memory": bytes_, "cores": THREADS}
                }
                fits = self.command(
                    config, "--processes", processes, *dry,
                    **machine, **host(need),
                )
                succeed(*fits)
                less = self.command(
                    config, "--processes", processes, *dry,
                    **machine, **host(need - 1),
                )
                outcome = self.refuse(
                    1,
                    *less,
                    says=(
                        f" at {phase}, has ",
                        f"exactly {need} bytes, of which there are {need - 1}",
                        "beside the arenas",
                        "for libraries and start-up",
                    ),
                )
                self.assertIn(
                    "of memory for all 2 ranks"
                    if not machine
                    else "of host memory",
                    outcome.err,
                )
        # Arenas alone.
        succeed(
            *self.command(config, *dry),
            *("--host-memory", 2 * plan["host_arena_bytes_a_rank"]),
            *("--device-memory", plan["device_arena_bytes"]),
        )

    def need_of_two(self, config, machine):
        """What two processes take, by their plan."""
        bundle = self.path("two")
        succeed(*self.command(config, "--processes", 2), "-o", bundle)
        plan = json.loads((bundle / "plan/memory.json").read_text())
        beside = max(value["bytes"] for value in plan["phases"].values())
        device = 0 if machine else plan["device_arena_bytes"]
        return 2 * (device + plan["host_arena_bytes_a_rank"] + beside)

    # What is chosen to fit leaves room for it.
    def test_fit_counts_it(self):
        config = ds_config(2, 2)
        bundle = self.path("job")
        succeed(*self.command(config), "-o", bundle)
        plan = json.loads((bundle / "plan/memory.json").read_text())
        beside = max(value["bytes"] for value in plan["phases"].values())
        own = {
            "shared_memory": False,
            "devices": {
                "count": 2, "memory": plan["device_arena_bytes"],
            },
        }
        for bytes_, code, says in (
            (beside, 0, "--fit: it fits as it is"),
            (beside - 1, 1, "does not fit: needs"),
        ):
            outcome = ciuicc(
                *self.command(
                    config, "--fit", "--stop-after", "allocate",
                    **own, host={"memory": bytes_, "cores": THREADS},
                )
            )
            self.assertEqual(outcome.code, code, str(outcome))
            self.assertIn(says, outcome.err)

    # More processes than devices are none.
    def test_too_many_processes(self):
        self.refuse(
            1,
            *self.command(ds_config(2), "--processes", 3),
            *("--stop-after", "allocate"),
            says="--processes 3: the job has 2 devices",
        )

    # `inspect` shows what each phase holds.
    def test_inspect(self):
        bundle = self.path("job")
        succeed(*self.command(ds_config(2)), "-o", bundle)
        plan = json.loads((bundle / "plan/memory.json").read_text())
        text = ciuicc("inspect", bundle, "memory").out
        self.assertIn("host memory of the process beside the arenas", text)
        for name, phase in plan["phases"].items():
            self.assertRegex(text, rf"\n  {name} +{phase['bytes']} bytes")
            for part in phase["parts"]:
                self.assertIn(
                    f"{part['bytes']:>14} bytes  {part['name']}: ", text
                )


if __name__ == "__main__":
    unittest.main()
