#!/usr/bin/env python3
"""Packs what bench/gpu/run.sh needs on a machine with a GPU.

  python3 bench/gpu/prepare.py [--ciuicc build/bin/ciuicc] [-o build/gpu-pack]

The folder holds the bundles of jobs.py (their sources; nothing is built), the
losses that the CPU target gives for the small ones, data, and the libraries
from this machine's Debian packages that a bundle's runner is built with. It
stays below 48 MiB, needs neither MLIR nor a network where it is used, and
runs where glibc is not older than here.
"""
import argparse
import json
import os
import pathlib
import random
import shutil
import struct
import subprocess
import sys

import jobs

LIMIT = 48 << 20
PACKAGES = ["libtbb-dev", "libtbb12", "libtbbbind-2-5", "libhwloc-dev",
            "libhwloc15", "nlohmann-json3-dev", "libcli11-dev", "libfmt-dev",
            "libxxhash-dev"]
# Never needed to build or to run the runner.
UNUSED = ("/doc/", "/man/", "libhwloc.a", "tbbmalloc", "libxxhash.a")


def run(command, **more):
    result = subprocess.run([str(part) for part in command], text=True,
                            capture_output=True, check=False, **more)
    if result.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\nfailed with "
                 f"{result.returncode}:\n{result.stdout}{result.stderr}")
    return result.stdout


def copy_packages(prefix):
    """The headers, libraries and CMake files of Debian's packages."""
    for package in PACKAGES:
        listed = subprocess.run(["dpkg", "-L", package], text=True,
                                capture_output=True, check=False)
        if listed.returncode != 0:
            print(f"no package {package}: left out", file=sys.stderr)
            continue
        for line in listed.stdout.splitlines():
            source = pathlib.Path(line)
            if not line.startswith(("/usr/include/", "/usr/lib/",
                                    "/usr/share/cmake", "/lib/")):
                continue
            if not source.is_file() or any(part in line for part in UNUSED):
                continue
            target = prefix / line.lstrip("/")
            target.parent.mkdir(parents=True, exist_ok=True)
            # Links become files: a copied folder may lose them.
            shutil.copyfile(source, target)


def write_tokens(path, vocabulary, count):
    """A token file of a source with structure: a random walk."""
    draw = random.Random(1)
    tokens, now = [], 0
    for _ in range(count):
        now = (now * 31 + draw.choice((1, 2, 3, 7))) % vocabulary
        tokens.append(now)
    with open(path, "wb") as file:
        file.write(struct.pack("<8sIIQQ32x", b"CIUICTOK", 1, 2, vocabulary,
                               count))
        file.write(struct.pack(f"<{count}H", *tokens))


def compile_job(options, folder, name, job, target):
    model, config, devices, sequence, _ = job
    work = folder / "jobs" / name
    work.mkdir(parents=True, exist_ok=True)
    (work / "config.json").write_text(json.dumps(model))
    (work / "ds_config.json").write_text(json.dumps(config))
    bundle = folder / ("bundles" if target == "cuda" else "cpu") / name
    command = [options.ciuicc, "compile", "--model", work / "config.json",
               "--config", work / "ds_config.json", "--devices", devices,
               "--seq-len", sequence, "-o", bundle]
    if target == "cuda":
        command += ["--target", "cuda", "--arch", options.arch, "--no-build"]
    print(run(command).strip().splitlines()[-1])
    return bundle


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ciuicc", default="build/bin/ciuicc")
    parser.add_argument("--arch", default="sm_80,sm_90a")
    parser.add_argument("-o", "--output", default="build/gpu-pack")
    options = parser.parse_args()
    folder = pathlib.Path(options.output)
    if folder.exists():
        if not (folder / "PACK").is_file():
            sys.exit(f"{folder} is there and is no pack; give another -o")
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    (folder / "PACK").write_text("made by bench/gpu/prepare.py\n")

    copy_packages(folder / "prefix")
    write_tokens(folder / "tiny.tok", 259, 200_000)
    write_tokens(folder / "large.tok", 32000, 2_000_000)
    (folder / "expected").mkdir()
    for name, job in jobs.CORRECTNESS.items():
        compile_job(options, folder, name, job, "cuda")
        bundle = compile_job(options, folder, name, job, "cpu")
        run([options.ciuicc, "train", bundle, "--data", folder / "tiny.tok",
             "--steps", job[4], "--seed", 1,
             "--log", folder / "expected" / f"{name}.jsonl"])
    shutil.rmtree(folder / "cpu")
    for name, job in jobs.SPEED.items():
        compile_job(options, folder, name, job, "cuda")
    # The dumps of a large model are most of its bundle, and for reading only.
    for ir in folder.glob("bundles/*/ir"):
        shutil.rmtree(ir)
    size = sum(file.stat().st_size for file in folder.rglob("*")
               if file.is_file())
    print(f"{folder}: {size / (1 << 20):.1f} MiB of {LIMIT >> 20}")
    if size > LIMIT:
        sys.exit("too large")


if __name__ == "__main__":
    os.chdir(pathlib.Path(__file__).resolve().parents[2])
    main()
