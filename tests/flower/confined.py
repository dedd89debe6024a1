"""Run a command as systemd would by a unit: ``python confined.py UNIT USER FOLDER COMMAND...``; needs root.

For machines on which systemd does not run: the file system, users, rights and system calls that the unit leaves to its
service, by what the kernel offers. FOLDER stands for the unit's state directory; programs stay visible.
"""

from __future__ import annotations

import ctypes
import os
import resource
import subprocess
import sys
from pathlib import Path

libc = ctypes.CDLL(None, use_errno=True)
READ_ONLY, REMOUNT, BIND, RECURSIVE, PRIVATE = 1, 32, 4096, 16384, 1 << 18
NEW_MOUNTS, NEW_IPC, NEW_USERS = 0x20000, 0x8000000, 0x10000000
DROP_CAPABILITY, NO_NEW_PRIVILEGES, NO_WRITE_AND_EXECUTE = 24, 38, 65
DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
HOMES = ("/home", "/root", "/run/user")
TEMPORARY = ("/tmp", "/var/tmp")  # noqa: S108 - they are hidden


def call(function, *arguments):
    """Call a function of the C library; raise what it says."""
    if function(*arguments):
        number = ctypes.get_errno()
        raise OSError(number, f"{function.__name__}{arguments}: {os.strerror(number)}")


def mount(source, target, kind=None, flags=0, options=None):
    """Mount something."""
    texts = [None if text is None else os.fsencode(text) for text in (source, target, kind)]
    call(libc.mount, *texts, ctypes.c_ulong(flags), None if options is None else options.encode())


def read_unit(path):
    """The settings of a service, each with all its values."""
    settings = {}
    for line in Path(path).read_text().splitlines():
        if "=" in line and not line.startswith("#"):
            name, _, value = line.partition("=")
            settings.setdefault(name, []).append(value)
    return settings


def is_on(unit, name):
    """Whether a switch of the unit is on."""
    return unit.get(name) == ["yes"]


def hide(folders, kept):
    """Put an empty folder in the place of each of these, but for what is kept in it."""
    held = {path: os.open(path, os.O_PATH) for path in kept if any(Path(path).is_relative_to(x) for x in folders)}
    for folder in folders:
        if os.path.isdir(folder):
            mount("none", folder, "tmpfs", 0, "mode=1777")
    for path, descriptor in held.items():
        os.makedirs(path, exist_ok=True)
        mount(f"/proc/self/fd/{descriptor}", path, None, BIND | RECURSIVE)
        os.close(descriptor)


def few_devices():
    """PrivateDevices: what every program needs."""
    held = {name: os.open(f"/dev/{name}", os.O_PATH) for name in (*DEVICES, "shm")}
    mount("none", "/dev", "tmpfs", 0, "mode=755")
    for name, descriptor in held.items():
        os.mkdir(f"/dev/{name}") if name == "shm" else Path(f"/dev/{name}").touch()
        mount(f"/proc/self/fd/{descriptor}", f"/dev/{name}", None, BIND)
        os.close(descriptor)


def confine_files(unit, folder):
    """The file system of the unit."""
    call(libc.unshare, NEW_MOUNTS | NEW_IPC)
    mount(None, "/", None, RECURSIVE | PRIVATE)
    kept = sorted({sys.prefix, sys.base_prefix, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))})
    if "ProtectHome" in unit:  # also if it is "read-only": the Python of the tests may be where no other user can enter
        hide(HOMES, kept)
    if is_on(unit, "PrivateTmp"):
        hide(TEMPORARY, kept)
    if is_on(unit, "PrivateDevices"):
        few_devices()
    writable = [folder, *(path.strip('"') for path in unit.get("ReadWritePaths", []))]
    for path in writable:
        mount(path, path, None, BIND)
    if unit.get("ProtectSystem") == ["strict"]:
        apart = ("/proc", "/dev", *TEMPORARY, *writable)
        for line in Path("/proc/self/mountinfo").read_text().splitlines():
            point = line.split()[4].replace("\\040", " ")
            if point not in apart and not point.startswith(("/proc/", "/dev/")):
                mount(None, point, None, REMOUNT | BIND | READ_ONLY)
    mount("proc", "/proc", "proc", 0, "hidepid=invisible" if unit.get("ProtectProc") == ["invisible"] else None)
    if is_on(unit, "ProtectKernelTunables"):
        mount("/proc/sys", "/proc/sys", None, BIND)
        mount(None, "/proc/sys", None, REMOUNT | BIND | READ_ONLY)


