// Package autostart starts the daemon of a home when its user logs in.
package autostart

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
)

const (
	// label names the service of the default home.
	label = "osaurus-sandbox"
	// limit is how long the service manager may take. It waits for the daemon's
	// end, and so for the guest's.
	limit = 90 * time.Second
	// settling is how long the manager may refuse to start a service whose predecessor
	// has just ended, and pause the time between two attempts.
	settling = 10 * time.Second
	pause    = 200 * time.Millisecond
	// labelDigits is how much of a home's digest is in its service's name.
	labelDigits = 8
)

// Service is the daemon of a home as the system's service manager knows it.
type Service struct {
	home    config.Home
	program string
	manager manager
	file    string // the path of the description, whether it exists or not
}

// manager describes the service manager of a system. In its commands LABEL stands for
// a service's name, FILE for the path of its description and UID for the user.
type manager struct {
	folder func() (string, error) // of descriptions
	name   string                 // of a description: LABEL.service
	// text is a description, in which %[1]s is the label, %[2]s the program and
	// %[3]s the home, each written by quote.
	text  string
	quote func(string) string
	// reach succeeds if the manager can be used at all, running if a service runs.
	reach, running string
	load, unload   []string
	// busy are the exit codes of load to try again after, and gone those of unload that
	// mean that the service is not running or is about to end.
	busy, gone []int
	advice     string // for a command that fails
}

// New returns the service of a home with the program that runs now. On macOS, its
// path may be a package manager's link, which stays when the version changes.
func New(home config.Home) (Service, error) {
	program, err := os.Executable()
	if err != nil {
		return Service{}, fault.New(fault.Execution, "find own program", "", err)
	}
	if strings.ContainsAny(program, "\"'\\") { // systemd runs no such program
		return Service{}, fault.Newf(fault.InvalidArgs, "describe service", program, "the program's path has a quote or a backslash in it").Advise("Move the program.")
	}
	for _, path := range []string{program, string(home)} {
		if strings.ContainsFunc(path, func(r rune) bool { return r < ' ' }) {
			return Service{}, fault.Newf(fault.InvalidArgs, "describe service", path, "the path has a control character in it").Advise("Choose another path.")
		}
	}
	m := systemd
	if runtime.GOOS == "darwin" {
		m = launchd
	}
	return newService(home, program, m)
}

func newService(home config.Home, program string, m manager) (Service, error) {
	folder, err := m.folder()
	if err != nil {
		return Service{}, fault.New(fault.Unavailable, "find folder of services", "", err).Advise("Set HOME.")
	}
	s := Service{home: home, program: program, manager: m}
	s.file = filepath.Join(folder, strings.ReplaceAll(m.name, "LABEL", s.label()))
	return s, nil
}

// label returns the service's name. Homes other than the usual one have their own.
func (s Service) label() string {
	if usual, err := config.UsualHome(); err == nil && s.home == usual {
		return label
	}
	sum := sha256.Sum256([]byte(s.home))
	return label + "-" + hex.EncodeToString(sum[:])[:labelDigits]
}

func (s Service) description() []byte {
	quote := s.manager.quote
	return fmt.Appendf(nil, s.manager.text, quote(s.label()), quote(s.program), quote(string(s.home)))
}

// Ready returns an error if the system could not start a service for its user.
func (s Service) Ready(ctx context.Context) error {
	return s.run(ctx, "install service", s.manager.reach)
}

// Install writes the description and starts the service, now and whenever the user
// logs in. It replaces a service that is installed, and removes a new one that cannot
// be started.
func (s Service) Install(ctx context.Context) error {
	const op = "install service"
	if err := os.MkdirAll(filepath.Dir(s.file), 0o755); err != nil {
		return fault.New(fault.Unavailable, op, s.file, err).Advise("Make its folder writable for you.")
	}
	_, missing := os.Stat(s.file)
	if missing == nil {
		_ = s.stop(ctx, op) // it may have been stopped by hand
	}
	if _, err := s.home.Make(s.home.Logs()); err != nil {
		return err
	}
	if err := config.WriteFile(s.file, s.description()); err != nil {
		return err
	}
	err := s.start(ctx, op)
	if err != nil && missing != nil {
		_ = s.Uninstall(context.WithoutCancel(ctx))
	}
	return err
}

