package childproc

import "syscall"

// setDeathSignal makes the kernel send the signal to the child when its parent thread ends.
func setDeathSignal(attr *syscall.SysProcAttr, signal syscall.Signal) { attr.Pdeathsig = signal }
