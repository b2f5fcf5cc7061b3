// Command secondtry runs go test, and tries a test that fails a second time, alone.
//
// It prints what go test prints. A test that passes at its second try does not
// fail the run; it is called unsteady, where everybody sees it and in a file.
// Whatever else fails is believed at once: a build, a data race, a test program that
// did not come to its own end (nobody knows what it would still have tried),
// and more tests than a busy machine explains.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
)

// mostTried is how many tests get a second try. One or two are what a busy
// machine breaks; when more fail, something is wrong.
const mostTried = 4

func main() {
	args := os.Args[1:]
	split := slices.Index(args, "--")
	if split < 1 {
		fmt.Fprintln(os.Stderr, "usage: secondtry FILE [GO-TEST-FLAG...] -- PACKAGE...")
		os.Exit(2)
	}
	ok, err := run(os.Stdout, args[0], args[1:split], args[split+1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "secondtry:", err)
	}
	if !ok || err != nil {
		os.Exit(1)
	}
}

// run tells whether all tests of the packages passed, some perhaps at their
// second try: those it names on w, and in the file called unsteady.
func run(w io.Writer, unsteady string, flags, packages []string) (bool, error) {
	first, err := goTest(w, slices.Concat(flags, packages))
	if err != nil || first.ok {
		return first.ok, err
	}
	if len(first.broken) > 0 || len(first.failed) == 0 || len(first.failed) > mostTried {
		return false, nil
	}
	ok := true
	for _, t := range first.failed {
		fmt.Fprintf(w, "=== a second try, alone: %v\n", t)
		only := []string{"-count=1", "-run", "^" + regexp.QuoteMeta(t.name) + "$", t.pkg}
		second, err := goTest(w, slices.Concat(flags, only))
		if err != nil {
			return false, err
		}
		if !second.ok || !slices.Contains(second.passed, t) {
			ok = false
			continue
		}
		fmt.Fprintf(w, "=== UNSTEADY, mend it: %v\n", t)
		if err := note(unsteady, t); err != nil {
			return false, err
		}
	}
	return ok, nil
}

// goTest runs go test, and shows its output as it would itself.
func goTest(w io.Writer, args []string) (outcome, error) {
	cmd := exec.Command("go", append([]string{"test", "-json"}, args...)...)
	cmd.Stderr = os.Stderr
	events, err := cmd.StdoutPipe()
	if err != nil {
		return outcome{}, err
	}
	if err := cmd.Start(); err != nil {
		return outcome{}, err
	}
	seen, err := read(events, w)
	waited := cmd.Wait()
	if _, exited := errors.AsType[*exec.ExitError](waited); waited != nil && !exited {
		err = errors.Join(err, waited)
	}
	seen.ok = waited == nil
	return seen, err
}

// note adds a line to a file. Tiers that run beside each other share it.
func note(path string, t test) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(f, t)
	return errors.Join(err, f.Close())
}
