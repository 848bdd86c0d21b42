#!/usr/bin/env python3
"""The server as a client meets it: tokens, bad input, streams, metrics, locks and ports."""
import json
import os
import re
import signal
import socket
import subprocess
import unittest

from served import IMPOSSIBLE, PROGRAM, WAIT_S, Case, Server, job, main


class Doors(Case):
    def test_a_second_server_is_refused(self):
        self.server.start()
        second = subprocess.run(self.server.command(), capture_output=True, text=True,
                                timeout=WAIT_S)
        self.assertEqual(second.returncode, 1)
        self.assertIn(str(self.server.process.pid), second.stderr)
        self.assertIn(f"http://127.0.0.1:{self.server.port}", second.stderr)
        self.assertEqual(len(second.stderr.strip().splitlines()), 1)
        self.assertEqual(self.server.get("/healthz")["ok"], True)

    def test_a_taken_port_is_told(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            command = self.server.command("--listen", f"127.0.0.1:{taken.getsockname()[1]}")
            run = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_S)
        self.assertEqual(run.returncode, 1)
        self.assertIn("in use", run.stderr)
        self.assertIn("--listen", run.stderr)

    def test_other_machines_are_not_let_in_by_accident(self):
        for address in ("0.0.0.0:0", "[::]:0"):
            run = subprocess.run(self.server.command("--listen", address), capture_output=True,
                                 text=True, timeout=WAIT_S)
            self.assertEqual(run.returncode, 1, address)
            self.assertIn("--allow-remote", run.stderr)
        self.server.start("--listen", "0.0.0.0:0", "--allow-remote")
        self.server.host = "127.0.0.1"
        self.assertEqual(self.server.get("/healthz")["ok"], True)

    def test_wrong_command_lines_say_so(self):
        for words in (["--listen"], ["--nope"], ["--journal-max-bytes", "ten"], ["extra"]):
            run = subprocess.run([PROGRAM, "server", *words], capture_output=True, text=True,
                                 timeout=WAIT_S, cwd=self.server.dir)
            self.assertEqual(run.returncode, 2, words)
        for listen in ("nonsense", "127.0.0.1:", "127.0.0.1:99999", ":", "[::1"):
            run = subprocess.run(self.server.command("--listen", listen), capture_output=True,
                                 text=True, timeout=WAIT_S)
            self.assertEqual(run.returncode, 2, listen)
            self.assertIn("listen", run.stderr)

    def test_a_clean_stop_leaves_no_process_and_no_note(self):
        self.server.start()
        self.server.wait_for_offers()
        self.assertEqual(self.server.submit(job("long"))[0], 201)
        self.server.wait_for("a running job",
                             lambda: self.server.get("/v1/jobs/1")["state"] == "running")
        self.assertEqual(self.server.stop(), 0, self.server.said())
        self.assertFalse(os.path.exists(os.path.join(self.server.data, "server.json")))
        self.assertFalse(os.path.exists(os.path.join(self.server.data, "journal.db-wal")))
        left = [line for line in processes() if self.server.dir in line]
        self.assertEqual(left, [])

    def test_sigint_in_the_middle_of_open_requests(self):
        self.server.start()
        stream = self.server.connect()
        stream.request("GET", "/v1/events", headers={"Authorization": "Bearer " + self.server.token})
        self.assertEqual(stream.getresponse().status, 200)
        self.server.process.send_signal(signal.SIGINT)
        self.assertEqual(self.server.process.wait(WAIT_S), 0)
        self.server.process.stdout.close()


def processes():
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                yield file.read().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            pass  # gone meanwhile


