#!/usr/bin/env python3
"""Fine-tunes a Hugging Face model as a worker of an elastic job or alone.

    PYTHONPATH=python python3 examples/hf_finetune.py --steps 30 --slots 8

A tiny BERT is made on the spot from a configuration (nothing is downloaded; with a model of yours
use from_pretrained). Its embeddings and first layer stay frozen, the rest learns to tell English
number words that are even from those that are odd. Where the package transformers is missing, a
module of the same interface takes its place, and the first line says so.
"""
import argparse
import types

import torch
from torch import nn

import shoal.torch  # shoal

ONES = "one two three four five six seven eight nine".split()
TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()
CONTEXT = 32


def text_and_label(sample):
    """Sample number `sample` of the endless stream: words of a number, and whether it is odd."""
    number = shoal.random(11, sample, 0, 0) % (len(TENS) * len(ONES) * 9)
    hundreds, tens, ones = number // 72 % 9, number // 9 % 8, number % 9
    return f"{ONES[hundreds]} hundred {TENS[tens]} {ONES[ones]}", 1 - ones % 2


def batch_of(samples):
    rows = [text_and_label(sample) for sample in samples]
    tokens = torch.zeros(len(rows), CONTEXT, dtype=torch.long)
    for row, (text, _) in zip(tokens, rows):
        row[:len(text)] = torch.tensor(list(text.encode()))[:CONTEXT]
    return {"input_ids": tokens, "attention_mask": (tokens > 0).long(),
            "labels": torch.tensor([label for _, label in rows])}


class StandIn(nn.Module):
    """What of transformers' sequence classifiers this program uses."""

    def __init__(self, width, layers, heads):
        super().__init__()
        self.embeddings = nn.Embedding(256, width)
        self.place = nn.Parameter(torch.randn(CONTEXT, width) * 0.02)
        self.layers = nn.ModuleList(nn.TransformerEncoderLayer(width, heads, 4 * width, 0.1,
                                                               batch_first=True)
                                    for _ in range(layers))
        self.classifier = nn.Linear(width, 2)

    def forward(self, input_ids, attention_mask, labels):
        x = self.embeddings(input_ids) + self.place
        for layer in self.layers:
            x = layer(x, src_key_padding_mask=attention_mask == 0)
        mask = attention_mask.unsqueeze(-1).to(x.dtype)
        logits = self.classifier((x * mask).sum(1) / mask.sum(1))
        return types.SimpleNamespace(loss=nn.functional.cross_entropy(logits, labels),
                                     logits=logits)

    def frozen(self):
        return [self.embeddings, self.layers[0]]


def make_model(width, layers, heads):
    """(model, modules to freeze)"""
    try:
        from transformers import BertConfig, BertForSequenceClassification
    except ImportError as missing:
        print(f"{missing}: a module of the same interface takes the place of transformers' BERT "
              "(pip install transformers for the real one)", flush=True)
        model = StandIn(width, layers, heads)
        return model, model.frozen()
    model = BertForSequenceClassification(BertConfig(
        vocab_size=256, hidden_size=width, num_hidden_layers=layers, num_attention_heads=heads,
        intermediate_size=4 * width, max_position_embeddings=CONTEXT, num_labels=2))
    return model, [model.bert.embeddings, model.bert.encoder.layer[0]]


def arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in (("width", 64), ("layers", 2), ("heads", 2), ("batch", 8), ("seed", 1)):
        parser.add_argument("--" + name, type=int, default=value)
    parser.add_argument("--slots", type=int, default=0, help="0: what the job says")
    parser.add_argument("--steps", type=int, default=0, help="0: what the job says")
    parser.add_argument("--rate", type=float, default=3e-3)
    return parser.parse_args()


def main():
    args = arguments()
    shoal.torch.deterministic(args.seed)  # shoal
    model, frozen = make_model(args.width, args.layers, args.heads)
    for module in frozen:
        module.requires_grad_(False)
    model.train()
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=args.rate)
    with shoal.torch.join(model, optimizer, seed=args.seed, slots=args.slots,  # shoal
                          steps=args.steps, samples_per_slot=args.batch) as job:
        for step in job.steps():  # shoal: instead of range()
            for slot in step:  # shoal
                slot.backward(model(**batch_of(slot.samples)).loss)  # shoal
            step.commit()  # shoal: instead of optimizer.step()
            if step.index % 10 == 0:
                print(f"step {step.index}  loss {step.loss:.4f}", flush=True)
    if job.done:
        with torch.no_grad():
            batch = batch_of(range(10**9, 10**9 + 200))
            model.eval()
            right = (model(**batch).logits.argmax(1) == batch["labels"]).float().mean()
        print(f"{right:.0%} of 200 numbers it has not seen are told apart")


if __name__ == "__main__":
    try:
        main()
    except shoal.ShoalError as error:
        raise SystemExit(f"hf_finetune: {error}")
