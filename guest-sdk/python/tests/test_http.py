"""The HTTP helper, natively, against a server of our own."""

import json
import subprocess
import sys
import threading
import unittest
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

SDK = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(SDK))

from windlass import http


class Echo(BaseHTTPRequestHandler):
    def do_GET(self):
        if self.path == "/moved":
            self.send_response(302)
            self.send_header("location", "/here")
            self.end_headers()
            return
        size = int(self.headers.get("content-length") or 0)
        seen = {"method": self.command, "path": self.path, "type": self.headers.get("content-type"),
                "body": self.rfile.read(size).decode(), "key": self.headers.get("x-key")}
        body = json.dumps(seen, ensure_ascii=False).encode()
        self.send_response(404 if self.path == "/none" else 200)
        self.send_header("content-type", "application/json; charset=utf-8")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_PUT = do_DELETE = do_GET

    def log_message(self, *_):
        pass


class Http(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = HTTPServer(("127.0.0.1", 0), Echo)
        cls.url = f"http://127.0.0.1:{cls.server.server_port}"
        threading.Thread(target=cls.server.serve_forever, daemon=True).start()

    @classmethod
    def tearDownClass(cls):
        cls.server.shutdown()
        cls.server.server_close()

    def test_requests_of_every_kind(self):
        self.assertEqual(http.get(f"{self.url}/a?b=c", headers={"x-key": "k"}).json()["key"], "k")
        sent = http.post(f"{self.url}/p", json={"grüße": 1}).json()
        self.assertEqual((sent["method"], sent["type"], sent["body"]), ("POST", "application/json", '{"grüße": 1}'))
        self.assertEqual(http.put(self.url, "text").json()["body"], "text")
        self.assertEqual(http.delete(self.url).json()["method"], "DELETE")

    def test_any_answer_is_a_response(self):
        answer = http.get(f"{self.url}/none")
        self.assertEqual((answer.status, answer.ok, answer.headers["Content-Type"]), (404, False, "application/json; charset=utf-8"))

    def test_redirects_are_followed(self):
        answer = http.get(f"{self.url}/moved")
        self.assertEqual((answer.json()["path"], answer.url), ("/here", f"{self.url}/here"))

    def test_who_forgot_to_import_it_is_told_how(self):
        script = "import windlass; windlass.http"
        forgot = subprocess.run([sys.executable, "-B", "-c", script], cwd=SDK, stderr=subprocess.PIPE, text=True)
        self.assertIn("import windlass.http", forgot.stderr)

    def test_no_answer_is_an_error_that_names_the_address(self):
        for url in ("http://127.0.0.1:1/x", "nonsense"):
            with self.subTest(url), self.assertRaisesRegex(http.Error, url):
                http.get(url)


if __name__ == "__main__":
    unittest.main()
