#!/usr/bin/env python3
"""Weights in and out: exported folders hold what Hugging Face's do, and train
on as the run that wrote them."""

import json
import unittest

from harness import (
    MODELS,
    ScratchCase,
    ds_config,
    losses_of,
    read_log,
    read_safetensors,
    steps_of,
    worst_difference,
    write_safetensors,
    write_text,
)

LENGTH = ("--seq-len", 32)
SHARDED = {
    "stage": 3,
    "zero": {
        "stage3_param_persistence_threshold": 0,
        "offload_optimizer": {"device": "cpu"},
        "offload_param": {"device": "cpu"},
    },
}


def shapes_of(tensors):
    return {name: shape for name, (_, shape, _) in tensors.items()}


def read_folder(folder):
    """All tensors of a folder of shards, and how many files they are in."""
    index = json.loads((folder / "model.safetensors.index.json").read_text())
    tensors = {}
    for file in sorted(set(index["weight_map"].values())):
        shard = read_safetensors(folder / file)
        for name in shard:
            assert index["weight_map"][name] == file, name
        tensors.update(shard)
    assert set(tensors) == set(index["weight_map"])
    return tensors, len(set(index["weight_map"].values()))


def write_folder(folder, tensors, model):
    """The tensors in two shards with their index, as the hub has them."""
    folder.mkdir()
    names = sorted(tensors)
    parts = names[::2], names[1::2]
    weight_map = {}
    for number, part in enumerate(parts, 1):
        file = f"model-0000{number}-of-00002.safetensors"
        write_safetensors(folder / file, {n: tensors[n] for n in part})
        weight_map.update({name: file for name in part})
    (folder / "config.json").write_text(
        (MODELS / model / "config.json").read_text()
    )
    (folder / "model.safetensors.index.json").write_text(
        json.dumps({"metadata": {}, "weight_map": weight_map})
    )
    return folder


