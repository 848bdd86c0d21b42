#!/usr/bin/env python3
"""The Python package without torch and numpy: what it finds, refuses and says, and that it trains.

    core_test.py            the tests
    core_test.py train      a tiny training program, for the tests; or train_sharded, train_private
"""
import array
import ctypes
import ctypes.util
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

root = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(root / "python"), str(root / "tests/e2e")]
import fake_agent  # noqa: E402
import shoal  # noqa: E402
from shoal import _library  # noqa: E402

HEADER = (root / "include/shoal.h").read_text()
CODE = re.sub(r"/\*.*?\*/|//[^\n]*", "", HEADER, flags=re.S)
STEPS, SLOTS = 12, 6


def train(shared=True):
    weights, moments = array.array("f", [0.5] * 1000), array.array("f", [0] * 1000)
    with shoal.join({"w": weights}, {"m": moments} if shared else {}, samples_per_slot=2, seed=3) as job:
        for step in job.steps():
            for slot in step:
                gradient = slot.gradient["w"]
                for i, weight in enumerate(weights):
                    gradient[i] = weight + slot.random(i) / 2**64 - 0.5
                slot.submit(sum(weights))
            for i, mean in enumerate(step.gradient["w"]):
                moments[i] = 0.9 * moments[i] + mean
                weights[i] -= 0.1 * moments[i]
            step.commit()
    sys.exit(0 if job.done or job.left else 1)


def train_sharded():
    """The same update, with the moments kept by the library."""
    weights = array.array("f", [0.5] * 1000)

    def update(part):
        moments = part.moments["m"]
        for i, mean in enumerate(part.gradient):
            moments[i] = 0.9 * moments[i] + mean
            part.weights[i] -= 0.1 * moments[i]

    with shoal.join({"w": weights}, moments=["m"], update=update, samples_per_slot=2,
                    seed=3) as job:
        for step in job.steps():
            for slot in step:
                gradient = slot.gradient["w"]
                for i, weight in enumerate(weights):
                    gradient[i] = weight + slot.random(i) / 2**64 - 0.5
                slot.submit(sum(weights))
            step.commit()
    sys.exit(0 if job.done or job.left else 1)


def run(code, **environment):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                          env={**os.environ, "PYTHONPATH": str(root / "python"), **environment})


class Abi(unittest.TestCase):
    def structs_of_header(self):
        """{struct: field names} as they are written in shoal.h."""
        found = {}
        for name, body in re.findall(r"struct (shoal_\w+) \{(.*?)\};", CODE, flags=re.S):
            names = []
            for line in body.split(";"):
                names += re.findall(r"(\w+)(?:\[[^\]]*\])?\s*(?:,|$)", " ".join(line.split()))
            found[name] = names
        return found

    def test_every_field_of_the_header_is_described_and_known(self):
        library = _library.library()
        for owner, names in self.structs_of_header().items():
            if owner == "shoal_field":
                continue
            self.assertEqual(sorted(names), sorted(library.rows[owner]), owner)
            self.assertEqual(sorted(names), sorted(_library.FIELDS[owner]), owner)
            record = _library.Record(library, owner)
            for name in names:
                record.cell(name)  # raises when the size differs

    @unittest.skipUnless(shutil.which("nm"), "no nm here")
    def test_the_library_shows_the_calls_of_the_header_alone(self):
        listed = subprocess.run(["nm", "-D", "--defined-only", _library.library().path],
                                capture_output=True, text=True, check=True).stdout
        shown = {line.split()[-1].split("@")[0] for line in listed.splitlines()}
        declared = set(re.findall(r"\b(shoal_\w+)\(", CODE))
        self.assertEqual(shown, declared)
        self.assertEqual(_library.library().calls, declared)

    def test_versions_agree(self):
        meson = (root / "meson.build").read_text()
        self.assertEqual(re.search(r"version: '([^']+)'", meson)[1], shoal.__version__)
        project = (root / "python/pyproject.toml").read_text()
        self.assertIn(f'version = "{shoal.__version__}"', project)