class Tokens(Case):
    def test_who_may_call_what(self):
        self.server.start()
        server = self.server
        cases = [("GET", "/healthz", "", 200), ("GET", "/", "", 200),
                 ("GET", "/openapi.json", "", 200), ("GET", "/v1/jobs", "", 401),
                 ("GET", "/v1/jobs", "0" * 64, 401), ("GET", "/v1/jobs", "x", 401),
                 ("GET", "/v1/jobs", server.token[:-1], 401),
                 ("GET", "/v1/jobs", server.agent_token, 403), ("GET", "/metrics", "", 401),
                 ("GET", "/metrics", server.agent_token, 403),
                 ("GET", "/v1/events", "", 401), ("POST", "/v1/jobs", server.agent_token, 403),
                 ("POST", "/v1/agents/1/report", server.token, 403),
                 ("POST", "/v1/agents/1/report", "", 401),
                 ("GET", "/v1/jobs", server.token, 200)]
        for method, path, token, expected in cases:
            status, text, headers = server.ask(method, path, token=token)
            self.assertEqual(status, expected, (method, path))
            if expected >= 400:
                self.assert_sentence(text)
            if expected == 401:
                self.assertEqual(headers["WWW-Authenticate"], "Bearer")
        for name in ("token", "agent-token", "journal.db"):
            mode = os.stat(os.path.join(server.data, name)).st_mode & 0o777
            self.assertEqual(mode, 0o600, name)

    def test_an_agent_of_an_unknown_node_is_told_to_leave(self):
        self.server.start()
        report = {"agent": {"pid": 1, "started": "2026-01-01T00:00:00Z"}, "phase": "joined",
                  "device": {"model": "A10", "count": 1, "vram_mib": 24576}, "workers": [],
                  "progress": [], "ckpts": [], "logs": [], "logs_after": 0}
        status, text, _ = self.server.ask("POST", "/v1/agents/12345/report", json.dumps(report),
                                          token=self.server.agent_token)
        self.assertEqual(status, 200, text)
        self.assertTrue(json.loads(text)["leave"])


