package seccomp

import (
	"encoding/binary"
	"fmt"
	"runtime"
	"slices"

	"golang.org/x/net/bpf"
)

// Offsets in the filter's input (struct seccomp_data), and return values of the filter.
const (
	// The input contains the call's number, the architecture, the instruction pointer and six
	// arguments.
	offNumber = 0
	offArch   = 4
	offArgs   = 16

	retKill  = 0x80000000 // kills the whole process
	retErrno = 0x00050000
	retAllow = 0x7fff0000
)

// Filter compiles Rules for this machine's kernel. The result is an array of struct sock_filter in
// the machine's byte order. Filter fails on an architecture without rules. watched has the same
// meaning as for Rules.
func Filter(watched bool) ([]byte, error) {
	if len(numbers) == 0 {
		return nil, fmt.Errorf("no seccomp filter for %s on %s", runtime.GOOS, runtime.GOARCH)
	}
	raw, err := bpf.Assemble(program(Rules(watched)))
	if err != nil {
		return nil, fmt.Errorf("assembling the seccomp filter: %w", err)
	}

	// Each struct sock_filter has 8 bytes: the operation, two jump offsets and a value.
	filter := make([]byte, 0, 8*len(raw))
	for _, r := range raw {
		filter = binary.NativeEndian.AppendUint16(filter, r.Op)
		filter = append(filter, r.Jt, r.Jf)
		filter = binary.NativeEndian.AppendUint32(filter, r.K)
	}
	return filter, nil
}

// program returns a program that evaluates the rules in order. A search tree would not be faster,
// because kernels from 5.11 on cache the results for calls without conditions. A call without a
// matching rule fails with EPERM.
func program(rules []Rule) []bpf.Instruction {
	// The same number is a different call on another architecture, so the architecture is checked
	// first.
	p := []bpf.Instruction{
		bpf.LoadAbsolute{Off: offArch, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: auditArch, SkipTrue: 1},
		bpf.RetConstant{Val: retKill},
		bpf.LoadAbsolute{Off: offNumber, Size: 4},
	}
	if foreignBit != 0 {
		p = append(p, bpf.JumpIf{Cond: bpf.JumpBitsNotSet, Val: foreignBit, SkipTrue: 1}, bpf.RetConstant{Val: retKill})
	}
	for _, r := range rules {
		p = append(p, ruleProgram(r)...)
	}
	return append(p, bpf.RetConstant{Val: retErrno | errnoEPERM})
}

// ruleProgram returns the instructions for one rule. The instructions expect the call's number in
// the accumulator, and leave it there if the rule does not match.
func ruleProgram(r Rule) []bpf.Instruction {
	answer := bpf.RetConstant{Val: retAllow}
	if r.Errno != 0 || r.Pretend { // an error of 0 means success
		answer = bpf.RetConstant{Val: retErrno | r.Errno}
	}

	// The instructions are generated from the last to the first, because the length of a jump
	// depends on the instructions after it.
	var body []bpf.Instruction
	for _, c := range slices.Backward(r.Conditions) {
		tail := len(body) + 1 // number of instructions up to the result, including the reload of the call's number
		body = append(conditionProgram(c, tail), body...)
	}
	body = append(body, answer)
	if len(r.Conditions) > 0 {
		body = append(body, bpf.LoadAbsolute{Off: offNumber, Size: 4})
	}
	return append([]bpf.Instruction{bpf.JumpIf{Cond: bpf.JumpEqual, Val: r.Number, SkipFalse: uint8(len(body))}}, body...)
}

// conditionProgram returns the instructions for one condition. If the condition is true, execution
// continues with the instruction that follows. Otherwise, execution skips as many of the following
// instructions as the argument tail states.
func conditionProgram(c Condition, tail int) []bpf.Instruction {
	var p []bpf.Instruction
	for _, half := range []struct{ off, mask, value uint32 }{ // the low half comes first, because both architectures are little-endian
		{4, uint32(c.Mask >> 32), uint32(c.Value >> 32)},
		{0, uint32(c.Mask), uint32(c.Value)},
	} {
		if half.mask == 0 {
			continue
		}
		p = append([]bpf.Instruction{
			bpf.LoadAbsolute{Off: offArgs + 8*c.Arg + half.off, Size: 4},
			bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: half.mask},
			bpf.JumpIf{Cond: bpf.JumpEqual, Val: half.value, SkipFalse: uint8(len(p) + tail)},
		}, p...)
	}
	return p
}
