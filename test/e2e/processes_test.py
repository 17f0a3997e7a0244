"""Several processes train one job: the same bits as one process, and an end
that names who failed. Processes are started as torchrun starts them (RANK,
WORLD_SIZE, MASTER_ADDR, MASTER_PORT) and by mpirun, where there is one.

Runs the runner without the compiler, $CIUIC_TRAIN, and once `ciuicc train`."""

import os
import pathlib
import shutil
import signal
import socket
import subprocess
import time
import unittest

from harness import (
    CIUICC,
    ROOT,
    Outcome,
    ScratchCase,
    cut_files,
    ds_config,
    read_log,
    steps_of,
    write_text,
)

RUNNER = os.environ.get("CIUIC_TRAIN",
                        str(ROOT / "build" / "bin" / "ciuic-train"))
MPI_MODULE = pathlib.Path(RUNNER).parent.parent / "lib" / "libciuic_mpi.so"
HAS_MPI = bool(shutil.which("mpirun")) and MPI_MODULE.exists()
LIMIT = 300  # Seconds: a run that hangs fails.
LENGTH = 16
# A loopback address that no other process of the machine uses: a port that is
# free there stays free, whatever runs beside the tests.
OWN_HOST = (
    f"127.{1 + (os.getpid() >> 16) % 250}"
    f".{os.getpid() >> 8 & 255}.{os.getpid() & 255}"
)


def free_port():
    with socket.socket() as server:
        server.bind((OWN_HOST, 0))
        return server.getsockname()[1]


STARTED = []  # By the test that runs: it ends none before them.


