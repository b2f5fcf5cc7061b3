// Package autostart starts the daemon of a home when its user logs in.
package autostart

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
)

const (
	// label names the service of the default home.
	label = "osaurus-sandbox"
	// limit is how long the system's own manager may take for one answer. It
	// waits for the daemon's end, and so for the guest's.
	limit = 90 * time.Second
	// labelDigits of a home's digest tell the services of several homes apart.
	labelDigits = 8
)

// Service is the daemon of a home as the system's manager knows it.
type Service struct {
	home    config.Home
	program string
	manager manager
}

// manager is what starts services on a system.
type manager interface {
	// file is where the description of a service goes.
	file(label string) (string, error)
	// describe is what stands in it.
	describe(Service) []byte
	// reach asks whether the manager can be spoken with at all.
	reach() []string
	// load, unload and running are the commands for it.
	load(label, file string) [][]string
	unload(label, file string) [][]string
	running(label string) []string
}

// New is the service of a home, with the program that runs now, by the name that
// the system knows it by: on macOS a package manager's link, which stays when the
// version that it leads to goes.
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
	return Service{home, program, system()}, nil
}

// label is the service's name: homes other than the usual one have their own.
func (s Service) label() string {
	if usual, err := config.UsualHome(); err == nil && s.home == usual {
		return label
	}
	sum := sha256.Sum256([]byte(s.home))
	return label + "-" + hex.EncodeToString(sum[:])[:labelDigits]
}

// File is the description of the service, whether it is there or not.
func (s Service) File() string {
	file, err := s.manager.file(s.label())
	if err != nil {
		return ""
	}
	return file
}

// Ready says why the system could not start a service for its user, before
// anything is done for one.
func (s Service) Ready(ctx context.Context) error {
	return run(ctx, "install service", s.manager.reach())
}

// Install writes the description and has the system start the service, now and
// whenever the user logs in. One that is installed is replaced. One that cannot be
// started and was not there before is taken away again.
func (s Service) Install(ctx context.Context) error {
	const op = "install service"
	file, err := s.manager.file(s.label())
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return fault.New(fault.Unavailable, op, file, err).Advise("Make its folder writable for you.")
	}
	_, err = os.Stat(file)
	replaces := err == nil
	if replaces {
		for _, command := range s.manager.unload(s.label(), file) {
			_ = run(ctx, op, command) // it may have been stopped by hand
		}
	}
	if err := config.WriteFile(file, s.manager.describe(s)); err != nil {
		return err
	}
	for _, command := range s.manager.load(s.label(), file) {
		if err := run(ctx, op, command); err != nil {
			if !replaces {
				_ = s.Uninstall(context.WithoutCancel(ctx)) // what failed is told
			}
			return err
		}
	}
	return nil
}

// Uninstall has the system stop the service and forget it.
func (s Service) Uninstall(ctx context.Context) error {
	const op = "remove service"
	file, err := s.manager.file(s.label())
	if err != nil {
		return err
	}
	if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
		return fault.Newf(fault.NotFound, op, file, "it is not installed").Advise("See what is: osaurus-sandbox service status")
	}
	var failed error
	for _, command := range s.manager.unload(s.label(), file) {
		failed = errors.Join(failed, run(ctx, op, command))
	}
	if err := os.Remove(file); err != nil {
		return errors.Join(failed, fault.New(fault.Unavailable, op, file, err).Advise("Make its folder writable for you, or remove the file yourself."))
	}
	return failed
}

// Status is how a service is.
type Status struct {
	File      string `json:"file"`
	Installed bool   `json:"installed"`
	// Current is whether the description is what Install would write: the
	// program may have moved since.
	Current bool `json:"current"`
	Running bool `json:"running"`
}

// Status says how the service is.
func (s Service) Status(ctx context.Context) (Status, error) {
	file, err := s.manager.file(s.label())
	if err != nil {
		return Status{}, err
	}
	status := Status{File: file}
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return status, nil
	} else if err != nil {
		return status, fault.New(fault.Unavailable, "read service", file, err).Advise("Make it readable for you.")
	}
	status.Installed, status.Current = true, bytes.Equal(text, s.manager.describe(s))
	status.Running = run(ctx, "ask for service", s.manager.running(s.label())) == nil
	return status, nil
}

// run runs one of the manager's commands.
func run(ctx context.Context, op string, command []string) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	out, err := exec.CommandContext(ctx, command[0], command[1:]...).CombinedOutput()
	switch {
	case err == nil:
		return nil
	case errors.Is(err, exec.ErrNotFound):
		return fault.New(fault.Unavailable, op, command[0], err).Advise("This system has no manager of user services that is known here. Start `osaurus-sandbox serve` with what it has.")
	}
	return fault.Newf(fault.Execution, op, strings.Join(command, " "), "%w: %s", err, bytes.TrimSpace(out)).
		Advise("Log in as that user, not with su or sudo: the service needs a session of its own. On a server: loginctl enable-linger")
}
