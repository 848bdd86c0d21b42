#!/usr/bin/env python3
"""The exact mean for DistributedDataParallel, with real processes over gloo.

The same global batch is split over 1, 2 and 4 processes in several ways and orders, with several
bucket sizes: the weights after some steps must have the same bits. As a control the plain mean of
DDP is shown to depend on the split, so that the test could fail.
"""
import fractions
import hashlib
import os
import pathlib
import sys
import tempfile
import traceback
import unittest

root = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(root / "python"))
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402

import shoal.ddp  # noqa: E402
import shoal.torch  # noqa: E402

STEPS, SLOTS = 3, 8


def in_processes(world, function):
    """function(rank) in `world` forked processes that form a gloo group; their answers (text)."""
    with tempfile.TemporaryDirectory() as folder:
        children = []
        for rank in range(world):
            pid = os.fork()
            if pid == 0:
                status = 1
                try:
                    torch.set_num_threads(1)
                    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank,
                                            world_size=world)
                    pathlib.Path(folder, str(rank)).write_text(function(rank))
                    status = 0
                except BaseException:
                    traceback.print_exc()
                os._exit(status)
            children.append(pid)
        statuses = [os.waitpid(pid, 0)[1] for pid in children]
        assert not any(statuses), statuses
        return [pathlib.Path(folder, str(rank)).read_text() for rank in range(world)]


def batch(step, slot):
    values = [shoal.random(3, step, slot, i) / 2**63 - 1 for i in range(4 * 20)]
    return torch.tensor(values).view(4, 20)


def train(split, bucket_mb, exact=True, late=False):
    """split: slots of each rank. Digest of the weights, the same on every rank."""
    def run(rank):
        shoal.torch.deterministic(seed=2)
        net = nn.Sequential(nn.Linear(20, 40), nn.GELU(), nn.Dropout(0.2), nn.LayerNorm(40),
                            nn.Linear(40, 30), nn.Tanh(), nn.Linear(30, 1))
        model = DistributedDataParallel(net, bucket_cap_mb=bucket_mb, gradient_as_bucket_view=late)
        optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)
        mean = shoal.ddp.ExactMean(model, SLOTS, seed=2) if exact else None
        for step in range(STEPS):
            for slot in mean.slots(step, split[rank]) if exact else split[rank]:
                loss = model(batch(step, slot)).square().mean()
                (loss if exact else loss / len(split[rank])).backward()
            optimizer.step()
            optimizer.zero_grad()
        return hashlib.sha256(b"".join(p.detach().numpy().tobytes()
                                       for p in net.parameters())).hexdigest()

    digests = set(in_processes(len(split), run))
    assert len(digests) == 1, f"ranks differ: {digests}"
    return digests.pop()


class Splits(unittest.TestCase):
    def test_any_split_order_and_bucket_size_gives_the_same_bits(self):
        wanted = train([range(8)], 25)
        for split, bucket_mb, view in (
                ([[0, 2, 4, 6], [1, 3, 5, 7]], 25, False),
                ([[7, 1, 0], [6, 5, 2, 3, 4]], 0.001, True),
                ([[0, 1], [2, 3], [4, 5], [6, 7]], 0.004, False),
                ([[5], [4, 7, 1, 0], [2], [6, 3]], 0.0001, True)):
            with self.subTest(split=split, bucket_mb=bucket_mb):
                self.assertEqual(train(split, bucket_mb, late=view), wanted)

    def test_control_plain_mean_depends_on_the_split(self):
        self.assertNotEqual(train([range(8)], 25, exact=False),
                            train([range(4), range(4, 8)], 25, exact=False))


class Numbers(unittest.TestCase):
    def data(self):
        """[slots, rows, BLOCK] of everything a float32 can be."""
        torch.manual_seed(8)
        x = torch.randn(SLOTS, 6, shoal.ddp.BLOCK)
        x[:, 1] *= torch.exp2(torch.randint(-140, 100, (SLOTS, shoal.ddp.BLOCK)).float())
        x[:, 2] *= 1e-41
        x[:, 3] = 0
        x[0, 4, :4] = torch.tensor([float("nan"), float("inf"), float("-inf"), float("inf")])
        x[1, 4, 3] = float("-inf")
        x[:, 5] = 3.4e38
        return x

    def mean(self, split):
        """The mean as bits, in hex, of every rank."""
        def run(rank):
            x = self.data()
            mean = shoal.ddp.exact_mean([x[slot] for slot in split[rank]], SLOTS)
            return mean.numpy().tobytes().hex()

        answers = set(in_processes(len(split), run))
        self.assertEqual(len(answers), 1)
        return bytearray.fromhex(answers.pop())

    def test_all_floats(self):
        alone = self.mean([range(8)])
        self.assertEqual(alone, self.mean([[6, 1], [0], [7, 5, 4, 3, 2]]))
        mean, x = torch.frombuffer(alone, dtype=torch.float32).view(6, -1), self.data()
        self.assertEqual([str(v) for v in mean[4, :4].tolist()], ["nan", "inf", "-inf", "nan"])
        self.assertTrue(torch.isfinite(mean[4, 4:]).all())
        self.assertEqual(mean[5, 0], x[0, 5, 0])  # the plain sum would have overflowed
        self.assertTrue((mean[3] == 0).all())
        for row in (0, 1, 2):
            peak = fractions.Fraction(x[:, row].abs().max().item())
            for column in range(shoal.ddp.BLOCK):
                exact = sum(fractions.Fraction(v) for v in x[:, row, column].tolist()) / SLOTS
                error = abs(fractions.Fraction(mean[row, column].item()) - exact)
                bound = peak / 2**40 + max(abs(exact) / 2**24, fractions.Fraction(2)**-150)
                self.assertLessEqual(error, bound, (row, column))

    def test_slots_that_do_not_add_up(self):
        def run(rank):
            try:
                shoal.ddp.exact_mean([torch.ones(1, shoal.ddp.BLOCK)] * (rank + 1), SLOTS)
            except shoal.ShoalError as error:
                return str(error)

        for told in in_processes(2, run):
            self.assertIn("computed 3 slots, 8 make the global batch", told)


if __name__ == "__main__":
    unittest.main(verbosity=2)