class Library(unittest.TestCase):
    def sentence(self, code="import shoal; shoal.library()", **environment):
        done = run("import shoal\ntry:\n    " + code.replace("\n", "\n    ") +
                   "\nexcept shoal.ShoalError as error: print(error)\n", **environment)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertGreater(len(done.stdout), 20, done)
        return done.stdout

    def test_missing(self):
        with tempfile.TemporaryDirectory() as folder:
            shutil.copytree(root / "python/shoal", folder + "/x/y/shoal",
                            ignore=shutil.ignore_patterns("*.so", "__pycache__"))
            told = self.sentence(SHOAL_LIBRARY="", PYTHONPATH=folder + "/x/y",
                                 LD_LIBRARY_PATH="")
        self.assertIn("not to be found", told)
        self.assertIn(folder, told)
        self.assertIn("SHOAL_LIBRARY=", told)

    def test_not_a_library(self):
        self.assertIn("cannot be loaded", self.sentence(SHOAL_LIBRARY=__file__))
        self.assertIn("/nowhere/libshoal.so (SHOAL_LIBRARY)",
                      self.sentence(SHOAL_LIBRARY="/nowhere/libshoal.so"))

    def test_another_library(self):
        other = ctypes.util.find_library("c")
        self.assertIn("is older than version", self.sentence(SHOAL_LIBRARY=other))

    def test_another_version(self):
        told = self.sentence('shoal._library.VERSION = "0.9.3"\nshoal.library()')
        self.assertRegex(told, r"is version \d+\.\d+\.\d+, this package is 0\.9\.3: install both")

    def test_an_option_that_the_library_does_not_have(self):
        with self.assertRaisesRegex(shoal.ShoalError, "has no colour in shoal_options"):
            shoal.join({"w": array.array("f", [0])}, slots=1, steps=1, colour=3)


class BadInput(unittest.TestCase):
    def refuse(self, sentence, params, state=None, **options):
        with self.assertRaisesRegex(shoal.ShoalError, sentence):
            shoal.join(params, state, **{"slots": 1, "steps": 1, **options})

    def test_buffers(self):
        self.refuse("tensor w: list is no buffer", {"w": [1.0]})
        self.refuse("tensor w: format 'd' is not float32", {"w": array.array("d", [0])})
        self.refuse("tensor w: format 'B' is not float32", {"w": b"1234"})
        self.refuse("tensor w: must be writable",
                    {"w": memoryview(array.array("f", [0])).toreadonly()})
        strided = memoryview(array.array("f", [0, 1, 2, 3]))[::2]
        self.refuse("tensor w: must be writable and contiguous", {"w": strided})

    def test_sentences_of_the_library(self):
        one = array.array("f", [0])
        self.refuse("at least one tensor", {})
        self.refuse("slots: set shoal_options.slots or SHOAL_SLOTS", {"w": one}, slots=0)
        self.refuse("tensor w is given twice", {"w": one}, {"w": one})
        self.refuse('tensor name "a b": use', {"a b": one})
        self.refuse('checkpoint_every: "often"; give a number', {"w": one}, checkpoint_every="often")
        self.refuse('on_nan: "cry"; give one of continue, skip, stop', {"w": one}, on_nan="cry")

    def test_a_checkpoint_beyond_the_steps(self):
        with tempfile.TemporaryDirectory() as folder:
            one = array.array("f", [0])

            def go(steps):
                with shoal.join({"w": one}, slots=1, steps=steps, checkpoint_dir=folder,
                                checkpoint_every=1) as job:
                    for step in job.steps():
                        for slot in step:
                            slot.submit(0)
                        step.commit()

            go(3)
            with self.assertRaisesRegex(shoal.ShoalError, "of step 3, beyond the 2 asked for"):
                go(2)


class Misuse(unittest.TestCase):
    def setUp(self):
        self.weights = array.array("f", [1, 2])
        self.job = shoal.join({"w": self.weights}, slots=2, steps=2, samples_per_slot=3)
        self.addCleanup(self.job.close)

    def test_forgotten_submit(self):
        with self.assertRaisesRegex(shoal.ShoalError, "slot 0 of step 0 was not submitted"):
            for step in self.job.steps():
                for slot in step:
                    pass

    def test_submitted_twice(self):
        with self.assertRaisesRegex(shoal.ShoalError, "slot 0 of step 0 was submitted twice"):
            for step in self.job.steps():
                for slot in step:
                    slot.submit(1)
                    slot.submit(1)

    def test_forgotten_commit(self):
        with self.assertRaisesRegex(shoal.ShoalError, "step 0 was not committed"):
            for step in self.job.steps():
                for slot in step:
                    slot.submit(1)

    def test_committed_before_the_slots(self):
        with self.assertRaisesRegex(shoal.ShoalError, "before its slots were iterated"):
            for step in self.job.steps():
                step.commit()

    def test_a_program_that_fails_is_not_hidden(self):
        with self.assertRaises(ZeroDivisionError):
            with self.job as job:
                for _ in job.steps():
                    1 / 0

    def test_samples_are_used_once(self):
        seen = []
        with self.job as job:
            for step in job.steps():
                for slot in step:
                    with slot.loading():
                        seen += slot.samples
                    slot.submit(1)
                step.commit()
        self.assertTrue(job.done)
        self.assertEqual(seen, list(range(12)))