class BadInput(Case):
    def test_each_is_refused_by_one_sentence(self):
        self.server.start()
        self.server.wait_for_offers()
        huge = "x: " + "y" * (2 << 20)
        cases = [("GET", "/nope", None, 404), ("GET", "/v1/jobs/", None, 404),
                 ("GET", "/v1/jobs/abc", None, 400), ("GET", "/v1/jobs/99", None, 404),
                 ("GET", "/v1/jobs/99/why", None, 404), ("GET", "/v1/jobs/99/logs", None, 404),
                 ("GET", "/v1/jobs/99/progress", None, 404),
                 ("POST", "/v1/jobs/99/cancel", None, 404),
                 ("POST", "/v1/nodes/99/drain", None, 404),
                 ("GET", "/v1/jobs/18446744073709551616", None, 400),
                 ("GET", "/v1/jobs/%00", None, 404), ("GET", "/v1/jobs/%ff%fe", None, 400),
                 ("DELETE", "/v1/jobs", None, 405), ("PUT", "/v1/jobs/1", "", 405),
                 ("GET", "/v1/jobs?limit=x", None, 400), ("GET", "/v1/jobs?limit=-1", None, 400),
                 ("GET", "/v1/jobs?limit=99999999999999999999", None, 400),
                 ("GET", "/v1/jobs?state=lazy", None, 400), ("GET", "/v1/jobs?colour=red", None, 400),
                 ("GET", "/v1/cost?by=colour", None, 400), ("GET", "/v1/nodes?after=1", None, 400),
                 ("POST", "/v1/jobs", "", 400), ("POST", "/v1/jobs", "[]", 400),
                 ("POST", "/v1/jobs", "name: [", 400), ("POST", "/v1/jobs", b"\xff\xfe", 400),
                 ("POST", "/v1/jobs", b"name: a\0b", 400), ("POST", "/v1/jobs", huge, 413),
                 ("POST", "/v1/jobs/1/cancel", "{}", 413),
                 ("POST", "/v1/jobs", job().replace("needs", "neds"), 400),
                 ("POST", "/v1/jobs", job(more="budget: {usd: -1}\n"), 400),
                 ("POST", "/v1/jobs", job(devices="{min: 4, max: 2}"), 400),
                 ("POST", "/v1/jobs", IMPOSSIBLE, 422),
                 ("POST", "/v1/plan", "nonsense", 400)]
        for method, path, body, expected in cases:
            connection = self.server.connect()
            status, text, _ = self.server.ask(method, path, body, connection=connection)
            self.assertEqual(status, expected, (method, path, text))
            self.assert_sentence(text)
        self.assertEqual(self.server.submit(job("fine"))[0], 201)

    def test_the_sentence_names_key_line_and_nearest_key(self):
        self.server.start()
        _, text, _ = self.server.ask("POST", "/v1/jobs", job().replace("needs", "neds"))
        error = self.assert_sentence(text)
        self.assertIn("job.yaml:3", error)
        self.assertIn('"neds"', error)
        self.assertIn('"needs"', error)

    def test_a_region_of_data_is_known_or_the_nearest_is_named(self):
        self.server.start()
        self.server.wait_for_offers()
        for region, expected, said in (
                ("us-eats-1", 400, 'data.region "us-eats-1" is not known; did you mean "us-east-1"?'),
                ("moon", 400, "add it to the links of your catalog"),
                ("us-east-1", 201, ""), ("east", 201, "")):
            for path in ("/v1/plan", "/v1/jobs"):
                status, text, _ = self.server.ask(
                    "POST", path, job(region, more=f"data: {{region: {region}, gb: 5}}\n"))
                self.assertEqual(status, 200 if path == "/v1/plan" and not said else expected, text)
                self.assertIn(said, text if not said else self.assert_sentence(text))

    def test_a_region_of_the_market_is_known_or_the_nearest_is_named(self):
        self.server.start()
        self.server.wait_for_offers()
        for region, said in (("eats", 'market.region "eats" is not known; did you mean "east"?'),
                             ("moon", "nothing is on sale there")):
            status, text, _ = self.server.ask("POST", "/v1/plan", job(more=f"market: {{region: {region}}}\n"))
            self.assertEqual(status, 400, text)
            self.assertIn(said, self.assert_sentence(text))
        status, text, _ = self.server.ask("POST", "/v1/jobs", job(more="market: {region: east}\n"))
        self.assertEqual(status, 201, text)

    def test_bad_agent_reports(self):
        self.server.start()
        for body in ("", "{", "[]", "{}", '{"agent":1}', '{"unknown":{}}', "\u0000"):
            status, text, _ = self.server.ask("POST", "/v1/agents/1/report", body,
                                              token=self.server.agent_token)
            self.assertEqual(status, 400, body)
            self.assert_sentence(text)

    def test_garbage_on_the_wire_does_not_stop_the_server(self):
        self.server.start()
        with socket.create_connection((self.server.host, self.server.port), WAIT_S) as raw:
            raw.sendall(b"\0" * 100)  # no line yet: nothing to answer
        for garbage in (b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n",
                        b"GET / HTTP/1.1\r\nHost: a\r\n" + b"X: " + b"y" * 100000 + b"\r\n\r\n",
                        b"POST /v1/jobs HTTP/1.1\r\nHost: a\r\nContent-Length: -5\r\n\r\n",
                        b"POST /v1/jobs HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n"):
            with socket.create_connection((self.server.host, self.server.port), WAIT_S) as raw:
                try:
                    raw.sendall(garbage)
                    raw.shutdown(socket.SHUT_WR)
                    while raw.recv(4096):
                        pass
                except TimeoutError:
                    raise
                except OSError:
                    pass  # it has closed first, perhaps with bytes unread: reset, or not connected
        self.assertEqual(self.server.get("/healthz")["ok"], True)

    def test_a_chunked_body_has_the_same_limit(self):
        self.server.start()
        with socket.create_connection((self.server.host, self.server.port), WAIT_S) as raw:
            raw.sendall(b"POST /v1/jobs HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer " +
                        self.server.token.encode() + b"\r\nTransfer-Encoding: chunked\r\n\r\n")
            block = b"10000\r\n" + b"x" * 65536 + b"\r\n"
            try:
                for _ in range(17):
                    raw.sendall(block)
                raw.sendall(b"0\r\n\r\n")
                answer = raw.recv(4096)
            except (BrokenPipeError, ConnectionResetError):
                answer = b"HTTP/1.1 413"  # cut off in the middle is as good
        self.assertIn(b" 413", answer.splitlines()[0])
        self.assertEqual(self.server.get("/healthz")["ok"], True)


