#!/usr/bin/env python3
"""Checkpoints: a run that was killed, interrupted or moved to other devices
goes on as one that was left alone; damaged ones are refused."""

import json
import resource
import shutil
import signal
import subprocess
import time
import unittest

from harness import (
    CIUICC,
    ScratchCase,
    ds_config,
    losses_of,
    read_safetensors,
    start_ciuicc,
    steps_of,
    succeed,
    worst_difference,
    write_text,
)

LENGTH = ("--seq-len", 32)
OFFLOADED = {
    "stage3_param_persistence_threshold": 0,
    "offload_optimizer": {"device": "cpu"},
    "offload_param": {"device": "cpu"},
}
SHARDED = {
    "stage": 3,
    "gradient_accumulation_steps": 2,
    "zero": OFFLOADED,
}


def latest_step(saves):
    """The step that `latest` names; 0 if there is none yet."""
    try:
        return int((saves / "latest").read_text().strip().removeprefix("step-"))
    except FileNotFoundError:
        return 0


def wait_until(process, condition):
    """Polls until the condition holds; False if the process ended first."""
    while not condition():
        if process.poll() is not None:
            return False
        time.sleep(0.001)
    return True


class Resume(ScratchCase):
    def setUp(self):
        super().setUp()
        self.data = write_text(self.path("text.txt"))
        self.saves = self.path("saves")

    def weights_of(self, folder):
        return read_safetensors(folder / "model.safetensors")

    def start(self, bundle, *options, log="log.jsonl"):
        process = start_ciuicc(
            *("train", bundle, "--data", self.data, "--log", self.path(log)),
            *options,
        )
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def compare_from(self, bundle, step, last):
        """Resumes at `step` and runs to `last`: as one run without saving."""
        alone = self.train(
            bundle,
            self.data,
            *("--steps", last, "--export", self.path("alone")),
            log="alone.jsonl",
        )
        resumed = self.train(
            bundle,
            self.data,
            *("--steps", last, "--export", self.path("resumed")),
            *("--resume", self.saves),
            log="resumed.jsonl",
        )
        self.assertEqual(steps_of(resumed), steps_of(alone)[step:])
        self.assertEqual(
            self.weights_of(self.path("resumed")),
            self.weights_of(self.path("alone")),
        )

    # A run whose steps are all done says so, and changes nothing.
    def test_nothing_left(self):
        bundle = self.compile("job", ds_config(4), *LENGTH)
        arguments = ("train", bundle, "--data", self.data)
        succeed(*arguments, "--steps", 2, "--save", self.saves)
        outcome = succeed(
            *(*arguments, "--steps", 1, "--resume", self.saves),
            *("--save", self.saves),
        )
        self.assertIn("nothing to train: 2 of 1 steps are done", outcome.out)
        self.assertEqual(latest_step(self.saves), 2)

    # Killed at three places, twice while a checkpoint is written, and resumed
    # each time: the same bits as a run left alone. Loss scaling, offload and
    # accumulation are on, so their state must come back too.
    def test_killed(self):
        bundle = self.compile(
            "job",
            ds_config(8, fp16={"enabled": True}, **SHARDED),
            *("--devices", 4, *LENGTH),
        )
        steps = 0
        for in_saving in (True, False, True):
            options = ["--steps", 100000, "--save", self.saves]
            options += ["--save-every", 1]
            options += ["--resume", self.saves] if steps else []
            process = self.start(bundle, *options)
            saving = self.saves / ".saving"
            self.assertTrue(
                wait_until(process, lambda: latest_step(self.saves) > steps)
                and wait_until(process, lambda: saving.exists() == in_saving),
                "the run ended by itself",
            )
            process.kill()
            process.wait()
            self.assertEqual(process.returncode, -signal.SIGKILL)
            steps = latest_step(self.saves)
            # All that `latest` may name is complete.
            state = json.loads(
                (self.saves / f"step-{steps}" / "state.json").read_text()
            )
            self.assertEqual(state["step"], steps)
        self.compare_from(bundle, steps, steps + 3)

    # SIGINT ends the step under way, saves and exits with 0; the run goes on
    # from there as if nothing had been.
    def test_interrupted(self):
        bundle = self.compile("job", ds_config(4), *LENGTH)
        process = self.start(bundle, "--steps", 100000, "--save", self.saves)
        log = self.path("log.jsonl")
        self.assertTrue(
            wait_until(
                process,
                lambda: log.exists() and log.read_text().count('"loss"') > 2,
            )
        )
        process.send_signal(signal.SIGINT)
        errors = process.communicate()[1]
        self.assertEqual(process.returncode, 0, errors)
        step = latest_step(self.saves)
        self.assertEqual(step, steps_of(log)[-1]["step"])
        self.assertFalse((self.saves / ".saving").exists())
        self.compare_from(bundle, step, step + 2)

    # A checkpoint of 8 devices and stage 3 goes on with 2 and stage 1, without
    # offload: the losses of one run, to rounding.
    def test_other_layout(self):
        wide = self.compile(
            "wide",
            ds_config(16, stage=3, zero=OFFLOADED),
            *("--devices", 8, *LENGTH),
        )
        narrow = self.compile(
            "narrow",
            ds_config(16, stage=1, gradient_accumulation_steps=4),
            *("--devices", 2, *LENGTH),
        )
        alone = self.train(wide, self.data, "--steps", 10, log="alone.jsonl")
        self.train(
            wide, self.data, "--steps", 5, "--save", self.saves, log="1.jsonl"
        )
        moved = self.train(
            *(narrow, self.data, "--steps", 10, "--resume", self.saves),
            log="2.jsonl",
        )
        self.assertLessEqual(
            worst_difference(losses_of(moved), losses_of(alone)[5:]), 1e-5
        )
        # And that is not how the run begins: something was resumed.
        self.assertGreater(
            worst_difference(losses_of(moved), losses_of(alone)[:5]), 1e-3
        )

    # A resumed run goes on in the log that it finds.
    def test_log_goes_on(self):
        bundle = self.compile("job", ds_config(4), *LENGTH)
        self.train(bundle, self.data, "--steps", 2, "--save", self.saves)
        log = self.train(
            bundle, self.data, "--steps", 4, "--resume", self.saves
        )
        self.assertEqual([r["step"] for r in steps_of(log)], [1, 2, 3, 4])

    # A log that cannot be written any more, as on a full disk, ends the run
    # with an error, after its last step was saved. Here it is a limit on the
    # size of files, which the log reaches first.
    def test_log_that_cannot_be_written(self):
        bundle = self.compile("job", ds_config(4), *LENGTH)
        log = self.train(bundle, self.data, "--steps", 2, "--save", self.saves)
        limit = 4 << 20
        with log.open("a", encoding="utf-8") as file:
            file.write(" " * (limit - log.stat().st_size - 3000) + "\n")
        process = subprocess.run(
            [
                *(CIUICC, "train", bundle, "--data", self.data, "--log", log),
                *("--steps", "1000", "--save", self.saves),
                *("--resume", self.saves),
            ],
            preexec_fn=lambda: resource.setrlimit(
                resource.RLIMIT_FSIZE, (limit, limit)
            ),
            # Python ignores the limit's signal, and so does the command then.
            restore_signals=False,
            capture_output=True,
            text=True,
            check=False,
        )
        self.assertEqual(process.returncode, 3, process.stderr)
        self.assertIn(str(log), process.stderr)
        logged = log.read_text().count('"loss"')
        # The step whose record did not fit was saved too.
        self.assertGreater(logged, 3)
        self.assertIn(latest_step(self.saves), (logged, logged + 1))

    # A checkpoint of another model is refused by the names of its parameters.
    def test_other_model(self):
        llama = self.compile("llama", ds_config(4), *LENGTH)
        qwen = self.compile("qwen", ds_config(4), *LENGTH, model="tiny-qwen2")
        self.train(llama, self.data, "--steps", 1, "--save", self.saves)
        self.refuse(
            1,
            *("train", qwen, "--data", self.data, "--resume", self.saves),
            says=("model.layers.0.self_attn.q_proj.bias", str(self.saves)),
        )

    # An exported checkpoint is what the run itself exports.
    def test_export_of_a_checkpoint(self):
        bundle = self.compile(
            "job", ds_config(8, **SHARDED), "--devices", 4, *LENGTH
        )
        self.train(
            *(bundle, self.data, "--steps", 2, "--save", self.saves),
            *("--export", self.path("direct")),
        )
        succeed(
            *("export", self.saves, "--bundle", bundle),
            *("-o", self.path("later")),
        )
        self.assertEqual(
            self.weights_of(self.path("direct")),
            self.weights_of(self.path("later")),
        )


