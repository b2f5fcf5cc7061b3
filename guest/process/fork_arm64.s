#include "textflag.h"

// func run(args *cloneArgs, size uintptr, first *call, failed *uintptr) int
TEXT ·run(SB), NOSPLIT, $0-40
	MOVD args+0(FP), R0
	MOVD size+8(FP), R1
	MOVD first+16(FP), R19
	MOVD failed+24(FP), R20
	MOVD $435, R8 // clone3
	SVC
	CBZ  R0, next
	MOVD R0, ret+32(FP)
	RET
next: // the child has no stack, only registers
	MOVD 48(R19), R5
	MOVD 40(R19), R4
	MOVD 32(R19), R3
	MOVD 24(R19), R2
	MOVD 16(R19), R1
	MOVD 8(R19), R0
	MOVD 0(R19), R8
	SVC
	ADD  $56, R19
	CMN  $4095, R0
	BCC  next
	MOVD R0, (R20)
end:
	MOVD $253, R0
	MOVD $94, R8 // exit_group
	SVC
	B    end