class Streams(Case):
    def events(self):
        answer = self.stream.getresponse()
        self.assertEqual(answer.status, 200)
        self.assertEqual(answer.headers["Content-Type"], "text/event-stream")
        kind = None
        while True:
            line = answer.readline().decode().rstrip("\n")
            if line.startswith("event: "):
                kind = line[7:]
            elif line.startswith("data: "):
                yield kind, json.loads(line[6:])

    def test_decisions_and_entries_arrive(self):
        self.server.start()
        self.server.wait_for_offers()
        self.stream = self.server.connect()
        self.stream.request("GET", "/v1/events",
                            headers={"Authorization": "Bearer " + self.server.token})
        events = self.events()
        self.assertEqual(self.server.submit(job("watched", "exec true"))[0], 201)
        seen = {}
        for kind, data in events:
            seen.setdefault((kind, data["kind"]), data)
            if ("decision", "finish") in seen and ("entry", "job") in seen:
                break
        self.assertEqual(seen["decision", "admit"]["job"], 1)
        self.assertEqual(seen["decision", "buy"]["zone"], "aurora/east-a")
        self.assertGreaterEqual(seen["entry", "job"]["usd_micros"], 0)

    def test_a_client_that_does_not_read_is_let_go(self):
        """Its buffers fill (ours and the system's), it is told, and the server goes on."""
        self.server.start()
        self.server.wait_for_offers()
        raw = socket.socket()
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        raw.connect((self.server.host, self.server.port))
        raw.sendall(b"GET /v1/events HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer " +
                    self.server.token.encode() + b"\r\n\r\n")
        self.server.wait_for("the stream", lambda: self.metric("shoal_http_streams") == 1)
        for _ in range(40):
            if self.metric("shoal_http_streams_dropped_total") == 1:
                break
            answers = self.server.submit_many([IMPOSSIBLE] * 200)
            self.assertEqual({status for status, _ in answers}, {422})
        self.assertEqual(self.metric("shoal_http_streams_dropped_total"), 1)
        raw.settimeout(WAIT_S)
        rest = b""
        while b"event: dropped" not in rest:
            piece = raw.recv(1 << 16)
            self.assertNotEqual(piece, b"", "ended without the reason")
            rest = rest[-100:] + piece
        raw.close()

    def metric(self, name):
        _, text, _ = self.server.ask("GET", "/metrics")
        return float(re.search(rf"^{name} (\S+)$", text, re.M).group(1))


