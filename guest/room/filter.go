//go:build linux

package room

import (
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// What a filter answers, and where the fields of struct seccomp_data are.
const (
	retAllow = 0x7fff0000
	retErrno = 0x00050000
	retKill  = 0x80000000 // the process

	fieldNumber, fieldArch, fieldArguments = 0, 4, 16

	// x32 is the bit of the numbers of amd64's second set of calls.
	x32 = 0x40000000
)

// architecture is one that rooms run on.
type architecture struct {
	audit  uint32
	number func(refusal) uint32
	x32    bool
}

var architectures = map[string]architecture{
	"amd64": {unix.AUDIT_ARCH_X86_64, func(r refusal) uint32 { return r.amd64 }, true},
	"arm64": {unix.AUDIT_ARCH_AARCH64, func(r refusal) uint32 { return r.arm64 }, false},
}

// program is the filter as instructions. Calls of another architecture kill:
// their numbers mean something else.
func (a architecture) program() []bpf.Instruction {
	p := []bpf.Instruction{
		bpf.LoadAbsolute{Off: fieldArch, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: a.audit, SkipTrue: 1},
		bpf.RetConstant{Val: retKill},
		bpf.LoadAbsolute{Off: fieldNumber, Size: 4},
	}
	if a.x32 {
		p = append(p, bpf.JumpIf{Cond: bpf.JumpLessThan, Val: x32, SkipTrue: 1}, bpf.RetConstant{Val: retKill})
	}
	for _, r := range refused {
		if n := a.number(r); n != absent {
			p = append(p, bpf.JumpIf{Cond: bpf.JumpEqual, Val: n, SkipFalse: 1}, refuse(r))
		}
	}
	for _, c := range conditions {
		block := c.program()
		p = append(p, bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: a.number(c.refusal), SkipTrue: uint8(len(block))})
		p = append(p, block...)
	}
	return append(p, bpf.RetConstant{Val: retAllow})
}

// program decides on a call that is the condition's.
func (c condition) program() []bpf.Instruction {
	const argument = 8 // bytes
	hit, miss := bpf.Instruction(refuse(c.refusal)), bpf.Instruction(bpf.RetConstant{Val: retAllow})
	if c.others {
		hit, miss = miss, hit
	}
	p := []bpf.Instruction{bpf.LoadAbsolute{Off: uint32(fieldArguments + argument*c.argument), Size: 4}}
	if c.bits != 0 {
		p = append(p, bpf.JumpIf{Cond: bpf.JumpBitsSet, Val: c.bits, SkipFalse: 1}, hit)
	}
	for _, v := range c.values {
		p = append(p, bpf.JumpIf{Cond: bpf.JumpEqual, Val: v, SkipFalse: 1}, hit)
	}
	return append(p, miss)
}

func refuse(r refusal) bpf.RetConstant { return bpf.RetConstant{Val: retErrno | uint32(r.errno)} }

// filter is the filter of this machine's architecture as the kernel takes it.
type filter struct{ code []unix.SockFilter }

func newFilter() (filter, error) {
	a, ok := architectures[runtime.GOARCH]
	if !ok {
		return filter{}, fmt.Errorf("there is no filter of system calls for %s", runtime.GOARCH)
	}
	raw, err := bpf.Assemble(a.program())
	if err != nil {
		return filter{}, err
	}
	f := filter{code: make([]unix.SockFilter, len(raw))}
	for i, r := range raw {
		f.code[i] = unix.SockFilter{Code: r.Op, Jt: r.Jt, Jf: r.Jf, K: r.K}
	}
	return f, nil
}

// install puts the filter on the calling thread and what it starts, for good.
// With every it is on all threads of this process.
func (f filter) install(every bool) error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("forbid new privileges: %w", err)
	}
	prog := unix.SockFprog{Len: uint16(len(f.code)), Filter: &f.code[0]}
	flags := uintptr(0)
	if every {
		flags = unix.SECCOMP_FILTER_FLAG_TSYNC
	}
	if _, _, e := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, uintptr(unsafe.Pointer(&prog))); e != 0 {
		return fmt.Errorf("install the filter of system calls: %w", e)
	}
	return nil
}
