#!/usr/bin/env python3
"""Tests of compare_tensors.py and check_losses.py, and that the committed
references fit together. Needs nothing but Python."""

import array
import json
import math
import pathlib
import struct
import subprocess
import sys
import tempfile
import unittest

import compare_tensors

HERE = pathlib.Path(__file__).resolve().parent


def write_safetensors(path, tensors):
    """`tensors`: name -> (dtype, shape, bytes)."""
    header, data = {}, b""
    for name, (kind, shape, content) in tensors.items():
        header[name] = {
            "dtype": kind,
            "shape": shape,
            "data_offsets": [len(data), len(data) + len(content)],
        }
        data += content
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def doubles(*values):
    return array.array("d", values).tobytes()


def floats(*values):
    return array.array("f", values).tobytes()


class ScratchCase(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.scratch = pathlib.Path(scratch.name)

    def run_script(self, script, *arguments):
        return subprocess.run(
            [sys.executable, HERE / script, *map(str, arguments)],
            capture_output=True,
            text=True,
            check=False,
        )


class CompareTensors(ScratchCase):
    def compare(self, got, reference, *options):
        paths = self.scratch / "got", self.scratch / "reference"
        write_safetensors(paths[0], got)
        write_safetensors(paths[1], reference)
        return self.run_script("compare_tensors.py", *paths, *options)

    # The difference is relative to the reference's norm over all elements.
    def test_takes_what_is_within_the_tolerance_and_no_more(self):
        reference = {"w": ("F64", [2], doubles(3.0, 4.0))}
        near = {"w": ("F64", [2], doubles(3.0, 4.0 + 4e-5))}
        result = self.compare(near, reference, "--tolerance", "1e-5")
        self.assertEqual(result.returncode, 0, result.stdout)
        far = {"w": ("F64", [2], doubles(3.0, 4.0 + 6e-5))}
        result = self.compare(far, reference, "--tolerance", "1e-5")
        self.assertEqual(result.returncode, 1)
        self.assertIn("'w' by 1.2", result.stdout)

    # All floating types decode to the value that they stand for.
    def test_compares_across_types(self):
        reference = {"w": ("F64", [3], doubles(1.0, -2.5, 0.125))}
        for kind, data in (
            ("F32", floats(1.0, -2.5, 0.125)),
            ("F16", struct.pack("<3e", 1.0, -2.5, 0.125)),
            ("BF16", struct.pack("<3H", 0x3F80, 0xC020, 0x3E00)),
        ):
            result = self.compare(
                {"w": (kind, [3], data)}, reference, "--tolerance", "0"
            )
            self.assertEqual(result.returncode, 0, kind + result.stdout)

    # A NaN or an infinity is never close to anything.
    def test_refuses_what_is_not_finite(self):
        reference = {"w": ("F64", [1], doubles(1.0))}
        for value in (math.nan, math.inf):
            result = self.compare(
                {"w": ("F64", [1], doubles(value))},
                reference,
                "--tolerance",
                "1e9",
            )
            self.assertEqual(result.returncode, 1)

    # A tensor that is missing under its prefix, or has another shape, is
    # named.
    def test_names_missing_and_misshapen_tensors(self):
        reference = {"w": ("F32", [2], floats(1.0, 2.0))}
        result = self.compare(reference, reference, "--prefix", "grad.")
        self.assertEqual(result.returncode, 1)
        self.assertIn("'grad.w' is missing", result.stdout)
        other = {"w": ("F32", [1], floats(1.0))}
        result = self.compare(other, reference)
        self.assertEqual(result.returncode, 1)
        self.assertIn("'w' has shape [1], expected [2]", result.stdout)

    # A comparison of nothing is an error, not a success.
    def test_refuses_to_compare_nothing(self):
        reference = {"w": ("F32", [1], floats(1.0))}
        got = {"v": ("F32", [1], floats(1.0))}
        result = self.compare(got, reference, "--subset")
        self.assertEqual(result.returncode, 2)

    # Damaged files end in a message, not in a traceback.
    def test_refuses_damaged_files(self):
        good = self.scratch / "good"
        write_safetensors(good, {"w": ("F32", [1], floats(1.0))})
        content = good.read_bytes()
        for damaged in (b"", content[:4], content[:20], content[:-1]):
            path = self.scratch / "damaged"
            path.write_bytes(damaged)
            result = self.run_script("compare_tensors.py", path, good)
            self.assertEqual(result.returncode, 2, result.stderr)
            self.assertNotIn("Traceback", result.stderr)


class CheckLosses(ScratchCase):
    def check(self, losses, reference, *options, first_step=1):
        log = self.scratch / "log.jsonl"
        lines = [
            json.dumps({"step": first_step + i, "loss": loss})
            for i, loss in enumerate(losses)
        ]
        lines.insert(1, json.dumps({"validation_loss": 1.0}))
        log.write_text("\n".join(lines) + "\n")
        path = self.scratch / "reference.json"
        records = [{"loss": loss} for loss in reference]
        path.write_text(json.dumps({"runs": {"float64": records}}))
        return self.run_script("check_losses.py", log, path, *options)

    # The worst step decides, and the message says which it was.
    def test_finds_the_worst_step(self):
        result = self.check([5.0, 4.00009], [5.0, 4.0])
        self.assertEqual(result.returncode, 0, result.stdout)
        result = self.check([5.0, 4.0, 3.0002], [5.0, 4.00009, 3.0])
        self.assertEqual(result.returncode, 1)
        self.assertIn("step 3 of 3", result.stdout)

    # A loss that is not a number is wrong wherever it stands.
    def test_refuses_nan(self):
        result = self.check([math.nan, 4.0], [5.0, 4.0])
        self.assertEqual(result.returncode, 1)

    # A run that stopped early is not a run that agreed.
    def test_refuses_a_short_log(self):
        result = self.check([5.0], [5.0, 4.0], "--steps", "2")
        self.assertEqual(result.returncode, 2)
        self.assertIn("has 1 steps, expected 2", result.stderr)

    # Means are compared over the last steps only, relative to the reference.
    def test_compares_means(self):
        options = ("--mean-of-last", "2", "--relative-tolerance", "0.02")
        result = self.check([9.0, 4.0, 4.1], [5.0, 4.1, 4.0], *options)
        self.assertEqual(result.returncode, 0, result.stdout)
        result = self.check([5.0, 4.2, 4.2], [5.0, 4.1, 4.0], *options)
        self.assertEqual(result.returncode, 1)

    # A step that is left out would shift all that follow.
    def test_refuses_gaps(self):
        log = self.scratch / "log.jsonl"
        log.write_text('{"step":1,"loss":5}\n{"step":3,"loss":4}\n')
        result = self.run_script("check_losses.py", log, log)
        self.assertEqual(result.returncode, 2)
        self.assertIn("step 3 follows step 1", result.stderr)


class References(unittest.TestCase):
    # The loss is the mean over labelled tokens, and the gradients belong to
    # the tensors of the model's file, one each.
    def test_files_fit_together(self):
        summary = json.loads((HERE / "references.json").read_text())
        models = sorted(set(summary) - {"versions"})
        self.assertEqual(len(models), 4)
        for model in models:
            outputs, gradients, inputs, weights = (
                compare_tensors.File(HERE / path)
                for path in (
                    f"{model}.outputs.safetensors",
                    f"{model}.grads.safetensors",
                    f"{model}.inputs.safetensors",
                    f"models/{model}/model.safetensors",
                )
            )
            labels = inputs.values("labels")
            labelled = sum(label != -100 for label in labels)
            mean = math.fsum(outputs.values("token_loss")) / labelled
            self.assertAlmostEqual(mean, outputs.values("loss")[0], 12)
            self.assertAlmostEqual(mean, summary[model]["loss"], 12)
            self.assertEqual(sorted(gradients.entries), sorted(weights.entries))
            for name in weights.entries:
                self.assertEqual(gradients.shape(name), weights.shape(name))

    # Labels are the tokens one place to the left, except where masked.
    def test_labels_are_shifted(self):
        inputs = compare_tensors.File(HERE / "training.inputs.safetensors")
        stream = inputs.values("stream")
        self.assertEqual(inputs.values("tokens"), stream[:-1])
        self.assertEqual(inputs.values("labels"), stream[1:])
        masked = inputs.values("masked_labels")
        for label, kept in zip(inputs.values("labels"), masked):
            self.assertIn(kept, (label, -100))


if __name__ == "__main__":
    unittest.main()
