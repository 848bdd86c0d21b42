#!/usr/bin/env python3
"""shoal.torch in one process: exact forms of every dtype, optimizers, schedulers, batch statistics,
what is refused and how, and the path of tensors that cannot be shared (those of a GPU)."""
import copy
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import warnings

root = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(root / "python"))
import torch  # noqa: E402
from torch import nn  # noqa: E402

import shoal.torch  # noqa: E402
from shoal._mirror import Mirror  # noqa: E402

STEPS, SLOTS = 6, 4


class Net(nn.Module):
    """A bit of everything: statistics, dropout, a frozen layer, buffers of other kinds, bfloat16."""

    def __init__(self):
        super().__init__()
        self.first, self.norm, self.drop = nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Dropout(0.3)
        self.frozen = nn.Linear(8, 8).requires_grad_(False)
        self.narrow = nn.Linear(8, 8).to(torch.bfloat16)
        self.last = nn.Linear(8, 3)
        self.register_buffer("mask", torch.tensor([True, False] * 4))
        self.register_buffer("thirds", torch.arange(3, dtype=torch.float64) / 3)

    def forward(self, x):
        x = self.frozen(self.drop(self.norm(self.first(x)).relu())) * self.mask
        return self.last(self.narrow(x.to(torch.bfloat16)).float()) + self.thirds.float()


def trainable(model):
    return [param for param in model.parameters() if param.requires_grad]


def run(make_optimizer, make_scheduler=None, *, folder=None, stop_after=STEPS, device="cpu",
        net=Net, slots=SLOTS, **options):
    """Trains a fresh model; {name: tensor} of model and moments, and the losses."""
    shoal.torch.deterministic(seed=5)
    model = net().to(device)
    optimizer = make_optimizer(trainable(model))
    scheduler = make_scheduler(optimizer) if make_scheduler else None
    losses = []
    every = {} if folder is None else {"checkpoint_dir": folder, "checkpoint_every": 1}
    with shoal.torch.join(model, optimizer, scheduler=scheduler, seed=5, slots=slots, steps=STEPS,
                          samples_per_slot=4, **every, **options) as job:
        for step in job.steps():
            for slot in step:
                x = torch.stack([torch.tensor([shoal.random(9, s, 0, i) / 2**64 for i in range(6)])
                                 for s in slot.samples]).to(device)
                target = (x.sum(1) * 0.5).long() % 3
                slot.backward(nn.functional.cross_entropy(model(x), target))
            step.commit()
            losses.append(step.loss)
            if len(losses) == stop_after:
                break
    result = {name: tensor.cpu().clone() for name, tensor in model.state_dict().items()}
    for name, param in model.named_parameters():
        for key, value in optimizer.state.get(param, {}).items():
            if value is not None:
                result[f"{key} {name}"] = torch.as_tensor(value).cpu().clone()
    result["rates"] = torch.tensor([group["lr"] for group in optimizer.param_groups],
                                   dtype=torch.float64)
    return result, losses


class Case(unittest.TestCase):
    def assert_same(self, left, right):
        self.assertEqual(sorted(left), sorted(right))
        for name in left:
            self.assertTrue(left[name].dtype == right[name].dtype and
                            left[name].numpy().tobytes() == right[name].numpy().tobytes()
                            if left[name].dtype != torch.bfloat16 else
                            torch.equal(left[name], right[name]), name)


