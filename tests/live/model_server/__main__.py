"""Runs the server until it is told to stop: `python -m tests.live.model_server --port 0` prints its port."""

import argparse
import json
import signal
import sys

from .server import ModelServer

if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="model_server")
    parser.add_argument("--port", type=int, default=0, help="0 takes any that is free")
    stops = {signal.SIGINT, signal.SIGTERM}
    # Before the first thread, which takes the mask over: otherwise a signal could end us where nobody waits for it.
    signal.pthread_sigmask(signal.SIG_BLOCK, stops)
    with ModelServer(parser.parse_args().port) as models:
        sys.stdout.write(json.dumps({"port": models.port}) + "\n")
        sys.stdout.flush()
        signal.sigwait(stops)
