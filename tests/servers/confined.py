"""An MCP server (2025-11-25, standard library only) in an attacker's hands: its tool `attempt` tries what a sandbox should
refuse, and answers `done` or the error for each.

Argument: a JSON object with the paths, ports and names to try.
"""

import ctypes
import fcntl
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import time

AT = json.loads(sys.argv[1])
LIBC = ctypes.CDLL(None, use_errno=True)
GATEWAY = os.getppid()
OWN = os.environ.get("TMPDIR", tempfile.gettempdir())


def checked(result):
    if result == -1:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def syscall(number, *arguments):
    return checked(LIBC.syscall(ctypes.c_long(number), *[ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]))


def close(descriptor):
    os.close(descriptor)


def read(path):
    with open(path, "rb") as file:
        file.read(1)


def write(path):
    with open(path, "w") as file:
        file.write("x")
    os.remove(path)


def link_and_read():
    path = os.path.join(OWN, "link")
    os.symlink(AT["secret"], path)
    try:
        read(path)
    finally:
        os.remove(path)


def connect(family, address, kind=socket.SOCK_STREAM):
    with socket.socket(family, kind) as own:
        own.settimeout(5)
        own.connect(address)


def bind(kind):
    with socket.socket(socket.AF_INET, kind) as own:
        own.bind(("127.0.0.1", 0))
        if kind == socket.SOCK_STREAM:
            own.listen()


def pair(kind):
    for one in socket.socketpair(socket.AF_UNIX, kind):
        one.close()


def pair_elsewhere():
    """A pair for datagrams, connected anew: no call of `socket` is needed."""
    one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with one, other:
        one.connect(AT["datagrams"])
        one.send(b"x")


def ptrace():
    seize, detach = 0x4206, 17
    checked(LIBC.ptrace(seize, GATEWAY, None, None))
    LIBC.ptrace(detach, GATEWAY, None, None)


def peek():
    """The gateway's memory by process_vm_readv; address 0 is not mapped, which only a permitted reader is told."""
    class Part(ctypes.Structure):
        _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]

    own, theirs = ctypes.create_string_buffer(8), Part(None, 8)
    mine = Part(ctypes.addressof(own), 8)
    try:
        checked(LIBC.process_vm_readv(GATEWAY, ctypes.byref(mine), 1, ctypes.byref(theirs), 1, 0))
    except OSError as error:
        if error.errno != 14:
            raise


def watch(path):
    descriptor = checked(LIBC.inotify_init())
    try:
        checked(LIBC.inotify_add_watch(descriptor, path.encode(), 0x100))
    finally:
        os.close(descriptor)


def fork(count):
    """So many processes at once, which all end."""
    started = []
    try:
        for _ in range(count):
            child = os.fork()
            if child == 0:
                time.sleep(30)
                os._exit(0)
            started.append(child)
    finally:
        for child in started:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


def in_child(attempt):
    """What changes the process is tried in a child."""
    child = os.fork()
    if child == 0:
        try:
            attempt()
        except OSError as error:
            os._exit(error.errno or 1)
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code:
        raise OSError(code, os.strerror(abs(code)))


def mount():
    """In namespaces of its own, where an ordinary user may have them."""
    new_user, new_mounts = 0x10000000, 0x00020000
    checked(LIBC.unshare(new_mounts if os.geteuid() == 0 else new_user | new_mounts))
    checked(LIBC.mount(b"none", b"/", None, 0x44000, None))
    checked(LIBC.mount(b"none", AT["folder"].encode(), b"tmpfs", 0, None))


def extra_descriptors():
    """Succeeds if there is an open file that it was not given."""
    listed = [int(name) for name in os.listdir("/proc/self/fd")]
    for number in listed:
        try:
            if number > 2 and os.readlink(f"/proc/self/fd/{number}") not in (f"/proc/{os.getpid()}/fd",):
                return
        except FileNotFoundError:
            pass
    raise OSError(9, "none is open")


def core_dump():
    if resource.getrlimit(resource.RLIMIT_CORE)[1] == 0:
        raise OSError(1, "the limit is 0")


def privileges():
    if "NoNewPrivs:\t1" in open("/proc/self/status").read():
        raise OSError(1, "no new privileges")


def x32():
    """`getpid` of the x32 architecture, whose numbers a deny-list does not name."""
    syscall(0x40000000 | 39)


def daemon():
    """Leaves a process in a session of its own behind, whose parents have ended, and which ends at SIGKILL alone."""
    child = os.fork()
    if child == 0:
        os.setsid()
        if os.fork() == 0:
            for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
                signal.signal(number, signal.SIG_IGN)
            for descriptor in range(3):
                os.close(descriptor)
            time.sleep(600)
        os._exit(0)
    os.waitpid(child, 0)


def deep():
    """Leaves folders behind that no path can name, and one that may not be opened."""
    here = os.open(OWN, os.O_RDONLY)
    for _ in range(2_000):
        os.mkdir("deeper", dir_fd=here)
        below = os.open("deeper", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)
    os.mkdir(OWN + "/closed", 0)


