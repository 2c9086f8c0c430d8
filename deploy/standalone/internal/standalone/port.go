package standalone

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"parley/shared/config"
)

// portsToTry is the number of consecutive ports that are tried.
const portsToTry = 20

// listen listens on a port of the host, or on the next free port after it. If the first port is in
// use, busy describes the process that uses it. Port 0 selects any free port. Errors other than a
// port in use end the search.
func listen(ctx context.Context, host string, port int) (listener net.Listener, busy string, err error) {
	var lc net.ListenConfig
	for n := range portsToTry {
		listener, err = lc.Listen(ctx, "tcp", net.JoinHostPort(host, strconv.Itoa(port+n)))
		if err == nil {
			return listener, busy, nil
		}
		if !errors.Is(err, syscall.EADDRINUSE) || port == 0 || port+n >= 65535 {
			break
		}
		if busy == "" {
			busy = fmt.Sprintf("port %d is in use by %s", port, portOwner(port))
		}
	}
	return nil, busy, fmt.Errorf("listening on %s, on port %d or a later one: %w", host, port, err)
}

// ownPorts returns the ports that this service uses on this machine. Agents' outbound requests must
// not reach them.
func ownPorts(servers config.Servers, address net.Addr) []int {
	ports := servers.Ports()
	if tcp, ok := address.(*net.TCPAddr); ok {
		ports = append(ports, tcp.Port)
	}
	return ports
}

// portOwner describes the process that listens on a TCP port, if /proc shows it.
func portOwner(port int) string {
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		for _, inode := range listeners(table, port) {
			if owner := processWithSocket(inode); owner != "" {
				return owner
			}
		}
	}
	return "another process"
}

// listeners returns the inodes of the sockets that listen on a port. It reads one of the kernel's
// tables of connections, whose columns are separated by spaces. It returns nil on systems without
// this table.
func listeners(table string, port int) (inodes []string) {
	f, err := os.Open(table)
	if err != nil {
		return nil
	}
	defer func() { _ = f.Close() }() // the file is only read, so an error of Close loses nothing

	const stateListen = "0A"
	suffix := fmt.Sprintf(":%04X", port)
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		field := strings.Fields(lines.Text())
		if len(field) > 9 && strings.HasSuffix(field[1], suffix) && field[3] == stateListen {
			inodes = append(inodes, field[9])
		}
	}
	return inodes
}

// processWithSocket describes a process that has the socket open, by name and pid. It returns "" if
// /proc does not show the process, for example because it belongs to another user.
func processWithSocket(inode string) string {
	links, err := filepath.Glob("/proc/[0-9]*/fd/*")
	if err != nil {
		return ""
	}

	for _, link := range links {
		target, err := os.Readlink(link)
		if err != nil || target != "socket:["+inode+"]" {
			continue
		}
		pid := strings.Split(link, "/")[2]
		name, err := os.ReadFile(filepath.Join("/proc", pid, "comm"))
		if err != nil {
			return "process " + pid
		}
		return fmt.Sprintf("%s (pid %s)", strings.TrimSpace(string(name)), pid)
	}
	return ""
}