class Export(ScratchCase):
    def setUp(self):
        super().setUp()
        self.data = write_text(self.path("text.txt"))

    def export(self, bundle, folder, *options):
        """Trains and exports; returns the log."""
        return self.train(
            *(bundle, self.data, "--export", folder),
            *options,
            log="export.jsonl",
        )

    # Weights that go in come out bit for bit, under the same names and in the
    # same shapes, whether sharded over devices or not.
    def test_round_trip(self):
        for model in ("tiny-llama", "tiny-qwen2"):
            for name, devices, config in (
                ("plain", 1, ds_config(4)),
                ("sharded", 4, ds_config(4, **SHARDED)),
                ("fp16", 2, ds_config(4, fp16={"enabled": True}, stage=2)),
            ):
                with self.subTest(f"{model} {name}"):
                    bundle = self.compile(
                        *(name, config, "--devices", devices, *LENGTH),
                        model=model,
                    )
                    folder = self.path(f"{name}-out")
                    self.export(
                        *(bundle, folder, "--steps", 0),
                        *("--weights", MODELS / model),
                    )
                    self.assertEqual(
                        read_safetensors(folder / "model.safetensors"),
                        read_safetensors(MODELS / model / "model.safetensors"),
                    )
                    config = json.loads((folder / "config.json").read_text())
                    given = json.loads(
                        (MODELS / model / "config.json").read_text()
                    )
                    self.assertEqual(config, given)

    # A run that starts from an exported folder continues the losses of the
    # run that wrote it: its validation loss at the end is the next one's.
    def test_train_on(self):
        held = ("--validation", 0.1)
        for precision in ({}, {"bf16": {"enabled": True}}):
            bundle = self.compile(
                *("job", ds_config(8, **SHARDED, **precision)),
                *("--devices", 2, *LENGTH),
            )
            folder = self.path("out")
            first = self.export(bundle, folder, "--steps", 8, *held)
            second = self.train(
                *(bundle, self.data, "--weights", folder, "--steps", 0, *held),
                log="again.jsonl",
            )
            before, after = (
                [
                    record["validation_loss"]
                    for record in read_log(log)
                    if "validation_loss" in record
                ]
                for log in (first, second)
            )
            self.assertEqual(before, after)
            self.assertEqual(len(before), 1)

    # 16-bit exports hold the rounded values and say so in config.json.
    def test_dtypes(self):
        bundle = self.compile("job", ds_config(4), *LENGTH)
        whole = read_safetensors(MODELS / "tiny-llama" / "model.safetensors")
        for option, dtype, torch in (
            ("bf16", "BF16", "bfloat16"),
            ("f16", "F16", "float16"),
        ):
            folder = self.path(option)
            self.export(
                *(bundle, folder, "--steps", 0, "--export-dtype", option),
                *("--weights", MODELS / "tiny-llama"),
            )
            tensors = read_safetensors(folder / "model.safetensors")
            self.assertEqual(shapes_of(tensors), shapes_of(whole))
            self.assertEqual({t[0] for t in tensors.values()}, {dtype})
            config = json.loads((folder / "config.json").read_text())
            self.assertEqual(config["torch_dtype"], torch)
            # And they are good weights: near the losses of the whole ones.
            near = self.train(
                *(bundle, self.data, "--weights", folder, "--steps", 2),
                log="near.jsonl",
            )
            exact = self.train(
                *(bundle, self.data, "--steps", 2),
                *("--weights", MODELS / "tiny-llama"),
                log="exact.jsonl",
            )
            self.assertLess(
                worst_difference(losses_of(near), losses_of(exact)), 2e-3
            )

    # An export in several files has an index, holds the same, and is read.
    def test_shards(self):
        bundle = self.compile("job", ds_config(4), *LENGTH)
        folder = self.path("out")
        self.export(
            *(bundle, folder, "--steps", 0, "--shard-size", "100kB"),
            *("--weights", MODELS / "tiny-llama"),
        )
        tensors, files = read_folder(folder)
        self.assertGreater(files, 3)
        given = MODELS / "tiny-llama" / "model.safetensors"
        self.assertEqual(tensors, read_safetensors(given))
        self.export(
            bundle, self.path("again"), "--steps", 0, "--weights", folder
        )
        self.assertEqual(
            tensors, read_safetensors(self.path("again") / "model.safetensors")
        )
        # A second export into the folder leaves no shard of the first.
        self.export(bundle, folder, "--steps", 0)
        self.assertEqual(
            sorted(file.name for file in folder.iterdir()),
            ["config.json", "model.safetensors"],
        )

    # `ciuicc train --model FOLDER` starts from the folder's weights, in one
    # file or several, as compile and train --weights do.
    def test_weights_of_the_model_folder(self):
        model = MODELS / "tiny-qwen2"
        shards = write_folder(
            self.path("shards"),
            read_safetensors(model / "model.safetensors"),
            "tiny-qwen2",
        )
        bundle = self.compile("job", ds_config(4), *LENGTH, model="tiny-qwen2")
        logs = [
            self.train(
                *(bundle, self.data, "--steps", 2, "--weights", shards),
                log="bundle.jsonl",
            )
        ]
        for folder in (model, shards):
            log = self.path("model.jsonl")
            self.refuse(
                0,
                *("train", "--model", folder),
                *("--config", self.path("job.json")),
                *("--data", self.data, "--steps", 2, "--log", log, *LENGTH),
            )
            self.assertEqual(steps_of(log), steps_of(logs[0]))

    # Weights that do not fit are refused by name, with both shapes.
    def test_weights_that_do_not_fit(self):
        bundle = self.compile("job", ds_config(4), *LENGTH)
        good = read_safetensors(MODELS / "tiny-llama" / "model.safetensors")
        name = "model.layers.1.mlp.up_proj.weight"
        missing = {n: t for n, t in good.items() if n != name}
        turned = {**good, name: (good[name][0], (64, 96), good[name][2])}
        integers = {**good, name: ("I64", (96, 32), good[name][2])}
        for number, (tensors, says) in enumerate(
            (
                (missing, (name,)),
                (turned, (name, "64", "96")),
                (integers, (name,)),
            )
        ):
            folder = write_folder(
                self.path(f"bad{number}"), tensors, "tiny-llama"
            )
            self.refuse(
                1,
                *("train", bundle, "--data", self.data, "--weights", folder),
                says=says,
            )


if __name__ == "__main__":
    unittest.main()
