#!/usr/bin/env python3
"""What is wrong is said, with what, where and the exit code for who can mend
it: 1 the job, 2 the command line, 3 the machine, 4 training stopped itself.
Nothing partial is left behind."""

import json
import math
import os
import shutil
import struct
import subprocess
import unittest

from harness import (
    CIUICC,
    MODELS,
    ScratchCase,
    ciuicc,
    describe,
    ds_config,
    read_safetensors,
    steps_of,
    succeed,
    write_json,
    write_safetensors,
    write_text,
    write_tokens,
)

LLAMA = MODELS / "tiny-llama"

# What DeepSpeed users write: must train as it is.
USUAL = (
    '{"train_batch_size":128,"gradient_accumulation_steps":4,'
    '"fp16":{"enabled":true},"zero_optimization":{"stage":3,'
    '"offload_optimizer":{"device":"cpu","pin_memory":true}},'
    '"wall_clock_breakdown":true}'
)


class Usage(ScratchCase):
    # No, unknown or misspelt subcommands and options: 2.
    def test_command_lines(self):
        compiles = ("compile", "--model", LLAMA)
        for arguments in (
            (),
            ("compose",),
            ("compile",),
            ("train",),
            ("train", "job"),
            ("inspect",),
            (*compiles, "--colour", "red"),
            (*compiles, "-o", "job", "--devices", "0"),
            (*compiles, "-o", "job", "--devices", "many"),
            (*compiles, "-o", "job", "--recompute", "some"),
            (*compiles, "-o", "job", "--seq-len", "-1"),
            (*compiles, "-o", "job", "--device-memory", "40 apples"),
            (*compiles, "-o", "job", "--device-memory", "0"),
            (*compiles, "-o", "job", "--device-memory", "1e300GB"),
            (*compiles, "--stop-after", "lunch"),
            (*compiles, "--start-from", "shard"),
            (*compiles,),
            ("train", "job", "--data", "x", "--model", LLAMA),
            ("train", "job", "--data", "x", "--device-memory", "1GB"),
            ("train", "job", "--data", "x", "--validation", "1.5"),
            ("train", "job", "--data", "x", "--steps", "-3"),
            ("train", "job", "--data", "x", "--epochs", "nan"),
            ("train", "job", "--data", "x", "--epochs", "0"),
            ("train", "job", "--data", "x", "--collective-timeout", "0"),
            ("train", "job", "--data", "x", "--attention", "some"),
            ("train", "job", "--data", "x", "--shard-size", "0"),
            ("train", "job", "--data", "x", "--save-every", "5"),
            ("train", "job", "--data", "x", "--validate-every", "5"),
        ):
            with self.subTest(" ".join(map(str, arguments))):
                outcome = self.refuse(2, *arguments, cwd=self.scratch)
                self.assertTrue(outcome.err + outcome.out)
                self.assertEqual(describe(self.scratch), [])

    # Help is no error, and every subcommand's has an example.
    def test_help(self):
        self.assertIn("compile", succeed("--help").out)
        self.assertIn("ciuicc", succeed("--version").out)
        for command in ("compile", "train", "inspect", "config", "export"):
            self.assertIn("Example", succeed(command, "--help").out)


