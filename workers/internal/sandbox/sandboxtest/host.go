//go:build linux

package sandboxtest

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// interpreter is the Python interpreter for programs that run without a sandbox or without
// python.Interpreter.
const interpreter = "/usr/bin/python3"

// unprivilegedUser is the id of a user who owns no files. In a sandbox, even files that everyone
// may read must be unreadable.
const unprivilegedUser = 60706

// host contains objects that a sandbox must not reach: files, processes, sockets and memory that
// contain a canary.
type host struct {
	canary  string
	files   []string // files that everyone may read
	folders []string // folders that contain the files
	unix    []string // addresses of listeners; @ marks an abstract address
	tcp     []*net.TCPAddr
	udp     []*net.UDPAddr
	pids    []int
	shm     int    // key of a System V shared memory segment
	queue   string // name of a POSIX message queue; "" if the host has none
	reached atomic.Int64
}

// newHost creates objects with canaries, which exist until the end of the test.
func newHost(t *testing.T) *host {
	t.Helper()
	word := make([]byte, 6)
	_, _ = rand.Read(word)
	h := &host{canary: "canary-" + hex.EncodeToString(word)}
	home, err := os.UserHomeDir()
	if err != nil {
		t.Fatalf("finding the home folder: %v", err)
	}
	for _, parent := range []string{"/tmp", "/var/tmp", "/dev/shm", home, "/run", "/var/lib", "/opt"} {
		h.keep(t, parent)
	}
	if len(h.files) < 3 {
		t.Fatalf("only %d of the host's folders are writable: %v", len(h.files), h.files)
	}

	h.listen(t)
	h.share(t)
	h.startBystander(t, nil)
	if os.Geteuid() == 0 {
		h.startBystander(t, &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: unprivilegedUser, Gid: unprivilegedUser}})
	}
	h.leave(t)
	return h
}

// keep creates a file below parent that everyone may read, like a data file or a key.
func (h *host) keep(t *testing.T, parent string) {
	t.Helper()
	folder := filepath.Join(parent, h.canary)
	if err := os.Mkdir(folder, 0o700); errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist) {
		t.Logf("cannot place a canary in %s: %v", parent, err)
		return
	} else if err != nil {
		t.Fatalf("creating a folder for canaries: %v", err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	file := filepath.Join(folder, h.canary+".txt")
	if err := os.WriteFile(file, []byte("the secret is "+h.canary), 0o644); err != nil { //nolint:gosec // intended
		t.Fatalf("writing a canary: %v", err)
	}
	// The folder and the file are made accessible to everyone, independently of the umask. So only
	// a sandbox prevents access to them.
	if err := errors.Join(os.Chmod(folder, 0o777), os.Chmod(file, 0o666)); err != nil { //nolint:gosec // intended
		t.Fatalf("making a canary accessible to everyone: %v", err)
	}
	h.files, h.folders = append(h.files, file), append(h.folders, folder)
}

// listen opens listeners of the kinds that servers typically have. Each connection receives the
// canary.
func (h *host) listen(t *testing.T) {
	t.Helper()
	h.unix = []string{"@" + h.canary}
	for _, name := range []string{"nats.sock", ".s.PGSQL.5432", "docker.sock"} {
		for _, folder := range h.folders {
			h.unix = append(h.unix, filepath.Join(folder, name))
		}
	}
	for _, address := range h.unix {
		listener := h.greet(t, "unix", address)
		if address[0] == '@' {
			continue
		}
		if err := os.Chmod(listener.Addr().String(), 0o777); err != nil { //nolint:gosec // as above
			t.Fatalf("making a socket accessible to everyone: %v", err)
		}
	}
	for _, address := range addresses(t) {
		listener := h.greet(t, "tcp", net.JoinHostPort(address, "0"))
		h.tcp = append(h.tcp, listener.Addr().(*net.TCPAddr)) //nolint:forcetypeassert // a TCP listener's address
		h.echo(t, net.JoinHostPort(address, "0"))
	}
}

// addresses returns IP addresses of this host: those of loopback, and the first other IPv4 address.
func addresses(t *testing.T) []string {
	t.Helper()
	found := []string{"127.0.0.1"}
	if probe, err := net.Listen("tcp6", "[::1]:0"); err == nil { //nolint:noctx // closed immediately
		_ = probe.Close()
		found = append(found, "::1")
	}
	all, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatalf("listing addresses: %v", err)
	}
	for _, address := range all {
		if network, ok := address.(*net.IPNet); ok && network.IP.To4() != nil && !network.IP.IsLoopback() {
			return append(found, network.IP.String())
		}
	}
	return found
}

func (h *host) greet(t *testing.T, network, address string) net.Listener {
	t.Helper()
	listener, err := net.Listen(network, address) //nolint:noctx // closed with the test
	if err != nil {
		t.Fatalf("listening on %s: %v", address, err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			h.reached.Add(1)
			_, _ = connection.Write([]byte(h.canary))
			_ = connection.Close()
		}
	}()
	return listener
}

