#!/usr/bin/env python3
"""Runs every layout of layouts.py, one after the other, and compares its
losses with those of one device; the tests run a pairwise cover of them.

  CIUICC=build/bin/ciuicc python3 test/e2e/full_matrix.py [--every N]

Prints a line a layout and a summary; its status is 1 if any differs. --every 8
takes each eighth layout, in an order that mixes all choices."""

import argparse
import pathlib
import random
import tempfile

import layouts
from harness import worst_difference

TOLERANCE = 1e-5


def run(folder, data, layout, expected):
    """The layout's difference, or what went wrong."""
    try:
        losses = layouts.losses_in(folder, layout, data)
    except AssertionError as error:
        return float("inf"), str(error)
    difference = worst_difference(losses, expected)
    return difference, "ok" if difference <= TOLERANCE else "DIFFERENT"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--every", type=int, default=1, metavar="N")
    arguments = parser.parse_args()
    chosen = list(layouts.all_layouts())
    random.Random(1).shuffle(chosen)
    chosen = chosen[:: max(1, arguments.every)]
    failed, worst = [], 0.0
    with tempfile.TemporaryDirectory(prefix="ciuicc-matrix-") as name:
        folder = pathlib.Path(name)
        data = layouts.write_data(folder)
        expected = {
            model: layouts.losses_in(folder, layouts.plain(model), data)
            for model in layouts.CHOICES["model"]
        }
        for number, layout in enumerate(chosen, 1):
            difference, verdict = run(
                folder, data, layout, expected[layout["model"]]
            )
            print(
                f"{number}/{len(chosen)} {difference:.2e} {verdict} "
                f"{layouts.describe(layout)}",
                flush=True,
            )
            worst = max(worst, difference)
            if verdict != "ok":
                failed.append(layout)
    print(
        f"{len(chosen)} layouts, {len(failed)} failed, "
        f"largest relative difference {worst:.2e}"
    )
    for layout in failed:
        print(f"failed: {layouts.describe(layout)}")
    raise SystemExit(1 if failed else 0)


if __name__ == "__main__":
    main()
