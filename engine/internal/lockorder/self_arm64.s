//go:build race

#include "textflag.h"

// func selfID() uintptr
TEXT ·selfID(SB), NOSPLIT, $0-8
	MOVD g, R0
	MOVD R0, ret+0(FP)
	RET