class Damaged(ScratchCase):
    @classmethod
    def setUpClass(cls):
        maker = Resume()
        maker.setUp()
        cls.addClassCleanup(maker.doCleanups)
        cls.bundle = maker.compile("job", ds_config(4), *LENGTH)
        cls.data = maker.data
        maker.train(cls.bundle, cls.data, "--steps", 2, "--save", maker.saves)
        cls.whole = maker.saves

    def setUp(self):
        super().setUp()
        self.saves = self.path("saves")
        shutil.copytree(self.whole, self.saves)

    def check_refused(self, *says):
        self.refuse(
            1,
            *("train", self.bundle, "--data", self.data, "--steps", 3),
            *("--resume", self.saves),
            says=("ciuicc: error:", *says),
        )

    # Undamaged it resumes: what is refused below is refused for the damage.
    def test_whole(self):
        self.train(
            self.bundle, self.data, "--steps", 3, "--resume", self.saves
        )

    # Each file of a checkpoint cut to half, empty, or gone.
    def test_truncated(self):
        for file in sorted((self.saves / "step-2").iterdir()):
            content = file.read_bytes()
            # All of it but the last brace and a newline, half, ...
            for kept in (len(content) - 2, len(content) // 2, 7, 0, None):
                with self.subTest(f"{file.name} {kept}"):
                    if kept is None:
                        file.unlink()
                    else:
                        file.write_bytes(content[:kept])
                    self.check_refused(file.name)
                file.write_bytes(content)

    # Headers and counters that are not what they should be.
    def test_hostile(self):
        step = self.saves / "step-2"
        state = json.loads((step / "state.json").read_text())
        file = step / state["tensors"][0]["file"]
        content = file.read_bytes()
        for damage in (
            b"\xff" * 8 + content[8:],  # A header of 2^64 - 1 bytes.
            content[:8] + b"x" + content[9:],
            content.replace(b'"F32"', b'"F99"', 1),
            content.replace(b'"F32"', b'"F64"', 1),
        ):
            file.write_bytes(damage)
            self.check_refused(file.name)
        file.write_bytes(content)

        def changed(**changes):
            return json.dumps({**state, **changes})

        for text, says in (
            ("{", "state.json"),
            ("[]", "state.json"),
            (changed(format="tarball"), "state.json"),
            (changed(version=99), "version"),
            (changed(step=-1), "step"),
            (changed(step="two"), "step"),
            (changed(fingerprint="0123"), "model"),
            (
                changed(tensors=state["tensors"][1:]),
                state["tensors"][0]["name"],
            ),
            (changed(tensors=7), "tensors"),
        ):
            (step / "state.json").write_text(text)
            with self.subTest(text[:60]):
                self.check_refused(says)
        first = dict(state["tensors"][0], file="../../../text.txt")
        (step / "state.json").write_text(
            changed(tensors=[first, *state["tensors"][1:]])
        )
        self.check_refused("../../../text.txt")

    # A byte that changed on the disk is noticed, and its file named.
    def test_damaged(self):
        (file,) = (self.saves / "step-2").glob("exp_avg-*")
        content = bytearray(file.read_bytes())
        content[len(content) // 2] ^= 16
        file.write_bytes(content)
        self.check_refused(file.name, "is damaged")

    # `latest` must name a checkpoint beside it; without it a folder is none.
    def test_latest(self):
        latest = self.saves / "latest"
        for text in (
            "step-9\n",
            "",
            "../saves/step-2\n",
            "\0" * 100,
            "step-2x",
        ):
            latest.write_text(text)
            with self.subTest(repr(text)):
                self.check_refused("latest")
        latest.unlink()
        self.check_refused(str(self.saves))
        # A checkpoint's own folder needs no `latest`.
        self.train(
            *(self.bundle, self.data, "--steps", 3),
            *("--resume", self.saves / "step-2"),
        )

    # A folder that is not there is named.
    def test_absent(self):
        shutil.rmtree(self.saves)
        self.check_refused(str(self.saves))

    # An interrupted save leaves `.saving`, which neither disturbs nor stays.
    def test_leftover(self):
        leftover = self.saves / ".saving"
        leftover.mkdir()
        (leftover / "parameter-00001-of-00001.safetensors").write_bytes(b"half")
        self.train(
            *(self.bundle, self.data, "--steps", 3),
            *("--resume", self.saves, "--save", self.saves),
        )
        self.assertEqual(latest_step(self.saves), 3)
        self.assertFalse(leftover.exists())


if __name__ == "__main__":
    unittest.main()
