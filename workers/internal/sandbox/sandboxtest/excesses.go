//go:build linux

package sandboxtest

import (
	_ "embed"
	"fmt"

	"parley/workers/internal/sandbox"
	"parley/workers/internal/sandbox/python"
)

// exceeding is what the programs share. None goes on for ever where a limit does not hold: they stop at many times the limit, and
// say so, for the sake of the machine that the tests run on.
//
//go:embed probes/exceed.py
var exceeding string

// unlimitedSign is what they then print.
const unlimitedSign = "UNLIMITED"

const (
	none      = sandbox.Limit("")
	cpu       = sandbox.LimitCPU
	wall      = sandbox.LimitWall
	memory    = sandbox.LimitMemory
	processed = sandbox.LimitProcesses
	filed     = sandbox.LimitFiles
	printed   = sandbox.LimitOutput
)

func excesses() []excess {
	var all []excess
	for _, some := range [][]excess{excessProcesses(), excessMemory(), excessFiles(), excessOutput(), excessTime(), excessSignals()} {
		all = append(all, some...)
	}
	return all
}

func either(limits ...sandbox.Limit) []sandbox.Limit { return limits }

func excessProcesses() []excess {
	return []excess{
		{name: "fork bomb", code: "bomb(patient=False)", limit: either(processed), slow: either(cpu, memory), brief: true},
		{
			name: "fork bomb that never gives up", code: "bomb(patient=True)", limit: either(processed, cpu, wall),
			slow: either(memory), brief: true,
		},
		{name: "fork bomb of daemons", code: "bomb(patient=True, daemon=True)", limit: either(processed, cpu, wall)},
		{name: "thread bomb", code: "threads()", limit: either(processed), slow: either(cpu), brief: true},
		{name: "thread bomb that never gives up", code: "threads(patient=True)", limit: either(processed, cpu, wall)},
		{name: "dead children that no process reaps", code: "zombies()", limit: either(processed)},
		{name: "programs that start programs", code: "chain('MARK')", limit: either(processed, cpu, wall, memory)},
	}
}

func excessMemory() []excess {
	return []excess{
		{name: "100 GB in one piece", code: "bytearray(100 << 30)", limit: either(memory), brief: true},
		{name: "100 GB in small pieces", code: "pieces(1 << 20)", limit: either(memory)},
		{name: "100 GB in very small pieces", code: "pieces(1 << 9)", limit: either(memory, cpu)},
		{name: "memory whose want is caught", code: "pieces(1 << 20, patient=True)", limit: either(memory, cpu, wall)},
		{name: "shared memory", code: "mapped(shared=True)", limit: either(memory), watched: either(none)},
		{name: "shared memory that is let go of", code: "let_go()", limit: either(memory), watched: either(none), brief: true},
		{name: "shared memory of a device", code: "let_go('/dev/zero')", limit: either(memory), watched: either(none)},
		{name: "mapped memory", code: "mapped(shared=False)", limit: either(memory)},
		{name: "memory in a file of its own", code: "memory_files()", limit: either(memory, filed, none)},
		{name: "memory in many children", code: "many_children()", limit: either(memory), brief: true},
		{name: "memory in threads' stacks", code: "stacks()", limit: either(memory, processed)},
		{name: "memory in sockets", code: "buffers()", limit: either(memory), watched: either(none, cpu)}, // what is watched is processes'
		{name: "recursion", code: "recursion()", limit: either(memory, none)},
	}
}

func excessFiles() []excess {
	return []excess{
		{name: "filling the work folder", code: "fill('/work')", limit: either(filed), brief: true},
		{name: "filling the temporary folder", code: "fill('/tmp')", limit: either(filed)},
		{name: "filling shared memory", code: "fill('/dev/shm')", limit: either(filed, memory)},
		{name: "filling all folders", code: "fill('/work', '/tmp', '/dev/shm')", limit: either(filed, memory)},
		{name: "filling by children", code: "fill_by_children('/work')", limit: either(filed)},
		{name: "filling by removed files", code: "fill_removed('/tmp')", limit: either(filed)},
		{name: "one file of 100 GB", code: "huge()", limit: either(filed)},
		{name: "a million files", code: "million('/work', 'file')", limit: either(filed), slow: either(cpu), brief: true},
		{name: "a million folders", code: "million('/tmp', 'folder')", limit: either(filed)},
		{name: "a million links", code: "million('/work', 'link')", limit: either(filed)},
		{name: "a million names", code: "million('/work', 'name')", limit: either(filed)},
		{name: "a million files in shared memory", code: "million('/dev/shm', 'file')", limit: either(filed, memory)},
		{name: "folders in folders", code: "deep('/work')", limit: either(filed)},
	}
}

