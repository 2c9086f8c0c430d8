package pgserver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"parley/shared/lifecycle"
	"parley/shared/lifecycle/childproc"
)

// Names in Config.Dir.
const (
	dataDir    = "data"
	newDataDir = "data.new"
)

// User is the name of the superuser in every cluster that this package creates.
const User = "parley"

// cluster is a data directory with the account and the binaries that serve it.
type cluster struct {
	data     string
	binaries Binaries
	account  account
}

// openCluster opens the cluster in dir, or creates one. The programs that openCluster starts
// inherit the lock. The argument durable is false if a new cluster need not be synced to disk.
// openCluster returns ErrNotInstalled if there is no server of the cluster's version.
func openCluster(ctx context.Context, dir string, durable bool, lock *lifecycle.Lock) (cluster, error) {
	data := filepath.Join(dir, dataDir)
	version, err := os.ReadFile(filepath.Join(data, "PG_VERSION"))
	if errors.Is(err, os.ErrNotExist) {
		return makeCluster(ctx, dir, durable, lock)
	}
	if err != nil {
		return cluster{}, fmt.Errorf("reading data version: %w", err)
	}

	major, err := strconv.Atoi(strings.TrimSpace(string(version)))
	if err != nil {
		return cluster{}, fmt.Errorf("reading data version: %w", err)
	}

	// A server reads only the data of the same major version.
	binaries, err := find(ctx, os.Getenv("PATH"), binaryDirs, major)
	if err != nil {
		return cluster{}, err
	}

	owner, err := accountFor(data)
	if err != nil {
		return cluster{}, err
	}

	if err := owner.chown(data); err != nil {
		return cluster{}, err
	}

	return cluster{data: data, binaries: binaries, account: owner}, nil
}

// makeCluster runs initdb in a temporary directory and then renames it, so that an existing
// data directory is always complete.
func makeCluster(ctx context.Context, dir string, durable bool, lock *lifecycle.Lock) (cluster, error) {
	binaries, err := Find(ctx)
	if err != nil {
		return cluster{}, err
	}

	owner, err := chooseAccount()
	if err != nil {
		return cluster{}, err
	}

	// An interrupted start may have left a directory with this name.
	made := cluster{data: filepath.Join(dir, newDataDir), binaries: binaries, account: owner}
	if err := os.RemoveAll(made.data); err != nil {
		return cluster{}, fmt.Errorf("removing unfinished data directory: %w", err)
	}

	if err := os.Mkdir(made.data, 0o700); err != nil {
		return cluster{}, fmt.Errorf("creating data directory: %w", err)
	}

	if err := owner.chown(made.data); err != nil {
		return cluster{}, err
	}

	if err := made.initialize(ctx, durable, lock); err != nil {
		return cluster{}, err
	}

	final := filepath.Join(dir, dataDir)
	// Rename fails if the target exists and is not empty, so no existing cluster is overwritten.
	if err := os.Rename(made.data, final); err != nil {
		return cluster{}, fmt.Errorf("moving data directory into place: %w", err)
	}

	if err := syncDir(dir); err != nil {
		return cluster{}, err
	}

	made.data = final
	return made, nil
}

// initialize runs initdb in the cluster's directory and waits for it.
func (c cluster) initialize(ctx context.Context, durable bool, lock *lifecycle.Lock) error {
	args := []string{
		"--username=" + User, "--encoding=UTF8", "--locale=" + locale, "--data-checksums",
		// Other users cannot enter the socket's directory, so connections over the socket need no
		// password. Other users can connect over TCP, so such connections need a password.
		"--auth-local=trust", "--auth-host=scram-sha-256",
	}
	if !durable {
		args = append(args, "--no-sync")
	}

	var output bytes.Buffer
	cmd, data, err := c.command(ctx, c.binaries.Initdb, args, lock)
	if err != nil {
		return err
	}

	defer data.Close()
	cmd.Stdout, cmd.Stderr = &output, &output
	child, err := childproc.Start(cmd, syscall.SIGKILL)
	if err != nil {
		return fmt.Errorf("starting initdb: %w", err)
	}

	select {
	case <-child.Done():
	case <-ctx.Done():
		// initdb is the leader of a session, so the signal also kills the server processes that it
		// has started.
		_ = syscall.Kill(-child.PID(), syscall.SIGKILL)
		<-child.Done()
		return fmt.Errorf("creating database cluster: %w", context.Cause(ctx))
	}

	if err := child.Err(); err != nil {
		return fmt.Errorf("creating database cluster: %w: %s", err, bytes.TrimSpace(output.Bytes()))
	}

	return nil
}

// command prepares a server program. It runs under the cluster's account in "/", which every
// account can enter, with the data directory and the lock as file descriptors 3 and 4. The
// caller closes the returned directory after the program has started.
func (c cluster) command(ctx context.Context, program string, args []string, lock *lifecycle.Lock) (*exec.Cmd, *os.File, error) {
	data, err := os.Open(c.data)
	if err != nil {
		return nil, nil, fmt.Errorf("opening data directory: %w", err)
	}

	path := c.data
	if c.account.switched && inheritedData != "" {
		path = inheritedData
	}

	// The context does not end the program: the caller stops it, usually more gently than with an
	// immediate kill.
	cmd := exec.CommandContext(context.WithoutCancel(ctx), program, append([]string{"-D", path}, args...)...)
	cmd.Dir = "/"
	cmd.ExtraFiles = []*os.File{data, lock.File()}
	cmd.SysProcAttr = c.account.processAttributes()
	// Do not pass other environment variables: they include keys, which the account could read, and
	// PG… variables, which would change the behavior of the programs.
	cmd.Env = []string{"LC_ALL=C"}
	for _, key := range []string{"PATH", "LD_LIBRARY_PATH"} {
		if value, set := os.LookupEnv(key); set {
			cmd.Env = append(cmd.Env, key+"="+value)
		}
	}

	return cmd, data, nil
}

// syncDir syncs a directory, so that a rename in it survives a power failure.
func syncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("opening directory: %w", err)
	}
	defer dir.Close()
	if err := dir.Sync(); err != nil {
		return fmt.Errorf("syncing directory: %w", err)
	}
	return nil
}
