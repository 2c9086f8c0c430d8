//go:build linux

package sandboxtest

import (
	_ "embed"
	"fmt"

	"parley/workers/internal/sandbox"
	"parley/workers/internal/sandbox/python"
)

// exceedHelpers contains helper functions of the programs. If a limit does not work, a program
// prints unlimitedSign and stops when it has used many times the limit. This protects the machine
// that runs the tests.
//
//go:embed probes/exceed.py
var exceedHelpers string

// unlimitedSign is the text that a program prints if it was not limited.
const unlimitedSign = "UNLIMITED"

const (
	none         = sandbox.Limit("")
	cpu          = sandbox.LimitCPU
	wall         = sandbox.LimitWall
	memory       = sandbox.LimitMemory
	processLimit = sandbox.LimitProcesses
	fileLimit    = sandbox.LimitFiles
	outputLimit  = sandbox.LimitOutput
)

func excesses() []excess {
	var all []excess
	for _, some := range [][]excess{excessProcesses(), excessMemory(), excessFiles(), excessOutput(), excessTime(), excessSignals()} {
		all = append(all, some...)
	}
	return all
}

func limits(limits ...sandbox.Limit) []sandbox.Limit { return limits }

func excessProcesses() []excess {
	return []excess{
		{name: "fork bomb", code: "bomb(patient=False)", limit: limits(processLimit), slow: limits(cpu, memory), brief: true},
		{
			name: "fork bomb that never gives up", code: "bomb(patient=True)", limit: limits(processLimit, cpu, wall),
			slow: limits(memory), brief: true,
		},
		{name: "fork bomb of daemons", code: "bomb(patient=True, daemon=True)", limit: limits(processLimit, cpu, wall)},
		{name: "thread bomb", code: "threads()", limit: limits(processLimit), slow: limits(cpu), brief: true},
		{name: "thread bomb that never gives up", code: "threads(patient=True)", limit: limits(processLimit, cpu, wall)},
		{name: "dead children that are never reaped", code: "zombies()", limit: limits(processLimit)},
		{name: "programs that start programs", code: "chain('MARK')", limit: limits(processLimit, cpu, wall, memory)},
	}
}

func excessMemory() []excess {
	return []excess{
		{name: "100 GB in one piece", code: "bytearray(100 << 30)", limit: limits(memory), brief: true},
		{name: "100 GB in small pieces", code: "pieces(1 << 20)", limit: limits(memory)},
		{name: "100 GB in very small pieces", code: "pieces(1 << 9)", limit: limits(memory, cpu)},
		{name: "caught memory errors", code: "pieces(1 << 20, patient=True)", limit: limits(memory, cpu, wall)},
		{name: "shared memory", code: "mapped(shared=True)", limit: limits(memory), watched: limits(none)},
		{name: "shared memory that is unmapped", code: "let_go()", limit: limits(memory), watched: limits(none), brief: true},
		{name: "shared memory from a device", code: "let_go('/dev/zero')", limit: limits(memory), watched: limits(none)},
		{name: "mapped memory", code: "mapped(shared=False)", limit: limits(memory)},
		{name: "memory in anonymous files", code: "memory_files()", limit: limits(memory, fileLimit, none)},
		{name: "memory in many children", code: "many_children()", limit: limits(memory), brief: true},
		{name: "memory in thread stacks", code: "stacks()", limit: limits(memory, processLimit)},
		{name: "memory in sockets", code: "buffers()", limit: limits(memory), watched: limits(none, cpu)}, // socket buffers are not measured
		{name: "recursion", code: "recursion()", limit: limits(memory, none)},
	}
}

func excessFiles() []excess {
	return []excess{
		{name: "filling the work folder", code: "fill('/work')", limit: limits(fileLimit), brief: true},
		{name: "filling the temporary folder", code: "fill('/tmp')", limit: limits(fileLimit)},
		{name: "filling shared memory", code: "fill('/dev/shm')", limit: limits(fileLimit, memory)},
		{name: "filling all folders", code: "fill('/work', '/tmp', '/dev/shm')", limit: limits(fileLimit, memory)},
		{name: "filling through children", code: "fill_by_children('/work')", limit: limits(fileLimit)},
		{name: "filling with removed files", code: "fill_removed('/tmp')", limit: limits(fileLimit)},
		{name: "one file of 100 GB", code: "huge()", limit: limits(fileLimit)},
		{name: "a million files", code: "million('/work', 'file')", limit: limits(fileLimit), slow: limits(cpu), brief: true},
		{name: "a million folders", code: "million('/tmp', 'folder')", limit: limits(fileLimit)},
		{name: "a million links", code: "million('/work', 'link')", limit: limits(fileLimit)},
		{name: "a million names", code: "million('/work', 'name')", limit: limits(fileLimit)},
		{name: "a million files in shared memory", code: "million('/dev/shm', 'file')", limit: limits(fileLimit, memory)},
		{name: "folders in folders", code: "deep('/work')", limit: limits(fileLimit)},
	}
}