class Forms(Case):
    SAMPLES = [
        torch.tensor([1.5, -0.0, float("inf"), 1e-45]), torch.tensor(3.25),
        torch.tensor([1 / 3, -1e300, 5e-324], dtype=torch.float64),
        torch.tensor([2**62 + 1, -1, 0]), torch.tensor(7), torch.tensor([-2**31, 5], dtype=torch.int32),
        torch.tensor([True, False]), torch.tensor([0, 255], dtype=torch.uint8),
        torch.tensor([-128, 127], dtype=torch.int8), torch.tensor([-32768, 9], dtype=torch.int16),
        torch.tensor([1.5, -0.0, 6e-8, 65504], dtype=torch.float16),
        torch.tensor([1.5, -0.0, 1e-40, 3e38], dtype=torch.bfloat16),
        torch.tensor([1 + 2j, -1j]), torch.zeros(0), torch.zeros(2, 0, 3, dtype=torch.int64),
        torch.arange(6.).view(2, 3).t(), torch.arange(6).view(2, 3).t(),
    ]

    def test_every_kind_comes_back_exactly(self):
        for stage in (False, True):
            for sample in self.SAMPLES:
                live = sample.clone()
                mirror = Mirror("x", live, stage=stage)
                self.assertEqual(mirror.host.dtype, torch.float32)
                words = mirror.host.clone()
                kept = live.clone()
                live.zero_()
                mirror.host.copy_(words)
                mirror.pull()
                self.assertTrue(torch.equal(live, kept) and live.dtype == kept.dtype, sample)
                self.assertTrue(torch.equal(torch.signbit(torch.view_as_real(live) if live.is_complex()
                                                          else live),
                                            torch.signbit(torch.view_as_real(kept) if kept.is_complex()
                                                          else kept)), sample)

    def test_bits_of_nan_payloads_in_doubles(self):
        bits = torch.tensor([0x7ff800000000beef, 0x7ff0000000000001])
        mirror = Mirror("x", bits.view(torch.float64).clone())
        words = mirror.host.clone()
        mirror.live.zero_()
        mirror.host.copy_(words)
        mirror.pull()
        self.assertTrue(torch.equal(mirror.live.view(torch.int64), bits))

    def test_refused_kinds(self):
        for tensor, sentence in ((torch.eye(3).to_sparse(), "x is sparse"),
                                 (torch.quantize_per_tensor(torch.ones(2), 1, 0, torch.qint8),
                                  "x is sparse or quantized")):
            with self.assertRaisesRegex(shoal.ShoalError, sentence):
                Mirror("x", tensor)


class Optimizers(Case):
    """Half the steps, then a fresh process's worth of objects goes on from the checkpoint: the same
    bits as in one go, for model, moments, step counts and learning rates."""

    KINDS = {
        "AdamW": lambda p: torch.optim.AdamW(p, lr=1e-2),
        "Adam amsgrad": lambda p: torch.optim.Adam(p, lr=1, amsgrad=True),
        "SGD": lambda p: torch.optim.SGD(p, lr=1e-2),
        "SGD momentum": lambda p: torch.optim.SGD(p, lr=1e-2, momentum=0.9, dampening=0.5),
        "Adagrad": lambda p: torch.optim.Adagrad(p, lr=1e-2, initial_accumulator_value=0.1),
        "RMSprop": lambda p: torch.optim.RMSprop(p, lr=1e-3, momentum=0.5, centered=True),
        "NAdam": lambda p: torch.optim.NAdam(p, lr=1e-3),
        "Rprop": lambda p: torch.optim.Rprop(p, lr=1e-3),
        "two groups": lambda p: torch.optim.AdamW([{"params": p[:2]},
                                                   {"params": p[2:], "lr": 1e-4}], lr=1e-2),
    }
    SCHEDULES = {
        "cosine": lambda o: torch.optim.lr_scheduler.CosineAnnealingLR(o, STEPS),
        "one cycle": lambda o: torch.optim.lr_scheduler.OneCycleLR(o, 1e-2, total_steps=STEPS + 1),
        "warm-up": lambda o: torch.optim.lr_scheduler.LambdaLR(o, lambda s: min(1, (s + 1) / 4)),
        "chain": lambda o: torch.optim.lr_scheduler.SequentialLR(
            o, [torch.optim.lr_scheduler.LinearLR(o, total_iters=3),
                torch.optim.lr_scheduler.ExponentialLR(o, 0.9)], milestones=[3]),
    }

    def check(self, make_optimizer, make_scheduler=None):
        whole, losses = run(make_optimizer, make_scheduler)
        for stop in (1, 3):
            with tempfile.TemporaryDirectory() as folder:
                run(make_optimizer, make_scheduler, folder=folder, stop_after=stop + 1)
                resumed, rest = run(make_optimizer, make_scheduler, folder=folder)
                self.assertLess(len(rest), STEPS, "it began anew")
                self.assertEqual(losses[-len(rest):], rest)
                self.assert_same(whole, resumed)
        staged, _ = run(make_optimizer, make_scheduler, stage=True)
        self.assert_same(whole, staged)
        self.assertTrue(all(torch.isfinite(tensor).all() for tensor in whole.values()))

    def test_kinds(self):
        for name, kind in self.KINDS.items():
            with self.subTest(name):
                self.check(kind)

    def test_schedules(self):
        for name, schedule in self.SCHEDULES.items():
            with self.subTest(name):
                self.check(lambda p: torch.optim.SGD(p, lr=1e-2), schedule)

    def test_the_rehearsal_leaves_no_trace(self):
        for name, kind in self.KINDS.items():
            shoal.torch.deterministic(seed=5)
            model = Net()
            before = copy.deepcopy(model.state_dict())
            optimizer = kind(trainable(model))
            state = copy.deepcopy(optimizer.state_dict())
            random = torch.get_rng_state()
            with shoal.torch.join(model, optimizer, slots=1, steps=1):
                pass
            self.assert_same(before, model.state_dict())
            self.assertEqual(str(state), str(optimizer.state_dict()), name)
            self.assertTrue(torch.equal(random, torch.get_rng_state()), name)

    def test_same_as_plain_pytorch(self):
        """One slot: nothing is averaged, so the weights are those of an ordinary loop, but for the
        rounding of gradients to the block's scale."""
        def data():
            torch.manual_seed(3)
            return torch.randn(STEPS, 8, 6)

        def make():
            shoal.torch.deterministic(seed=5)
            model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 1))
            return model, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, dampening=0.5)

        model, optimizer = make()
        with shoal.torch.join(model, optimizer, slots=1, steps=STEPS) as job:
            for step in job.steps():
                for slot in step:
                    slot.backward(model(data()[step.index]).square().mean())
                step.commit()
        plain, optimizer = make()
        for x in data():
            optimizer.zero_grad()
            plain(x).square().mean().backward()
            optimizer.step()
        for left, right in zip(model.parameters(), plain.parameters()):
            self.assertLess((left - right).abs().max(), 1e-6)