class Compile(ScratchCase):
    def refuse_compile(self, code, *options, model=LLAMA, config=None, says=()):
        """Compiling fails so, and leaves nothing."""
        before = describe(self.scratch)
        if config is not None:
            options += ("--config", config)
        outcome = self.refuse(
            *(code, "compile", "--model", model, "-o", self.path("job")),
            *options,
            says=says,
        )
        self.assertEqual(describe(self.scratch), before)
        return outcome

    def write(self, name, text):
        self.path(name).write_text(text)
        return self.path(name)

    # Files that are not there are named.
    def test_missing_files(self):
        self.refuse_compile(1, model="no/such", says="no/such")
        self.refuse_compile(1, model=self.scratch, says=str(self.scratch))
        self.refuse_compile(1, model="no.mlir", says="no.mlir")
        self.refuse_compile(1, config="none.json", says="none.json")

    # What is no JSON, or no configuration.
    def test_wrong_json(self):
        for text in ("", "{", "[1, 2]", '{"fp16": {"enabled": tr', "\0\1\2"):
            with self.subTest(repr(text)):
                ds = self.write("ds.json", text)
                if text != "":
                    self.refuse_compile(1, config=ds, says="ds.json")
                model = self.write("model.json", text)
                self.refuse_compile(1, model=model, says="model.json")

    # Wrong types and values, by the path of the key and what was found.
    def test_wrong_values(self):
        for change, says in (
            ({"train_batch_size": "many"}, ("train_batch_size", "many")),
            ({"train_batch_size": 0}, ("train_batch_size", "0")),
            ({"train_batch_size": -4}, ("train_batch_size", "-4")),
            ({"train_batch_size": 1.5}, ("train_batch_size", "1.5")),
            ({"fp16": {"enabled": "perhaps"}}, ("fp16", "enabled", "perhaps")),
            ({"fp16": {"enabeld": True}}, ("fp16", "enabeld")),
            ({"zero_optimization": {"stage": 4}}, ("stage", "4")),
            ({"optimizer": {"type": "Ranger"}}, ("optimizer", "Ranger")),
            ({"scheduler": {"type": "Moon"}}, ("scheduler", "Moon")),
            (
                {"fp16": {"enabled": True}, "bf16": {"enabled": True}},
                ("fp16", "bf16"),
            ),
        ):
            with self.subTest(json.dumps(change)):
                config = ds_config(4)
                config.update(change)
                ds = write_json(self.path("ds.json"), config)
                self.refuse_compile(1, config=ds, says=says)

    # Batch sizes that do not divide, with the numbers.
    def test_batches(self):
        for batch, devices, accumulation in ((10, 4, 1), (8, 4, 3), (2, 4, 1)):
            ds = write_json(
                self.path("ds.json"),
                ds_config(batch, gradient_accumulation_steps=accumulation),
            )
            self.refuse_compile(
                *(1, "--devices", devices),
                config=ds,
                says=(str(batch), str(devices)),
            )
        ds = write_json(
            self.path("ds.json"),
            ds_config(
                16,
                train_micro_batch_size_per_gpu=3,
                gradient_accumulation_steps=2,
            ),
        )
        self.refuse_compile(
            1, "--devices", 2, config=ds, says=("16", "3", "2")
        )
        ds = write_json(self.path("ds.json"), ds_config(None))
        self.refuse_compile(1, config=ds, says="train_batch_size")

    # Models that are not supported, and fields that would change what is
    # computed, by name.
    def test_models(self):
        good = json.loads((LLAMA / "config.json").read_text())
        for change, says in (
            ({"model_type": "gpt2"}, "gpt2"),
            ({"model_type": "mamba"}, "mamba"),
            ({"model_type": 7}, "model_type"),
            ({"hidden_act": "relu2"}, "hidden_act"),
            ({"hidden_size": "64"}, "hidden_size"),
            ({"hidden_size": 0}, "hidden_size"),
            ({"hidden_size": 1 << 40}, "hidden_size"),
            ({"num_key_value_heads": 3}, "num_key_value_heads"),
            ({"num_hidden_layers": -1}, "num_hidden_layers"),
            ({"vocab_size": 1.5}, "vocab_size"),
            ({"rope_scaling": {"rope_type": "yarn"}}, "yarn"),
            ({"attention_dropout": 0.1}, "attention_dropout"),
        ):
            with self.subTest(json.dumps(change)):
                model = write_json(self.path("m.json"), {**good, **change})
                ds = write_json(self.path("ds.json"), ds_config(4))
                self.refuse_compile(1, model=model, config=ds, says=says)
        for change in ({"model_type": None}, {"hidden_size": None}):
            fields = {**good, **change}
            fields = {k: v for k, v in fields.items() if v is not None}
            model = write_json(self.path("m.json"), fields)
            self.refuse_compile(
                1, model=model, config=ds, says=next(iter(change))
            )

    # A sequence that is longer than the model's positions.
    def test_sequence(self):
        ds = write_json(self.path("ds.json"), ds_config(4))
        self.refuse_compile(
            1, "--seq-len", 4096, config=ds, says=("4096", "128")
        )

    # IR that does not parse, with line and column.
    def test_ir(self):
        text = self.write("m.mlir", "module {\n  this is not IR\n}\n")
        self.refuse_compile(1, model=text, says="m.mlir:2:")

    # A folder that is no bundle is never replaced, a bundle is.
    def test_output(self):
        ds = write_json(self.path("ds.json"), ds_config(4))
        arguments = ("compile", "--model", LLAMA, "--config", ds)
        arguments += ("--seq-len", 16, "-o")
        precious = self.path("precious")
        precious.mkdir()
        (precious / "thesis.txt").write_text("years of work")
        self.refuse(3, *arguments, precious, says="precious")
        self.refuse(3, *arguments, precious / "thesis.txt", says="thesis.txt")
        self.refuse(3, *arguments, precious / "thesis.txt" / "job")
        self.assertEqual(describe(precious), ["thesis.txt"])
        self.path("empty").mkdir()
        # Who may read it is for the umask to say.
        mode = self.path("empty").stat().st_mode
        succeed(*arguments, self.path("empty"))
        succeed(*arguments, self.path("empty"))
        self.assertEqual(self.path("empty").stat().st_mode, mode)
        self.assertEqual((self.path("empty") / "lib").stat().st_mode, mode)
        names = {name.split("/")[0] for name in describe(self.scratch)}
        self.assertEqual(names, {"ds.json", "precious", "empty"})

    # A compiler that is missing or fails: 3, and no bundle.
    def test_compiler(self):
        ds = write_json(self.path("ds.json"), ds_config(4))
        for compiler in ("no-such-compiler", "false"):
            before = describe(self.scratch)
            outcome = ciuicc(
                *("compile", "--model", LLAMA, "--config", ds),
                *("--seq-len", 16, "-o", self.path("job")),
                environment={"CIUIC_CXX": compiler},
            )
            self.assertEqual(outcome.code, 3, str(outcome))
            self.assertIn(compiler, outcome.err)
            self.assertEqual(describe(self.scratch), before)


