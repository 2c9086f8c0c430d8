package seccomp

import (
	"encoding/binary"
	"runtime"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/bpf"
)

// answerTo returns the filter's result for a call. The BPF interpreter reads words in big-endian
// order, as in network packets.
func answerTo(t *testing.T, watched bool, arch, number uint32, args ...uint64) int {
	t.Helper()
	vm, err := bpf.NewVM(program(Rules(watched)))
	if err != nil {
		t.Fatal(err)
	}
	data := make([]byte, 64)
	binary.BigEndian.PutUint32(data[offNumber:], number)
	binary.BigEndian.PutUint32(data[offArch:], arch)
	for i, arg := range args {
		binary.BigEndian.PutUint32(data[offArgs+8*i:], uint32(arg))
		binary.BigEndian.PutUint32(data[offArgs+8*i+4:], uint32(arg>>32))
	}
	answer, err := vm.Run(data)
	if err != nil {
		t.Fatal(err)
	}
	return int(uint32(answer))
}

func TestEveryNumberHasTheAnswerOfItsRules(t *testing.T) {
	t.Parallel()
	free := map[uint32]bool{}
	for name := range strings.FieldsSeq(`clone personality prlimit64 madvise fcntl mknod mknodat mmap preadv2 pwritev2 sendto recvfrom
		sendmsg recvmsg sendmmsg recvmmsg`) { // the rules of these calls accept arguments that are all 0
		if number, is := numbers[name]; is {
			free[number] = true
		}
	}
	pretends := map[uint32]bool{}
	for _, r := range Rules(false) {
		free[r.Number] = free[r.Number] || len(r.Conditions) == 0 && r.Errno == 0 && !r.Pretend
		pretends[r.Number] = r.Pretend
	}
	for number := range uint32(600) {
		want := retErrno | errnoEPERM
		switch {
		case free[number]:
			want = retAllow
		case pretends[number]:
			want = retErrno
		case number == numbers["clone3"]:
			want = retErrno | errnoENOSYS
		}
		for _, watched := range []bool{false, true} {
			if got := answerTo(t, watched, auditArch, number, 0, 0, 0, 0, 0, 0); got != want {
				t.Errorf("call %d, watched %v: %#x instead of %#x", number, watched, got, want)
			}
		}
	}
}

func TestUncountedMemoryIsRefused(t *testing.T) {
	t.Parallel()
	const (
		shared, private, validate, droppable, anonymous, fixed, huge = 1, 2, 3, 8, 0x20, 0x10, 0x40000
		refuse                                                       = retErrno | errnoEPERM
	)
	for flags, want := range map[uint64]struct{ counted, watched int }{
		private | anonymous:                 {retAllow, retAllow},
		private | anonymous | fixed:         {retAllow, retAllow},
		private | anonymous | 1<<40:         {retAllow, retAllow}, // the kernel defines no such flag
		private:                             {retAllow, retAllow},
		shared:                              {retAllow, retAllow}, // maps a file
		validate:                            {retAllow, retAllow},
		shared | anonymous:                  {retAllow, refuse},
		shared | anonymous | fixed:          {retAllow, refuse},
		shared | anonymous | 1<<40:          {retAllow, refuse},
		validate | anonymous:                {retAllow, refuse},
		droppable | anonymous:               {retAllow, refuse},
		shared | private<<2 | anonymous:     {retAllow, refuse},
		private | anonymous | huge:          {refuse, refuse},
		private | anonymous | huge | 21<<26: {refuse, refuse},
		shared | huge:                       {refuse, refuse},
	} {
		for watched, want := range map[bool]int{false: want.counted, true: want.watched} {
			if got := answerTo(t, watched, auditArch, numbers["mmap"], 0, 4096, 3, flags, ^uint64(0), 0); got != want {
				t.Errorf("mmap with flags %#x, watched %v: %#x instead of %#x", flags, watched, got, want)
			}
		}
	}
	for watched, want := range map[bool]int{false: retAllow, true: retErrno} {
		if got := answerTo(t, watched, auditArch, numbers["setsockopt"], 3, solSocket, sndbuf); got != want {
			t.Errorf("setsockopt SNDBUF, watched %v: %#x instead of %#x", watched, got, want)
		}
	}
}

func TestForeignArchitecturesEndTheProcess(t *testing.T) {
	t.Parallel()
	for _, arch := range []uint32{0, 0x40000003 /* i386 */, 0x40000028 /* arm */, 0x00000015, ^uint32(0)} {
		if got := answerTo(t, false, arch, numbers["read"]); got != retKill {
			t.Errorf("architecture %#x: %#x", arch, got)
		}
	}
	if foreignBit != 0 {
		for _, number := range []uint32{numbers["read"], 512, 547, ^uint32(0) &^ foreignBit} {
			if got := answerTo(t, false, auditArch, number|foreignBit); got != retKill {
				t.Errorf("x32's %d: %#x", number, got)
			}
		}
	}
}