@unittest.skipUnless(hasattr(torch.Tensor, "register_post_accumulate_grad_hook"),
                     f"SKIPPED: PyTorch {torch.__version__} has no hook for gradients that are ready")
class Early(Case):
    """Gradients that leave during the backward pass."""

    def test_same_bits(self):
        adam = lambda p: torch.optim.AdamW(p, lr=1e-2)  # noqa: E731
        left = []
        kept = shoal.torch.Job._leave

        def watch(job, name, at, count, param):
            kept(job, name, at, count, param)
            left.append(name)

        shoal.torch.Job._leave = watch
        try:
            early, _ = run(adam)
        finally:
            shoal.torch.Job._leave = kept
        self.assertGreaterEqual(len(left), STEPS * SLOTS * 8)
        self.assert_same(early, run(adam, early=False)[0])

    def test_two_pieces_are_refused(self):
        model = nn.Linear(2, 1)
        with shoal.torch.join(model, torch.optim.SGD(model.parameters(), lr=0.1), slots=1,
                              steps=1) as job:
            for step in job.steps():
                for slot in step:
                    with self.assertRaisesRegex(shoal.ShoalError, "of weight came in two pieces|"
                                                "of bias came in two pieces"):
                        with job._leaving_early():
                            for _ in range(2):
                                model(torch.ones(1, 2)).sum().backward()
                    break
                break


