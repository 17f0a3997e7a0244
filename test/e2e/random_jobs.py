#!/usr/bin/env python3
"""Makes random jobs and holds each to its word: it runs within its plan, in
exactly the planned bytes and not in one less, with the losses of the same job
that makes no room and of one device.

  CIUICC=build/bin/ciuicc python3 test/e2e/random_jobs.py [--seeds 0 100]

Prints a line a job; its status is 1 if any is wrong. --keep leaves the folder
of a wrong job, with the command that shows it."""

import argparse
import pathlib
import random
import shutil
import tempfile

import jobs


def check(seed, folder):
    """Raises jobs.Wrong if the seed's job is; returns what it was."""
    rng = random.Random(seed)
    job = jobs.make_job(rng)
    folder.mkdir(parents=True)
    (folder / "about.txt").write_text(repr(job), encoding="utf-8")
    data = jobs.write_data(folder / "data.tok", job, seed)
    command = jobs.write_job(folder, job)
    (folder / "command.txt").write_text(" ".join(command), encoding="utf-8")

    plan = jobs.compile_job(command, folder / "bundle")
    jobs.check_places(plan)
    jobs.check_limits(command, folder, plan)
    steps = jobs.train(folder / "bundle", data, folder / "log.jsonl")
    jobs.check_records(folder / "log.jsonl", plan)

    def run(name, other):
        made = folder / name
        made.mkdir()
        jobs.compile_job(jobs.write_job(made, other), made / "bundle")
        return jobs.train(made / "bundle", data, made / "log.jsonl")

    tolerance = jobs.TOLERANCE[job["precision"]]
    jobs.check_same(steps, run("same", jobs.without_room(job)))
    bundles = [folder / "bundle", folder / "same" / "bundle"]
    rng.shuffle(bundles)
    jobs.check_resume(*bundles, data, folder / "resumed", steps)
    alone = run("alone", jobs.alone(job))
    jobs.check_near(steps, alone, tolerance)
    said = check_fit(rng, job, folder / "free", data, alone, tolerance)
    return f"{jobs.describe(job)} {said}"


def check_fit(rng, job, folder, data, alone, tolerance):
    """The same job with all free to choose, in less memory than it takes."""
    folder.mkdir()
    command = jobs.free_job(folder, job)
    plan = jobs.compile_job(command, folder / "bundle", "--no-build")
    share = rng.uniform(0.3, 1)
    limit = int(share * plan["device_arena_bytes"])
    bundle = jobs.check_fit(command, folder, plan, limit)
    nearest = jobs.check_nearest(command, folder, limit)
    if bundle:
        steps = jobs.train(bundle, data, folder / "log.jsonl")
        jobs.check_near(steps, alone, tolerance)
    return (
        f"share={share:.3} {'fits' if bundle else 'refused'}, "
        f"{nearest} nearest"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, nargs=2, default=[0, 100],
                        metavar=("FIRST", "END"))
    parser.add_argument("--keep", metavar="FOLDER")
    options = parser.parse_args()
    wrong = []
    with tempfile.TemporaryDirectory(prefix="ciuicc-jobs-") as scratch:
        for seed in range(*options.seeds):
            folder = pathlib.Path(scratch) / str(seed)
            try:
                print(f"seed {seed}: {check(seed, folder)}", flush=True)
            except jobs.Wrong as error:
                job = jobs.make_job(random.Random(seed))
                print(f"seed {seed} IS WRONG: {jobs.describe(job)}\n{error}",
                      flush=True)
                wrong.append(seed)
                if options.keep:
                    shutil.copytree(
                        folder, pathlib.Path(options.keep) / str(seed),
                        dirs_exist_ok=True,
                    )
            shutil.rmtree(folder)
    print(f"{options.seeds[1] - options.seeds[0]} jobs, {len(wrong)} wrong")
    raise SystemExit(1 if wrong else 0)


if __name__ == "__main__":
    main()
