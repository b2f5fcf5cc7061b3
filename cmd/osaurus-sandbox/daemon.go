package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"osaurus-sandbox/config"
	"osaurus-sandbox/control"
	"osaurus-sandbox/control/controlpb"
	"osaurus-sandbox/control/daemon"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/supervisor/homelock"
)

const (
	// clientName identifies this program in the audit log.
	clientName = "osaurus-sandbox"
	// daemonLimit bounds the wait for a daemon to answer or to exit. A starting daemon may have to
	// repair its database, and an exiting one stops its guest.
	daemonLimit = 60 * time.Second
	daemonPoll  = 20 * time.Millisecond
	// maxStartError bounds how much of a failed daemon's log is read.
	maxStartError = 1 << 20
)

// reach connects to the daemon of the home, which records the client's name in the audit log. It
// fails with Unavailable if none runs.
func reach(ctx context.Context, name string) (*control.Client, error) {
	home, err := config.FindHome()
	if err != nil {
		return nil, err
	}
	return greet(ctx, home, name)
}

func greet(ctx context.Context, home config.Home, name string) (*control.Client, error) {
	client, err := control.Connect(ctx, home, name)
	if err != nil {
		return nil, err
	}
	if _, err := client.Hello(ctx); err != nil {
		client.Close()
		return nil, err
	}
	return client, nil
}

// need is reach that starts a daemon with these flags if none runs.
func need(ctx context.Context, name string, flags ...string) (*control.Client, error) {
	home, err := config.FindHome()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, daemonLimit)
	defer cancel()
	var ended <-chan error // reports the exit of the daemon started here
	var failed error
	for {
		client, err := greet(ctx, home, name)
		if fault.KindOf(err) != fault.Unavailable {
			return client, err
		}
		// If another daemon has the home, wait for it to answer or to exit.
		switch _, owned := homelock.Holder(home); {
		case failed != nil && !owned:
			return nil, failed
		case failed != nil: // another program has started a daemon first
			ended, failed = nil, nil
		case !owned && ended == nil:
			if ended, err = startDaemon(home, flags); err != nil {
				return nil, err
			}
		}
		select {
		case failed = <-ended:
		case <-time.After(daemonPoll):
		case <-ctx.Done():
			return nil, fault.New(fault.KindOf(ctx.Err()), "start the daemon", string(home), errors.Join(ctx.Err(), err)).
				Advise("See " + control.DaemonLog(home) + ".")
		}
	}
}

// startDaemon starts a daemon that outlives this program. If it exits, the channel receives its
// error.
func startDaemon(home config.Home, flags []string) (ended <-chan error, err error) {
	const op = "start the daemon"
	program, err := os.Executable()
	if err != nil {
		return nil, fault.New(fault.Execution, op, "", err)
	}
	if _, err := home.Make(home.Logs()); err != nil {
		return nil, err
	}
	path := control.DaemonLog(home)
	words, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fault.New(fault.Unavailable, op, path, err).Advise("Make it and its folder writable for you, or set " + config.HomeVariable + " to another home.")
	}
	before, err := words.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, fault.New(fault.Execution, op, path, errors.Join(err, words.Close()))
	}
	cmd := exec.Command(program, append([]string{"serve", "--" + quietFlag}, flags...)...)
	cmd.Dir = "/" // so that it keeps no file system busy
	cmd.Env = append(os.Environ(), config.HomeVariable+"="+string(home))
	cmd.Stdout, cmd.Stderr = words, words
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // so that Ctrl-C does not reach it
	if err := cmd.Start(); err != nil {
		return nil, fault.New(fault.Execution, op, program, errors.Join(err, words.Close())).Advise("To see why, run: osaurus-sandbox serve")
	}
	said := make(chan error, 1)
	go func() {
		defer words.Close()
		_ = cmd.Wait()
		said <- startError(cmd.ProcessState.ExitCode(), io.NewSectionReader(words, before, maxStartError))
	}()
	return said, nil
}

// startError returns a failed program's error, from its exit code and what finish wrote into its log.
func startError(code int, words io.Reader) error {
	f := fault.Newf(kindOf(code), "start the daemon", "", "it exited at once")
	lines := bufio.NewScanner(words)
	lines.Buffer(nil, maxStartError)
	for lines.Scan() {
		if text, ok := strings.CutPrefix(lines.Text(), failurePrefix); ok {
			f.Err = errors.New(text)
		}
		if text, ok := strings.CutPrefix(lines.Text(), advicePrefix); ok {
			f.Advice = text
		}
	}
	return f
}

// quit stops a daemon and waits for it to exit.
func quit(ctx context.Context, client *control.Client, home config.Home) error {
	if _, err := client.Quit(ctx, &controlpb.QuitRequest{}); err != nil {
		return err
	}
	return released(ctx, home)
}

// released waits until no daemon has the home.
func released(ctx context.Context, home config.Home) error {
	ctx, cancel := context.WithTimeout(ctx, daemonLimit)
	defer cancel()
	for {
		has, owned := homelock.Holder(home)
		if !owned {
			return nil
		}
		select {
		case <-time.After(daemonPoll):
		case <-ctx.Done():
			return fault.Wrap("wait for the daemon's end", has.String(), ctx.Err()).Advise(fmt.Sprintf("If it still does not exit: kill -KILL %d", has.PID))
		}
	}
}

func newServe() *cobra.Command {
	var tcp control.TCP
	var quiet, rest bool
	return plainCommand("serve", func(ctx context.Context, c *call) error {
		home, err := config.FindHome()
		if err != nil {
			return err
		}
		o := daemon.Options{Home: home, Driver: driver(), Program: build(), AtRest: rest}
		if !quiet {
			o.Log = c.err
		}
		if tcp.Address != "" {
			o.TCP = &tcp
		}
		return daemon.Run(ctx, o)
	},
		withFlag(&tcp.Address, "listen", "listen on this TCP address too, as in 127.0.0.1:8137"),
		withFlag(&tcp.Exposed, "expose", "allow an address that other computers can reach"),
		withFlag(&tcp.Hosts, "host", "another host name that clients may use for the TCP listener"),
		withFlag(&tcp.Origins, "origin", "a web page's origin that may call the TCP listener"),
		withFlag(&quiet, quietFlag, "log only to the file in the home folder"),
		withFlag(&rest, restFlag, "do not start the guest until it is needed, despite the setting autoStart"))
}

// quietFlag is set for daemons in the background. restFlag keeps such a daemon from starting a
// guest.
const quietFlag, restFlag = "quiet", "at-rest"

// build names the build of this program.
func build() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	return info.Main.Version
}