func excessOutput() []excess {
	kept := func(o python.Outcome, l sandbox.Limits) error {
		if o.Written <= l.Output || int64(len(o.Stdout)+len(o.Stderr)) < l.Output/2 {
			return fmt.Errorf("%d bytes were printed, of which %d were kept", o.Written, len(o.Stdout)+len(o.Stderr))
		}
		return nil
	}
	return []excess{
		{name: "endless output", code: "while True: print('x' * 1000)", limit: limits(cpu), check: kept, brief: true},
		{name: "endless errors", code: "while True: print('x' * 1000, file=sys.stderr)", limit: limits(cpu), check: kept},
		{name: "endless output around Python's streams", code: "while True: os.write(1, b'x' * 65536)", limit: limits(cpu), check: kept},
		{name: "endless output from a child", code: "talk_in_child()", limit: limits(cpu), check: kept},
		{name: "too much output", code: "print('x' * 1_000_000)", limit: limits(outputLimit), fine: true, check: kept, brief: true},
		{name: "too much output on stdout and stderr", code: "both()", limit: limits(outputLimit), fine: true, check: kept},
		{name: "an endless value", code: "'x' * 20_000_000", limit: limits(none, memory), fine: true},
		{name: "an endless exception", code: "raise ValueError('x' * 20_000_000)", limit: limits(none, memory)},
	}
}

func excessTime() []excess {
	return []excess{
		{name: "sleep", code: "time.sleep(600)", limit: limits(wall), brief: true},
		{name: "sleep with closed output", code: "os.close(1); os.close(2); time.sleep(600)", limit: limits(wall)},
		{name: "busy", code: "while True: pass", limit: limits(cpu), brief: true},
		{name: "busy in several processes", code: "busy(8)", limit: limits(cpu), brief: true},
		{name: "busy in another program", code: "another('while True: pass', 'MARK')", limit: limits(cpu, none)},
		{name: "busy in threads", code: "busy_threads()", limit: limits(cpu)},
		{name: "busy in many short processes", code: "short_processes(orphans=False)", limit: limits(cpu)},
		{name: "busy in many short orphans", code: "short_processes(orphans=True)", limit: limits(cpu)},
		{name: "busy in a library", code: "len(str(7 ** 10_000_000))", limit: limits(cpu, none)},
		{name: "busy in a regular expression", code: "re.match('(a*)*b', 'a' * 60)", limit: limits(cpu)},
		{name: "busy while exiting", code: "import atexit; atexit.register(spin)", limit: limits(cpu, none)},
		{name: "asleep while exiting", code: "import atexit; atexit.register(time.sleep, 600)", limit: limits(wall, none)},
	}
}

func excessSignals() []excess {
	return []excess{
		{name: "asleep, all signals ignored", code: "deaf(); time.sleep(600)", limit: limits(wall)},
		{name: "busy, all signals ignored", code: "deaf()\nwhile True: pass", limit: limits(cpu), brief: true},
		{name: "a daemon and a successful exit", code: "daemon('MARK')\nprint('done')", limit: limits(none), fine: true, brief: true},
		{name: "a daemon that holds the output open", code: "daemon('MARK', close=False)\nprint('done')", limit: limits(none), fine: true},
		{name: "a busy daemon", code: "daemon('MARK', do=spin)\ntime.sleep(600)", limit: limits(cpu, wall)},
		{name: "stops itself", code: "os.kill(os.getpid(), signal.SIGSTOP)", limit: limits(wall)},
		{name: "stops its parent", code: "stop(os.getppid())", limit: limits(wall), brief: true},
		{name: "stops everything", code: "stop(-1)", limit: limits(wall)},
		{name: "kills itself", code: "os.kill(os.getpid(), signal.SIGKILL)", limit: limits(none)},
		{name: "kills its parent", code: "kill(os.getppid())", limit: limits(none, wall), fatal: true, brief: true},
		{name: "kills everything", code: "kill(-1)", limit: limits(none, wall), fatal: true},
		{name: "kills the first process", code: "kill(1)", limit: limits(none, wall), fatal: true},
		{name: "exits silently", code: "os._exit(3)", limit: limits(none)},
		{name: "dereferences a wild pointer", code: "ctypes.string_at(0)", limit: limits(none)},
	}
}
