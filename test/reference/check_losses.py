#!/usr/bin/env python3
"""Compares the losses of a run's log with a training reference.

  python3 check_losses.py LOG.jsonl training.tiny-llama.json
      [--run float64] [--steps 20] [--tolerance 1e-4]
      [--grad-norm-tolerance 1e-3]
  python3 check_losses.py LOG.jsonl LOG.jsonl|REFERENCE.json
      --mean-of-last 10 --steps 50 --relative-tolerance 0.02

The first form wants |loss - reference| <= tolerance in every step, and, when
asked, gradient norms that agree relative to the reference. The second compares
the mean of the last losses. Either side may be a log (one JSON object a line
with `step` and `loss`; other lines, such as those of a validation, are left
out) or a reference file. Needs nothing but Python. Status 1: they differ;
status 2: a file or an option is wrong.
"""

import argparse
import json
import math
import sys


def refuse(message):
    print(f"check_losses: {message}", file=sys.stderr)
    raise SystemExit(2)


def read_log(path, lines):
    """The records of a log, one a step, in order and without gaps."""
    records = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except ValueError as error:
            refuse(f"{path}:{number}: {error}")
        if not isinstance(record, dict):
            refuse(f"{path}:{number}: is not an object")
        if "step" not in record or "loss" not in record:
            continue
        if records and record["step"] != records[-1]["step"] + 1:
            refuse(
                f"{path}:{number}: step {record['step']} follows step "
                f"{records[-1]['step']}"
            )
        records.append(record)
    return records


def read_records(path, run):
    """The records of a reference file's run, or of a log."""
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except (OSError, UnicodeDecodeError) as error:
        refuse(f"{path}: {error}")
    try:
        whole = json.loads(text)
    except ValueError:
        whole = None
    if not (isinstance(whole, dict) and "runs" in whole):
        return read_log(path, text.splitlines())
    if run not in whole["runs"]:
        refuse(f"{path}: has no run '{run}', only {sorted(whole['runs'])}")
    return whole["runs"][run]


def number(record, key, path):
    value = record.get(key)
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        refuse(f"{path}: a record has {key} = {value!r}, not a number")
    return float(value)


def column(records, key, path, steps):
    if len(records) < steps:
        refuse(f"{path}: has {len(records)} steps, expected {steps}")
    return [number(record, key, path) for record in records[:steps]]


def worst(got, expected, relative):
    """(difference, step, got, expected) of the worst step. A value that is
    not finite is infinitely wrong."""
    differences = []
    for step, (a, b) in enumerate(zip(got, expected)):
        difference = abs(a - b) / (abs(b) if relative else 1.0)
        if not math.isfinite(difference):
            difference = math.inf
        differences.append((difference, step, a, b))
    return max(differences)


def report(what, difference, tolerance, detail):
    good = difference <= tolerance
    print(
        f"{'ok' if good else 'DIFFERENT'}: {what} differs by "
        f"{difference:.3e} (tolerance {tolerance:.1e}) {detail}"
    )
    return good


def check_steps(key, got, expected, paths, steps, tolerance, relative):
    a = column(got, key, paths[0], steps)
    b = column(expected, key, paths[1], steps)
    difference, step, x, y = worst(a, b, relative)
    return report(
        key,
        difference,
        tolerance,
        f"at worst, in step {step + 1} of {steps}: {x!r}, expected {y!r}",
    )


def check_means(got, expected, paths, steps, last, tolerance):
    a = sum(column(got, "loss", paths[0], steps)[-last:]) / last
    b = sum(column(expected, "loss", paths[1], steps)[-last:]) / last
    return report(
        f"mean loss of the last {last} of {steps} steps",
        worst([a], [b], relative=True)[0],
        tolerance,
        f"of the reference: {a!r}, expected {b!r}",
    )


def main():
    parser = argparse.ArgumentParser(
        description="Compare the losses of a run's log with a reference."
    )
    parser.add_argument("log", metavar="LOG.jsonl")
    parser.add_argument("reference", metavar="REFERENCE.json")
    parser.add_argument("--run", default="float64")
    parser.add_argument("--steps", type=int, help="default: all of both")
    parser.add_argument("--tolerance", type=float, default=1e-4)
    parser.add_argument("--grad-norm-tolerance", type=float, metavar="REL")
    parser.add_argument("--mean-of-last", type=int, metavar="N")
    parser.add_argument("--relative-tolerance", type=float, default=0.02)
    arguments = parser.parse_args()

    paths = (arguments.log, arguments.reference)
    got, expected = (read_records(path, arguments.run) for path in paths)
    steps = arguments.steps
    if steps is None:
        steps = min(len(got), len(expected))
    if steps < 1:
        refuse("there are no steps to compare")
    if arguments.mean_of_last is not None:
        last = arguments.mean_of_last
        if not 1 <= last <= steps:
            refuse(f"--mean-of-last {last}: expected 1 to {steps}")
        good = check_means(
            got, expected, paths, steps, last, arguments.relative_tolerance
        )
    else:
        good = check_steps(
            "loss", got, expected, paths, steps, arguments.tolerance, False
        )
        if arguments.grad_norm_tolerance is not None:
            good &= check_steps(
                "grad_norm",
                got,
                expected,
                paths,
                steps,
                arguments.grad_norm_tolerance,
                True,
            )
    raise SystemExit(0 if good else 1)


if __name__ == "__main__":
    main()