class Sharded(Case):
    """Moments kept by the library, alone: all shares are this worker's."""

    def train(self, optimizer, folder=None, stop_after=STEPS):
        shoal.torch.deterministic(seed=5)
        model = nn.Sequential(nn.Linear(6, 50), nn.Tanh(), nn.Dropout(0.1), nn.Linear(50, 3))
        if callable(optimizer):
            optimizer = optimizer(model.parameters())
        every = {} if folder is None else {"checkpoint_dir": folder, "checkpoint_every": 1}
        steps = 0
        with shoal.torch.join(model, optimizer, seed=5, slots=SLOTS, steps=STEPS, **every) as job:
            for step in job.steps():
                for slot in step:
                    x = torch.tensor([[shoal.random(9, s, 0, i) / 2**64 for i in range(6)]
                                      for s in slot.samples])
                    slot.backward(model(x).square().sum())
                self.assertGreater(step.loss, 0)
                step.commit()
                steps += 1
                if steps == stop_after:
                    break
        return model.state_dict(), steps

    def test_it_is_adamw(self):
        sharded, _ = self.train(shoal.torch.ShardedAdamW(1e-2, decay=0.1))
        plain, _ = self.train(lambda p: torch.optim.AdamW(p, lr=1e-2, weight_decay=0.1))
        for name in plain:
            self.assertLess((plain[name] - sharded[name]).abs().max(), 1e-5, name)
        start = nn.Linear(6, 50)
        self.assertGreater((sharded["0.bias"] - start.bias).abs().max(), 1e-3)

    def test_resume(self):
        optimizer = shoal.torch.ShardedAdamW(lambda step: 1e-2 / (1 + step), clip=0.1)
        whole, _ = self.train(optimizer)
        with tempfile.TemporaryDirectory() as folder:
            self.train(optimizer, folder, stop_after=4)
            resumed, steps = self.train(optimizer, folder)
        self.assertLess(steps, STEPS)
        self.assert_same(whole, resumed)

    def test_what_it_cannot_carry_is_named(self):
        sharded = shoal.torch.ShardedAdamW()
        for model, more, sentence in (
                (nn.BatchNorm1d(3), {}, "buffer num_batches_tracked changes in training"),
                (nn.Linear(2, 2).double(), {}, "one is torch.float64"),
                (nn.Linear(2, 2), {"state": {"x": torch.zeros(1)}}, "no state")):
            with self.assertRaisesRegex(shoal.ShoalError, sentence):
                shoal.torch.join(model, sharded, slots=1, steps=1, **more)


class NotFinite(Case):
    def test_a_skipped_step_changes_nothing(self):
        """Not the moments, the learning rate or the statistics either: as if it had not been."""
        class Blow(Net):
            def forward(self, x):
                factor = float("inf") if self.at[0] in self.bad else 1.0
                return super().forward(x) * factor

        def go(bad, seen):
            shoal.torch.deterministic(seed=5)
            model = Blow()
            model.bad, model.at = bad, [0]
            optimizer = torch.optim.AdamW(trainable(model), lr=1e-2)
            schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
            with shoal.torch.join(model, optimizer, scheduler=schedule, seed=5, slots=2, steps=4,
                                  on_nan="skip") as job:
                for step in job.steps():
                    for slot in step:
                        model.at[0] = slot.step
                        slot.backward(model(torch.ones(4, 6) + slot.index).square().sum())
                    seen.append(step.index)
                    step.commit()
            return model, optimizer

        seen = []
        model, optimizer = go([1, 3], seen)
        self.assertEqual(seen, [0, 2])
        self.assertEqual(int(model.norm.num_batches_tracked), 2)
        self.assertEqual(optimizer.param_groups[0]["lr"], 1e-2 / 4)
        self.assertEqual(int(torch.as_tensor(optimizer.state[model.last.weight]["step"])), 2)
        self.assertTrue(all(torch.isfinite(p).all() for p in model.state_dict().values()))


class Norm(Case):
    def test_the_norm_is_that_of_the_mean(self):
        def norms(net):
            model = net
            with shoal.torch.join(model, torch.optim.SGD(model.parameters(), lr=0.1), slots=2,
                                  steps=1) as job:
                for step in job.steps():
                    for slot in step:
                        slot.backward(model(torch.ones(2, 6) * torch.tensor([[1.], [2.]])).square().mean())
                    wanted = torch.cat([p.grad.reshape(-1) for p in model.parameters()]).double().norm()
                    self.assertAlmostEqual(step.gradient_norm, float(wanted), places=12)
                    step.commit()

        norms(nn.Linear(6, 300))
        norms(nn.Sequential(nn.Linear(6, 3), nn.BatchNorm1d(3)))