def private_users(user):
    """PrivateUsers: of all users there are this one and root; another process must say so."""
    ready, done = os.pipe(), os.pipe()
    unconfined = os.getpid()
    if os.fork() == 0:
        os.read(ready[0], 1)
        for kind in ("uid", "gid"):
            Path(f"/proc/{unconfined}/{kind}_map").write_text(f"0 0 1\n{user} {user} 1\n")
        os.write(done[1], b".")
        os._exit(0)
    call(libc.unshare, NEW_USERS)
    os.write(ready[1], b".")
    assert os.read(done[0], 1)
    os.wait()


def expand(words):
    """The system calls of these names and groups."""
    for word in words:
        if word.startswith("@"):
            said = subprocess.run(
                ["systemd-analyze", "syscall-filter", word], capture_output=True, text=True, check=True
            )
            lines = (line.strip() for line in said.stdout.splitlines()[1:])
            yield from expand(line for line in lines if line and not line.startswith("#"))
        else:
            yield word


class Comparison(ctypes.Structure):
    """A condition on an argument of a system call, as libseccomp has it."""

    _fields_ = (("arg", ctypes.c_uint), ("op", ctypes.c_int), ("a", ctypes.c_uint64), ("b", ctypes.c_uint64))


def filter_of(unit):
    """What `confine_calls` needs: the system calls that the unit allows, and the kinds of sockets."""
    allowed = set()
    for line in unit.get("SystemCallFilter", []):
        named = set(expand(line.removeprefix("~").split()))
        allowed = allowed - named if line.startswith("~") else allowed | named
    families = {"AF_UNIX": 1, "AF_INET": 2, "AF_INET6": 10}
    return allowed, [families[name] for name in " ".join(unit.get("RestrictAddressFamilies", [])).split()]


def confine_calls(allowed, families):
    """Let every other system call fail with EPERM."""
    seccomp = ctypes.CDLL("libseccomp.so.2")
    seccomp.seccomp_init.restype = ctypes.c_void_p
    allow, equal, errno_eperm = 0x7FFF0000, 4, 0x00050001
    context = ctypes.c_void_p(seccomp.seccomp_init(ctypes.c_uint32(errno_eperm)))
    for name in sorted(allowed):
        number = seccomp.seccomp_syscall_resolve_name(name.encode())
        if name == "socket" and families:
            for family in families:
                only = Comparison(0, equal, family, 0)
                call(seccomp.seccomp_rule_add_array, context, allow, number, 1, ctypes.byref(only))
        elif number != -1:  # unknown to this version
            seccomp.seccomp_rule_add_array(context, allow, number, 0, None)
    call(seccomp.seccomp_load, context)


def main(path, user, folder, *command):
    """Confine this process, and run the command in it."""
    os.umask(0o022)
    unit, user = read_unit(path), int(user)
    calls = filter_of(unit)
    confine_files(unit, folder)
    os.setgroups([])
    if is_on(unit, "PrivateUsers"):
        private_users(user)
    for capability in range(64):
        libc.prctl(DROP_CAPABILITY, capability, 0, 0, 0)  # those that this kernel lacks fail
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)
    os.umask(int(unit["UMask"][0], 8))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    call(libc.prctl, NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    if is_on(unit, "MemoryDenyWriteExecute"):
        libc.prctl(NO_WRITE_AND_EXECUTE, 1, 0, 0, 0)  # from Linux 6.3 on
    confine_calls(*calls)
    os.execvp(command[0], command)  # noqa: S606 - this is what the service is


if __name__ == "__main__":
    main(*sys.argv[1:])