// The filter must never allow the calls in this list.
func TestNeverAllowed(t *testing.T) {
	t.Parallel()
	never := strings.Fields(`ptrace process_vm_readv process_vm_writev process_madvise pidfd_getfd kcmp mount umount2 pivot_root chroot
		move_mount open_tree fsopen fsconfig fsmount fspick mount_setattr unshare setns bpf keyctl add_key request_key
		io_uring_setup io_uring_enter io_uring_register io_setup userfaultfd perf_event_open open_by_handle_at name_to_handle_at
		kexec_load kexec_file_load init_module finit_module delete_module swapon swapoff reboot quotactl quotactl_fd acct syslog
		move_pages migrate_pages mbind set_mempolicy memfd_create memfd_secret shmget msgget semget mq_open inotify_init
		inotify_init1 inotify_add_watch fanotify_init fanotify_mark seccomp landlock_restrict_self setuid setgid setgroups
		setresuid sethostname settimeofday clock_settime adjtimex clock_adjtime iopl ioperm modify_ldt sync syncfs sendfile vmsplice
		splice tee sched_setscheduler sched_setattr ioprio_set statmount listmount lookup_dcookie vhangup uselib`)
	for _, r := range append(Rules(false), Rules(true)...) {
		if slices.Contains(never, r.Name) {
			t.Errorf("%s is allowed", r.Name)
		}
	}
}

// Unknown names are skipped, so without this test a misspelled name would not be noticed.
func TestEveryNameIsACall(t *testing.T) {
	t.Parallel()
	if runtime.GOARCH != "amd64" {
		t.Skip("the other architectures lack the older calls of the list")
	}
	var whole, conditional []string // no name may be in both lists, because its conditions would have no effect
	for _, group := range []string{files, memory, signals, processes, clocks, waiting, sockets, pretended} {
		whole = append(whole, strings.Fields(group)...)
	}
	for _, l := range slices.Concat(argRules, countedRules, watchedRules) {
		if !slices.Contains(conditional, l.name) {
			conditional = append(conditional, l.name)
		}
	}
	names := slices.Concat(whole, conditional)
	for _, name := range names {
		if _, is := numbers[name]; !is {
			t.Errorf("%s has no number", name)
		}
	}
	for name := range numbers {
		if !slices.Contains(names, name) && name != "clone3" {
			t.Errorf("%s has a number and no rule", name)
		}
	}
	slices.Sort(names)
	if len(slices.Compact(names)) != len(whole)+len(conditional) {
		t.Error("a name stands in the list twice")
	}
}

func TestFilterIsSmallEnough(t *testing.T) {
	t.Parallel()
	for _, watched := range []bool{false, true} {
		filter, err := Filter(watched)
		if err != nil {
			t.Fatal(err)
		}
		if n := len(filter) / 8; len(filter)%8 != 0 || n < len(numbers) || n > 4096 {
			t.Errorf("%d bytes", len(filter))
		}
	}
}

func TestBothHalvesOfAWideArgumentAreCompared(t *testing.T) {
	t.Parallel()
	rule := Rule{Number: 7, Conditions: []Condition{{2, ^uint64(0), 0x1_0000_0002}, {0, 0xff_0000_0000, 0x11_0000_0000}}}
	vm, err := bpf.NewVM(program([]Rule{rule}))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		first, third uint64
		allowed      bool
	}{
		{0x11_0000_0000, 0x1_0000_0002, true},
		{0x2211_3333_3333, 0x1_0000_0002, true},
		{0x12_0000_0000, 0x1_0000_0002, false},
		{0x11_0000_0000, 0x2_0000_0002, false},
		{0x11_0000_0000, 0x1_0000_0003, false},
	} {
		data := make([]byte, 64)
		binary.BigEndian.PutUint32(data[offNumber:], 7)
		binary.BigEndian.PutUint32(data[offArch:], auditArch)
		for arg, value := range map[int]uint64{0: c.first, 2: c.third} {
			binary.BigEndian.PutUint32(data[offArgs+8*arg:], uint32(value))
			binary.BigEndian.PutUint32(data[offArgs+8*arg+4:], uint32(value>>32))
		}
		if got, err := vm.Run(data); err != nil || (got == retAllow) != c.allowed {
			t.Errorf("%#x, %#x: %#x, %v", c.first, c.third, got, err)
		}
	}
}
