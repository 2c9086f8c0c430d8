//go:build !linux

package bubblewrap

import (
	"errors"
	"os"
	"syscall"
)

// Systems other than Linux have no filter of system calls, so Open fails there and the functions of
// this file are never called.

var errLinux = errors.New("bubblewrap needs Linux")

func ownerFor(string) (int, error) { return 0, errLinux }

func isolation(int) *syscall.SysProcAttr { return nil }

func launcher(bwrap string) []string { return []string{bwrap} }

func giveWay(int) {}

func setAttributes(int) error { return errLinux }

func memoryFile(string, []byte) (*os.File, error) { return nil, errLinux }

func openFolders(int, int, int64) []*os.File { return nil }

func folderUsage(*os.File) (bytes int64, count int) { return 0, 0 }
