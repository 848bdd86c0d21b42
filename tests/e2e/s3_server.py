"""An S3 server for tests: moto's, an implementation that is not ours, behind a proxy of ours that
checks every signature (AWS version 4, by the book) and body hash, and plants faults.

    with S3Server(faults={"busy": 0.1}) as s3:
        run(..., env={**os.environ, **s3.environment()})

Faults, each with a probability per request: `error` 500 before anything is done, `busy` 503
SlowDown, `late` the request is carried out but the connection dies before the answer, `torn` half
of an upload is read and the connection dies, `slow` a pause of 0.2 s.
"""
import hashlib
import hmac
import http.client
import http.server
import os
import random
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse

KEY, SECRET, REGION = "AKIDTESTKEY", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", "eu-west-1"


def hmac_sha256(key, text):
    return hmac.new(key, text.encode(), hashlib.sha256).digest()


def signature_of(method, path, headers, secret):
    """What the Authorization header should say, from what was received. Returns (theirs, ours)."""
    given = dict(part.strip().split("=", 1) for part in
                 headers["Authorization"].split(" ", 1)[1].split(","))
    scope = given["Credential"].split("/", 1)[1]
    day, region, service, _ = scope.split("/")
    raw_path, _, query = path.partition("?")
    pairs = sorted(pair.partition("=")[::2] for pair in query.split("&")) if query else []
    names = given["SignedHeaders"].split(";")
    canonical = "\n".join([
        method, raw_path, "&".join(f"{name}={value}" for name, value in pairs),
        "".join(f"{name}:{' '.join(headers[name].split())}\n" for name in names),
        given["SignedHeaders"], headers["x-amz-content-sha256"]])
    text = "\n".join(["AWS4-HMAC-SHA256", headers["x-amz-date"], scope,
                      hashlib.sha256(canonical.encode()).hexdigest()])
    key = hmac_sha256(("AWS4" + secret).encode(), day)
    for part in (region, service, "aws4_request"):
        key = hmac_sha256(key, part)
    for must in ("host", "x-amz-date", "x-amz-content-sha256"):
        if must not in names:
            return given["Signature"], f"{must} is not signed"
    return given["Signature"], hmac_sha256(key, text).hex()


class Proxy(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def refuse(self, status, code):
        body = f"<Error><Code>{code}</Code><Message>planted or found by the test</Message></Error>".encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def hang_up(self):
        self.close_connection = True
        try:
            self.connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass

    def forward(self):
        state = self.server.state
        count = int(self.headers.get("Content-Length") or 0)
        fault = state.draw(count)
        if fault == "torn":
            self.rfile.read(count // 2)
            return self.hang_up()
        body = self.rfile.read(count)
        if fault == "slow":
            time.sleep(0.2)
        if fault == "error":
            return self.refuse(500, "InternalError")
        if fault == "busy":
            return self.refuse(503, "SlowDown")
        if hashlib.sha256(body).hexdigest() != self.headers["x-amz-content-sha256"]:
            return self.refuse(400, "XAmzContentSHA256Mismatch")
        theirs, ours = signature_of(self.command, self.path, self.headers, SECRET)
        if theirs != ours:
            state.bad_signatures += 1
            return self.refuse(403, "SignatureDoesNotMatch")
        behind = http.client.HTTPConnection("127.0.0.1", state.moto_port, timeout=60)
        headers = {name: value for name, value in self.headers.items() if name.lower() not in ("connection", "expect")}
        behind.request(self.command, self.path, body=body, headers=headers)
        answer = behind.getresponse()
        content = answer.read()
        state.done += 1
        if fault == "late":
            return self.hang_up()
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in ("connection", "transfer-encoding", "content-length", "date", "server"):
                self.send_header(name, value)
        length = answer.getheader("Content-Length") if self.command == "HEAD" else len(content)
        self.send_header("Content-Length", str(length or 0))
        self.end_headers()
        self.wfile.write(content)
        behind.close()

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = forward


class QuietServer(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_):
        pass  # connections that a fault cut


class S3Server:
    """One moto process and one proxy, on ports of their own."""

    def __init__(self, python, faults=None, seed=1):
        self.python, self.faults, self.random = python, faults or {}, random.Random(seed)
        self.lock = threading.Lock()
        self.planted, self.done, self.bad_signatures = {}, 0, 0

    def draw(self, body_bytes):
        with self.lock:
            at = self.random.random()
            for name, probability in self.faults.items():
                if at < probability:
                    if name == "torn" and body_bytes < 2:
                        return None
                    self.planted[name] = self.planted.get(name, 0) + 1
                    return name
                at -= probability
        return None

    def __enter__(self):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.moto_port = probe.getsockname()[1]
        self.log = tempfile.TemporaryFile()
        # Parts below Amazon's least size are fine with moto; ours are never that small.
        self.moto = subprocess.Popen(
            [self.python, "-c", "from moto.server import main; main()", "-H", "127.0.0.1", "-p", str(self.moto_port)],
            stdout=self.log, stderr=subprocess.STDOUT)
        deadline = time.monotonic() + 60
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.moto_port), timeout=1).close()
                break
            except OSError:
                if self.moto.poll() is not None or time.monotonic() > deadline:
                    self.log.seek(0)
                    sys.exit("moto did not start: " + self.log.read().decode(errors="replace"))
                time.sleep(0.1)
        self.proxy = QuietServer(("127.0.0.1", 0), Proxy)
        self.proxy.state = self
        threading.Thread(target=self.proxy.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.proxy.shutdown()
        self.proxy.server_close()
        self.moto.kill()
        self.moto.wait()

    def make_bucket(self, name):
        behind = http.client.HTTPConnection("127.0.0.1", self.moto_port, timeout=10)
        body = f'<CreateBucketConfiguration><LocationConstraint>{REGION}</LocationConstraint></CreateBucketConfiguration>'
        behind.request("PUT", f"/{name}", body=body,
                       headers={"Authorization": f"AWS4-HMAC-SHA256 Credential={KEY}/20260101/{REGION}/s3/aws4_request, "
                                                 "SignedHeaders=host, Signature=0"})
        answer = behind.getresponse()
        answer.read()
        assert answer.status == 200, answer.status

    def environment(self, **more):
        clean = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
        return {**clean, "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self.proxy.server_port}", "AWS_REGION": REGION,
                "AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_EC2_METADATA_DISABLED": "true",
                "AWS_SHARED_CREDENTIALS_FILE": "/nonexistent", **more}
