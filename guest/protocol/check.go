package protocol

import (
	"bytes"
	"fmt"
	"path"
	"time"

	"osaurus-sandbox/guest/guestpb"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/printable"
)

// badly returns a function that makes InvalidArgs errors.
func badly(op string) func(format string, args ...any) error {
	return func(format string, args ...any) error {
		return fault.New(fault.InvalidArgs, op, "", fmt.Errorf(format, args...))
	}
}

// CheckStart validates a command.
func CheckStart(s *guestpb.Start) error {
	bad := badly("check command")
	if len(s.GetArgs()) == 0 || len(s.Args[0]) == 0 {
		return bad("there is no program to run")
	}
	if err := checkSurroundings(s.Args, s.Env, s.Dir); err != nil {
		return err
	}
	if t := s.TimeoutNanos; t < 0 || t > int64(MaxTimeout) {
		return bad("time limit %v is not between 0 and %v", time.Duration(t), MaxTimeout)
	}
	if t := s.IdleTimeoutNanos; t < 0 || t > int64(MaxTimeout) {
		return bad("idle time %v is not between 0 and %v", time.Duration(t), MaxTimeout)
	}
	if err := checkPlace(s); err != nil {
		return bad("%w", err)
	}
	if g := s.GraceNanos; g < 0 || g > int64(MaxGrace) {
		return bad("grace %v is not between 0 and %v", time.Duration(g), MaxGrace)
	}
	return nil
}

// checkSurroundings validates a program's arguments, environment and directory.
func checkSurroundings(args, env [][]byte, dir []byte) error {
	bad := badly("check command")
	if n := len(args) + len(env); n > MaxArgs {
		return bad("%d arguments and variables are more than %d", n, MaxArgs)
	}
	total := 0
	for _, list := range [][][]byte{args, env} {
		for i, b := range list {
			total += len(b)
			if len(b) > MaxArg {
				return bad("argument or variable %d has %d bytes, more than %d", i, len(b), MaxArg)
			}
			if bytes.IndexByte(b, 0) >= 0 {
				return bad("argument or variable %d holds a NUL byte", i)
			}
		}
	}
	if total > MaxArgBytes {
		return bad("arguments and environment have %d bytes, more than %d", total, MaxArgBytes)
	}
	for _, e := range env {
		if bytes.IndexByte(e, '=') <= 0 {
			return bad("variable %q is not NAME=value", printable.Clip(string(e)))
		}
	}
	if len(dir) > MaxPath || bytes.IndexByte(dir, 0) >= 0 {
		return bad("working directory %q has more than %d bytes or holds a NUL byte", printable.Clip(string(dir)), MaxPath)
	}
	return nil
}

// Folder resolves a requested working directory against the usual one.
func Folder(usual string, asked []byte) string {
	if path.IsAbs(string(asked)) {
		return string(asked)
	}
	return path.Join(usual, string(asked))
}
