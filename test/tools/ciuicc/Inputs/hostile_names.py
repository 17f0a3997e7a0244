"""Gives a bundle's plan names that would run as script if a page let them."""
import json
import pathlib
import sys

bundle = pathlib.Path(sys.argv[1])
NAMES = ("</script><script>document.title='owned'</script>",
         "<img src=x onerror=\"document.title='owned'\">",
         "<!--<script>", "@SCRIPT@", "\u2028');document.title='owned';//")


def change(name, edit):
    path = bundle / name
    value = json.loads(path.read_text())
    edit(value)
    path.write_text(json.dumps(value))


def rename_buffers(plan):
    for name, row in zip(NAMES, plan["buffers"][-len(NAMES):]):
        renamed[row["name"]] = name
        row["name"] = name
    plan["buffers"][0]["holds"] = NAMES[1]


def rename_tasks(schedule):
    for tasks in schedule.values():
        for task in tasks:
            for view in task["views"]:
                view["buffer"] = renamed.get(view["buffer"], view["buffer"])
    for name, task in zip(NAMES, schedule["micro_first"]):
        task["name"] = name
        task["kind"] = name
        task["stream"] = name


renamed = {}
change("manifest.json", lambda manifest: manifest.update(model=NAMES[0]))
change("plan/memory.json", rename_buffers)
change("plan/schedule.json", rename_tasks)