class Rows(Case):
    def test_pages_of_jobs(self):
        self.server.start()
        self.server.wait_for_offers()
        self.server.submit_many(job(f"n{i}") for i in range(12))
        def ids(query):
            return [row["job"] for row in self.server.get("/v1/jobs" + query)["jobs"]]
        self.assertEqual(ids(""), list(range(1, 13)))
        self.assertEqual(ids("?limit=5"), list(range(8, 13)))
        self.assertEqual(ids("?after=0&limit=5"), list(range(1, 6)))
        self.assertEqual(ids("?after=5&limit=5"), list(range(6, 11)))
        self.assertEqual(ids("?after=12"), [])
        self.assertEqual(ids("?state=done"), [])
        self.assertEqual(len(ids("?state=queued&limit=3")), 3)

    def test_lines_of_a_worker_with_their_streams(self):
        self.server.start()
        self.server.wait_for_offers()
        command = "for i in 1 2 3; do echo out $i; done; echo bad >&2"
        self.assertEqual(self.server.submit(job("talk", command))[0], 201)
        self.server.wait_for("the end",
                             lambda: self.server.get("/v1/jobs/1")["state"] == "done")
        lines = self.server.wait_for("the lines", lambda: len(
            found := self.server.get("/v1/jobs/1/logs")["lines"]) == 4 and found)
        self.assertEqual([row["line"] for row in lines if row["stream"] == "out"],
                         ["out 1", "out 2", "out 3"])
        self.assertEqual([row["line"] for row in lines if row["stream"] == "err"], ["bad"])
        page = self.server.get("/v1/jobs/1/logs?limit=1")
        rest = self.server.get(f"/v1/jobs/1/logs?after={page['next']}")["lines"]
        self.assertEqual(page["lines"] + rest, lines)

    def test_a_loss_that_is_no_number_is_null(self):
        self.server.start()
        self.server.wait_for_offers()
        line = json.dumps({"t": "progress", "job": 1, "step": 0, "loss": None, "generation": 1,
                           "attempt": 1, "redone_slots": 0, "not_finite": "skipped",
                           "workers": [{"worker": 1, "slots": "80"}]}).replace('"', '\\"')
        self.assertEqual(self.server.submit(job("nan", f"echo '{line}' >&3; exec sleep 600"))[0], 201)
        steps = self.server.wait_for("the step", lambda:
                                     self.server.get("/v1/jobs/1/progress")["steps"])
        self.assertIsNone(steps[0]["loss"])
        self.assertEqual(steps[0]["not_finite"], "skipped")
        self.assertIsNone(self.server.get("/v1/jobs/1")["loss"])
        self.server.kill()
        self.server.start()
        self.assertIsNone(self.server.get("/v1/jobs")["jobs"][0]["loss"])

    def test_why_names_what_would_let_a_waiting_job_start(self):
        self.server.start()
        self.server.wait_for_offers()
        self.assertEqual(self.server.submit(job("long"))[0], 201)
        self.server.wait_for("a running job",
                             lambda: self.server.get("/v1/jobs/1")["state"] == "running")
        self.assertEqual(self.server.get("/v1/jobs/1/why")["wishes"], [])
        self.assertEqual(self.server.submit(job("waits"))[0], 201)
        wishes = self.server.get("/v1/jobs/2/why")["wishes"]
        self.assertEqual([(wish["kind"], wish["victims"]) for wish in wishes], [("class", 1)])
        wanted = f"P{wishes[0]['value']}"
        self.assertEqual(wishes[0]["text"],
                         f"at class {wanted}: in east, where 1 worker of lower classes would go")
        self.assertEqual(self.server.submit(job("urgent", more=f"class: {wanted}\n"))[0], 201)
        self.server.wait_for("the urgent job",
                             lambda: self.server.get("/v1/jobs/3")["state"] == "running")

    def test_cancel_and_drain(self):
        self.server.start()
        self.server.wait_for_offers()
        self.assertEqual(self.server.submit(job("long"))[0], 201)
        self.server.wait_for("a running job",
                             lambda: self.server.get("/v1/jobs/1")["state"] == "running")
        node = self.server.get("/v1/nodes")["nodes"][0]["node"]
        self.assertEqual(self.server.ask("POST", f"/v1/nodes/{node}/drain")[:2], (200, "{}"))
        self.server.wait_for("another node", lambda: node not in
                             [row["node"] for row in self.server.get("/v1/nodes")["nodes"]])
        self.assertEqual(self.server.ask("POST", "/v1/jobs/1/cancel")[:2], (200, "{}"))
        self.assertEqual(self.server.get("/v1/jobs/1")["state"], "cancelled")
        self.assertEqual(self.server.get("/v1/jobs/1/why?limit=1")["decisions"][0]["reason"],
                         "CANCELLED")