class Train(ScratchCase):
    @classmethod
    def setUpClass(cls):
        maker = ScratchCase()
        maker.setUp()
        cls.addClassCleanup(maker.doCleanups)
        cls.bundle = maker.compile("job", ds_config(4), "--seq-len", 32)
        cls.text = write_text(maker.path("text.txt"))

    def refuse_train(self, code, *options, data=None, says=()):
        """Training fails so, and leaves nothing."""
        before = describe(self.scratch)
        self.refuse(
            *(code, "train", self.bundle, "--data", data or self.text),
            *("--steps", 2, *options),
            says=says,
        )
        self.assertEqual(describe(self.scratch), before)

    # No bundle, or one whose library is none.
    def test_bundles(self):
        bundle = self.bundle
        try:
            for name in ("absent", "empty", "text", "library"):
                self.__class__.bundle = self.path(name)
                if name != "absent":
                    self.path(name).mkdir()
                if name in ("text", "library"):
                    manifest = "{" if name == "text" else "{}"
                    (self.path(name) / "manifest.json").write_text(manifest)
                if name == "library":
                    (self.path(name) / "lib").mkdir()
                    (self.path(name) / "lib" / "libjob.so").write_text("no ELF")
                with self.subTest(name):
                    self.refuse_train(1, says=str(self.path(name)))
        finally:
            self.__class__.bundle = bundle

    # A library of which the end is missing, and a pipe for a manifest.
    def test_damaged_bundles(self):
        good = self.bundle
        damaged = self.path("damaged")
        shutil.copytree(good, damaged)
        library = damaged / "lib" / "libjob.so"
        size = library.stat().st_size
        self.__class__.bundle = damaged
        try:
            for length in (size - 1, size // 2, 5000, 64, 63, 0):
                os.truncate(library, length)
                with self.subTest(length):
                    self.refuse_train(1, says="libjob.so")
            (damaged / "manifest.json").unlink()
            os.mkfifo(damaged / "manifest.json")
            self.refuse_train(1, says="manifest.json")
        finally:
            self.__class__.bundle = good

    # With standard output closed, what is printed lands in no other file.
    def test_closed_output(self):
        log = self.path("log.jsonl")
        process = subprocess.run(
            ["bash", "-c", 'exec "$@" >&-', "bash", CIUICC, "train"]
            + [self.bundle, "--data", self.text, "--steps", "2", "--log", log],
            check=False,
        )
        self.assertEqual(process.returncode, 0)
        for line in log.read_text().splitlines():
            self.assertIsInstance(json.loads(line), dict)
        self.assertEqual(len(steps_of(log)), 2)

    # Data that is absent, empty, too short, or no text.
    def test_data(self):
        self.refuse_train(1, data="no/such", says="no/such")
        for name, content in (
            ("empty", b""),
            ("short", b"Two words"),
            ("binary", b"\x7fELF\0\0\xff\xfe" * 100),
        ):
            path = self.path(name)
            path.write_bytes(content)
            self.refuse_train(1, data=path, says=name)
        folder = self.path("folder")
        folder.mkdir()
        self.refuse_train(1, data=folder, says=str(folder))

    # Token files that are truncated, or lie.
    def test_token_files(self):
        good = write_tokens(self.path("t.tok"), [5] * 200).read_bytes()

        def header(width=2, vocabulary=259, count=200, version=1):
            return struct.pack(
                "<8sIIQQ", b"CIUICTOK", version, width, vocabulary, count
            ) + bytes(32)

        data = good[64:]
        for content in (
            good[:8],
            good[:63],
            good[:64],
            good[:-1],
            good + b"\0",
            header(width=3) + data,
            header(version=2) + data,
            header(vocabulary=5) + data,
            header(vocabulary=1 << 40) + data,
            header(count=1 << 63) + data,
            header(count=(1 << 64) - 1) + data,
            header(count=0) + data,
            header() + b"\xff\xff" + data[2:],
        ):
            self.path("t.tok").write_bytes(content)
            with self.subTest(content[:70]):
                self.refuse_train(1, data=self.path("t.tok"), says="t.tok")
        text = self.path("both.txt")
        text.write_text("words " * 100)
        self.path("t.tok").write_bytes(good)
        self.refuse_train(
            1, "--data", text, data=self.path("t.tok"), says=("text", "token")
        )

    # Weights that are truncated, or lie about lengths, offsets and shapes.
    def test_safetensors(self):
        tensors = read_safetensors(LLAMA / "model.safetensors")
        folder = self.path("weights")
        folder.mkdir()
        file = folder / "model.safetensors"
        self.refuse_train(1, "--weights", folder, says=str(folder))
        write_safetensors(file, tensors)
        good = file.read_bytes()
        (length,) = struct.unpack("<Q", good[:8])
        header = json.loads(good[8 : 8 + length])
        name = "model.norm.weight"

        def changed(**fields):
            entry = {**header[name], **fields}
            text = json.dumps({**header, name: entry}).encode()
            return struct.pack("<Q", len(text)) + text + good[8 + length :]

        for content in (
            b"",
            good[:7],
            good[:100],
            good[:-1],
            good + b"\0",
            b"\xff" * 8 + good[8:],
            struct.pack("<Q", length - 1) + good[8:],
            good[:8] + b"[" + good[9:],
            changed(data_offsets=[-4, 252]),
            changed(data_offsets=[0, 1 << 62]),
            changed(data_offsets=[256, 0]),
            changed(data_offsets=[0, 256]),  # Another tensor's.
            changed(shape=[1 << 62, 1 << 62]),
            changed(shape=[-64]),
            changed(shape=[63]),
            changed(dtype="F12"),
            changed(shape="64"),
        ):
            file.write_bytes(content)
            with self.subTest(content[:20]):
                self.refuse_train(
                    1, "--weights", folder, says="model.safetensors"
                )
        file.unlink()
        for index in (
            "{",
            "{}",
            json.dumps({"weight_map": {name: "../../model.safetensors"}}),
            json.dumps({"weight_map": {name: "absent.safetensors"}}),
        ):
            (folder / "model.safetensors.index.json").write_text(index)
            with self.subTest(index):
                self.refuse_train(1, "--weights", folder, says=str(folder))

    # Outputs that cannot be written: the machine's fault. Found before the
    # first step where that is possible.
    def test_outputs(self):
        file = self.path("file")
        file.write_text("no folder")
        for option in ("--save", "--export", "--log"):
            with self.subTest(option):
                self.refuse_train(3, option, file / "x", says=str(file))
        # An export's place is looked at before the training, not after it.
        outcome = self.refuse(
            *(1, "train", self.bundle, "--data", self.text, "--steps", 2),
            *("--export", file),
            says="is not a folder",
        )
        self.assertNotIn("step 1", outcome.out)
        self.refuse_train(3, "--log", "/dev/full", says="/dev/full")
        self.assertEqual(file.read_text(), "no folder")

    # A checkpoint that the user's limit on files does not let grow is an error
    # and no signal; nothing partial stays.
    def test_limit_of_files(self):
        folder = self.path("saves")
        process = subprocess.run(
            ["bash", "-c", 'ulimit -f 16; exec "$@"', "bash", CIUICC, "train"]
            + [self.bundle, "--data", self.text, "--steps", "1"]
            + ["--save", folder],
            check=False,
            capture_output=True,
            text=True,
        )
        self.assertEqual(process.returncode, 3, process.stderr)
        self.assertIn("File too large", process.stderr)
        self.assertIn(str(folder), process.stderr)
        self.assertFalse(any(folder.rglob("*")), describe(folder))

    # A loss that is not finite stops the run with 4: weights of 1e30.
    def test_not_finite(self):
        tensors = read_safetensors(LLAMA / "model.safetensors")
        name = "lm_head.weight"
        dtype, shape, _ = tensors[name]
        for value in (1e38, math.inf, math.nan):
            content = struct.pack("<f", value) * (shape[0] * shape[1])
            write_safetensors(
                self.path("model.safetensors"),
                {**tensors, name: (dtype, shape, content)},
            )
            with self.subTest(value):
                self.refuse_train(
                    *(4, "--weights", self.path("model.safetensors")),
                    says="not finite",
                )


class LossScale(ScratchCase):
    # Every step overflows: the scale falls to its minimum, the run stops with
    # 4, and the weights are as they were.
    def test_minimum(self):
        data = write_text(self.path("text.txt"))
        for devices, stage in ((1, 0), (4, 3)):
            bundle = self.compile(
                f"job{stage}",
                ds_config(
                    4,
                    stage,
                    fp16={
                        "enabled": True,
                        "initial_scale_power": 32,
                        "min_loss_scale": 2.0**30,
                        "hysteresis": 2,
                    },
                ),
                *("--devices", devices, "--seq-len", 32),
            )
            log = self.path(f"log{stage}")
            outcome = self.refuse(
                4,
                *("train", bundle, "--data", data, "--log", log),
                *("--steps", 20, "--save", self.path("saves")),
                says="minimum",
            )
            records = steps_of(log)
            # Hysteresis, two halvings, and the step that cannot halve.
            self.assertEqual(len(records), 4, str(outcome))
            self.assertTrue(all(r["skipped"] for r in records))
            # The log has nine digits.
            for record, scale in zip(records, (2.0**32, 2.0**31, 2.0**30)):
                self.assertAlmostEqual(record["loss_scale"] / scale, 1, 7)
            self.assertFalse((self.path("saves") / "latest").exists())

    # A scale that is too large at first falls until steps are applied.
    def test_recovers(self):
        data = write_text(self.path("text.txt"))
        bundle = self.compile(
            "job",
            ds_config(4, fp16={"enabled": True, "initial_scale_power": 24}),
            *("--seq-len", 32),
        )
        log = self.train(bundle, data, "--steps", 30)
        records = steps_of(log)
        self.assertTrue(records[0]["skipped"])
        self.assertFalse(records[-1]["skipped"])
        self.assertLess(records[-1]["loss"], records[0]["loss"])


class Usual(ScratchCase):
    # A DeepSpeed user's file trains as it is, on 8 devices.
    def test_trains(self):
        config = self.path("ds_config.json")
        config.write_text(USUAL)
        data = write_text(self.path("text.txt"))
        bundle = self.path("job")
        succeed(
            *("compile", "--model", LLAMA, "--config", config),
            *("--devices", 8, "--seq-len", 16, "-o", bundle),
        )
        log = self.path("log.jsonl")
        out = succeed(
            *("train", bundle, "--data", data, "--steps", 12, "--log", log)
        ).out
        losses = [r["loss"] for r in steps_of(log) if not r["skipped"]]
        self.assertGreater(len(losses), 8)
        self.assertLess(losses[-1], 0.97 * losses[0])
        for kind in "forward backward gather reduce h2d d2h adam".split():
            self.assertIn(kind, out)

    # In one command, too.
    def test_trains_in_one_command(self):
        config = self.path("ds_config.json")
        config.write_text(USUAL)
        data = write_text(self.path("text.txt"))
        succeed(
            *("train", "--model", LLAMA, "--config", config, "--devices", 8),
            *("--seq-len", 16, "--data", data, "--steps", 1),
            *("--export", self.path("out")),
        )
        exported, given = (
            {name: shape for name, (_, shape, _) in tensors.items()}
            for tensors in (
                read_safetensors(folder / "model.safetensors")
                for folder in (self.path("out"), LLAMA)
            )
        )
        self.assertEqual(exported, given)


if __name__ == "__main__":
    unittest.main()
