#!/usr/bin/env python3
"""Cost gates on a running server: who waits and who is refused, with which figures, what is left."""
import json
import os
import subprocess

from served import CONFIG, MARKET, PROGRAM, WAIT_S, Case, job, main

GATES = CONFIG + """
classes:
  P2: {gates: {usd_per_hour: 1.5}}
  P3: {gates: {usd_per_job: 0.5, above: refuse}}
tenants:
  acme: {limits: {usd_per_day: 10}, projects: {nlp: {gates: {usd_per_month: 20}}}}
"""
OWNER = "owner: {tenant: acme, project: nlp}\n"


class Gates(Case):
    config = GATES

    def setUp(self):
        super().setUp()
        with open(os.path.join(self.server.dir, "market.yaml"), "w") as file:
            file.write(MARKET.replace("stock: 1", "stock: 3"))
        self.server.start()
        self.server.wait_for_offers()

    def line(self, of, name):
        rows = self.server.get("/v1/budget")["budgets"]
        return next(row for row in rows if (row["of"], row["name"]) == (of, name))

    def said_of(self, number):
        rows = self.server.get(f"/v1/jobs/{number}/why")["decisions"]
        return "\n".join(row["text"] for row in rows)

    def test_money_is_set_aside_and_shown(self):
        status, first = self.server.submit(job("first", more=OWNER))
        self.assertEqual(status, 201)
        self.assertEqual(self.server.submit(job("second", more=OWNER))[0], 201)
        self.assertIn("needs $1.00/h of spot or on-demand capacity, and $0.50/h are left within "
                      "the cost gate of its class", self.said_of(2))
        status, refused = self.server.submit(job("third", more=OWNER + "class: P3\n"))
        self.assertEqual(status, 422)
        self.assertIn("$0.50 are left of what the cost gate of its class allows one job",
                      refused["error"])
        project = self.line("project", "nlp")["bought"]
        self.assertEqual(project["month"]["reserved_usd_micros"] +
                         project["month"]["used_usd_micros"], 1000000)
        self.assertEqual(project["month"]["left_usd_micros"], 19000000)
        self.assertEqual(self.line("class", "P2")["bought"]["hour"]["left_usd_micros"], 500000)
        self.assertEqual(self.line("tenant", "acme")["day"]["left_usd_micros"], 9000000)
        shown = subprocess.run([PROGRAM, "budget", "--data", self.server.data], text=True,
                               capture_output=True, timeout=WAIT_S)
        self.assertEqual(shown.returncode, 0, shown.stderr)
        self.assertRegex(shown.stdout, r"project +nlp +bought this month .*\$20\S* +\$19")
        as_json = subprocess.run([PROGRAM, "budget", "--json", "--data", self.server.data],
                                 text=True, capture_output=True, timeout=WAIT_S)
        self.assertTrue(json.loads(as_json.stdout)["budgets"])
        self.server.ask("POST", f"/v1/jobs/{first['job']}/cancel")
        self.server.wait_for("the second job to start", lambda: self.server.get(
            "/v1/jobs/2")["state"] in ("starting", "running"))

    def test_a_restart_keeps_what_is_set_aside(self):
        self.assertEqual(self.server.submit(job("first", more=OWNER))[0], 201)
        self.server.kill()
        self.server.start()
        month = self.line("project", "nlp")["bought"]["month"]
        self.assertEqual(month["left_usd_micros"], 19000000)


if __name__ == "__main__":
    main()
