#include "textflag.h"

// func run(args *cloneArgs, size uintptr, first *call, failed *uintptr) int
TEXT ·run(SB), NOSPLIT, $0-40
	MOVQ args+0(FP), DI
	MOVQ size+8(FP), SI
	MOVQ first+16(FP), R12
	MOVQ failed+24(FP), R13
	MOVQ $435, AX // clone3
	SYSCALL
	TESTQ AX, AX
	JEQ  next
	MOVQ AX, ret+32(FP)
	RET
next: // the child has no stack, only registers
	MOVQ 0(R12), AX
	MOVQ 8(R12), DI
	MOVQ 16(R12), SI
	MOVQ 24(R12), DX
	MOVQ 32(R12), R10
	MOVQ 40(R12), R8
	MOVQ 48(R12), R9
	SYSCALL
	ADDQ $56, R12
	CMPQ AX, $-4095
	JCS  next
	MOVQ AX, (R13)
end:
	MOVQ $253, DI
	MOVQ $231, AX // exit_group
	SYSCALL
	JMP  end
