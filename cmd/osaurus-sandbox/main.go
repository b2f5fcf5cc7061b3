// Command osaurus-sandbox runs a Linux VM in which AI agents work.
package main

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"osaurus-sandbox/internal/fault"
)

// console has a command's standard streams.
type console struct {
	in       io.Reader
	out, err io.Writer
}

func main() {
	_ = noCore() // fails only if the limit is 0 already
	keepInherited()
	// Make a closed pipe an error of Write, so that commands can clean up. By default Go ends the
	// program.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	ctx, stop := untilInterrupted(context.Background())
	code := run(ctx, console{os.Stdin, os.Stdout, os.Stderr}, os.Args[1:])
	stop()
	os.Exit(code)
}

// untilInterrupted returns a context that ends with the first SIGINT, SIGTERM or SIGHUP, so that
// work can clean up. The second signal ends the program and its machines at once.
func untilInterrupted(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(parent)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, endings()...)
	go func() {
		select {
		case s := <-signals:
			cancel(interrupted{s.(syscall.Signal)})
		case <-ctx.Done():
		}
		signal.Stop(signals)
	}()
	return ctx, func() { cancel(nil) }
}

// endings returns the signals that end the program. SIGHUP is left out if it is ignored, as under
// nohup.
func endings() []os.Signal {
	list := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		list = append(list, syscall.SIGHUP)
	}
	return list
}

// interrupted is the cause of a context that ended with a signal.
type interrupted struct{ signal syscall.Signal }

func (i interrupted) Error() string { return "ended by a signal: " + i.signal.String() }

// run runs one command line and returns its exit code.
func run(ctx context.Context, c console, args []string) int {
	root := newRoot(c)
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	if _, isFault := errors.AsType[*fault.Error](err); err != nil && !isFault && cmd.Annotations[begun] == "" {
		err = misused(cmd, err)
	}
	if cmd.Annotations[otherCommand] != "" {
		err = forSandbox(ctx, err)
	}
	return finish(ctx, c.err, err)
}

// noCore prevents core dumps of this program and its children: they contain secrets, and QEMU's
// the whole guest. On Linux, a limit of 1 also keeps them from a crash collector; a limit of 0
// does not.
func noCore() error {
	limit := unix.Rlimit{}
	if runtime.GOOS == "linux" {
		limit = unix.Rlimit{Cur: 1, Max: 1}
	}
	return unix.Setrlimit(unix.RLIMIT_CORE, &limit)
}

// keepInherited closes inherited files to child processes. Otherwise a daemon could hold a
// script's lock for days, and QEMU could use files it was never given.
func keepInherited() {
	open, _ := os.ReadDir("/dev/fd") // without it, open files are unknown
	for _, f := range open {
		if fd, err := strconv.Atoi(f.Name()); err == nil && fd > syscall.Stderr {
			syscall.CloseOnExec(fd)
		}
	}
}

func newRoot(c console) *cobra.Command {
	root := &cobra.Command{
		Use:           clientName,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetIn(c.in)
	root.SetOut(c.out)
	root.SetErr(c.err)
	for _, group := range []struct { // in the order a newcomer needs them
		title    string
		commands []*cobra.Command
	}{
		{"The sandbox", append(newMachineCommands(), newStatus(), newDoctor(), newDiagnose(), newConfig(), newSandbox(), newService(), newServe())},
		{"Agents and their commands", []*cobra.Command{newAgent(), newAgentSnapshot(), newExec(), newShell(), newForward(), newNetwork(), newCp(), newMount(), newUnmount(), newReview(), newSession(), newJob(), newPs(), newTop()}},
		{"Tools, plugins, apps", []*cobra.Command{noun("tool", newToolList(), newToolDescribe(), newToolCall()), newPlugin(), newMCP(), newArtifacts()}},
		{"What agents ask for and keep", []*cobra.Command{newSecret(), noun("prompt", newPromptList(), newPromptWatch(), newPromptAnswer(), newPromptCancel()), newMemory(), newTask()}},
		{"What happened, and undoing it", []*cobra.Command{newHistory(), newDiff(), newUndo(), newRedo(), newVerify(), newEvents(), newLogs(), noun("audit", newAuditList(), newAuditVerify())}},
		{"Throwaway VMs, and what guests are made of", []*cobra.Command{newBoot(), newPack()}},
	} {
		root.AddGroup(&cobra.Group{ID: group.title, Title: group.title + ":"})
		for _, cmd := range group.commands {
			cmd.GroupID = group.title
		}
		root.AddCommand(group.commands...)
	}
	root.Version = build()
	root.SetVersionTemplate("osaurus-sandbox {{.Version}}\n")
	root.AddCommand(newVersion())
	root.AddCommand(platformCommands()...)
	applyUse(root)
	applyHelp(root, helpSections(helpText))
	return root
}
