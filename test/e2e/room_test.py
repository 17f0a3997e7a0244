#!/usr/bin/env python3
"""What makes room, in all combinations: the memory that is measured is the
memory that is planned, exactly the planned bytes will do and one byte less is
refused, and no bit of the training changes, nor of one that goes on with other
choices from a checkpoint, nor of what is exported."""

import random
import unittest

import jobs
import layouts
from harness import ScratchCase

# Three blocks, so that some of them may be chosen; grouped queries.
MODEL = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "hidden_act": "silu",
    "hidden_size": 24,
    "head_dim": 6,
    "initializer_range": 0.1,
    "intermediate_size": 40,
    "max_position_embeddings": 512,
    "num_attention_heads": 4,
    "num_hidden_layers": 3,
    "num_key_value_heads": 2,
    "rms_norm_eps": 1e-5,
    "rope_theta": 1e4,
    "tie_word_embeddings": False,
    "vocab_size": 67,
}
# What differs between the jobs of the cover, beside what makes room.
LAYOUT = {
    "devices": (1, 2, 4),
    "stage": (0, 1, 2, 3),
    "precision": ("fp32", "bf16", "fp16"),
    "accumulation": (1, 2),
    "bucket": (500_000_000, 1_500),
}
# An arena may take most of one more.
HUGE_PAGE = 2 << 20
# What a process takes beside arenas differs by pages of libraries and by what
# the rate of matrix products is measured with before the first step.
BESIDE = 32 << 20


def cover():
    """Few jobs with every pair of choices."""
    rng = random.Random(3)
    drawn = []
    for _ in range(600):
        job = {name: rng.choice(values) for name, values in LAYOUT.items()}
        drawn.append(jobs.choose_room(rng, job))
    return layouts.pairwise_cover(drawn)


class Room(ScratchCase):
    def check(self, job, folder):
        folder.mkdir()
        data = jobs.write_data(folder / "data.tok", job)
        command = jobs.write_job(folder, job)
        plan = jobs.compile_job(command, folder / "bundle")
        jobs.check_places(plan)
        jobs.check_limits(command, folder, plan)
        log = folder / "log.jsonl"
        weights = folder / "weights"
        bundle = folder / "bundle"
        steps = jobs.train(bundle, data, log, "--export", weights)
        jobs.check_records(log, plan)
        expected, other = self.without_room(job, data)
        jobs.check_same(steps, expected)
        jobs.check_same_weights(weights, other / "weights")
        # From a checkpoint of this job, and of the other.
        for number, order in enumerate(
            ((bundle, other / "bundle"), (other / "bundle", bundle))
        ):
            jobs.check_resume(
                *order, data, folder / f"resumed{number}", steps, weights
            )

    def without_room(self, job, data):
        """The steps of the same layout, and the folder with its bundle and
        weights; each layout runs once."""
        job = jobs.without_room(job)
        key = jobs.describe(job)
        if key not in self.known:
            folder = self.path(f"without{len(self.known)}")
            jobs.compile_job(jobs.write_job(folder, job), folder / "bundle")
            steps = jobs.train(
                *(folder / "bundle", data, folder / "log.jsonl"),
                *("--export", folder / "weights"),
            )
            self.known[key] = steps, folder
        return self.known[key]

    # Every pair of choices, each job with all promises.
    def test_combinations(self):
        self.known = {}
        combinations = cover()
        self.assertLessEqual(len(combinations), 32)
        for number, choices in enumerate(combinations):
            job = {
                **jobs.PLAIN,
                "model": MODEL,
                "threshold": 100,
                **choices,
            }
            with self.subTest(jobs.describe(job)):
                try:
                    self.check(job, self.path(str(number)))
                except jobs.Wrong as error:
                    self.fail(str(error))

    # Each arena holds the memory that is planned, and nothing else of the
    # process grows with it: what a choice saves, the process takes less.
    def test_resident_memory(self):
        large = {
            **MODEL,
            "hidden_size": 512,
            "head_dim": 64,
            "intermediate_size": 1024,
            "vocab_size": 259,
        }
        plain = {
            **jobs.PLAIN,
            "model": large,
            "devices": 2,
            "sequence": 256,
            "accumulation": 2,
            "threshold": 0,
        }
        beside, planned = {}, {}
        for name, choices in {
            "plain": {},
            "stage 3, block": {"stage": 3, "recompute": "block"},
            "stage 2, bf16, offload": {
                "stage": 2,
                "precision": "bf16",
                "offload": "cpu",
            },
        }.items():
            job = {**plain, **choices}
            folder = self.path(name.split(",")[0])
            folder.mkdir()
            data = jobs.write_data(folder / "data.tok", job)
            plan = jobs.compile_job(
                jobs.write_job(folder, job), folder / "bundle"
            )
            log = folder / "log.jsonl"
            arenas, most = jobs.resident_memory(folder / "bundle", data, log)
            # The scratch of tasks, which lies beside the plan, is as large as
            # the run says.
            sizes = sorted(
                [jobs.first_record(log)["scratch_bytes"]]
                + [
                    plan[key]
                    for key in ("device_arena_bytes", "host_arena_bytes_a_rank")
                    for _ in range(plan["ranks"])
                    if plan[key]
                ]
            )
            if not arenas:
                self.skipTest("the system has no huge pages")
            with self.subTest(name):
                self.assertEqual(len(arenas), len(sizes))
                for resident, size in zip(arenas, sizes):
                    self.assertGreater(resident, size - 4096)
                    self.assertLess(resident, size + HUGE_PAGE + 4096)
            planned[name] = sum(sizes)
            beside[name] = most - sum(arenas)
        self.assertGreater(
            planned["plain"] - planned["stage 3, block"], 1.2 * BESIDE
        )
        for name, bytes_ in beside.items():
            self.assertAlmostEqual(
                bytes_, beside["plain"], delta=BESIDE, msg=name
            )


if __name__ == "__main__":
    unittest.main()
