#!/usr/bin/env python3
"""A small GPT on bytes of a text, as a worker of an elastic job or alone.

    PYTHONPATH=python python3 examples/torch_lm.py --data text.txt --steps 100

The lines marked "# shoal" are what makes an ordinary PyTorch script elastic; see docs/python.md.
"""
import argparse
import hashlib
import pathlib

import torch
from torch import nn
from torch.nn import functional

import shoal.torch  # shoal


class Block(nn.Module):
    def __init__(self, width, heads, dropout):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.mix, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.dropout = nn.Dropout(dropout)

    def attend(self, x):
        batch, time, width = x.shape
        query, key, value = (part.view(batch, time, self.heads, -1).transpose(1, 2)
                             for part in self.mix(x).chunk(3, dim=-1))
        score = query @ key.transpose(-2, -1) * key.shape[-1] ** -0.5
        future = torch.ones(time, time, dtype=torch.bool).triu(1)
        weight = self.dropout(score.masked_fill(future, float("-inf")).softmax(dim=-1))
        return self.out((weight @ value).transpose(1, 2).reshape(batch, time, width))

    def forward(self, x):
        x = x + self.dropout(self.attend(self.norm1(x)))
        return x + self.dropout(self.down(functional.gelu(self.up(self.norm2(x)))))


class Gpt(nn.Module):
    def __init__(self, layers, width, heads, context, dropout):
        super().__init__()
        self.token, self.place = nn.Embedding(256, width), nn.Embedding(context, width)
        self.blocks = nn.ModuleList(Block(width, heads, dropout) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 256, bias=False)
        self.head.weight = self.token.weight
        nn.init.normal_(self.token.weight, std=0.02)
        nn.init.normal_(self.place.weight, std=0.02)

    def forward(self, tokens):
        x = self.token(tokens) + self.place(torch.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def sequence(text, sample, context):
    """Sample number `sample` of the endless stream: a run of context + 1 bytes of the text."""
    start = shoal.random(7, sample, 0, 0) % (len(text) - context)
    return text[start:start + context + 1]


def loss_of(model, text, samples, context):
    batch = torch.stack([sequence(text, sample, context) for sample in samples])
    logits = model(batch[:, :-1])
    return functional.cross_entropy(logits.reshape(-1, 256), batch[:, 1:].reshape(-1))


def arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, help="a text file")
    for name, value in (("layers", 2), ("width", 64), ("heads", 4), ("context", 64), ("batch", 4),
                        ("seed", 1), ("threads", 1)):
        parser.add_argument("--" + name, type=int, default=value)
    parser.add_argument("--slots", type=int, default=0, help="0: what the job says")
    parser.add_argument("--steps", type=int, default=0, help="0: what the job says")
    parser.add_argument("--sharded", action="store_true",
                        help="let the library keep the moments, each worker a share of them")
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--rate", type=float, default=3e-3)
    return parser.parse_args()


def main():
    args = arguments()
    data = pathlib.Path(args.data).read_bytes()
    if len(data) <= args.context + 1:
        raise SystemExit(f"torch_lm: {args.data}: {len(data)} bytes are too few for --context "
                         f"{args.context}; give a longer text")
    text = torch.frombuffer(bytearray(data), dtype=torch.uint8).long()
    shoal.torch.deterministic(args.seed, args.threads)  # shoal: before the model is made
    model = Gpt(args.layers, args.width, args.heads, args.context, args.dropout)
    if args.sharded:
        optimizer, scheduler = shoal.torch.ShardedAdamW(args.rate, clip=1.0), None
    else:
        optimizer = torch.optim.AdamW(model.parameters(), lr=args.rate)
        scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 1000)
    with shoal.torch.join(  # shoal: join, wrap
            model, optimizer, scheduler=scheduler, seed=args.seed, slots=args.slots,
            steps=args.steps, samples_per_slot=args.batch, tokens_per_sample=args.context,
            identity=hashlib.sha256(data).hexdigest()) as job:
        for step in job.steps():  # shoal: instead of range()
            for slot in step:  # shoal: the micro-batches this worker computes
                loss = loss_of(model, text, slot.samples, args.context)
                slot.backward(loss)  # shoal: instead of loss.backward()
            if not args.sharded:
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            step.commit()  # shoal: instead of optimizer.step()
            if step.index % 10 == 0:
                print(f"step {step.index}  loss {step.loss:.4f}", flush=True)


if __name__ == "__main__":
    try:
        main()
    except (shoal.ShoalError, OSError) as error:
        raise SystemExit(f"torch_lm: {error}")
