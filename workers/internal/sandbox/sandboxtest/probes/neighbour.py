# One of two programs that run in separate sandboxes. It puts its canary wherever the other program
# might find it, and reports these places. On request it searches for the canary of the other
# program and reports the places that contain it.
import ctypes
import json
import os
import socket
import sys
import time

mine, others = sys.argv[1], sys.argv[2]
folders = sys.argv[3:]
libc = ctypes.CDLL(None, use_errno=True)
key = int(mine[-6:], 16) + 1, int(others[-6:], 16) + 1

for folder in folders:
    with open(os.path.join(folder, mine), "w") as file:
        file.write(mine)
listener = socket.socket(socket.AF_UNIX)
listener.bind("\0" + mine)
listener.listen()
segment = libc.shmget(key[0], 4096, 0o1666)
for _ in range(20):
    if os.fork() == 0:
        os.closerange(0, 3)
        time.sleep(600)
print("ready", flush=True)
sys.stdin.readline()

found = [folder for folder in folders if os.path.exists(os.path.join(folder, others))]
try:
    socket.socket(socket.AF_UNIX).connect("\0" + others)
    found.append("abstract socket")
except OSError:
    pass
if libc.shmget(key[1], 0, 0) != -1:
    found.append("shared memory")
seen = 0
for pid in range(1, os.getpid() + 200):
    try:
        os.kill(pid, 0)
        seen += 1
    except OSError:
        pass
if seen > 30:  # 21 processes belong to this program, and a few to the sandbox
    found.append("processes")
print(json.dumps(found), flush=True)
sys.stdin.readline()
if segment != -1:
    libc.shmctl(segment, 0, None)