class Statistics(Case):
    def test_batch_norm_does_not_depend_on_the_order_of_slots(self):
        """The buffers move by the mean over slots of what each slot would have done."""
        class One(nn.Module):
            def __init__(self):
                super().__init__()
                self.norm = nn.BatchNorm1d(6)

            def forward(self, x):
                return self.norm(x)[:, :3]

        result, _ = run(lambda p: torch.optim.SGD(p, lr=0.0), net=One)
        self.assertEqual(int(result["norm.num_batches_tracked"]), STEPS)
        mean = torch.zeros(6)
        for step in range(STEPS):
            slots = []
            for slot in range(SLOTS):
                first = (step * SLOTS + slot) * 4
                x = torch.tensor([[shoal.random(9, s, 0, i) / 2**64 for i in range(6)]
                                  for s in range(first, first + 4)])
                slots.append(x.mean(0))
            mean += 0.1 * (torch.stack(slots).mean(0) - mean)
        self.assertLess((mean - result["norm.running_mean"]).abs().max(), 1e-6)

    def test_a_buffer_that_changes_is_named(self):
        class Counter(nn.Module):
            def __init__(self):
                super().__init__()
                self.inner = nn.Linear(6, 3)
                self.register_buffer("seen", torch.zeros(2))

            def forward(self, x):
                self.seen += x.mean()
                return self.inner(x)

        sgd = lambda p: torch.optim.SGD(p, lr=0.1)  # noqa: E731
        with self.assertRaisesRegex(shoal.ShoalError, "buffer seen was changed by the forward"):
            run(sgd, net=Counter)
        result, _ = run(sgd, net=Counter, reduce_buffers=["seen"])
        self.assertGreater(float(result["seen"][0]), 0)


class BadInput(Case):
    def refuse(self, sentence, model, optimizer, **options):
        with self.assertRaisesRegex(shoal.ShoalError, sentence):
            shoal.torch.join(model, optimizer, **{"slots": 1, "steps": 1, **options})

    def test_sentences(self):
        model, other = nn.Linear(2, 2), nn.Linear(3, 3)
        sgd = torch.optim.SGD(model.parameters(), lr=0.1)
        self.refuse(r"shape \(3, 3\)|shape \(3,\)", model, torch.optim.SGD(other.parameters(), lr=1.))
        self.refuse("LBFGS evaluates", model, torch.optim.LBFGS(model.parameters()))
        self.refuse("has no buffer nothing", model, sgd, reduce_buffers=["nothing"])
        double = nn.Linear(2, 2).double()
        self.refuse("parameter weight is of torch.float64", double,
                    torch.optim.SGD(double.parameters(), lr=0.1))
        model.bias.requires_grad_(False)
        self.refuse("parameter bias is in the optimizer but is frozen", model, sgd)
        self.refuse("is given twice", other, torch.optim.SGD(other.parameters(), lr=0.1),
                    state={"weight": torch.zeros(1)})

    def test_sparse_gradient(self):
        model = nn.Embedding(4, 2, sparse=True)
        with shoal.torch.join(model, torch.optim.SGD(model.parameters(), lr=0.1), slots=1,
                              steps=1) as job:
            with self.assertRaisesRegex(shoal.ShoalError, "gradient of weight is sparse"):
                for step in job.steps():
                    for slot in step:
                        slot.backward(model(torch.tensor([1])).sum())

    def test_replaced_memory(self):
        model = nn.Linear(2, 1)
        with self.assertRaisesRegex(shoal.ShoalError, "memory of weight was replaced"):
            with shoal.torch.join(model, torch.optim.SGD(model.parameters(), lr=0.1), slots=1,
                                  steps=1) as job:
                for step in job.steps():
                    for slot in step:
                        slot.backward(model(torch.ones(1, 2)).sum())
                    model.weight.data = model.weight.data.clone()
                    step.commit()

    def test_a_checkpoint_of_another_run_is_passed_over(self):
        sgd = lambda p: torch.optim.SGD(p, lr=0.1)  # noqa: E731
        with tempfile.TemporaryDirectory() as folder:
            _, first = run(sgd, folder=folder)
            _, same = run(sgd, folder=folder)
            _, other = run(sgd, folder=folder, identity="other data")
        self.assertLess(len(same), STEPS)
        self.assertEqual((len(first), len(other)), (STEPS, STEPS))


@unittest.skipUnless(os.path.exists(os.environ.get("SHOAL", "")),
                     "SKIPPED: SHOAL does not name the shoal command, so nothing was merged")
