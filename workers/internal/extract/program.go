package extract

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"
)

// program is the executable of this process, which is mounted into sandboxes. The file at its
// original path may be replaced or deleted while this process runs. In that case program makes one
// copy of the running executable and uses the copy.
type program struct {
	file  *os.File // the running executable
	where string   // original path of the executable
	err   error    // the reason why the executable could not be opened; nil if it was opened

	mu     sync.Mutex
	folder *folder // contains the copy, or nil if no copy was needed so far
}

// openProgram opens the running executable. If that fails, the method path returns the error.
func openProgram() *program {
	where, err := os.Executable()
	if err != nil {
		return &program{err: fmt.Errorf("finding this program's executable: %w", err)}
	}

	// /proc/self/exe refers to the running executable even if the file at its path has been
	// replaced.
	file, err := os.Open("/proc/self/exe")
	if err != nil {
		return &program{err: fmt.Errorf("opening this program's executable: %w", err)}
	}
	return &program{file: file, where: where}
}

// path returns a path under which every user of the host can execute the program.
func (p *program) path() (string, error) {
	if p.err != nil {
		return "", p.err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.folder != nil {
		return p.folder.program(), nil
	}

	// Use the original file if possible, because a copy takes many megabytes.
	if p.inPlace() {
		return p.where, nil
	}

	f, err := newFolder()
	if err != nil {
		return "", err
	}

	if err := copyProgram(p.file, f.program()); err != nil {
		return "", errors.Join(err, f.remove())
	}
	p.folder = f
	return f.program(), nil
}

// inPlace reports whether the file at the original path is still the running executable, and
// whether every user can execute it.
func (p *program) inPlace() bool {
	// An update replaces the file, so a different version may now be at the path.
	ours, err := p.file.Stat()
	if err != nil {
		return false
	}
	there, err := os.Stat(p.where)
	const readAndRun = 0o005
	return err == nil && os.SameFile(ours, there) && there.Mode().Perm()&readAndRun == readAndRun && reachable(filepath.Dir(p.where))
}

// reachable reports whether every user may enter a folder and all of its parents.
func reachable(dir string) bool {
	for {
		is, err := os.Stat(dir)
		const enter = 0o001
		if err != nil || is.Mode().Perm()&enter == 0 {
			return false
		}
		up := filepath.Dir(dir)
		if up == dir {
			return true
		}
		dir = up
	}
}

// copyProgram copies the running executable. During the copy, this process starts no other
// processes. A new process would briefly inherit the copy, which is open for writing, and a file
// that is open for writing cannot be executed.
func copyProgram(from *os.File, to string) error {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	file, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("copying this program's executable: %w", err)
	}

	const maximum = 1 << 40

	// Read through a section reader, because reading the file directly would change its offset,
	// which is shared.
	_, err = io.Copy(file, io.NewSectionReader(from, 0, maximum))
	if err == nil {
		err = file.Chmod(fs.FileMode(0o555))
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("copying this program's executable: %w", err)
	}
	return nil
}

// close removes the copy, if any.
func (p *program) close() error {
	if p.err != nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	err := p.file.Close()
	if p.folder != nil {
		err = errors.Join(err, p.folder.remove())
		p.folder = nil
	}
	p.err = errors.New("the extractor is closed")
	return err
}
