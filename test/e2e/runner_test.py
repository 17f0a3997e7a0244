"""The runner without the compiler, $CIUIC_TRAIN: the same runs as `ciuicc
train`, and what it refuses."""

import json
import os
import shutil
import subprocess
import unittest

from harness import (
    ROOT,
    Outcome,
    ScratchCase,
    ciuicc,
    describe,
    ds_config,
    steps_of,
    write_json,
    write_text,
)

RUNNER = os.environ.get("CIUIC_TRAIN",
                        str(ROOT / "build" / "bin" / "ciuic-train"))


def run(*arguments):
    command = [RUNNER, *map(str, arguments)]
    process = subprocess.run(command, capture_output=True, text=True,
                             check=False)
    return Outcome(command, process)


def options_of(text):
    """The names of options in a help text."""
    return {
        word.strip(",")
        for line in text.splitlines()
        for word in line.split()[:2]
        if word.startswith("--")
    }


class Runner(ScratchCase):
    def setUp(self):
        super().setUp()
        self.data = write_text(self.path("text.txt"))
        self.bundle = self.compile("job", ds_config(8, 2), "--devices", 2)

    def refused(self, code, *arguments, says=()):
        outcome = run(*arguments)
        self.assertEqual(outcome.code, code, str(outcome))
        for text in says:
            self.assertIn(text, outcome.err, str(outcome))

    # The same records and the same checkpoint as the compiler's command.
    def test_same_run(self):
        options = ("--steps", 3, "--seed", 4)
        theirs = self.train(
            self.bundle, self.data, *options, "--save", self.path("a")
        )
        log = self.path("runner.jsonl")
        outcome = run(
            *(self.bundle, "--data", self.data, "--log", log, *options),
            *("--save", self.path("b")),
        )
        self.assertEqual(outcome.code, 0, str(outcome))
        self.assertEqual(steps_of(log), steps_of(theirs))
        for file in (self.path("a") / "step-3").iterdir():
            with self.subTest(file.name):
                self.assertEqual(
                    file.read_bytes(),
                    (self.path("b") / "step-3" / file.name).read_bytes(),
                )

    # Each of its options is one of `ciuicc train`.
    def test_options(self):
        own = options_of(run("--help").out)
        self.assertIn("--collective-timeout", own)
        self.assertEqual(
            own - options_of(ciuicc("train", "--help").out), {"--version"}
        )

    # A wrong command line is 2, a wrong job 1, each with its reason.
    def test_refusals(self):
        self.refused(2, says=["bundle"])
        self.refused(2, self.bundle, says=["--data"])
        data = ("--data", self.data)
        self.refused(2, self.bundle, *data, "--epochs", "nan", says=["nan"])
        self.refused(2, self.bundle, *data, "--shard-size", "big", says=["big"])
        self.refused(1, self.path("none"), *data, says=["manifest.json"])
        self.refused(
            1,
            *(self.bundle, *data, "--share-device", "--tune"),
            says=["--share-device, --tune", "compiled for the CPU"],
        )

    # A bundle for CUDA devices is not run by what serves the CPU: the compiler
    # hands it to the bundle's own runner, which must be there.
    def test_bundle_of_another_target(self):
        other = self.path("other")
        shutil.copytree(self.bundle, other)
        manifest = json.loads((other / "manifest.json").read_text())
        write_json(other / "manifest.json", {**manifest, "target": "cuda"})
        before = describe(other)
        data = ("--data", self.data)
        outcome = self.refuse(1, "train", other, *data, says=["bin/train"])
        self.assertIn("cmake", outcome.err)
        self.assertEqual(describe(other), before)
        (other / "bin").mkdir()
        runner = other / "bin" / "train"
        runner.write_text('#!/bin/sh\necho "given: $@"\nexit 4\n')
        runner.chmod(0o755)
        outcome = ciuicc("train", other, *data, "--tune", "--steps", 7)
        self.assertEqual(outcome.code, 4, str(outcome))
        self.assertIn(
            f"given: {other} --data {self.data} --tune --steps 7", outcome.out
        )


if __name__ == "__main__":
    unittest.main()