class Merge(Case):
    """`shoal ckpt merge` makes a file that other programs load."""

    def load(self, path):
        try:
            from safetensors.torch import load_file
            return load_file(path)
        except ImportError:
            data = bytearray(pathlib.Path(path).read_bytes())
            size = int.from_bytes(data[:8], "little")
            rows = json.loads(data[8:8 + size])
            rows.pop("__metadata__", None)
            return {name: torch.frombuffer(data[8 + size + row["data_offsets"][0]:
                                                8 + size + row["data_offsets"][1]],
                                           dtype=torch.float32).view(row["shape"])
                    for name, row in rows.items()}

    def test_a_merged_checkpoint_is_the_model(self):
        adam = lambda p: torch.optim.AdamW(p, lr=1e-2)  # noqa: E731
        with tempfile.TemporaryDirectory() as folder:
            run(adam, folder=folder + "/checkpoints", stop_after=4)
            subprocess.run([os.environ["SHOAL"], "ckpt", "merge", folder + "/checkpoints",
                            "--with-state", "--out", folder + "/all.safetensors"], check=True,
                           stdout=subprocess.DEVNULL)
            loaded = shoal.torch.decoded(self.load(folder + "/all.safetensors"))
        model = Net()
        missing, _ = model.load_state_dict(loaded, strict=False)
        self.assertEqual(missing, [])
        steps = int(loaded["norm.num_batches_tracked"])
        self.assertTrue(1 <= steps <= 4, steps)
        self.assertEqual(loaded["mask"].dtype, torch.bool)
        self.assertEqual(loaded["thirds"].tolist(), Net().thirds.tolist())
        self.assertIn("optimizer.exp_avg.first.weight", loaded)


class Randomness(Case):
    def test_dropout_depends_on_step_and_slot_alone(self):
        drawn = {}
        model = nn.Linear(1, 1)

        def draw(skip):
            with shoal.torch.join(model, torch.optim.SGD(model.parameters(), lr=0.0), slots=3,
                                  steps=2, seed=4) as job:
                for step in job.steps():
                    for slot in step:
                        torch.rand(skip + slot.index)  # what happened before does not matter ...
                        shoal.torch.seed_all(shoal.random(4, slot.step, slot.index, 0))
                        value = nn.functional.dropout(torch.ones(50)).tolist()
                        drawn.setdefault((slot.step, slot.index), value)
                        self.assertEqual(drawn[slot.step, slot.index], value)
                        slot.backward(model(torch.ones(1)).sum())
                    step.commit()

        draw(0)
        draw(7)
        self.assertEqual(len({str(value) for value in drawn.values()}), 6)


class Gpu(Case):
    """The same API with tensors of a GPU. Without one the path through host memory runs all the
    same (stage=True in Optimizers), with pinning and waiting replaced by fakes here."""

    @unittest.skipUnless(torch.cuda.is_available(),
                         "SKIPPED: no GPU here, the CUDA path ran with a fake only")
    def test_cuda(self):
        adam = lambda p: torch.optim.AdamW(p, lr=1e-2)  # noqa: E731
        whole, losses = run(adam, device="cuda")
        with tempfile.TemporaryDirectory() as folder:
            run(adam, device="cuda", folder=folder, stop_after=3)
            resumed, rest = run(adam, device="cuda", folder=folder)
        self.assertEqual(losses[-len(rest):], rest)
        self.assert_same(whole, resumed)

    def test_fake(self):
        """A Job that believes its tensors live on a GPU: everything goes through host copies, and
        every one of them is waited for before libshoal or the optimizer looks."""
        calls = []
        from shoal import torch as module

        class Fake(module.Job):
            def _is_on_gpu(self):
                return True

        kept = module.settle, module.Job
        module.settle = lambda mirrors: calls.append(len(mirrors))
        module.Job = Fake
        try:
            adam = lambda p: torch.optim.AdamW(p, lr=1e-2)  # noqa: E731
            faked, _ = run(adam, stage=True)
        finally:
            module.settle, module.Job = kept
        self.assert_same(faked, run(adam)[0])
        # At the start; per slot; per step after the mean and after the update; after a pull.
        self.assertGreaterEqual(len(calls), 1 + STEPS * (SLOTS + 2) + 1)


def main():
    warnings.filterwarnings("ignore", message=".*lr_scheduler.*|.*epoch parameter.*|.*Detected call.*")
    program = unittest.main(verbosity=2, exit=False)
    for _, reason in program.result.skipped:
        print(reason)
    sys.exit(not program.result.wasSuccessful())


if __name__ == "__main__":
    main()
