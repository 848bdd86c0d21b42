#!/usr/bin/env python3
"""`shoal ckpt` on checkpoints of a real, if tiny, program: what it says of damage, what it makes for
other programs, what it removes.

    tests/e2e/ckpt.py SHOAL TRAINER

The merged files are read by a few lines of Python here, by the package safetensors from the Python
registry (tests/venv.sh; skipped with a word where it cannot be had), and by PyTorch where there is one.
"""
import hashlib
import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SHOAL, TRAINER = sys.argv[1:3] if len(sys.argv) > 2 else ("", "")
ELEMENTS = 2_200_000  # several parts of a file

CHECK_WITH_PACKAGE = """
import sys, safetensors.numpy as st
total = {}
for name in sys.argv[1:]:
    total.update(st.load_file(name))
import hashlib
digest = hashlib.sha256()
for name in ("a", "b", "momentum"):
    digest.update(total[name].tobytes())
print(digest.hexdigest(), total["a"].shape, total["b"].shape)
"""
CHECK_WITH_TORCH = CHECK_WITH_PACKAGE.replace("safetensors.numpy", "safetensors.torch").replace(
    ".tobytes()", ".numpy().tobytes()").replace(".shape, total", ".numpy().shape, total").replace(
        '["b"].shape', '["b"].numpy().shape')


def run(*words, status=0, says=""):
    done = subprocess.run([SHOAL, "ckpt", *map(str, words)], text=True, capture_output=True, timeout=120)
    both = done.stdout + done.stderr
    assert done.returncode == status, f"{words}: status {done.returncode}, not {status}\n{both}"
    assert says in both, f"{words}: no \"{says}\" in\n{both}"
    return done.stdout


def train(folder, steps, **more):
    environment = {**os.environ, "SHOAL_STEPS": str(steps), "SHOAL_SLOTS": "2", "SHOAL_CHECKPOINT_DIR": str(folder),
                   "SHOAL_CHECKPOINT_EVERY": "2", "E2E_ELEMENTS": str(ELEMENTS), **more}
    for name in ("SHOAL_AGENT_FD", "SHOAL_STATUS", "SHOAL_WORKER"):
        environment.pop(name, None)
    done = subprocess.run([TRAINER], env=environment, text=True, capture_output=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.split("weights sha256 ")[1].strip(), done.stderr


def read_safetensors(path):
    """Header and tensors' bytes, by the format's own description."""
    data = path.read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + length])
    body = data[8 + length:]
    metadata = header.pop("__metadata__")
    spans = sorted(entry["data_offsets"] for entry in header.values())
    assert length % 8 == 0 and spans[0][0] == 0 and spans[-1][1] == len(body)
    return metadata, header, {name: body[slice(*entry["data_offsets"])] for name, entry in header.items()}


def digest_of(tensors):
    digest = hashlib.sha256()
    for name in ("a", "b", "momentum"):
        digest.update(tensors[name])
    return digest.hexdigest()


