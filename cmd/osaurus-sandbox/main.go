// Command osaurus-sandbox boots Linux guests for AI agents on this computer, and says how they are.
package main

//go:generate go test -count=1 -run TestCommandReference . -update

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

	"osaurus-sandbox/engine/local"
	"osaurus-sandbox/internal/fault"
)

// console is where a command reads and writes.
type console struct {
	in       io.Reader
	out, err io.Writer
}

func main() {
	local.Helper() // of the UNSAFE backend, if it was started as one
	_ = noCore()   // to lower a limit is always allowed
	keepInherited()
	// A reader that went away is an error of Write, to be cleaned up after, and
	// not the sudden end that Go makes of it on standard output.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	ctx, stop := untilInterrupted(context.Background())
	code := run(ctx, console{os.Stdin, os.Stdout, os.Stderr}, os.Args[1:])
	stop()
	os.Exit(code)
}

// untilInterrupted returns a context that ends with the first SIGINT, SIGTERM
// or SIGHUP, so that work ends orderly. The second signal is not caught any
// more: it ends the program at once, and its machines with it.
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

// endings are the signals that end what runs. SIGHUP is none of them where
// nohup has had it ignored.
func endings() []os.Signal {
	list := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		list = append(list, syscall.SIGHUP)
	}
	return list
}

// interrupted is why a context ended: somebody sent a signal.
type interrupted struct{ signal syscall.Signal }

func (i interrupted) Error() string { return "ended by a signal: " + i.signal.String() }

// noteBegin makes all commands note that their command line was understood.
func noteBegin(cmd *cobra.Command, began *bool) {
	for _, sub := range cmd.Commands() {
		noteBegin(sub, began)
	}
	if do := cmd.RunE; do != nil {
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			*began = true
			return do(cmd, args)
		}
	}
}

// run runs one command line and returns its exit code.
func run(ctx context.Context, c console, args []string) int {
	root := newRoot(c)
	root.SetArgs(args)
	began := false
	noteBegin(root, &began)
	cmd, err := root.ExecuteContextC(ctx)
	if _, isFault := errors.AsType[*fault.Error](err); err != nil && !isFault && !began {
		err = misused(cmd, cmd.Flags().Args(), err)
	}
	if cmd.Annotations[runsCommand] != "" {
		err = forSandbox(ctx, err)
	}
	return finish(ctx, c.err, err)
}

// noCore has this program and what it starts leave no image of their memory when
// they crash: secrets are in it, and QEMU's is the whole guest. On Linux a limit of
// 1 also keeps the core from a collector of the system, which 0 does not.
func noCore() error {
	limit := unix.Rlimit{}
	if runtime.GOOS == "linux" {
		limit = unix.Rlimit{Cur: 1, Max: 1}
	}
	return unix.Setrlimit(unix.RLIMIT_CORE, &limit)
}

// keepInherited has nothing that this program starts find what whoever started this
// program left open: the daemon would hold a script's lock for days, and QEMU is not to
// be trusted with a file that it was not given.
func keepInherited() {
	open, _ := os.ReadDir("/dev/fd") // where there is none, descriptors cannot be known
	for _, f := range open {
		if fd, err := strconv.Atoi(f.Name()); err == nil && fd > syscall.Stderr {
			syscall.CloseOnExec(fd)
		}
	}
}

func newRoot(c console) *cobra.Command {
	root := &cobra.Command{
		Use:   "osaurus-sandbox",
		Short: "A Linux VM for AI agents to work in",
		Long:  "Osaurus Sandbox gives AI agents on this computer a Linux virtual machine to work in.\n\n" + exitCodes,
		Example: `  osaurus-sandbox doctor                          check whether this computer can run the sandbox
  osaurus-sandbox up                              start the sandbox
  osaurus-sandbox agent create alice              make an agent
  osaurus-sandbox exec alice -- uname -a          run a command as it
  osaurus-sandbox shell alice                     work in its shell
  osaurus-sandbox secret set alice TOKEN          keep a secret for it
  osaurus-sandbox status --watch                  see how it is
  osaurus-sandbox down                            power it off
  osaurus-sandbox boot -- uname -a                run a command in a throwaway VM`,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetIn(c.in)
	root.SetOut(c.out)
	root.SetErr(c.err)
	inGroups(root, []group{
		{"The sandbox", append(newMachineCommands(c), newStatus(c), newDoctor(), newDiagnose(c), newConfig(c), newService(c), newServe(c))},
		{"Agents and their commands", []*cobra.Command{newAgent(c), newExec(c), newShell(c), newForward(c), newCp(c), newSession(c), newJob(c), newPs(c), newTop(c)}},
		{"Tools, plugins, apps", []*cobra.Command{newTool(c), newPlugin(c), newMCP(c), newArtifacts(c)}},
		{"What agents ask for and keep", []*cobra.Command{newSecret(c), newPrompt(c), newMemory(c), newTask(c)}},
		{"What happened", []*cobra.Command{newEvents(c), newLogs(c), newAudit(c)}},
		{"Throwaway VMs, and what guests are made of", []*cobra.Command{newBoot(c), newPack(c), newSandbox(c)}},
	})
	root.Version = build()
	root.SetVersionTemplate("osaurus-sandbox {{.Version}}\n")
	root.AddCommand(newVersion())
	applyUse(root)
	for _, cmd := range root.Commands() {
		alsoCalled(cmd)
	}
	return root
}

// alsoCalled has the commands below cmd be found by the words that other programs have for
// the same. Those of root have one name: its remove takes a whole guest away.
func alsoCalled(cmd *cobra.Command) {
	for _, sub := range cmd.Commands() {
		alsoCalled(sub)
		switch sub.Name() {
		case "list":
			sub.Aliases = append(sub.Aliases, "ls")
		case "delete":
			sub.Aliases = append(sub.Aliases, "remove", "rm")
		case "remove":
			sub.Aliases = append(sub.Aliases, "delete", "rm")
		}
	}
}

// group is commands that help shows together.
type group struct {
	title    string
	commands []*cobra.Command
}

// inGroups puts commands below root, in an order in which a newcomer reads.
func inGroups(root *cobra.Command, groups []group) {
	for _, g := range groups {
		root.AddGroup(&cobra.Group{ID: g.title, Title: g.title + ":"})
		for _, cmd := range g.commands {
			cmd.GroupID = g.title
		}
		root.AddCommand(g.commands...)
	}
}
