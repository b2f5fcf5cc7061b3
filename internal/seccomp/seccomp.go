//go:build linux

// Package seccomp compiles tables of refused system calls to BPF filters.
package seccomp

import (
	"fmt"
	"slices"
	"unsafe"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// Filter lists the refused calls; all others are allowed. If several entries match
// a call, the first one counts.
type Filter struct {
	Calls      []Call
	Conditions []Condition
}

// Call is a system call of this architecture that fails with Errno: ENOSYS if programs can do
// without it, EPERM if they should report it.
type Call struct {
	Number uint32
	Errno  unix.Errno
}

// Condition is a system call that fails for some values of an argument: those
// with a bit of Bits, those in Values or, with Others, those not in Values. If Of
// is set, only calls with that first argument are meant. Only the lower 32 bits
// of an argument are compared, which is all that the kernel reads of these calls.
type Condition struct {
	Call
	Of       uint32
	Argument int
	Bits     uint32
	Values   []uint32
	Others   bool
}

// Plus returns a filter with the entries of both.
func (f Filter) Plus(other Filter) Filter {
	return Filter{slices.Concat(f.Calls, other.Calls), slices.Concat(f.Conditions, other.Conditions)}
}

// Results of a filter, and offsets in struct seccomp_data.
const (
	retAllow = 0x7fff0000
	retErrno = 0x00050000
	retKill  = 0x80000000 // the process

	fieldNumber, fieldArch, fieldArguments = 0, 4, 16
	argumentBytes                          = 8

	// x32 marks the numbers of amd64's second set of calls.
	x32 = 0x40000000
)

// program returns the filter's instructions. It kills on calls of another
// architecture, whose numbers mean something else.
func (f Filter) program() []bpf.Instruction {
	loadNumber := bpf.LoadAbsolute{Off: fieldNumber, Size: 4}
	p := []bpf.Instruction{
		bpf.LoadAbsolute{Off: fieldArch, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: auditArch, SkipTrue: 1},
		bpf.RetConstant{Val: retKill},
		loadNumber,
	}
	if hasX32 {
		p = append(p, bpf.JumpIf{Cond: bpf.JumpLessThan, Val: x32, SkipTrue: 1}, bpf.RetConstant{Val: retKill})
	}
	for _, c := range f.Calls {
		p = append(p, bpf.JumpIf{Cond: bpf.JumpEqual, Val: c.Number, SkipFalse: 1}, c.refuse())
	}
	for _, c := range f.Conditions {
		block := append(c.program(), loadNumber)
		p = append(p, bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: c.Number, SkipTrue: uint8(len(block))})
		p = append(p, block...)
	}
	return append(p, bpf.RetConstant{Val: retAllow})
}

// program returns instructions that refuse a call that meets the condition.
func (c Condition) program() []bpf.Instruction {
	if of := c.Of; of != 0 {
		c.Of = 0
		block := c.program()
		return append([]bpf.Instruction{
			bpf.LoadAbsolute{Off: fieldArguments, Size: 4},
			bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: of, SkipTrue: uint8(len(block))},
		}, block...)
	}
	p := []bpf.Instruction{bpf.LoadAbsolute{Off: uint32(fieldArguments + argumentBytes*c.Argument), Size: 4}}
	if c.Others {
		for i, v := range c.Values {
			p = append(p, bpf.JumpIf{Cond: bpf.JumpEqual, Val: v, SkipTrue: uint8(len(c.Values) - i)})
		}
		return append(p, c.refuse())
	}
	if c.Bits != 0 {
		p = append(p, bpf.JumpIf{Cond: bpf.JumpBitsSet, Val: c.Bits, SkipFalse: 1}, c.refuse())
	}
	for _, v := range c.Values {
		p = append(p, bpf.JumpIf{Cond: bpf.JumpEqual, Val: v, SkipFalse: 1}, c.refuse())
	}
	return p
}

func (c Call) refuse() bpf.Instruction { return bpf.RetConstant{Val: retErrno | uint32(c.Errno)} }

// Program is a compiled filter.
type Program struct{ code []unix.SockFilter }

// Compile compiles a filter.
func (f Filter) Compile() (Program, error) {
	raw, err := bpf.Assemble(f.program())
	if err != nil {
		return Program{}, fmt.Errorf("assemble the filter of system calls: %w", err)
	}
	p := Program{make([]unix.SockFilter, len(raw))}
	for i, r := range raw {
		p.code[i] = unix.SockFilter{Code: r.Op, Jt: r.Jt, Jf: r.Jf, K: r.K}
	}
	return p, nil
}

// Install applies the program to the calling thread, which must be locked, and to its
// children; with every, to all threads of this process. It cannot be undone, and they
// gain no privileges any more (no_new_privs).
func (p Program) Install(every bool) error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("forbid new privileges: %w", err)
	}
	prog := unix.SockFprog{Len: uint16(len(p.code)), Filter: &p.code[0]}
	flags := uintptr(0)
	if every {
		flags = unix.SECCOMP_FILTER_FLAG_TSYNC
	}
	thread, _, e := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, uintptr(unsafe.Pointer(&prog)))
	switch {
	case e != 0:
		return fmt.Errorf("install the filter of system calls: %w", e)
	case thread != 0:
		return fmt.Errorf("install the filter of system calls: thread %d has another filter", thread)
	}
	return nil
}
