"""Immich's machine learning as a whole: its service, asked as its server asks it."""

from __future__ import annotations

import importlib
import json
import os
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from try_foreign import networks
from try_foreign.shared import imported, recipe

CLIP, FACES = "ViT-B-32__openai", "buffalo_l"
WORDS = ("a", "red", "cat", "dog", "boat", "on", "water")
ENTRIES = {
    "image": {
        "clip": {"visual": {"modelName": CLIP}},
        "facial-recognition": {
            "detection": {"modelName": FACES, "options": {"minScore": 0.56}},
            "recognition": {"modelName": FACES},
        },
    },
    "text": {"clip": {"textual": {"modelName": CLIP}}},
}


def service(checkout: Path) -> str:
    """Ask for images, faces and texts: of RKNNLite, of the docs' session, and of onnxruntime."""
    with tempfile.TemporaryDirectory() as place:
        os.environ.update(
            MACHINE_LEARNING_CACHE_FOLDER=place,
            MACHINE_LEARNING_RKNN_THREADS="2",
            MACHINE_LEARNING_REQUEST_THREADS="4",
            MACHINE_LEARNING_MODEL_TTL="0",
        )
        write_models(Path(place))
        with imported(checkout / "machine-learning"):
            rknn = importlib.import_module("immich_ml.sessions.rknn")
        assert rknn.is_available
        theirs = answers(1)
        assert {len(one.get("facial-recognition", [])) for one in theirs} > {0}
        mixed = sum(a != b for a, b in zip(theirs, answers(4)))
        rknn.RknnSession = recipe("immich_session.py").RknnSession
        assert answers(4) == theirs, "with the session of the docs answers differ"
        rknn.is_available = False
        for one, exact in zip(theirs, answers(1)):
            assert_alike(one, exact)
    faces = sum(len(one.get("facial-recognition", [])) for one in theirs)
    return (
        f"{len(theirs)} answers with {faces} faces as onnxruntime's, and equal with our session "
        f"and 4 clients; with Immich's own and 4 clients {mixed} are those of other requests"
    )


def write_models(place: Path) -> None:
    """Write the networks as Immich keeps them."""
    clip, faces = place / "clip" / CLIP, place / "facial-recognition" / FACES
    for folder, write in (
        (clip / "visual", networks.IMMICH["CLIP"]),
        (clip / "textual", networks.text_network),
        (faces / "detection", networks.scrfd_network),
        (faces / "recognition", networks.IMMICH["ArcFace"]),
    ):
        (folder / "rknpu" / "rk3588").mkdir(parents=True)
        model = networks.converted(write(folder / "model.onnx"))
        model.rename(folder / "rknpu" / "rk3588" / "model.rknn")
    half = [0.5] * 3
    visual = {"size": 224, "interpolation": "bicubic", "mean": half, "std": half}
    (clip / "config.json").write_text('{"text_cfg": {"context_length": 77}}')
    (clip / "visual" / "preprocess_cfg.json").write_text(json.dumps(visual))
    (clip / "textual" / "tokenizer_config.json").write_text('{"pad_token": "<pad>"}')
    tokenizers = importlib.import_module("tokenizers")
    names = {word: number for number, word in enumerate(("<pad>", "<unknown>", *WORDS))}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(names, unk_token="<unknown>"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer.save(str(clip / "textual" / "tokenizer.json"))


def answers(clients: int) -> list[dict[str, Any]]:
    """Return the service's answers to 16 images and 8 texts."""
    main = importlib.import_module("immich_ml.main")
    client_of = importlib.import_module("fastapi.testclient").TestClient
    main.model_cache = main.ModelCache(revalidate=False)
    random = np.random.default_rng(8)
    asked: list[dict[str, Any]] = []
    for _ in range(8):
        asked.append({"text": " ".join(random.choice(WORDS, 5))})
    for _ in range(16):
        small = random.integers(0, 256, (6, 8, 3)).astype(np.uint8)
        image = cv2.resize(small, (640, 640), interpolation=cv2.INTER_CUBIC)
        asked.append({"image": cv2.imencode(".png", image)[1].tobytes()})
    with client_of(main.app) as client, ThreadPoolExecutor(clients) as threads:

        def ask(one: dict[str, Any]) -> Any:
            (kind,) = one
            form = {"entries": json.dumps(ENTRIES[kind])}
            if kind == "text":
                answer = client.post("/predict", data={**form, **one})
            else:
                answer = client.post("/predict", data=form, files=one)
            assert answer.status_code == 200, answer.text
            return answer.json()

        return list(threads.map(ask, asked))


def assert_alike(one: dict[str, Any], exact: dict[str, Any]) -> None:
    """Compare an answer of float16 with one of float32."""
    assert cosine(one["clip"], exact["clip"]) > 0.999
    for face in one.get("facial-recognition", []):
        box = list(face["boundingBox"].values())
        near = [
            other
            for other in exact["facial-recognition"]
            if np.allclose(list(other["boundingBox"].values()), box, atol=2)
        ]
        assert near or abs(face["score"] - 0.56) < 0.001, face
        assert not near or cosine(face["embedding"], near[0]["embedding"]) > 0.99


def cosine(one: str, other: str) -> float:
    """Compare two vectors, written as JSON."""
    a, b = np.array(json.loads(one)), np.array(json.loads(other))
    return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))
