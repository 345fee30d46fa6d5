"""What stops `ropeway serve` before it serves: one line that says why, status 2, no traceback."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def refused(*arguments: str) -> str:
    """Serve what cannot be served; returns what was said."""
    ended = subprocess.run(
        [sys.executable, "-m", "server.command", "serve", *arguments],
        cwd=ROOT,
        env=os.environ | {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert ended.returncode == 2, ended.stdout + ended.stderr
    assert "Traceback" not in ended.stdout + ended.stderr
    return ended.stderr


def test_a_model_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    assert f"there is no model at {tmp_path}/none" in refused(f"{tmp_path}/none")


def test_a_port_that_is_taken_is_named_before_the_model_is_loaded(tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = str(other.getsockname()[1])
        said = refused(str(tmp_path), "--host", "127.0.0.1", "--port", port)
    assert f"cannot serve on 127.0.0.1, port {port}: " in said
    assert "--port" in said


def test_a_rotation_in_several_dimensions_is_refused_by_name(tmp_path: Path, free_port: int) -> None:
    config = {
        "architectures": ["Qwen2ForCausalLM"],
        "model_type": "qwen2",
        "hidden_size": 128,
        "intermediate_size": 256,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "num_hidden_layers": 4,
        "max_position_embeddings": 1024,
        "rope_parameters": {"rope_type": "default", "rope_theta": 10_000.0, "mrope_section": [4, 6, 6]},
        "vocab_size": 512,
    }
    (tmp_path / "config.json").write_text(json.dumps(config))
    said = refused(str(tmp_path), "--skip-tokenizer-init", "--port", str(free_port))
    assert "Qwen2ForCausalLM rotates by M-RoPE: not covered" in said