class Metrics(Case):
    def test_the_page_is_what_prometheus_reads(self):
        self.server.start()
        self.server.wait_for_offers()
        self.assertEqual(self.server.submit(job())[0], 201)
        status, text, headers = self.server.ask("GET", "/metrics")
        self.assertEqual(status, 200)
        self.assertTrue(headers["Content-Type"].startswith("text/plain; version=0.0.4"))
        line = re.compile(r'^[a-z_]+(\{[a-z]+="[^"\\]*"(,[a-z]+="[^"\\]*")*\})? -?\d+(\.\d+)?$')
        typed, samples = {}, []
        for row in text.splitlines():
            if row.startswith("# TYPE "):
                _, _, name, kind = row.split()
                self.assertNotIn(name, typed)
                typed[name] = kind
            elif not row.startswith("# HELP "):
                self.assertRegex(row, line)
                samples.append(row)
        names = {re.sub(r"(_bucket|_sum|_count)?(\{.*)? \S+$", "", row) for row in samples}
        self.assertEqual(names - set(typed), set())
        self.assertEqual(len(samples), len({row.rsplit(" ", 1)[0] for row in samples}))
        self.assertIn('shoal_jobs{state="running"}', text)
        self.assertTrue(any(row.startswith("shoal_nodes{") for row in samples))


class Pages(Case):
    def test_open_pages(self):
        self.server.start()
        status, text, headers = self.server.ask("GET", "/", token="")
        self.assertEqual((status, headers["Content-Type"]), (200, "text/html; charset=utf-8"))
        self.assertIn("<title>Shoal</title>", text)
        self.assertNotIn("http://", text.replace("http://www.w3.org/2000/svg", ""))
        self.assertNotIn("https://", text)  # self-contained
        status, text, _ = self.server.ask("GET", "/openapi.json", token="")
        self.assertEqual(json.loads(text)["openapi"][:2], "3.")

    def test_rows_have_the_members_of_the_openapi_page(self):
        self.server.start()
        self.server.wait_for_offers()
        self.assertEqual(self.server.submit(job("rows"))[0], 201)
        self.server.wait_for("a running job",
                             lambda: self.server.get("/v1/jobs/1")["state"] == "running")
        self.server.wait_for("entries", lambda: self.server.get("/v1/ledger")["entries"])
        schemas = self.server.get("/openapi.json")["components"]["schemas"]
        plan = json.loads(self.server.ask("POST", "/v1/plan", job())[1])
        rows = {"Job": self.server.get("/v1/jobs")["jobs"][0],
                "Node": self.server.get("/v1/nodes")["nodes"][0],
                "Lease": self.server.get("/v1/nodes")["nodes"][0]["leases"][0],
                "Offer": self.server.get("/v1/offers")["offers"][0],
                "Pool": self.server.get("/v1/pools")["pools"][0],
                "Decision": self.server.get("/v1/decisions")["decisions"][0],
                "Entry": self.server.get("/v1/ledger")["entries"][0],
                "Survival": self.server.get("/v1/market")["offers"][0]["survival"],
                "OfferChange": self.server.get("/v1/market/changes")["changes"][0],
                "CostRow": self.server.get("/v1/cost")["rows"][0],
                "PlanOption": plan["options"][0]}
        kinds = {"integer": int, "number": (int, float), "string": str, "boolean": bool,
                 "array": list, "object": dict}
        for name, row in rows.items():
            for member, schema in schemas[name]["properties"].items():
                if name == "PlanOption" and member in ("hours", "usd"):
                    continue  # only when the job knows its work
                if schema.get("nullable") and member in row and row[member] is None:
                    continue
                self.assertIn(member, row, name)
                self.assertIsInstance(row[member], kinds[schema["type"]], (name, member))
            self.assertEqual(set(row) - set(schemas[name]["properties"]), set(), name)


if __name__ == "__main__":
    main()