def launch(command, environment=None):
    process = subprocess.Popen(
        command,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    STARTED.append(process)
    return process


def start(command, process, processes, port, **changes):
    """Starts one process with torchrun's environment."""
    environment = {
        **os.environ,
        "RANK": str(process),
        "WORLD_SIZE": str(processes),
        "MASTER_ADDR": OWN_HOST,
        "MASTER_PORT": str(port),
        **changes,
    }
    return launch(
        command, {k: v for k, v in environment.items() if v is not None}
    )


class OneOf(Outcome):
    """A process that ended, told with those that it ran with."""

    def __init__(self, command, process, out, err):
        super().__init__([str(part) for part in command], process)
        self.out, self.err = out, err
        self.together = [self]

    def __str__(self):
        return "\n".join(
            f"process {number}: {Outcome.__str__(outcome)}"
            for number, outcome in enumerate(self.together)
        )


def finish_all(commands, processes):
    """Waits for processes of one job; what each came to."""
    outcomes, hang = [], False
    for command, process in zip(commands, processes):
        try:
            out, err = process.communicate(timeout=LIMIT)
        except subprocess.TimeoutExpired:
            hang = True
            process.kill()
            out, err = process.communicate()
        outcomes.append(OneOf(command, process, out, err))
    for outcome in outcomes:
        outcome.together = outcomes
    if hang:
        raise AssertionError(f"hangs: {outcomes[0]}")
    return outcomes


def finish(command, process):
    """Waits for a process; what it came to."""
    return finish_all([command], [process])[0]


def run_all(commands, **changes):
    """Runs one command a process; the outcome of each."""
    port = free_port()
    started = [
        start(command, index, len(commands), port, **changes)
        for index, command in enumerate(commands)
    ]
    return finish_all(commands, started)


def start_mpi(command, processes):
    """Starts mpirun; its command and process."""
    environment = {
        **os.environ,
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    }
    whole = ["mpirun", "--oversubscribe", "-n", str(processes), *command]
    return whole, launch(whole, environment)


def run_mpi(command, processes):
    return finish(*start_mpi(command, processes))


def content(folder):
    """name -> bytes of all files below a folder."""
    return {
        str(file.relative_to(folder)): file.read_bytes()
        for file in sorted(pathlib.Path(folder).rglob("*"))
        if file.is_file()
    }


class Processes(ScratchCase):
    def setUp(self):
        super().setUp()
        self.data = write_text(self.path("text.txt"))
        self.addCleanup(self.end_all)

    @staticmethod
    def end_all():
        """No process outlives the test that started it, whatever it found."""
        for process in STARTED:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
        STARTED.clear()

    def bundle(self, stage, *options, devices=8, name="job", **changes):
        return self.compile(
            name,
            ds_config(32, stage, **changes),
            *("--devices", devices, "--seq-len", LENGTH, *options),
        )

    def command(self, bundle, name, *options, steps=6, runner=None):
        """A run that leaves its log and checkpoints under `name`."""
        return [
            *(runner or [RUNNER]),
            *map(
                str,
                (
                    *(bundle, "--data", self.data, "--steps", steps),
                    *("--log", self.path(f"{name}.jsonl")),
                    *("--save", self.path(name), *options),
                ),
            ),
        ]

    def run_one(self, bundle, name, *options, **more):
        command = self.command(bundle, name, *options, **more)
        outcome = finish(command, launch(command))
        self.assertEqual(outcome.code, 0, str(outcome))

    def run_many(self, bundle, name, processes, *options, **more):
        command = self.command(bundle, name, *options, **more)
        for outcome in run_all([command] * processes):
            self.assertEqual(outcome.code, 0, str(outcome))

    def expect_same(self, first, second):
        """Two runs have equal logs and checkpoints, bit for bit."""
        self.assertEqual(
            steps_of(self.path(f"{first}.jsonl")),
            steps_of(self.path(f"{second}.jsonl")),
        )
        self.assertEqual(
            content(self.path(first)), content(self.path(second))
        )

    #
    # The same bits
    #

    # Every stage, with what else moves data: 2 processes of 4 devices are one
    # of 8, by TCP and by MPI.
    def test_stages(self):
        fp16 = {"enabled": True, "initial_scale_power": 18}
        offload = {"offload_optimizer": {"device": "cpu"}}
        for stage, changes, options in (
            (0, {}, ()),
            (0, {"fp16": fp16}, ("--recompute", "block")),
            (1, {"zero": offload, "bf16": {"enabled": True}}, ()),
            (2, {"gradient_accumulation_steps": 2}, ()),
            (3, {"fp16": fp16, "zero": offload}, ()),
            (
                3,
                {
                    "gradient_accumulation_steps": 2,
                    "zero": {"stage3_param_persistence_threshold": 0},
                },
                (
                    *("--recompute", "block", "--offload-param", "cpu"),
                    *("--offload-activations", "all"),
                ),
            ),
        ):
            with self.subTest(f"stage {stage} {changes} {options}"):
                name = f"{stage}-{len(content(self.scratch))}"
                job = self.bundle(stage, *options, name=name, **changes)
                self.run_one(job, f"{name}.one")
                self.run_many(job, f"{name}.two", 2)
                self.expect_same(f"{name}.one", f"{name}.two")
                if not HAS_MPI:
                    continue
                outcome = run_mpi(self.command(job, f"{name}.mpi"), 2)
                self.assertEqual(outcome.code, 0, str(outcome))
                self.expect_same(f"{name}.one", f"{name}.mpi")

    # What makes room, in fp16 whose first steps overflow: the same bits in 2
    # processes as in one, and as without any of it; so are checkpoints, which
    # go on in the other way, and exports.
    def test_room(self):
        shared = {
            "fp16": {"enabled": True, "initial_scale_power": 18},
            "gradient_accumulation_steps": 2,
        }
        split = {"stage3_param_persistence_threshold": 0}
        files = self.path("files")

        def offload(device):
            path = {"nvme_path": str(files)} if device == "nvme" else {}
            return {"offload_optimizer": {"device": device, **path}}

        parts = ("--nvme-buffer", 4096)
        plain = {}
        for number, (stage, zero, options) in enumerate((
            (3, offload("nvme"),
             (*parts, "--offload-param", "cpu", "--recompute", "selective")),
            (3, offload("cpu"),
             ("--offload-ratio", 0.5, "--offload-activations", 1,
              "--keep-gathered", 1)),
            (3, offload("nvme"),
             ("--keep-gathered", "all", "--recompute", "block:1,selective",
              "--offload-activations", "all")),
            (2, offload("nvme"), (*parts, "--offload-ratio", 0.4)),
        )):
            with self.subTest(f"stage {stage} {zero} {options}"):
                if stage not in plain:
                    name = plain[stage] = f"plain{stage}"
                    self.run_one(
                        self.bundle(
                            stage, name=name + ".job", zero=split, **shared
                        ),
                        *(name, "--export", self.path(name + ".weights")),
                        # Saved before the end, too.
                        *("--save-every", 3),
                    )
                expected = plain[stage]
                name = f"room{number}"
                job = self.bundle(
                    *(stage, *options), name=name + ".job",
                    zero={**zero, **split}, **shared,
                )
                weights = self.path(name + ".weights")
                whole = (*("--export", weights), "--save-every", 3)
                self.run_one(job, f"{name}.one", *whole)
                one = content(weights)
                shutil.rmtree(weights)
                self.run_many(job, f"{name}.two", 2, *whole)
                self.expect_same(f"{name}.one", f"{name}.two")
                self.assertEqual(content(weights), one)
                steps = steps_of(self.path(f"{name}.one.jsonl"))
                self.assertIn(True, [step["skipped"] for step in steps])
                self.assertEqual(
                    steps, steps_of(self.path(f"{expected}.jsonl"))
                )
                self.assertEqual(one, content(self.path(expected + ".weights")))
                # From a checkpoint of one process without room in two with it.
                shutil.rmtree(weights)
                self.run_many(
                    *(job, f"{name}.on", 2, "--export", weights),
                    *("--resume", self.path(expected) / "step-3"),
                )
                self.assertEqual(content(weights), one)
        self.assertFalse(files.exists())

    # 4 processes of 2, 3 of unequal numbers, 8 of 1: the same; and with one
    # thread each nothing waits for ever.
    def test_divisions(self):
        job = self.bundle(3, fp16={"enabled": True, "initial_scale_power": 18})
        self.run_one(job, "one")
        for processes in (3, 4, 8):
            with self.subTest(f"{processes} processes"):
                name = f"of-{processes}"
                self.run_many(job, name, processes, "--threads", 1)
                self.expect_same("one", name)

    # The compiler's own command takes part in the same way.
    def test_compiler_command(self):
        job = self.bundle(2, devices=4)
        self.run_one(job, "one", runner=[CIUICC, "train"])
        self.run_many(job, "two", 2, runner=[CIUICC, "train"])
        self.expect_same("one", "two")

    # Validation and an export: the same numbers and files.
    def test_validation_and_export(self):
        job = self.bundle(3, devices=4)
        options = ("--validation", 0.2, "--validate-every", 2)
        self.run_one(job, "one", *options, "--export", self.path("a"))
        self.run_many(job, "two", 2, *options, "--export", self.path("b"))
        validations = [
            [r for r in read_log(self.path(f"{n}.jsonl"))
             if "validation_loss" in r]
            for n in ("one", "two")
        ]
        self.assertEqual(len(validations[0]), 3)
        self.assertEqual(*validations)
        self.assertEqual(content(self.path("a")), content(self.path("b")))

    # A checkpoint of 2 processes goes on in 1, and one of 1 in 2, as if the run
    # had never ended.
    def test_resume(self):
        job = self.bundle(3, zero={"offload_optimizer": {"device": "cpu"}})
        self.run_one(job, "whole", steps=6)
        self.run_one(job, "one", steps=3)
        self.run_many(job, "two", 2, steps=3)
        for first, go_on in (
            ("two", self.run_one),
            ("one", lambda *args, **more: self.run_many(*args, **more)),
        ):
            with self.subTest(f"from {first}"):
                resume = ("--resume", self.path(first))
                if go_on == self.run_one:
                    self.run_one(job, first, *resume, steps=6)
                else:
                    self.run_many(job, first, 2, *resume, steps=6)
                self.assertEqual(
                    steps_of(self.path(f"{first}.jsonl")),
                    steps_of(self.path("whole.jsonl")),
                )
                self.assertEqual(
                    content(self.path(first) / "step-6"),
                    content(self.path("whole") / "step-6"),
                )

    #
    # Ends
    #

    def until_logged(self, name, process):
        """Waits for the first records of a run."""
        log = self.path(f"{name}.jsonl")
        while process.poll() is None and (
            not log.exists() or log.stat().st_size < 1000
        ):
            time.sleep(0.01)

    def start_two(self, bundle, name, *options):
        """A run that is under way; `options` are those of process 0."""
        commands = [
            self.command(bundle, name, *given, steps=10**6)
            for given in (options, ())
        ]
        port = free_port()
        both = [
            start(command, index, 2, port)
            for index, command in enumerate(commands)
        ]
        self.until_logged(name, both[0])
        return commands, both

    # A process that is killed ends the other, which names it: no hang.
    def test_killed_process(self):
        job = self.bundle(3, devices=4)
        for victim in (0, 1):
            with self.subTest(f"process {victim}"):
                commands, both = self.start_two(job, f"killed-{victim}")
                both[victim].send_signal(signal.SIGKILL)
                outcomes = finish_all(commands, both)
                self.assertEqual(
                    outcomes[victim].code, -signal.SIGKILL, str(outcomes[0])
                )
                other = outcomes[1 - victim]
                self.assertEqual(other.code, 3, str(other))
                self.assertIn(f"process {victim} has ended", other.err)

    # A process that hangs is given up after the timeout. Its own is long: on a
    # busy machine it would be the first to give up.
    def test_stopped_process(self):
        job = self.bundle(2, devices=4)
        commands, both = self.start_two(
            job, "stopped", "--collective-timeout", 1
        )
        both[1].send_signal(signal.SIGSTOP)
        outcome = finish(commands[0], both[0])
        self.assertEqual(outcome.code, 3, str(outcome))
        self.assertIn("no word from process 1 in 1 s", outcome.err)

    # SIGTERM to one ends both after the same step, saved.
    def test_signal_to_one(self):
        job = self.bundle(2, devices=4)
        for target in (0, 1):
            with self.subTest(f"process {target}"):
                name = f"signal-{target}"
                commands, both = self.start_two(job, name)
                both[target].send_signal(signal.SIGTERM)
                for outcome in finish_all(commands, both):
                    self.assertEqual(outcome.code, 0, str(outcome))
                last = steps_of(self.path(f"{name}.jsonl"))[-1]["step"]
                self.assertTrue((self.path(name) / f"step-{last}").is_dir())

    def expect_all_fail(self, commands, code, *says, **changes):
        """All processes end with `code` and say all texts."""
        outcomes = run_all(commands, **changes)
        for outcome in outcomes:
            self.assertEqual(outcome.code, code, str(outcome))
            for text in says:
                self.assertIn(text, outcome.err, str(outcome))
        return outcomes

    # A disk that fails in one process ends both; what is told is the file of
    # which rank, by whom.
    def test_failing_disk(self):
        files = self.path("files")
        offload = {"device": "nvme", "nvme_path": str(files)}
        job = self.bundle(3, devices=4, zero={"offload_optimizer": offload})
        for victim in (0, 1):
            with self.subTest(f"process {victim}"):
                commands, both = self.start_two(job, f"disk-{victim}")
                cut_files(both[victim], files, 0)
                outcomes = finish_all(commands, both)
                for outcome in outcomes:
                    self.assertEqual(outcome.code, 3, str(outcome))
                said = outcomes[victim].err
                self.assertRegex(
                    said,
                    f"states of rank [{2 * victim}{2 * victim + 1}] in {files} "
                    "have no bytes from ",
                )
                self.assertIn('while running task "', said)
                self.assertIn(
                    f"process {victim} failed", outcomes[1 - victim].err
                )
                self.assertFalse(files.exists())

    # Processes that were given different things are refused, with both values.
    def test_differences(self):
        job = self.bundle(2, devices=4)
        other = self.bundle(3, devices=4, name="other")
        plain = self.command(job, "log")
        for name, second, code, says in (
            ("seed", [*plain, "--seed", "5"], 1,
             ("the seed: it is 0", "5 in process 1")),
            ("bundle", self.command(other, "log"), 1,
             ("the compiled program",)),
            ("steps", [*plain, "--steps", "9"], 1,
             ("number of steps: it is 6", "9")),
            ("data", [*plain, "--data", "nowhere"], 1, ("nowhere",)),
        ):
            if name == "steps":
                second = self.command(job, "log", steps=9)
            if name == "data":
                second = list(plain)
                second[second.index(str(self.data))] = "nowhere"
            with self.subTest(name):
                outcomes = self.expect_all_fail([plain, second], code, *says)
                self.assertIn("process 1", outcomes[0].err)

    # A save that fails in process 0 ends both.
    def test_failing_save(self):
        job = self.bundle(2, devices=4)
        self.path("file").write_text("in the way", encoding="utf-8")
        command = self.command(job, "file")
        outcomes = self.expect_all_fail([command, command], 3, "file")
        self.assertIn("process 0 failed", outcomes[1].err)

    # Who does not come is named; so is a port that is taken.
    def test_missing_process(self):
        job = self.bundle(0, devices=4)
        command = self.command(job, "log", "--join-timeout", 1)
        outcome = finish(command, start(command, 0, 2, free_port()))
        self.assertEqual(outcome.code, 3, str(outcome))
        self.assertIn("process 1 of 2 has not joined within 1 s", outcome.err)
        outcome = finish(command, start(command, 1, 2, free_port()))
        self.assertEqual(outcome.code, 3, str(outcome))
        self.assertIn("process 0 of 2 could not be reached", outcome.err)
        with socket.socket() as server:
            server.bind((OWN_HOST, 0))
            server.listen()
            port = server.getsockname()[1]
            outcome = finish(command, start(command, 0, 2, port))
        self.assertEqual(outcome.code, 3, str(outcome))
        self.assertIn(f"{OWN_HOST}:{port}: the port is in use", outcome.err)

    # An environment that contradicts itself is the job's fault.
    def test_contradicting_environment(self):
        job = self.bundle(0, devices=4)
        command = self.command(job, "log")
        for changes, says in (
            ({"WORLD_SIZE": None}, "has RANK but no WORLD_SIZE"),
            ({"RANK": "2"}, "RANK is 2, expected less than WORLD_SIZE"),
            ({"MASTER_PORT": "high"}, 'MASTER_PORT is "high"'),
            ({"MASTER_ADDR": None}, "no MASTER_ADDR"),
            (
                {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2"},
                "mpirun says process 1 of 2",
            ),
        ):
            with self.subTest(says):
                outcome = finish(
                    command, start(command, 0, 2, free_port(), **changes)
                )
                self.assertEqual(outcome.code, 1, str(outcome))
                self.assertIn(says, outcome.err)

    # More processes than ranks are refused with both numbers.
    def test_too_many_processes(self):
        job = self.bundle(0, devices=2)
        command = self.command(job, "log")
        self.expect_all_fail(
            [command] * 3, 1, "the job has 2 ranks, 3 processes"
        )

    # mpirun's processes fail together too, with a message of each.
    @unittest.skipUnless(HAS_MPI, "needs mpirun and the MPI module")
    def test_mpi_failure(self):
        job = self.bundle(2, devices=4)
        script = self.path("run.sh")
        script.write_text(
            'exec "$@" --seed $OMPI_COMM_WORLD_RANK\n', encoding="utf-8"
        )
        outcome = run_mpi(["sh", str(script), *self.command(job, "log")], 2)
        self.assertEqual(outcome.code, 1, str(outcome))
        self.assertIn("the seed: it is 0 in process 0, 1 in", outcome.err)

    # One of mpirun's processes that is killed ends all.
    @unittest.skipUnless(HAS_MPI, "needs mpirun and the MPI module")
    def test_mpi_killed_process(self):
        job = self.bundle(2, devices=4)
        script = self.path("run.sh")
        script.write_text(
            f"echo $$ > {self.scratch}/pid.$OMPI_COMM_WORLD_RANK\n"
            'exec "$@"\n',
            encoding="utf-8",
        )
        command = self.command(job, "mpi", steps=10**6)
        launch, process = start_mpi(["sh", str(script), *command], 2)
        self.until_logged("mpi", process)
        os.kill(int(self.path("pid.1").read_text()), signal.SIGKILL)
        self.assertNotEqual(finish(launch, process).code, 0)


if __name__ == "__main__":
    unittest.main()
