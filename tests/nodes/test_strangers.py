"""Who has no certificate of the job, or may not read it, is refused."""

import shutil
import tempfile
from pathlib import Path

import pytest
from conftest import Failed
from nodes import is_privileged


def test_a_runtime_with_another_certificate_hears_nothing(job):
    job = job(3)
    writers = job.writers("heat", 120, 100, [0, 1])
    reader = job.reader("heat", 2)
    for writer in writers:
        writer.do("publish", version=1)
    reader.do("show", version=1, timeout=300)

    job.runtimes.stop(2)
    # Of a job with the same name, whose authority is another one.
    other = job.runtimes.make_certificate("nodes", "other")
    stranger = job.runtimes.begin(2, certificate=other)
    try:
        assert stranger.stdout.readline() or stranger.wait(30) != 0
        for writer in writers:
            writer.do("publish", version=2)
        with pytest.raises(Failed):
            reader.do("show", version=2, timeout=2)
    finally:
        stranger.kill()
        stranger.wait()
        stranger.stdout.close()

    job.runtimes.start(2)
    assert reader.do("show", version=2, timeout=300) == 120 * 100


def test_a_key_that_others_may_read_is_refused(job):
    job = job(1)
    shown = job.runtimes.make_certificate("shown", "shown")
    job.nodes[0].run(["chmod", "644", shown / "key.pem"])
    process = job.runtimes.begin(0, certificate=shown, more=["--dir", "/dev/shm/elsewhere"])
    with process:
        assert process.wait(30) != 0
    assert "key.pem" in job.runtimes.log(0).read_text()


@pytest.fixture
def reachable():
    """Puts the commands where every user reaches them: a checkout may lie in a folder that others may not enter."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)

        def put(still):
            for name in ("still", "still-node"):
                shutil.copy(Path(still).with_name(name), folder)
            return Path(folder) / "still"

        yield put


@pytest.mark.skipif(not is_privileged(), reason="in a user namespace there is one user")
def test_another_user_cannot_use_the_certificate(job, reachable):
    job = job(1)
    words = [reachable(job.runtimes.still), "node", "run", "--certificate", job.runtimes.certificate, "--dir", "/dev/shm/theirs"]
    as_nobody = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]
    done = job.nodes[0].run([*as_nobody, *words], check=False, timeout=300, cwd="/")
    assert done.returncode != 0 and "ermission" in done.stderr, done.stderr