class NotFinite(unittest.TestCase):
    """A NaN in step 1 of 4, under each policy."""

    def go(self, policy, moments=()):
        weights, seen = array.array("f", [0]), []

        def update(part):
            part.weights[0] -= part.gradient[0]
            part.moments["m"][0] += 1

        more = {"moments": ["m"], "update": update} if moments else {}
        with shoal.join({"w": weights}, slots=2, steps=4, on_nan=policy, **more) as job:
            for step in job.steps():
                for slot in step:
                    slot.gradient["w"][0] = float("nan") if slot.step == 1 else 1
                    slot.submit(1)
                if not moments:
                    weights[0] -= step.gradient["w"][0]
                seen.append(step.index)
                step.commit()
        self.assertTrue(job.done)
        return weights[0], seen

    def test_continue(self):
        weight, seen = self.go("continue")
        self.assertNotEqual(weight, weight)  # NaN
        self.assertEqual(seen, [0, 1, 2, 3])

    def test_skip(self):
        self.assertEqual(self.go("skip"), (-3, [0, 2, 3]))
        weight, _ = self.go("skip", moments=["m"])
        self.assertEqual(weight, -3)

    def test_stop(self):
        with self.assertRaisesRegex(shoal.ShoalError, "step 1: the mean gradient holds NaN or Inf"):
            self.go("stop")


class Shapes(unittest.TestCase):
    def test_scalars_empty_and_deep_tensors(self):
        deep = (ctypes.c_float * 2 * 2 * 2 * 2 * 3)()
        scalar, empty = ctypes.c_float(4), (ctypes.c_float * 0)()
        params = {"deep": deep, "scalar": scalar, "empty": empty}
        with shoal.join(params, slots=2, steps=1) as job:
            for step in job.steps():
                for slot in step:
                    gradient = slot.gradient
                    self.assertEqual(len(gradient["empty"]), 0)
                    gradient["deep"][2, 1, 1, 1, 1] = 6 * slot.index
                    slot.submit(slot.index)
                self.assertEqual(step.gradient["deep"][2, 1, 1, 1, 1], 3)
                self.assertEqual(step.loss, 0.5)
                step.commit()


class Install(unittest.TestCase):
    """pip install ./python without a network, a compiler or setuptools."""

    def install(self, folder, *options):
        done = subprocess.run(
            [sys.executable, "-m", "pip", "install", "--no-index", "--quiet", "--no-deps",
             "--target", folder, *options, str(root / "python")], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)

    @unittest.skipIf(run("import pip").returncode, "SKIPPED: no pip here; apt-get install python3-pip")
    def test_pip_install_carries_the_library(self):
        code = "import shoal; print(shoal.__file__, shoal.library().path, shoal.library().version)"
        with tempfile.TemporaryDirectory() as folder:
            self.install(folder)
            done = run(code, PYTHONPATH=folder, SHOAL_LIBRARY="")
            self.assertEqual(done.stdout.split(), [
                f"{folder}/shoal/__init__.py", f"{folder}/shoal/libshoal.so", shoal.__version__],
                done.stderr)
            listed = subprocess.run([sys.executable, "-m", "pip", "list", "--path", folder],
                                    capture_output=True, text=True).stdout
            self.assertRegex(listed, r"shoal +" + re.escape(shoal.__version__))


class Training(unittest.TestCase):
    def test_churn_leaves_no_trace(self):
        self.check("train")

    @unittest.skipUnless("moment_count" in _library.library().rows["shoal_options"],
                         "SKIPPED: this libshoal keeps no moments")
    def test_churn_leaves_no_trace_with_moments_in_the_library(self):
        # The digest is that of the params alone then, as in a run that tells nobody of its moments.
        self.assertEqual(self.check("train_sharded"), self.check("train_private", kill=False))

    def check(self, program, kill=True):
        command = [sys.executable, __file__, program]
        settings = {"SHOAL_SLOTS": SLOTS, "SHOAL_EMULATE_SLOT_US": 40000}
        wanted = fake_agent.alone(command, SHOAL_STEPS=STEPS, SHOAL_SLOTS=SLOTS)
        if not kill:
            return wanted
        with fake_agent.Agent(command, STEPS, SHOAL_GANG=2, **settings) as agent:
            agent.start_all((1, 2, 3))
            agent.admit(1, 2)
            agent.serve_until(2)
            agent.kill(1)
            agent.admit(3)
            agent.serve_while(lambda: not agent.computed(3))
            agent.leave(2)
            agent.serve_to_end()
            self.assertEqual(agent.ended, {1: -9, 2: 0, 3: 0})
            agent.check_rows(SLOTS)
        self.assertEqual(agent.digest, wanted)
        return wanted


if __name__ == "__main__":
    programs = {"train": train, "train_private": lambda: train(shared=False), "train_sharded": train_sharded}
    programs.get("".join(sys.argv[1:]), lambda: unittest.main(verbosity=2))()