func excessOutput() []excess {
	kept := func(o python.Outcome, l sandbox.Limits) error {
		if o.Written <= l.Output || int64(len(o.Stdout)+len(o.Stderr)) < l.Output/2 {
			return fmt.Errorf("of %d printed bytes %d are kept", o.Written, len(o.Stdout)+len(o.Stderr))
		}
		return nil
	}
	return []excess{
		{name: "endless output", code: "while True: print('x' * 1000)", limit: either(cpu, wall), check: kept, brief: true},
		{name: "endless errors", code: "while True: print('x' * 1000, file=sys.stderr)", limit: either(cpu, wall), check: kept},
		{name: "endless output past Python", code: "while True: os.write(1, b'x' * 65536)", limit: either(cpu, wall), check: kept},
		{name: "endless output of a child", code: "talk_in_child()", limit: either(cpu, wall), check: kept},
		{name: "too much output", code: "print('x' * 1_000_000)", limit: either(printed), fine: true, check: kept, brief: true},
		{name: "too much output of both", code: "both()", limit: either(printed), fine: true, check: kept},
		{name: "an endless value", code: "'x' * 20_000_000", limit: either(none, memory), fine: true},
		{name: "an endless exception", code: "raise ValueError('x' * 20_000_000)", limit: either(none, memory)},
	}
}

func excessTime() []excess {
	return []excess{
		{name: "sleep", code: "time.sleep(600)", limit: either(wall), brief: true},
		{name: "sleep with its output closed", code: "os.close(1); os.close(2); time.sleep(600)", limit: either(wall)},
		{name: "busy", code: "while True: pass", limit: either(cpu), brief: true},
		{name: "busy in several processes", code: "busy(8)", limit: either(cpu), brief: true},
		{name: "busy in another program", code: "another('while True: pass', 'MARK')", limit: either(cpu, none)},
		{name: "busy in threads", code: "busy_threads()", limit: either(cpu)},
		{name: "busy in many short processes", code: "short_processes(orphans=False)", limit: either(cpu)},
		{name: "busy in many short orphans", code: "short_processes(orphans=True)", limit: either(cpu)},
		{name: "busy in a library", code: "len(str(7 ** 10_000_000))", limit: either(cpu, none)},
		{name: "busy in an expression", code: "re.match('(a*)*b', 'a' * 60)", limit: either(cpu)},
		{name: "busy while it ends", code: "import atexit; atexit.register(spin)", limit: either(cpu, none)},
		{name: "sleeping while it ends", code: "import atexit; atexit.register(time.sleep, 600)", limit: either(wall, none)},
	}
}

func excessSignals() []excess {
	return []excess{
		{name: "asleep, all signals ignored", code: "deaf(); time.sleep(600)", limit: either(wall)},
		{name: "busy, all signals ignored", code: "deaf()\nwhile True: pass", limit: either(cpu), brief: true},
		{name: "a daemon, and a good end", code: "daemon('MARK')\nprint('done')", limit: either(none), fine: true, brief: true},
		{name: "a daemon that holds the output", code: "daemon('MARK', close=False)\nprint('done')", limit: either(none), fine: true},
		{name: "a busy daemon", code: "daemon('MARK', do=spin)\ntime.sleep(600)", limit: either(cpu, wall)},
		{name: "stops itself", code: "os.kill(os.getpid(), signal.SIGSTOP)", limit: either(wall)},
		{name: "stops its parent", code: "stop(os.getppid())", limit: either(wall), brief: true},
		{name: "stops everything", code: "stop(-1)", limit: either(wall)},
		{name: "kills itself", code: "os.kill(os.getpid(), signal.SIGKILL)", limit: either(none)},
		{name: "kills its parent", code: "kill(os.getppid())", limit: either(none, wall), fatal: true, brief: true},
		{name: "kills everything", code: "kill(-1)", limit: either(none, wall), fatal: true},
		{name: "kills the first process", code: "kill(1)", limit: either(none, wall), fatal: true},
		{name: "ends without a word", code: "os._exit(3)", limit: either(none)},
		{name: "ends by a wild pointer", code: "ctypes.string_at(0)", limit: either(none)},
	}
}
