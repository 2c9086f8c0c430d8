package pgserver

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// accountNames lists the accounts to try, in this order, for a new cluster if this process runs as
// root. The account must have a name, because initdb rejects users without a name.
var accountNames = []string{"postgres", "nobody"}

// account is the system account under which PostgreSQL runs. Its processes can write to the data
// directory.
type account struct {
	uid, gid int
	switched bool // true if the account is not the account of this process
}

// ownAccount returns the account of this process.
func ownAccount() account { return account{uid: os.Geteuid(), gid: os.Getegid()} }

// chooseAccount chooses the account for a new cluster.
func chooseAccount() (account, error) {
	if os.Geteuid() != 0 {
		return ownAccount(), nil
	}

	for _, name := range accountNames {
		found, err := user.Lookup(name)
		if _, unknown := errors.AsType[user.UnknownUserError](err); unknown {
			continue
		}
		if err != nil {
			return account{}, fmt.Errorf("looking up user %s: %w", name, err)
		}
		return otherAccount(found)
	}

	return account{}, errors.New("PostgreSQL does not run as root, and there is no user postgres: run useradd --system postgres")
}

// accountFor returns the account for an existing cluster: its owner.
func accountFor(data string) (account, error) {
	info, err := os.Stat(data)
	if err != nil {
		return account{}, fmt.Errorf("reading data directory: %w", err)
	}

	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return account{}, errors.New("reading data directory: the file system does not report the owner")
	}

	owner := account{uid: int(stat.Uid), gid: int(stat.Gid), switched: true}
	switch {
	case owner.uid == os.Geteuid() && owner.uid != 0:
		return ownAccount(), nil
	case os.Geteuid() != 0:
		return account{}, fmt.Errorf("data directory %s belongs to user id %d, not to %d: start as that user, or as root",
			data, owner.uid, os.Geteuid())
	case owner.uid != 0:
		return owner, nil
	}

	// Root may own the directory, for example after a backup was restored. In this case the
	// directory gets another owner, as for a new cluster.
	return chooseAccount()
}

// otherAccount returns the account of a system user other than the process's own user.
func otherAccount(found *user.User) (account, error) {
	uid, err := strconv.Atoi(found.Uid)
	if err != nil {
		return account{}, fmt.Errorf("reading id of user %s: %w", found.Username, err)
	}
	gid, err := strconv.Atoi(found.Gid)
	if err != nil {
		return account{}, fmt.Errorf("reading group of user %s: %w", found.Username, err)
	}
	return account{uid: uid, gid: gid, switched: true}, nil
}

// chown changes the owner of dir and of everything below it, if the account is not the account of
// this process. It does not follow links. It does nothing if dir already has the right owner.
func (a account) chown(dir string) error {
	if !a.switched {
		return nil
	}

	info, err := os.Lstat(dir)
	if err != nil {
		return fmt.Errorf("reading owner: %w", err)
	}

	if stat, ok := info.Sys().(*syscall.Stat_t); ok && int(stat.Uid) == a.uid {
		return nil
	}

	err = filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		return os.Lchown(path, a.uid, a.gid) //nolint:gosec // G122: until now, only root can change this tree
	})
	if err == nil {
		// The owner of dir is changed last. accountFor relies on this: if dir has the right owner,
		// so do all of its contents.
		err = os.Lchown(dir, a.uid, a.gid)
	}

	if err != nil {
		return fmt.Errorf("changing the owner of the data directory to user id %d: %w", a.uid, err)
	}

	return nil
}

// processAttributes returns attributes that start a process under the account, and in a new
// session, so that the terminal's Ctrl-C does not reach the process.
func (a account) processAttributes() *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setsid: true}
	if a.switched {
		attr.Credential = &syscall.Credential{Uid: uint32(a.uid), Gid: uint32(a.gid)}
	}
	return attr
}
