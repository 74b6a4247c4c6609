"""A SLURM of one node, started from Debian's slurm-wlm and munge in a temporary folder.

``python -m tests.slurm.cluster`` starts one and opens a shell in which ``sbatch``, ``squeue`` and Snakemake's
SLURM executor use it; it ends with the shell.
"""

import contextlib
import getpass
import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

DAEMONS = ("munged", "slurmctld", "slurmd")
CLIENTS = ("sbatch", "srun", "squeue", "scancel", "sinfo", "scontrol")
SECONDS_TO_START = 60
WITHOUT_ACCOUNTING = Path(__file__).parents[2] / "workflow" / "profiles" / "slurm" / "without-accounting"

# No accounting, no cgroups: what every Linux machine has, a container too.
SLURM_CONF = """
ClusterName=flrml
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller_port}
SlurmdPort={node_port}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CryptoType=crypto/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=0,sched_interval=2,bf_interval=2
MailProg=/bin/true
MpiDefault=none
ReturnToService=2
MinJobAge=36000
KillWait=5
SlurmdParameters=config_overrides
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} RealMemory={memory} State=UNKNOWN
PartitionName=main Nodes={host} Default=YES MaxTime=INFINITE State=UP
"""


def missing() -> list[str]:
    """Programs of SLURM and munge that this machine lacks."""
    return [name for name in (*DAEMONS, *CLIENTS) if _find(name) is None]


@contextlib.contextmanager
def slurm(folder: Path, cpus: int = 2) -> Iterator[dict[str, str]]:
    """A running SLURM; yields the environment in which its commands find it.

    Parameters
    ----------
    folder : Path
        Folder for keys, state and logs. Its path must be short: it holds a socket.
    cpus : int, default 2
        Processors that the node has, as far as SLURM knows.
    """
    for name in ("state", "spool"):
        (folder / name).mkdir(parents=True)
    host, memory = socket.gethostname().split(".")[0], os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    settings = {"host": host, "user": getpass.getuser(), "folder": folder, "cpus": cpus, "memory": memory // 2**20}
    ports = {"controller_port": _free_port(), "node_port": _free_port()}
    (folder / "slurm.conf").write_text(SLURM_CONF.format(**settings, **ports))
    # Without this file slurmd looks for a control group that a container does not have.
    (folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\nCgroupMountpoint=/sys/fs/cgroup\n")
    key = folder / "munge.key"
    key.touch(mode=0o600)
    key.write_bytes(os.urandom(128))
    environment = _environment(folder)
    munge = ["munged", "--foreground", "--force", f"--key-file={key}", f"--socket={folder}/munge.socket"]
    munge += [f"--pid-file={folder}/munged.pid", f"--seed-file={folder}/munged.seed"]
    with (
        _daemon(munge, folder, environment),
        _daemon(["slurmctld", "-D", "-f", f"{folder}/slurm.conf"], folder, environment),
        _daemon(["slurmd", "-D", "-N", host, "-f", f"{folder}/slurm.conf"], folder, environment) as node,
    ):
        _wait_until_idle(environment, node, folder)
        try:
            yield environment
        finally:
            subprocess.run(["scancel", "--user", getpass.getuser()], env=environment, check=False, timeout=30)
            _wait_until_empty(environment)


def _environment(folder: Path) -> dict[str, str]:
    """Variables for commands of this SLURM, a site without accounting.

    The executor takes SLURM_CONF away from the srun that starts a job's step, so srun is wrapped to know its place.
    """
    programs = folder / "bin"
    programs.mkdir()
    (programs / "srun").write_text(f'#!/bin/sh\nSLURM_CONF={folder}/slurm.conf exec {_find("srun")} "$@"\n')
    (programs / "srun").chmod(0o755)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SLURM_")}
    path = os.pathsep.join((str(programs), str(WITHOUT_ACCOUNTING), kept.get("PATH", "")))
    return kept | {"SLURM_CONF": f"{folder}/slurm.conf", "PATH": path}


@contextlib.contextmanager
def _daemon(command: list[str], folder: Path, environment: dict[str, str]) -> Iterator[subprocess.Popen]:
    program = _find(command[0])
    with open(folder / f"{command[0]}.out", "w") as log:
        process = subprocess.Popen(
            [str(program), *command[1:]], env=environment, stdout=log, stderr=subprocess.STDOUT
        )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_until_idle(environment: dict[str, str], node: subprocess.Popen, folder: Path) -> None:
    deadline = time.monotonic() + SECONDS_TO_START
    while time.monotonic() < deadline and node.poll() is None:
        states = _output(["sinfo", "--noheader", "--format=%t"], environment)
        if states == "idle":
            return
        time.sleep(0.5)
    logs = "\n".join(f"{path.name}:\n{path.read_text()[-3000:]}" for path in sorted(folder.glob("*.[lo][ou][gt]")))
    raise RuntimeError(f"SLURM did not start within {SECONDS_TO_START} s:\n{logs}")


def _wait_until_empty(environment: dict[str, str]) -> None:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and _output(["squeue", "--noheader"], environment):
        time.sleep(0.5)


def _output(command: list[str], environment: dict[str, str]) -> str:
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=60)
    return done.stdout.strip()


def _find(program: str) -> str | None:
    """Daemons lie in folders that are not on everybody's path."""
    return shutil.which(program, path=os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/sbin")))


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


if __name__ == "__main__":
    if missing():
        raise SystemExit(f"not installed: {', '.join(missing())}; on Debian: apt-get install slurm-wlm munge")
    with tempfile.TemporaryDirectory(prefix="slurm") as place, slurm(Path(place)) as found:
        print(f"SLURM is up, SLURM_CONF={found['SLURM_CONF']}; leave this shell to stop it")
        subprocess.run([os.environ.get("SHELL", "/bin/sh")], env=found, check=False)