// start starts the service. It tries again for a while if the manager is busy.
func (s Service) start(ctx context.Context, op string) (err error) {
	await(ctx, settling, func() bool {
		err = s.run(ctx, op, s.manager.load...)
		return !exitedWith(err, s.manager.busy)
	})
	return err
}

// stop stops the service and waits until it is gone: launchd answers before it is.
func (s Service) stop(ctx context.Context, op string) error {
	err := s.run(ctx, op, s.manager.unload...)
	if exitedWith(err, s.manager.gone) {
		err = nil
	}
	if err == nil && !await(ctx, limit, func() bool { return s.run(ctx, op, s.manager.running) != nil }) {
		return fault.Newf(fault.Timeout, op, s.label(), "it still runs").Advise("Try again.")
	}
	return err
}

// exitedWith reports whether a command ended with one of the codes.
func exitedWith(err error, codes []int) bool {
	exit, ok := errors.AsType[*exec.ExitError](err)
	return ok && slices.Contains(codes, exit.ExitCode())
}

// await asks until the answer is yes, and reports whether it was before the time was over or ctx ended.
func await(ctx context.Context, limit time.Duration, ask func() bool) bool {
	for end := time.Now().Add(limit); !ask(); {
		select {
		case <-ctx.Done():
			return false
		case <-time.After(pause):
		}
		if time.Now().After(end) {
			return false
		}
	}
	return true
}

// Uninstall stops the service and removes it.
func (s Service) Uninstall(ctx context.Context) error {
	const op = "remove service"
	if _, err := os.Stat(s.file); errors.Is(err, fs.ErrNotExist) {
		return fault.Newf(fault.NotFound, op, s.file, "it is not installed").Advise("See what is: osaurus-sandbox service status")
	}
	failed := s.stop(ctx, op)
	if err := os.Remove(s.file); err != nil {
		return errors.Join(failed, fault.New(fault.Unavailable, op, s.file, err).Advise("Make its folder writable for you, or remove the file yourself."))
	}
	return failed
}

// Status describes a service.
type Status struct {
	File      string `json:"file"`
	Installed bool   `json:"installed"`
	// Current is false if Install would write another description, for example
	// because the program has moved.
	Current bool `json:"current"`
	Running bool `json:"running"`
}

// Status returns the state of the service.
func (s Service) Status(ctx context.Context) (Status, error) {
	status := Status{File: s.file}
	text, err := os.ReadFile(s.file)
	if errors.Is(err, fs.ErrNotExist) {
		return status, nil
	} else if err != nil {
		return status, fault.New(fault.Unavailable, "read service", s.file, err).Advise("Make it readable for you.")
	}
	status.Installed, status.Current = true, bytes.Equal(text, s.description())
	status.Running = s.run(ctx, "ask for service", s.manager.running) == nil
	return status, nil
}

// run runs commands of the manager until one fails.
func (s Service) run(ctx context.Context, op string, commands ...string) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	place := strings.NewReplacer("LABEL", s.label(), "FILE", s.file, "UID", strconv.Itoa(os.Getuid()))
	for _, command := range commands {
		words := strings.Fields(command)
		for i := range words {
			words[i] = place.Replace(words[i])
		}
		switch out, err := exec.CommandContext(ctx, words[0], words[1:]...).CombinedOutput(); {
		case errors.Is(err, exec.ErrNotFound):
			return fault.New(fault.Unavailable, op, words[0], err).Advise("This system has neither systemd nor launchd. Start `osaurus-sandbox serve` with its own service manager.")
		case err != nil:
			return fault.Newf(fault.Execution, op, strings.Join(words, " "), "%w: %s", err, bytes.TrimSpace(out)).
				Advise(s.manager.advice)
		}
	}
	return nil
}
