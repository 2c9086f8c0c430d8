package machine

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"time"
)

const (
	syncWrites = 64
	syncBytes  = 8 << 10 // a page of PostgreSQL's log
)

// InMemory is a sync that is too quick for any disk: the directory is in memory, where durability costs nothing.
const InMemory = 3 * time.Microsecond

// SyncTime is the median time to write 8 KiB into a file of dir and have it on disk.
func SyncTime(dir string) (median time.Duration, err error) {
	file, err := os.CreateTemp(dir, "sync-*")
	if err != nil {
		return 0, fmt.Errorf("measuring disk: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close(), os.Remove(file.Name())) }()
	page := make([]byte, syncBytes)
	times := make([]time.Duration, syncWrites)
	for i := range times {
		start := time.Now()
		if _, err := file.WriteAt(page, int64(i%8)*syncBytes); err != nil {
			return 0, fmt.Errorf("measuring disk: %w", err)
		}
		if err := file.Sync(); err != nil {
			return 0, fmt.Errorf("measuring disk: %w", err)
		}
		times[i] = time.Since(start)
	}
	slices.Sort(times)
	return times[len(times)/2], nil
}
