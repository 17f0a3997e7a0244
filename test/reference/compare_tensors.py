#!/usr/bin/env python3
"""Compares the tensors of two safetensors files.

  python3 compare_tensors.py GOT REFERENCE [--tolerance 1e-5]
      [--prefix grad.] [--only NAME]... [--subset]

Each tensor of REFERENCE must be in GOT, under its name with --prefix before
it, with the same number of elements and ||got - ref|| <= tolerance * ||ref||;
shapes may differ in extents of 1 only. --only takes the named tensors of
REFERENCE; --subset takes those that GOT has, at least one. Types may
differ. Needs nothing but Python. Status 1: they differ; status 2: a file or
an option is wrong.
"""

import argparse
import array
import json
import math
import struct
import sys

# Safetensors types: bytes an element, and how array reads them.
TYPES = {
    "F64": (8, "d"),
    "F32": (4, "f"),
    "F16": (2, None),
    "BF16": (2, None),
    "I64": (8, "q"),
    "I32": (4, "i"),
    "I16": (2, "h"),
    "I8": (1, "b"),
    "U8": (1, "B"),
    "BOOL": (1, "B"),
}


def refuse(message):
    print(f"compare_tensors: {message}", file=sys.stderr)
    raise SystemExit(2)


def decode(kind, data):
    size, code = TYPES[kind]
    if code:
        return array.array(code, data)
    if kind == "F16":
        return struct.unpack(f"<{len(data) // size}e", data)
    # bfloat16 is the upper half of a float32.
    halves = array.array("H", data)
    words = array.array("I", (half << 16 for half in halves))
    return array.array("f", words.tobytes())


class File:
    """A safetensors file; tensors are decoded when asked for."""

    def __init__(self, path):
        self.path = path
        try:
            with open(path, "rb") as file:
                content = file.read()
            length = struct.unpack("<Q", content[:8])[0]
            if length > len(content) - 8:
                refuse(f"{path}: header of {length} bytes in a shorter file")
            self.entries = json.loads(content[8 : 8 + length])
            self.entries.pop("__metadata__", None)
            self.data = content[8 + length :]
        except (OSError, ValueError, AttributeError, struct.error) as error:
            refuse(f"{path}: {error}")

    def shape(self, name):
        return list(self.entries[name]["shape"])

    def values(self, name):
        entry = self.entries[name]
        begin, end = entry["data_offsets"]
        if entry["dtype"] not in TYPES:
            refuse(f"{self.path}: '{name}' has type {entry['dtype']}")
        size = TYPES[entry["dtype"]][0] * math.prod(entry["shape"])
        if not (0 <= begin <= end <= len(self.data) and end - begin == size):
            refuse(
                f"{self.path}: '{name}' takes bytes {begin} to {end} of "
                f"{len(self.data)}, its shape {entry['shape']} needs {size}"
            )
        return decode(entry["dtype"], self.data[begin:end])


def squeeze(shape):
    return [extent for extent in shape if extent != 1]


def difference(got, reference):
    """||got - reference|| / ||reference||; absolute for a zero reference;
    infinite where a value is not finite."""
    delta = math.sqrt(math.fsum((a - b) ** 2 for a, b in zip(got, reference)))
    norm = math.sqrt(math.fsum(b * b for b in reference))
    result = delta / norm if norm else delta
    return result if math.isfinite(result) else math.inf


def compare(got, reference, name, prefix):
    """The relative difference of one tensor, or a text that says what is
    wrong."""
    key = prefix + name
    if key not in got.entries:
        return f"'{key}' is missing"
    if squeeze(got.shape(key)) != squeeze(reference.shape(name)):
        return (
            f"'{key}' has shape {got.shape(key)}, expected "
            f"{reference.shape(name)}"
        )
    try:
        return difference(got.values(key), reference.values(name))
    except (OverflowError, ValueError):
        return math.inf


def main():
    parser = argparse.ArgumentParser(
        description="Compare the tensors of two safetensors files."
    )
    parser.add_argument("got", metavar="GOT")
    parser.add_argument("reference", metavar="REFERENCE")
    parser.add_argument("--tolerance", type=float, default=1e-5)
    parser.add_argument("--prefix", default="", help="of the names in GOT")
    parser.add_argument("--only", action="append", metavar="NAME")
    parser.add_argument("--subset", action="store_true")
    arguments = parser.parse_args()

    got, reference = File(arguments.got), File(arguments.reference)
    names = arguments.only or sorted(reference.entries)
    for name in names:
        if name not in reference.entries:
            refuse(f"{arguments.reference}: has no tensor '{name}'")
    if arguments.subset:
        names = [n for n in names if arguments.prefix + n in got.entries]
    if not names:
        refuse("there are no tensors to compare")

    bad, worst = 0, (-1.0, "")
    for name in names:
        result = compare(got, reference, name, arguments.prefix)
        if isinstance(result, str):
            bad += 1
            print(f"DIFFERENT: {result}")
            continue
        worst = max(worst, (result, name))
        if not result <= arguments.tolerance:
            bad += 1
            print(f"DIFFERENT: '{name}' by {result:.3e}")
    print(
        f"{'DIFFERENT' if bad else 'ok'}: {len(names) - bad} of {len(names)} "
        f"tensors agree within {arguments.tolerance:.1e}; worst "
        f"{worst[0]:.3e}, '{worst[1]}'"
    )
    raise SystemExit(1 if bad else 0)


if __name__ == "__main__":
    main()