func (h *host) echo(t *testing.T, address string) {
	t.Helper()
	connection, err := net.ListenPacket("udp", address) //nolint:noctx // closed with the test
	if err != nil {
		t.Fatalf("listening on %s: %v", address, err)
	}
	t.Cleanup(func() { _ = connection.Close() })
	h.udp = append(h.udp, connection.LocalAddr().(*net.UDPAddr)) //nolint:forcetypeassert // a UDP socket's address
	go func() {
		buffer := make([]byte, 512)
		for {
			_, from, err := connection.ReadFrom(buffer)
			if err != nil {
				return
			}
			h.reached.Add(1)
			_, _ = connection.WriteTo([]byte(h.canary), from)
		}
	}()
}

// share creates shared memory and a queue that all processes on the host may open.
func (h *host) share(t *testing.T) {
	t.Helper()
	number, err := strconv.ParseInt(h.canary[len(h.canary)-7:], 16, 32)
	if err != nil {
		t.Fatalf("generating a key: %v", err)
	}
	h.shm = int(number) + 1
	id, err := unix.SysvShmGet(h.shm, 4096, unix.IPC_CREAT|0o666)
	if err != nil {
		t.Fatalf("creating a shared memory segment: %v", err)
	}
	t.Cleanup(func() { _, _ = unix.SysvShmCtl(id, unix.IPC_RMID, nil) })

	name, _ := unix.BytePtrFromString(h.canary)
	address := uintptr(unsafe.Pointer(name)) //nolint:gosec // no package has a function for this call
	fd, _, code := unix.Syscall6(unix.SYS_MQ_OPEN, address, unix.O_CREAT|unix.O_RDWR, 0o666, 0, 0, 0)
	if code != 0 {
		t.Logf("no message queue on this host: %v", code)
		return
	}
	h.queue = h.canary
	t.Cleanup(func() {
		_, _, _ = unix.Syscall(unix.SYS_MQ_UNLINK, address, 0, 0)
		runtime.KeepAlive(name)
		_ = unix.Close(int(fd))
	})
}

// startBystander starts a process whose environment, memory and open file contain the canary.
func (h *host) startBystander(t *testing.T, as *syscall.SysProcAttr) {
	t.Helper()
	const program = `import os, sys
kept = open(sys.argv[1])
secret = ["the secret is " + os.environ["PARLEY_CANARY"] for _ in range(64)]
print("ready", flush=True)
sys.stdin.read()`
	command := exec.CommandContext(t.Context(), interpreter, "-c", program, h.files[0])
	command.Env = []string{"PARLEY_CANARY=" + h.canary}
	command.Dir = h.folders[0]
	command.SysProcAttr = as

	stdin, err := command.StdinPipe()
	if err != nil {
		t.Fatalf("opening a pipe: %v", err)
	}
	stdout, err := command.StdoutPipe()
	if err != nil {
		t.Fatalf("opening a pipe: %v", err)
	}

	if err := command.Start(); err != nil {
		t.Fatalf("starting a bystander: %v", err)
	}
	t.Cleanup(func() {
		_ = stdin.Close()
		_ = command.Wait()
	})
	if _, err := stdout.Read(make([]byte, 8)); err != nil {
		t.Fatalf("waiting for a bystander: %v", err)
	}
	h.pids = append(h.pids, command.Process.Pid)
}

// leave opens files without O_CLOEXEC, so that the children of this process inherit these files. A
// shell or a service manager may leave files open in the same way.
func (h *host) leave(t *testing.T) {
	t.Helper()
	for _, path := range []string{"/", h.folders[0], h.files[0]} {
		descriptor, err := unix.Open(path, unix.O_RDONLY, 0) // without O_CLOEXEC
		if err != nil {
			t.Fatalf("opening %s: %v", path, err)
		}
		t.Cleanup(func() { _ = unix.Close(descriptor) })
	}
}

// privileged returns an error if this process lacks privileges on the host.
func privileged() error {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return fmt.Errorf("reading this process's status: %w", err)
	}
	fields := statusFor(string(status))
	held, err := strconv.ParseUint(fields["CapEff"], 16, 64)
	const needed = 1<<unix.CAP_SYS_ADMIN | 1<<unix.CAP_SYS_PTRACE | 1<<unix.CAP_SYS_BOOT | 1<<unix.CAP_SYS_MODULE |
		1<<unix.CAP_SYS_RAWIO | 1<<unix.CAP_SYS_TIME | 1<<unix.CAP_NET_RAW | 1<<unix.CAP_MKNOD
	if err != nil || os.Geteuid() != 0 || fields["Seccomp"] != "0" || held&needed != needed {
		return errors.New("this process itself does not have all privileges")
	}
	return nil
}