ATTEMPTS = {
    "daemon": daemon,
    "deep": deep,
    "die": lambda: os._exit(3),
    "read_home": lambda: read(AT["secret"]),
    "read_shadow": lambda: read("/etc/shadow"),
    "read_shared": lambda: read(AT["shared"] + "/file"),
    "read_program": lambda: read(sys.argv[0]),
    "read_libraries": lambda: os.listdir("/usr/lib"),
    "read_dotdot": lambda: read(AT["shared"] + "/../" + os.path.relpath(AT["secret"], os.path.dirname(AT["shared"]))),
    "read_by_link": link_and_read,
    "read_by_proc_root": lambda: read("/proc/self/root" + AT["secret"]),
    "list_home": lambda: os.listdir(AT["home"]),
    "list_shared": lambda: os.listdir(AT["shared"]),
    "list_tmp": lambda: os.listdir("/tmp"),
    "watch_home": lambda: watch(AT["home"]),
    "write_home": lambda: write(AT["home"] + "/new"),
    "write_shared": lambda: write(AT["shared"] + "/new"),
    "write_own_tmp": lambda: write(OWN + "/new"),
    "write_shm": lambda: write(f"/dev/shm/forgefs-{os.getpid()}"),
    "write_program": lambda: open(sys.argv[0], "a").close(),
    "truncate_home": lambda: os.truncate(AT["home"] + "/victim", 1),
    "hard_link": lambda: (os.link(AT["secret"], AT["shared"] + "/hard"), os.remove(AT["shared"] + "/hard")),
    "rename_out": lambda: (
        os.rename(AT["home"] + "/victim", AT["shared"] + "/moved"),
        os.rename(AT["shared"] + "/moved", AT["home"] + "/victim"),
    ),
    "chmod_home": lambda: os.chmod(AT["home"] + "/victim", 0o644),
    "touch_home": lambda: os.utime(AT["home"] + "/victim"),
    "tag_home": lambda: os.setxattr(AT["home"] + "/victim", "user.x", b"x"),
    "run_system": lambda: subprocess.run(["/bin/true"], check=True),
    "run_home": lambda: subprocess.run([AT["tool"]], check=True),
    "run_gateway": lambda: subprocess.run([AT["forgefs"], "--version"], check=True, stdout=subprocess.DEVNULL),
    "tcp_connect": lambda: connect(socket.AF_INET, ("127.0.0.1", AT["port"])),
    "tcp_listen": lambda: bind(socket.SOCK_STREAM),
    "udp": lambda: bind(socket.SOCK_DGRAM),
    "packets": lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW).close(),
    "unix_connect": lambda: connect(socket.AF_UNIX, AT["socket"]),
    "unix_connect_abstract": lambda: connect(socket.AF_UNIX, "\0" + AT["abstract"]),
    "unix_pair": lambda: pair(socket.SOCK_STREAM),
    "unix_pair_elsewhere": pair_elsewhere,
    "signal_gateway": lambda: os.kill(GATEWAY, 0),
    "signal_group": lambda: os.kill(-GATEWAY, 0),
    "signal_by_descriptor": lambda: fcntl.fcntl(0, 10, signal.SIGKILL),
    "join_group": lambda: os.setpgid(0, GATEWAY),
    "ptrace_gateway": ptrace,
    "gateway_memory": peek,
    "gateway_environment": lambda: read(f"/proc/{GATEWAY}/environ"),
    "gateway_arguments": lambda: read(f"/proc/{GATEWAY}/cmdline"),
    "gateway_limits": lambda: resource.prlimit(GATEWAY, resource.RLIMIT_NOFILE),
    "gateway_priority": lambda: os.setpriority(os.PRIO_PROCESS, GATEWAY, os.getpriority(os.PRIO_PROCESS, GATEWAY)),
    "fork": lambda: fork(1),
    "new_user_namespace": lambda: in_child(lambda: checked(LIBC.unshare(0x10000000))),
    "namespace_by_clone": lambda: in_child(lambda: syscall(56, 0x10000000 | signal.SIGCHLD, 0, 0, 0, 0) or os._exit(0)),
    "namespace_by_clone3": lambda: in_child(lambda: clone3(0x10000000)),
    "mount": lambda: in_child(mount),
    "io_uring": lambda: close(syscall(425, 1, ctypes.create_string_buffer(120))),
    "userfaultfd": lambda: close(syscall(323, 0)),
    "keyring": lambda: syscall(250, 0, -3, 0, 0, 0),
    "shared_memory": lambda: LIBC.shmctl(checked(LIBC.shmget(0x666F + os.getpid(), 1, 0o1600)), 0, None),
    "queue_by_name": lambda: close(syscall(240, f"forgefs-{os.getpid()}".encode(), 0o102, 0o600, None)),
    "x32": x32,
    "terminal": lambda: read("/dev/tty"),
    "extra_descriptors": extra_descriptors,
    "core_dump": core_dump,
    "privileges": privileges,
    "memory": lambda: bytearray(AT["megabytes"] << 20) and None,
    "processes": lambda: fork(AT["processes"]),
}


def clone3(flags):
    arguments = (ctypes.c_uint64 * 11)(flags, 0, 0, 0, signal.SIGCHLD)
    if syscall(435, arguments, ctypes.sizeof(arguments)) == 0:
        os._exit(0)


def attempt(name):
    try:
        ATTEMPTS[name]()
        return "done"
    except (OSError, MemoryError, subprocess.SubprocessError) as error:
        return f"{type(error).__name__}: {error}"


def answer(message):
    method, params = message["method"], message.get("params") or {}
    if method == "initialize":
        info = {"name": "confined", "version": "1"}
        return {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": info}
    if method == "tools/list":
        names = {"type": "array", "items": {"type": "string"}}
        schema = {"type": "object", "properties": {"names": names}, "required": ["names"]}
        return {"tools": [{"name": "attempt", "description": "Tries.", "inputSchema": schema}]}
    if method == "tools/call":
        return {"content": [{"type": "text", "text": json.dumps({name: attempt(name) for name in params["arguments"]["names"]})}]}
    return None


for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:
        result = answer(message)
        error = {"code": -32601, "message": "no such method"}
        said = {"jsonrpc": "2.0", "id": message["id"], **({"result": result} if result else {"error": error})}
        print(json.dumps(said), flush=True)
