#!/usr/bin/env python3
"""Lightning under shoal.lightning.Elastic gives the weights of the plain loop of shoal.torch, and
workers under Lightning survive kill -9.

    lightning_test.py           the test
    lightning_test.py train     the training program
    lightning_test.py plain     the same training without Lightning
"""
import logging
import pathlib
import sys
import warnings

root = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(root / "python"), str(root / "tests/e2e")]
import fake_agent  # noqa: E402

STEPS, SLOTS = 10, 4


def parts():
    """(module, batch_of) for both ways of training."""
    import torch
    from torch import nn

    import shoal.lightning
    import shoal.torch
    try:
        from lightning.pytorch import LightningModule
    except ImportError:
        from pytorch_lightning import LightningModule

    class Net(LightningModule):
        def __init__(self):
            super().__init__()
            self.net = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Dropout(0.1), nn.Linear(16, 1))

        def training_step(self, batch, index=0):
            return (self.net(batch) - batch.sum(1, keepdim=True)).square().mean()

        def configure_optimizers(self):
            optimizer = torch.optim.AdamW(self.parameters(), lr=1e-2)
            return [optimizer], [torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)]

    def batch_of(samples):
        return torch.tensor([[shoal.random(5, s, 0, i) / 2**64 for i in range(4)] for s in samples])

    shoal.torch.deterministic(seed=2)
    return Net(), batch_of


def train():
    warnings.filterwarnings("ignore")
    logging.getLogger("pytorch_lightning").setLevel(logging.ERROR)
    net, batch_of = parts()
    import shoal.lightning
    try:
        from lightning.pytorch import Trainer
    except ImportError:
        from pytorch_lightning import Trainer
    elastic = shoal.lightning.Elastic(batch_of, seed=2, samples_per_slot=4, clip=0.5, identity="lightning")
    trainer = Trainer(max_epochs=1, callbacks=[elastic], accelerator="cpu", devices=1, logger=False,
                      enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False)
    trainer.fit(net, elastic.loader)


def plain():
    import torch

    import shoal.torch
    net, batch_of = parts()
    (optimizer,), (scheduler,) = net.configure_optimizers()
    with shoal.torch.join(net, optimizer, scheduler=scheduler, seed=2, samples_per_slot=4,
                          identity="lightning") as job:
        for step in job.steps():
            for slot in step:
                slot.backward(net.training_step(batch_of(slot.samples)))
            torch.nn.utils.clip_grad_norm_(net.parameters(), 0.5)
            step.commit()


def test():
    settings = {"SHOAL_SLOTS": SLOTS, "SHOAL_STEPS": STEPS, "OMP_NUM_THREADS": 1}
    wanted = fake_agent.alone([sys.executable, __file__, "plain"], **settings)
    program = [sys.executable, __file__, "train"]
    with fake_agent.Agent(program, STEPS, SHOAL_EMULATE_SLOT_US=20000, SHOAL_GANG=2, **settings) as agent:
        agent.start_all((1, 2))
        agent.admit(1, 2)
        agent.serve_until(2)
        agent.kill(1)
        agent.serve_to_end()
        assert agent.ended == {1: -9, 2: 0}, agent.ended
        agent.check_rows(SLOTS)
    assert agent.digest == wanted, f"{agent.digest} instead of {wanted}"
    print(f"Lightning with a kill -9: same weights as the plain loop, {wanted[:16]}")


def main():
    try:
        import shoal.lightning  # noqa: F401
    except ImportError as missing:
        print(f"SKIPPED: {missing}; pip install pytorch-lightning and set SHOAL_PYTHON to that python3",
              file=sys.stderr)
        sys.exit(77)
    {"train": train, "plain": plain}.get(" ".join(sys.argv[1:]), test)()


main()
