"""Damages a bundle's plan in many ways; prints what inspect says of each.

damage_plan.py BUNDLE MEMORY SCHEDULE, the last two being the sound files.
"""
import copy
import json
import pathlib
import subprocess
import sys

bundle, memory, schedule = map(pathlib.Path, sys.argv[1:])
sound = {"memory": json.loads(memory.read_text()),
         "schedule": json.loads(schedule.read_text())}


def run(title, name, text):
    """What inspect says of the bundle whose plan/NAME.json is `text`."""
    for other, value in sound.items():
        content = text if other == name else json.dumps(value)
        (bundle / "plan" / (other + ".json")).write_text(content)
    result = subprocess.run(["ciuicc", "inspect", bundle, "memory"],
                            capture_output=True, text=True, check=False)
    message = result.stderr.strip().splitlines() or ["nothing"]
    print(f"{title}: {result.returncode}: {message[0]}")


def damage(title, name, change):
    value = copy.deepcopy(sound[name])
    change(value)
    run(title, name, json.dumps(value))


def transient(plan):
    """A buffer of a program."""
    return next(row for row in plan["buffers"] if "program" in row)


def put(path, value):
    """A change that stores `value` at a path of keys."""
    def change(plan):
        for key in path[:-1]:
            plan = plan[key]
        plan[path[-1]] = value
    return change


damage("no buffers", "memory", lambda plan: plan.pop("buffers"))
damage("buffers a number", "memory", put(["buffers"], 3))
damage("row a number", "memory", put(["buffers", 0], 3))
damage("negative bytes", "memory", put(["buffers", 0, "bytes"], -1))
damage("beyond the arena", "memory", put(["buffers", 0, "bytes"], 1 << 59))
damage("unknown arena", "memory", put(["buffers", 0, "arena"], "disk"))
damage("unknown program", "memory",
       lambda plan: transient(plan).update(program="other"))
damage("dead before live", "memory",
       lambda plan: transient(plan).update(first_task=3, last_task=2))
damage("twice", "memory",
       lambda plan: plan["buffers"][1].update(
           name=plan["buffers"][0]["name"]))
damage("later wait", "schedule", put(["micro_first", 0, "waits"], [5]))
damage("unknown buffer", "schedule",
       put(["micro_first", 0, "views", 0, "buffer"], "nothing"))
damage("chunks too large", "memory", put(["buckets", 0, "chunk"], 1 << 40))
damage("outside of the bucket", "memory",
       put(["parameters", 0, "at"], 1 << 40))
damage("phases a list", "memory", put(["phases"], []))
damage("a phase missing", "memory", lambda plan: plan["phases"].pop("resume"))
damage("not the sum", "memory", put(["phases", "step", "bytes"], 1))
damage("negative part", "memory",
       put(["phases", "start", "parts", 0, "bytes"], -1))
damage("no processes", "memory", put(["processes"], 0))
damage("escapes", "memory",
       put(["buffers", 0, "name"], "a\x1b[2Jb"))
damage("second escapes", "schedule",
       put(["micro_first", 0, "name"], "a\x9b2Jb"))
damage("program", "schedule", put(["micro\n"], []))
run("deep", "memory", "{\"buffers\": " + "[" * 100000 + "]" * 100000 + "}")
run("cut off", "memory", json.dumps(sound["memory"])[:-2])
run("a list", "memory", "[]")
