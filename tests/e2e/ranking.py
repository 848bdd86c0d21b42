#!/usr/bin/env python3
"""A site's own ranking of offers: an expression, and a program that answers, hangs, ends and talks nonsense."""
import os
import sys

from served import CONFIG, Case, job, main

MARKET = """
seed: 3
zones:
  aurora/east-a: {region: east, notice: 0s, boot: {min: 0.05s, max: 0.1s}}
  aurora/east-b: {region: east, notice: 0s, boot: {min: 0.05s, max: 0.1s}}
offers:
  - {zone: aurora/east-a, model: A10, devices: 1, kind: on_demand, on_demand: 1.00, stock: 4}
  - {zone: aurora/east-b, model: A10, devices: 1, kind: on_demand, on_demand: 1.50, stock: 4}
"""
# Prefers what is dear; does what the file `mode` says, which it reads for each question.
PROGRAM = """
import json, sys, time
for line in sys.stdin:
    asked = json.loads(line)
    mode = open("mode").read()
    if mode == "hang":
        time.sleep(60)
    if mode == "end":
        sys.exit(3)
    if mode == "nonsense":
        print("the second one", flush=True)
    counts = {str(o["offer"]): 10**12 // o["usd_micros_per_hour"] for o in asked["offers"]}
    print(json.dumps({"round": asked["round"], "counts": counts}), flush=True)
"""


class Ranking(Case):
    def begin(self, ranking):
        self.write("market.yaml", MARKET)
        self.write("shoal.yaml", CONFIG + ranking)
        self.write("rank.py", PROGRAM)
        self.write("mode", "good")

    def write(self, name, text):
        path = os.path.join(self.server.dir, name)
        with open(path + ".new", "w") as file:
            file.write(text)
        os.rename(path + ".new", path)

    def ranks(self):
        return {o["zone"]: o["rank_ppm"] for o in self.server.get("/v1/offers")["offers"]}

    def all_ranked(self):
        return [rank > 0 for rank in self.ranks().values()] == [True, True]

    def decisions(self, verb):
        rows = self.server.get("/v1/decisions?limit=200")["decisions"]
        return [row["reason"] for row in rows if row["kind"] == verb]

    def zone_of_next_job(self, name):
        before = len(self.decisions("buy"))
        self.assertEqual(self.server.submit(job(name, more="market: {kinds: [on_demand]}"))[0], 201)
        self.server.wait_for("a purchase", lambda: len(self.decisions("buy")) > before)
        return self.server.get("/v1/decisions?limit=200")["decisions"]

    def test_an_expression_decides_and_a_mistake_in_it_has_its_column(self):
        self.begin("ranking: {expression: \"price * if(price > 1.2, 0.5, 1)\", every: 100ms}\n")
        self.server.start()
        self.server.wait_for("ranks", lambda: self.ranks().get("aurora/east-b"))
        self.zone_of_next_job("a")
        self.assertIn("RANKED", self.decisions("buy"))
        nodes = self.server.get("/v1/nodes")["nodes"]
        self.assertEqual([n["zone"] for n in nodes], ["aurora/east-b"])
        self.server.stop()
        self.begin("ranking: {expression: \"price * prize\"}\n")
        with self.assertRaises(AssertionError) as refused:
            self.server.start()
        self.assertIn("column 9: no such field", str(refused.exception))
        self.begin("")  # the server that cleans up

    def test_a_program_decides_until_it_hangs_ends_or_talks_nonsense(self):
        self.begin(f"ranking: {{program: [{sys.executable}, rank.py], every: 100ms, timeout: 500ms}}\n")
        self.server.start()
        self.server.wait_for("ranks", self.all_ranked)
        self.zone_of_next_job("a")
        self.assertEqual(self.decisions("buy"), ["RANKED"])
        for mode, reason, cause in [("hang", "RANKING_LATE", "late"),
                                    ("end", "RANKING_FAILED", "failed"),
                                    ("nonsense", "RANKING_NONSENSE", "nonsense")]:
            self.write("mode", mode)
            self.server.wait_for(reason, lambda: reason in self.decisions("distrust"))
            self.assertEqual(set(self.ranks().values()), {0}, mode)
            if mode == "hang":
                self.zone_of_next_job(mode)
                self.assertIn("UNRANKED", self.decisions("buy"))
            self.write("mode", "good")
            self.server.wait_for("ranks", self.all_ranked)
            page = self.server.ask("GET", "/metrics")[1]
            self.assertIn(f'shoal_ranking_fallbacks_total{{cause="{cause}"}} 1\n', page)
            self.assertIn("shoal_ranking_own 1\n", page)
        said = self.server.said()
        self.assertEqual(said.count("the built-in ranking counts until"), 3, said)
        self.assertEqual(self.server.stop(), 0)
        left = [pid for pid in filter(str.isdigit, os.listdir("/proc"))
                if self.server.dir == self.folder_of(pid)]
        self.assertEqual(left, [])

    def test_a_learned_one_leaves_what_it_does_not_know_to_the_built_in(self):
        self.begin("ranking: {learned: shipped, every: 100ms}\n")
        market = MARKET.replace("devices: 1", "devices: 64")  # no such node was met in training
        self.write("market.yaml", market)
        self.server.start()
        self.server.wait_for("ranks", lambda: set(self.ranks().values()) == {1})
        self.zone_of_next_job("a")
        self.assertEqual(self.decisions("buy"), ["RANK_OUTSIDE"])
        self.server.stop()
        self.write("shoal.yaml", CONFIG + "ranking: {learned: net.yaml}\n")
        self.write("net.yaml", "version: 7\n")
        with self.assertRaises(AssertionError) as refused:
            self.server.start()
        self.assertIn("net.yaml:1: a ranking of version 7, this program reads version 1", str(refused.exception))
        self.begin("")  # the server that cleans up
        self.write("market.yaml", market)

    @staticmethod
    def folder_of(pid):
        try:
            return os.readlink(f"/proc/{pid}/cwd")
        except OSError:
            return ""


if __name__ == "__main__":
    main()
