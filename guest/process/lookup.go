//go:build linux

package process

import (
	"errors"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"osaurus-sandbox/internal/fault"
)

// Lookup returns the path of a program. A name with a slash is a path relative to dir; other names
// are searched in the PATH of env.
func Lookup(name, dir string, env []string) (string, error) {
	const op = "find program"
	if strings.Contains(name, "/") {
		p := name
		if !filepath.IsAbs(p) {
			p = filepath.Join(dir, p)
		}
		if err := executable(p); err != nil {
			return "", startFault(op, name, err)
		}
		return p, nil
	}
	var denied error
	for _, d := range filepath.SplitList(variable(env, "PATH")) {
		if !filepath.IsAbs(d) {
			continue // a relative entry would run programs of the working directory
		}
		p := filepath.Join(d, name)
		switch err := executable(p); {
		case err == nil:
			return p, nil
		case errors.Is(err, unix.EACCES):
			denied = err
		}
	}
	if denied != nil {
		return "", startFault(op, name, denied)
	}
	return "", fault.Newf(fault.NotFound, op, name, "command not found").
		Advise("Install it, or give the program's full path.")
}

// checkDir fails unless dir is a directory. Execve returns the same error for a missing directory
// and a missing program.
func checkDir(dir string) error {
	st, err := os.Stat(dir)
	if err == nil && !st.IsDir() {
		err = unix.ENOTDIR
	}
	if err != nil {
		return startFault("enter directory", dir, err)
	}
	return nil
}

// startFault returns a fault for a program that could not be started.
func startFault(op, subject string, err error) error {
	kind := fault.KindOf(err)
	switch {
	case errors.Is(err, unix.E2BIG), errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENAMETOOLONG):
		kind = fault.InvalidArgs
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR):
		kind = fault.NotFound
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		kind = fault.Rejected
	case errors.Is(err, unix.EAGAIN):
		return fault.Newf(fault.Rejected, op, subject, "too many processes run: %w", err).Advise("End some of them, or raise the agent's limits.processes.")
	case errors.Is(err, unix.ENOMEM):
		kind = fault.Unavailable
	}
	return fault.New(kind, op, subject, err)
}

func executable(p string) error {
	st, err := os.Stat(p)
	switch {
	case err != nil:
		return err
	case st.IsDir(), st.Mode()&0o111 == 0:
		return unix.EACCES
	}
	return nil
}

// variable returns the last value of a variable in env.
func variable(env []string, name string) string {
	value := ""
	for _, e := range env {
		if v, ok := strings.CutPrefix(e, name+"="); ok {
			value = v
		}
	}
	return value
}

// MergeEnv concatenates lists. A later variable replaces an earlier one of the same name, because
// some programs use the first that they find.
func MergeEnv(lists ...[]string) []string {
	var out []string
	at := map[string]int{}
	for _, list := range lists {
		for _, v := range list {
			name, _, _ := strings.Cut(v, "=")
			if i, ok := at[name]; ok {
				out[i] = v
				continue
			}
			at[name] = len(out)
			out = append(out, v)
		}
	}
	return out
}
