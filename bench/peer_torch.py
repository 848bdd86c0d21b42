#!/usr/bin/env python3
"""peer_torch.py THREADS: the model of bench_trainer in PyTorch, for a race in turns.

A GPT with 4 layers, width 256, 8 heads, context 128 and 4,096 tokens (head tied to the token
embedding), batch 8, clipped by the global norm, AdamW, float32, no dropout. Each line on standard
input asks for that many steps; the answer is the seconds they took. The first answer, before any
question, names the version: PyTorch at its best on a CPU is what bench_trainer.c sets up for it
(OpenBLAS with OpenMP where Debian's build is used; one pool of threads).
"""
import math
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn

LAYERS, WIDTH, HEADS, CONTEXT, VOCABULARY, BATCH = 4, 256, 8, 128, 4096, 8


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.project = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
        self.register_buffer("later", torch.triu(torch.full((CONTEXT, CONTEXT), -math.inf), 1))

    def attention(self, x):
        q, k, v = self.qkv(x).view(BATCH, CONTEXT, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        if hasattr(F, "scaled_dot_product_attention"):
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1]) + self.later
            y = scores.softmax(-1) @ v
        return self.project(y.transpose(1, 2).reshape(BATCH, CONTEXT, WIDTH))

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.blocks, self.norm = nn.Sequential(*(Block() for _ in range(LAYERS))), nn.LayerNorm(WIDTH)
        for embedding in (self.tokens, self.positions):
            nn.init.normal_(embedding.weight, std=0.02)

    def loss(self, inputs, targets):
        x = self.tokens(inputs) + self.positions.weight
        logits = F.linear(self.norm(self.blocks(x)), self.tokens.weight)
        return F.cross_entropy(logits.view(-1, VOCABULARY), targets.reshape(-1))


def optimizer_of(parameters):
    try:
        return torch.optim.AdamW(parameters, lr=1e-3, fused=True), "fused"
    except (RuntimeError, TypeError, ValueError):
        return torch.optim.AdamW(parameters, lr=1e-3, foreach=True), "foreach"


def main():
    torch.set_num_threads(int(sys.argv[1]))
    torch.manual_seed(1)
    model = Model()
    parameters = list(model.parameters())
    optimizer, kind = optimizer_of(parameters)
    tokens = torch.randint(0, VOCABULARY, (BATCH, CONTEXT + 1))
    inputs, targets = tokens[:, :-1], tokens[:, 1:]

    def step():
        model.loss(inputs, targets).backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    for _ in range(3):
        step()
    count = sum(p.numel() for p in parameters)
    print(f"PyTorch {torch.__version__}, AdamW {kind}, {count} parameters", flush=True)
    for line in sys.stdin:
        start = time.perf_counter()
        for _ in range(int(line)):
            step()
        print(time.perf_counter() - start, flush=True)


main()
