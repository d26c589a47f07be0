"""The cost of Dask's scheduler per chunk, and frames per second of a fleet on loopback.

Workers are processes of this machine on the simulated NPU with recorded outputs, so frames cost
next to nothing, and everything around them is measured. With ``--seconds 600`` a soak: every frame
once, and how much memory scheduler and workers have grown.
"""

from __future__ import annotations

import argparse
import io
import time

import psutil
from _models import one_object
from distributed import Client, LocalCluster
from PIL import Image

from rknn_runtime.streams.dask import NpuPlugin, detect

CHUNK = 20


def image() -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (64, 64)).save(file, "PNG")
    return file.getvalue()


def resident_mb(client: Client) -> float:
    def mine() -> int:
        return psutil.Process().memory_info().rss

    return (sum(client.run(mine).values()) + mine()) / 1e6


def bare_tasks(client: Client) -> float:
    """Tasks per second of the scheduler, of functions that do nothing."""
    count = 2000
    begin = time.perf_counter()
    client.gather(client.map(lambda i: i, range(count), pure=False))
    return count / (time.perf_counter() - begin)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workers", type=int, default=3, help="processes (default 3)")
    parser.add_argument("--seconds", type=float, default=20, help="how long (default 20)")
    options = parser.parse_args()
    cluster = LocalCluster(
        n_workers=options.workers,
        threads_per_worker=3,
        dashboard_address="127.0.0.1:0",
        host="127.0.0.1",
    )
    with cluster, Client(cluster) as client:
        print(f"{options.workers} workers, scheduler: {bare_tasks(client):.0f} bare tasks/s")
        plugin, data = NpuPlugin(one_object(), library="sim", contexts=2), image()
        end = time.perf_counter() + options.seconds
        sent = 0

        def items():
            nonlocal sent
            while time.perf_counter() < end:
                yield f"{sent}", data
                sent += 1

        seen = bytearray()  # how often each came; a table of names would grow by more than Dask
        begin, at_first = time.perf_counter(), 0.0
        for record in detect(client, plugin, items(), chunk=CHUNK):
            number = int(record["source"])
            seen.extend(bytes(max(0, number + 1 - len(seen))))
            seen[number] += 1
            if not at_first and time.perf_counter() - begin > options.seconds / 10:
                at_first = resident_mb(client)
        took = time.perf_counter() - begin
        if seen != b"\1" * sent:
            raise SystemExit(f"{sent} frames were sent, {seen.count(1)} of them came back once")
        print(f"{sent} frames, each once, {sent / took:.0f} frames/s, ", end="")
        print(f"{sent / took / CHUNK:.0f} chunks/s, ", end="")
        print(f"{resident_mb(client) - at_first:+.1f} MB since a tenth of the time")


if __name__ == "__main__":
    main()
