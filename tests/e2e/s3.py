#!/usr/bin/env python3
"""Checkpoints in a bucket, against a server that is not ours, with faults planted (s3_server.py).

    s3.py STORE_TEST

Needs the package moto from the Python registry, in a virtual environment that tests/venv.sh makes;
where it cannot be had, the test says so and is skipped (77).
"""
import http.server
import json
import os
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(__file__))
from s3_server import KEY, SECRET, S3Server  # noqa: E402

STORE_TEST = os.path.abspath(sys.argv[1])
ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))


def venv():
    made = subprocess.run([os.path.join(ROOT, "tests/venv.sh"), "moto", "moto[s3]", "flask", "flask-cors"],
                          stdout=subprocess.PIPE, text=True)
    if made.returncode != 0:
        print("SKIPPED: moto, the S3 server of this test, cannot be installed here")
        sys.exit(77)
    return made.stdout.strip()


def scenario(url, name, environment, status=0):
    run = subprocess.run([STORE_TEST, url, name], env=environment, capture_output=True, text=True, timeout=300)
    assert run.returncode == status, f"{name}: exit {run.returncode}\n{run.stdout}{run.stderr}"
    return run.stdout


class Metadata(http.server.BaseHTTPRequestHandler):
    """The metadata service of a machine that has a role."""

    def log_message(self, *_):
        pass

    def answer(self, body):
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def do_PUT(self):
        assert self.path == "/latest/api/token"
        self.answer("a-token")

    def do_GET(self):
        assert self.headers["X-aws-ec2-metadata-token"] == "a-token"
        roles = "/latest/meta-data/iam/security-credentials/"
        if self.path == roles:
            self.answer("a-role\n")
        else:
            assert self.path == roles + "a-role"
            end = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 3600))
            self.answer(json.dumps({"AccessKeyId": KEY, "SecretAccessKey": SECRET, "Token": "a/session+token==",
                                    "Expiration": end}))


def check_contract(python):
    with S3Server(python) as s3:
        s3.make_bucket("ckpt")
        for name in ("objects", "unfinished", "first-wins", "memory"):
            scenario(f"s3://ckpt/jobs/{name}", name, s3.environment())
        check_keys(s3)
        check_refusals(s3)


def check_keys(s3):
    """From a file, and from the machine's role, with a session token that is signed too."""
    path = os.path.join(os.environ.get("TMPDIR", "/tmp"), f"shoal-credentials-{os.getpid()}")
    with open(path, "w") as file:
        file.write(f"[other]\naws_access_key_id = wrong\n# comment\n[mine]\n aws_access_key_id={KEY}\n"
                   f"aws_secret_access_key = {SECRET}\n")
    nobody = {"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": ""}
    try:
        scenario("s3://ckpt/file", "first-wins",
                 s3.environment(**nobody, AWS_SHARED_CREDENTIALS_FILE=path, AWS_PROFILE="mine"))
    finally:
        os.unlink(path)
    metadata = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Metadata)
    threading.Thread(target=metadata.serve_forever, daemon=True).start()
    scenario("s3://ckpt/role", "first-wins",
             s3.environment(**nobody, AWS_EC2_METADATA_DISABLED="false",
                            AWS_EC2_METADATA_SERVICE_ENDPOINT=f"http://127.0.0.1:{metadata.server_port}"))
    metadata.shutdown()
    said = scenario("s3://ckpt/nobody", "refused", s3.environment(**nobody))
    assert "no keys for S3" in said, said


def check_refusals(s3):
    assert s3.bad_signatures == 0, s3.bad_signatures
    said = scenario("s3://ckpt/x", "refused", s3.environment(AWS_SECRET_ACCESS_KEY="wrong"))
    assert "403" in said and "check the keys" in said, said
    assert s3.bad_signatures > 0
    said = scenario("s3://not-there/x", "refused", s3.environment())
    assert "NoSuchBucket" in said and "make the bucket first" in said, said
    for url, word in (("s3://Bad_Name/x", "bucket's name"), ("s3://", "bucket's name"), ("gs://ckpt/x", "s3://")):
        said = scenario(url, "refused", s3.environment(), status=1)
        assert word in said, said
    said = scenario("s3://ckpt/x", "refused", s3.environment(AWS_ENDPOINT_URL="localhost:80"), status=1)
    assert "AWS_ENDPOINT_URL=localhost:80" in said, said
    said = scenario("s3://ckpt/x", "refused", s3.environment(AWS_REGION="Mars!"), status=1)
    assert "AWS_REGION=Mars!" in said, said


def check_faults(python):
    faults = {"error": 0.06, "busy": 0.08, "late": 0.08, "torn": 0.08, "slow": 0.05}
    for seed in (1, 2):
        with S3Server(python, faults, seed) as s3:
            s3.make_bucket("ckpt")
            scenario("s3://ckpt/faults", "faults", s3.environment())
            assert s3.bad_signatures == 0, s3.bad_signatures
            assert set(s3.planted) == set(faults), s3.planted
            print(f"seed {seed}: {s3.done} requests done, planted {s3.planted}")


def check_gone(python):
    """Nobody answers: a sentence within half a minute, not for ever."""
    with S3Server(python) as s3:
        environment = s3.environment(AWS_ENDPOINT_URL="http://127.0.0.1:9")
        started = time.monotonic()
        said = scenario("s3://ckpt/x", "gone", environment)
        assert "given up after" in said and time.monotonic() - started < 60, said


def main():
    python = venv()
    check_contract(python)
    check_faults(python)
    check_gone(python)
    print("ok")


main()
