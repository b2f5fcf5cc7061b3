package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/spf13/cobra"

	"osaurus-sandbox/config"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/supervisor/boot"
)

// bootFlags are what boot was asked for.
type bootFlags struct {
	pack, arch, memory string
	cpus               int
	shares             []string
	network, timings   bool
}

func newBoot(c console) *cobra.Command {
	var flags bootFlags
	cmd := &cobra.Command{
		Use:   "boot [flags] -- COMMAND [ARG...]",
		Short: "Run a command in a throwaway VM",
		Long: `Boots a VM, runs the command in it as root with this terminal's input and output, and powers the VM off. Nothing that
the command changes outside of its shares is kept.

Ctrl-C, SIGTERM and SIGHUP go to the command; the second one ends the VM at once.

The exit code is the command's own, or 128+n if signal n ended it. It is 126 if the command cannot be run, and 127 if there is no
such command. It is 125 if the sandbox failed before the command ran; 255 if it failed afterwards, for example while powering off.`,
		Example: `  osaurus-sandbox boot -- sh -c 'cat /etc/os-release; uname -a'
  osaurus-sandbox boot --share ~/project:project:ro -- ls ` + shareRoot + `/project
  tar c . | osaurus-sandbox boot --network -- sh -c 'cd /tmp && tar x && du -sh .'
  osaurus-sandbox boot --pack debian --cpus 4 --memory 4G --timings -- python3 -V`,
		Args:        cobra.MinimumNArgs(1),
		Annotations: map[string]string{runsCommand: "true"},
		RunE: func(cmd *cobra.Command, args []string) error {
			return runBoot(cmd.Context(), c, flags, args)
		},
	}
	f := cmd.Flags()
	f.SetInterspersed(false) // what follows the command is the command's
	f.StringVar(&flags.pack, "pack", "", `what the guest is made of: auto, alpine, debian, a pack's name, or a path (default: the setting "pack")`)
	archFlag(cmd, &flags.arch)
	f.IntVar(&flags.cpus, "cpus", 0, `virtual processors (default: the setting "cpus")`)
	f.StringVar(&flags.memory, "memory", "", `memory, as in 512M or 2G (default: the setting "memoryGB")`)
	f.StringArrayVar(&flags.shares, "share", nil, "a folder of this computer, as FOLDER:TAG or FOLDER:TAG:ro; it is "+shareRoot+"/TAG in the guest")
	f.BoolVar(&flags.network, "network", false, "let the guest reach the network, and what listens on this computer (10.0.2.2)")
	f.BoolVar(&flags.timings, "timings", false, "say at the end where the time went")
	return cmd
}

func runBoot(ctx context.Context, c console, flags bootFlags, args []string) error {
	watch := newStopwatch()
	home, settings, err := loadSettings()
	if err != nil {
		return err
	}
	spec, err := flags.spec(settings)
	if err != nil {
		return err
	}
	report := showProgress(c.err)
	p, err := choosePack(ctx, home, settings, flags.pack, flags.arch, report)
	if err != nil {
		return err
	}
	if spec.Image, err = findImage(ctx, baker(home, settings), p, report); err != nil {
		return err
	}
	watch.lap("image")

	state, err := newBootState(ctx, home)
	if err != nil {
		return err
	}
	defer state.close()
	spec.StateDir, spec.ConsoleLog = state.dir(), filepath.Join(state.dir(), "console.log")

	g, err := boot.Boot(ctx, spec)
	if err != nil {
		return keepConsole(home, spec.ConsoleLog, err)
	}
	watch.lap("boot")
	watch.part("verify", g.Timings.Verify)
	watch.part("start", g.Timings.Start)
	watch.part("verify base", g.Timings.Base)
	watch.part("answer", g.Timings.Answer)
	if flags.timings {
		if err := guestSteps(ctx, watch, g); err != nil {
			return errors.Join(err, g.Close())
		}
	}

	var once sync.Once
	first := func() { watch.sinceStart("until first output") }
	its := console{c.in, onFirst{c.out, &once, first}, onFirst{c.err, &once, first}}
	watched, stop := context.WithCancel(context.WithoutCancel(ctx))
	hung := endIfSilent(watched, g)
	var w witness
	patient, err := runCommand(ctx, its, engine.Command{Args: args}, w.watch(func(ctx context.Context, cmd engine.Command) (process, error) { return g.Client.Exec(ctx, cmd) }))
	stop()
	switch reason := <-hung; {
	case reason != nil && w.begun:
		err = lost{reason}
	case reason != nil:
		err = reason
	case patient:
		err = explain(g.Machine, err)
	}
	watch.lap("command")

	off := g.Close
	if patient {
		off = func() error { return g.Shutdown(context.WithoutCancel(ctx)) }
	}
	if offErr := off(); err == nil && offErr != nil {
		err = lost{offErr}
	}
	watch.lap("power off")
	if flags.timings {
		err = errors.Join(err, watch.print(c.err, accelerator(ctx, spec)))
	}
	return err
}

// guestSteps notes how far the guest was when, by its own clock.
func guestSteps(ctx context.Context, watch *stopwatch, g *boot.Guest) error {
	info, err := g.Client.Info(ctx)
	if err != nil {
		return err
	}
	for _, s := range info.Steps {
		watch.part("guest's "+s.Name+" at", s.At)
	}
	return nil
}

// accelerator names what ran the guest's instructions.
func accelerator(ctx context.Context, spec boot.Spec) string {
	caps, err := spec.Driver.Capabilities(context.WithoutCancel(ctx), spec.Image.Arch)
	if err != nil {
		return spec.Driver.Name()
	}
	return fmt.Sprintf("%s, %s, %s", spec.Driver.Name(), caps.Accelerator, spec.Image.Arch)
}

// keepConsole keeps the console of a boot that failed, and says where.
func keepConsole(home config.Home, log string, failed error) error {
	logs, err := home.Make(home.Logs())
	if err != nil {
		return failed
	}
	kept := filepath.Join(logs, "boot-console.log")
	if os.Rename(log, kept) != nil { // the machine may not even have had one
		return failed
	}
	advice := "The guest's console is in " + kept + "."
	if before := fault.AdviceOf(failed); before != "" {
		advice = before + " " + advice
	}
	return fault.Wrap("", "", failed).Advise(advice)
}
