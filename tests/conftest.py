"""Fixtures that several test files share: an S3 server, and the real data beside the project."""

import os
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import boto3
import pytest
from moto.server import ThreadedMotoServer

from skillfeed import storage


@pytest.fixture(scope="session")
def s3_endpoint() -> Iterator[str]:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def s3(s3_endpoint: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """URI of an empty bucket on a local S3 server, to which the AWS variables point."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3_endpoint)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    storage._s3_filesystem.cache_clear()
    bucket = f"bucket-{uuid4().hex[:12]}"
    boto3.client("s3", region_name="us-east-1").create_bucket(Bucket=bucket)
    yield f"s3://{bucket}"
    storage._s3_filesystem.cache_clear()


@pytest.fixture(scope="session")
def shared() -> Path:
    """Directory of the real corpus and benchmarks; tests that need it skip where it is absent."""
    path = Path(os.environ.get("SKILLFEED_SHARED") or Path(__file__).parents[2] / "shared")
    if not path.is_dir():
        pytest.skip(f"no shared data at {path}; set SKILLFEED_SHARED")
    return path