class Checkpoints(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.root = pathlib.Path(cls.temporary.name)
        cls.folder = cls.root / "ckpt"
        cls.sha256, _ = train(cls.folder, 5)

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    def test_1_looks(self):
        rows = json.loads(run("ls", self.folder, "--json"))["checkpoints"]
        self.assertEqual([row["step"] for row in rows], [5, 4, 2])
        self.assertEqual({row["state"] for row in rows}, {"complete"})
        one = json.loads(run("ls", self.folder, "--step", 4, "--json"))
        self.assertEqual([t["name"] for t in one["tensors"]], ["a", "b", "momentum", "shoal.scales"])
        for tensor in one["tensors"]:
            at = 0
            for piece in tensor["pieces"]:
                self.assertEqual(piece["first"], at)
                at += piece["count"]
            self.assertEqual([at], tensor["shape"])
        run("verify", self.folder, says="verified")
        self.assertIn(self.sha256, run("digest", self.folder))
        run("ls", self.folder, "--step", 3, status=1, says="no checkpoint of step 3")

    def test_2_merge(self):
        run("merge", self.folder, "--out", self.root / "all.safetensors", "--with-state", says="3 tensors")
        metadata, header, tensors = read_safetensors(self.root / "all.safetensors")
        self.assertEqual(metadata, {"format": "pt"})
        self.assertEqual(header["b"]["shape"], [ELEMENTS - 7])
        self.assertEqual(digest_of(tensors), self.sha256)
        run("merge", self.folder, "--out", self.root / "weights.safetensors", says="2 tensors")
        self.assertEqual(sorted(read_safetensors(self.root / "weights.safetensors")[1]), ["a", "b"])

    def test_3_merge_in_files_with_an_index(self):
        out = self.root / "hf"
        run("merge", self.folder, "--out", out, "--with-state", "--max-bytes", 4 * ELEMENTS)
        index = json.loads((out / "model.safetensors.index.json").read_text())
        self.assertEqual(index["metadata"]["total_size"], 2 * 4 * ELEMENTS)
        files = sorted(set(index["weight_map"].values()))
        self.assertEqual(files, [f"model-0000{i}-of-00002.safetensors" for i in (1, 2)])
        tensors = {}
        for name in files:
            held = read_safetensors(out / name)[2]
            self.assertEqual({index["weight_map"][tensor] for tensor in held}, {name})
            tensors.update(held)
        self.assertEqual(digest_of(tensors), self.sha256)
        self.check_with_packages([out / name for name in files])

    def check_with_packages(self, files):
        # NumPy below 2: Debian's PyTorch was compiled with 1, and finds this one on its path.
        made = subprocess.run([ROOT / "tests/venv.sh", "safetensors", "safetensors", "numpy<2"], text=True,
                              capture_output=True, timeout=300)
        if made.returncode != 0:
            print("SKIPPED: merged checkpoints are not read by the package safetensors: it cannot be had here")
            return
        python = made.stdout.strip().splitlines()[-1]
        self.read_with(python, CHECK_WITH_PACKAGE, files, {})
        site = subprocess.run([python, "-c", "import safetensors; print(safetensors.__path__[0])"], text=True,
                              capture_output=True).stdout.strip()
        torch = os.environ.get("SHOAL_TORCH_PYTHON", sys.executable)
        if subprocess.run([torch, "-c", "import torch"], capture_output=True).returncode != 0:
            print("SKIPPED: merged checkpoints are not read by PyTorch: no python3 here has it")
            return
        self.read_with(torch, CHECK_WITH_TORCH, files, {"PYTHONPATH": str(pathlib.Path(site).parent)})

    def read_with(self, python, text, files, more):
        done = subprocess.run([python, "-c", text, *map(str, files)], text=True, capture_output=True,
                              env={**os.environ, **more}, timeout=300)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.strip(), f"{self.sha256} (7,) ({ELEMENTS - 7},)")

    def test_4_reshard_and_diff(self):
        run("reshard", self.folder, "--out", self.root / "many", "--shards", 17)
        self.assertEqual(len(list((self.root / "many/step-000005").glob("shard-*"))), 17)
        self.assertIn(self.sha256, run("digest", self.root / "many"))
        run("diff", self.folder, self.root / "many", says="0 of 4 tensors differ")
        run("reshard", self.folder, "--out", self.root / "many", "--shards", 3, status=1, says="is there already")
        rows = json.loads(run("diff", self.folder, "--step", 4, "--other-step", 5, "--json", status=1))["tensors"]
        self.assertEqual([row["name"] for row in rows], ["a", "b", "momentum"] + [r["name"] for r in rows[3:]])
        self.assertEqual(rows[0]["elements"], 7)
        self.assertGreater(rows[1]["largest"], 0)
        # A job goes on from any cut.
        sha256, said = train(self.root / "many", 5)
        self.assertEqual(sha256, self.sha256)
        self.assertIn("resuming from the checkpoint of step 5", said)

    def test_5_gc(self):
        for name in ("step-000003/shard-0000-old", "step-000005/shard-9999-stray", "step-000004/.tmp-1-2",
                     "step-000009/shard-0000-new"):
            (self.folder / name).parent.mkdir(exist_ok=True)
            (self.folder / name).write_bytes(b"x" * 100)
        said = json.loads(run("gc", self.folder, "--dry-run", "--json"))
        self.assertEqual((said["objects"], said["bytes"]), (3, 300))
        self.assertTrue((self.folder / "step-000003").exists())
        run("gc", self.folder, says="3 leftovers")
        run("gc", self.folder, says="0 leftovers")  # step 9 may be being written
        run("ls", self.folder, says="step 9        incomplete")
        run("gc", self.folder, "--all", says="1 leftovers")
        self.assertEqual(sorted(path.name for path in self.folder.iterdir()),
                         ["step-000002", "step-000004", "step-000005"])

    def test_6_damage_is_named_and_passed_over(self):
        newest = self.folder / "step-000005"
        manifest = json.loads((newest / "manifest.json").read_text())
        piece = manifest["tensors"][2]["pieces"][1]
        shard = newest / manifest["files"][piece["file"]]["file"]
        data = bytearray(shard.read_bytes())
        data[piece["offset"] + 5] ^= 1
        shard.write_bytes(data)
        run("verify", self.folder, "--step", 4)
        said = run("verify", self.folder, status=1, says="damaged")
        for word in (shard.name, "tensor momentum", f"at byte {piece['offset']}", f"elements {piece['first']} to"):
            self.assertIn(word, said)
        run("digest", self.folder, status=1, says="the checksum does not match")
        run("merge", self.folder, "--with-state", "--out", self.root / "no.safetensors", status=1, says="damaged")
        self.assertFalse((self.root / "no.safetensors").exists())
        sha256, said = train(self.folder, 5)
        self.assertIn("trying an older checkpoint", said)
        self.assertIn("resuming from the checkpoint of step 4", said)
        self.assertEqual(sha256, self.sha256)
        run("verify", self.folder)  # its place was taken by a good one
        header = newest / json.loads((newest / "manifest.json").read_text())["files"][0]["file"]
        spoilt = bytearray(header.read_bytes())
        spoilt[20] ^= 1
        header.write_bytes(spoilt)
        run("verify", self.folder, status=1, says="header, at byte 0")

    def test_7_other_versions_and_models(self):
        old = self.root / "old/step-000001"
        old.mkdir(parents=True)
        (old / "manifest.json").write_text('{"format":"shoal-checkpoint","version":1}')
        run("verify", self.root / "old", status=1, says="a manifest of version 1, this program reads version 2")
        _, said = train(self.folder, 6, E2E_ELEMENTS="1000")
        self.assertIn(f"another model: tensor 2 is param b [{ELEMENTS - 7}], not param b [993]", said)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
