"""Start a server and call it: python examples/serve_and_call.py [MODEL] [PORT]."""

import subprocess
import sys
import time

from reviser.serve.client import Client


def main(model: str = "models/stories-revise", port: str = "8765") -> None:
    command = [sys.executable, "-m", "reviser", "serve", model, "--port", port]
    with subprocess.Popen(command) as server, Client(f"http://127.0.0.1:{port}") as client:
        try:
            while not client.is_ready() and server.poll() is None:
                time.sleep(0.2)
            print(client.generate("Ben had a red ball.", seed=7, max_actions=40).text)
            print(client.infill("Ben ran home. {} Mom smiled.", seed=7, max_actions=40).text)
        finally:
            server.terminate()  # it finishes what it has accepted, then exits


if __name__ == "__main__":
    main(*sys.argv[1:])
