"""What the end-to-end tests share: running ciuicc in a scratch folder, writing
its inputs, reading its outputs. Needs nothing but Python.

The command is $CIUICC, or build/bin/ciuicc of this repository."""

import array
import json
import os
import pathlib
import random
import struct
import subprocess
import tempfile
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
REFERENCE = HERE.parent / "reference"
MODELS = REFERENCE / "models"
CIUICC = os.environ.get("CIUICC", str(ROOT / "build" / "bin" / "ciuicc"))

# Fields of a step's record that tell the time and not the training.
TIMES = ("tokens_per_s", "step_ms", "peak_share", "seconds_left")


class Outcome:
    """A finished command: code, output and error text."""

    def __init__(self, arguments, process):
        self.arguments = arguments
        self.code = process.returncode
        self.out = process.stdout
        self.err = process.stderr

    def __str__(self):
        return (
            f"{' '.join(self.arguments)}\nended with {self.code}\n"
            f"{self.out}{self.err}"
        )


def ciuicc(*arguments, cwd=None, environment=None):
    """Runs the command to its end. A test that hangs fails by ctest's limit."""
    command = [CIUICC, *map(str, arguments)]
    process = subprocess.run(
        command,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
        cwd=cwd,
        env={**os.environ, **(environment or {})},
    )
    return Outcome(command, process)


def start_ciuicc(*arguments):
    """Starts the command and returns its process."""
    return subprocess.Popen(
        [CIUICC, *map(str, arguments)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        # A run that is interrupted must not take the test with it.
        start_new_session=True,
    )


def files_held(pid, folder):
    """Ways to open the files of states in a folder that a process has open,
    which have no name any more."""
    held = []
    for link in pathlib.Path(f"/proc/{pid}/fd").iterdir():
        try:
            if os.readlink(link).startswith(f"{folder}/.ciuicc-"):
                held.append(link)
        except FileNotFoundError:
            pass  # Closed meanwhile.
    return held


def cut_files(process, folder, size):
    """Makes those files shorter until the process, which then reads what is not
    there, has ended. Once is not enough: between a read and the write after it
    nothing is missed."""
    assert files_held(process.pid, folder), f"no files in {folder}"
    end = time.monotonic() + 300
    while process.poll() is None and time.monotonic() < end:
        try:
            for file in files_held(process.pid, folder):
                os.truncate(file, size)
        except OSError:
            pass  # It is ending already.
        time.sleep(0.01)


def succeed(*arguments, **options):
    """Runs the command, which must not fail."""
    outcome = ciuicc(*arguments, **options)
    if outcome.code != 0:
        raise AssertionError(str(outcome))
    return outcome


#
# Inputs
#


def ds_config(batch, stage=0, **changes):
    """A DeepSpeed configuration of a short AdamW run, as a dictionary.

    Keyword arguments replace top-level keys, None leaves one out; `zero` is
    merged into zero_optimization."""
    zero = {"stage": stage, **changes.pop("zero", {})}
    settings = {
        "train_batch_size": batch,
        "gradient_clipping": 1.0,
        "optimizer": {
            "type": "AdamW",
            "params": {
                "lr": 1e-3,
                "betas": [0.9, 0.999],
                "eps": 1e-8,
                "weight_decay": 0.01,
            },
        },
        "zero_optimization": zero,
        **changes,
    }
    return {key: value for key, value in settings.items() if value is not None}


def write_json(path, value):
    path.write_text(json.dumps(value, indent=1), encoding="utf-8")
    return path


def write_tokens(path, tokens, vocabulary=259, width=2):
    """A token file (runtime/data/TokenFile.h)."""
    content = array.array({2: "H", 4: "I"}[width], tokens).tobytes()
    path.write_bytes(
        struct.pack("<8sIIQQ", b"CIUICTOK", 1, width, vocabulary, len(tokens))
        + bytes(32)
        + content
    )
    return path


def write_text(path, lines=400, seed=1):
    """Lines of words that a model can learn something of: always the same."""
    random_words = random.Random(seed)
    words = "bucket gather shard reduce step loss token layer norm".split()
    text = ""
    for number in range(lines):
        chosen = random_words.choices(words, k=8)
        text += f"{number}: " + " ".join(chosen) + ".\n"
    path.write_text(text, encoding="utf-8")
    return path


#
# Outputs
#


def read_log(path):
    """All records of a JSON lines log."""
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def steps_of(path):
    """The records of steps, without what tells the time."""
    return [
        {key: value for key, value in record.items() if key not in TIMES}
        for record in read_log(path)
        if "loss" in record
    ]


def losses_of(path):
    return [record["loss"] for record in steps_of(path)]


def read_safetensors(path):
    """name -> (dtype, shape, bytes)."""
    content = pathlib.Path(path).read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + length])
    header.pop("__metadata__", None)
    data = content[8 + length :]
    return {
        name: (
            entry["dtype"],
            tuple(entry["shape"]),
            data[slice(*entry["data_offsets"])],
        )
        for name, entry in header.items()
    }


def write_safetensors(path, tensors):
    """`tensors`: name -> (dtype, shape, bytes)."""
    header, data = {}, b""
    for name, (dtype, shape, content) in tensors.items():
        offsets = [len(data), len(data) + len(content)]
        header[name] = {
            "dtype": dtype,
            "shape": list(shape),
            "data_offsets": offsets,
        }
        data += content
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)
    return path


def worst_difference(got, expected):
    """The largest |a - b| / |b| of two lists of the same length."""
    if len(got) != len(expected):
        return float("inf")
    return max(
        abs(a - b) / abs(b) if a is not None else float("inf")
        for a, b in zip(got, expected)
    )


def describe(path):
    """The names below a folder: what a refused command may not change."""
    return sorted(
        str(entry.relative_to(path)) for entry in pathlib.Path(path).rglob("*")
    )


class ScratchCase(unittest.TestCase):
    """A test case with a folder of its own."""

    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="ciuicc-e2e-")
        self.addCleanup(scratch.cleanup)
        self.scratch = pathlib.Path(scratch.name)

    def path(self, name):
        return self.scratch / name

    def compile(self, name, config, *options, model="tiny-llama"):
        """Compiles a job and returns its bundle."""
        file = write_json(self.path(f"{name}.json"), config)
        bundle = self.path(name)
        succeed(
            "compile",
            *("--model", MODELS / model, "--config", file, "-o", bundle),
            *options,
        )
        return bundle

    def train(self, bundle, data, *options, log="log.jsonl"):
        """Runs a job; returns its log."""
        file = self.path(log)
        succeed("train", bundle, "--data", data, "--log", file, *options)
        return file

    def refuse(self, code, *arguments, says=(), **options):
        """The command must end with `code` and name all that `says`."""
        outcome = ciuicc(*arguments, **options)
        self.assertEqual(outcome.code, code, str(outcome))
        for text in (says,) if isinstance(says, str) else says:
            self.assertIn(text, outcome.err, str(outcome))
        return outcome
