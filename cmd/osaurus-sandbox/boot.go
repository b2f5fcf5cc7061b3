package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"osaurus-sandbox/config"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/supervisor/boot"
	"osaurus-sandbox/vm"
)

// bootFlags are the flags of boot.
type bootFlags struct {
	pack, arch, memory string
	cpus               int
	shares             []string
	network            bool
}

func newBoot() *cobra.Command {
	var flags bootFlags
	return plainCommand("boot [flags] -- COMMAND [ARG...]", func(ctx context.Context, c *call) error {
		return runBoot(ctx, c, flags)
	},
		runsCommand,
		withFlag(&flags.pack, "pack", `the pack to boot: auto, alpine, debian, or a pack's name or path (default: the setting "pack")`),
		withFlag(&flags.cpus, "cpus", `virtual processors (default: the setting "cpus")`),
		withFlag(&flags.memory, "memory", `memory, as in 512M or 2G (default: the setting "memoryGB")`),
		withFlag(&flags.shares, "share", "share a folder, as FOLDER:TAG or FOLDER:TAG:ro for reading only; the guest sees it as /mnt/TAG"),
		withFlag(&flags.network, "network", "give the guest a network: the internet, and what the setting networkRules allows"),
		archFlag(&flags.arch),
		func(cmd *cobra.Command) { cmd.Flags().SetInterspersed(false) }) // the rest belongs to the command
}

func runBoot(ctx context.Context, c *call, flags bootFlags) error {
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
	if spec.Image, err = findImage(ctx, toolboxBuilder(home, settings), p, report); err != nil {
		return err
	}

	logs, err := home.Make(home.Logs())
	if err != nil {
		return err
	}
	spec.ConsoleLog = filepath.Join(logs, spec.Name+".log")
	defer os.Remove(spec.ConsoleLog)
	g, err := boot.Boot(ctx, spec)
	if err != nil {
		return keepConsole(spec.ConsoleLog, err)
	}
	o, err := runCommand(ctx, c.console, engine.Command{Args: c.args}, func(ctx context.Context, cmd engine.Command) (process, error) { return g.Client.Exec(ctx, cmd) })
	if o.patient {
		err = explain(g.Machine, err)
	}

	off := g.Close
	if o.patient {
		off = func() error { return g.Shutdown(context.WithoutCancel(ctx)) }
	}
	if offErr := off(); err == nil && offErr != nil {
		err = lost{offErr}
	}
	return err
}

// keepConsole saves the console log of a failed boot and adds its path to the error.
func keepConsole(log string, failed error) error {
	kept := filepath.Join(filepath.Dir(log), "boot-console.log")
	if os.Rename(log, kept) != nil { // there may be no log
		return failed
	}
	advice := "The guest's console is in " + kept + "."
	if before := fault.AdviceOf(failed); before != "" {
		advice = before + " " + advice
	}
	return fault.Wrap("", "", failed).Advise(advice)
}

// explain prefers the machine's error, because the connection's only says that it broke. It waits
// ten seconds for it: a busy computer takes its time to end a machine.
func explain(m vm.Machine, err error) error {
	if _, isExit := errors.AsType[exit](err); isExit || err == nil {
		return err
	}
	select {
	case <-m.Done():
	case <-time.After(10 * time.Second):
		return err
	}
	if _, isLost := errors.AsType[lost](err); isLost {
		return lost{cmp.Or(m.Err(), err)}
	}
	return cmp.Or(m.Err(), err)
}

// spec returns the machine for the flags and settings, without its image and files.
func (f bootFlags) spec(s config.Settings) (boot.Spec, error) {
	spec := boot.Spec{
		Driver: driver(), Hostname: "sandbox",
		Config: vm.Config{Name: fmt.Sprintf("boot-%d", os.Getpid()), CPUs: cmp.Or(f.cpus, s.CPUs), Memory: int64(s.MemoryGB) << 30},
	}
	if f.network {
		spec.Network = boot.OpenNetwork(s.NetworkRules...)
	}
	var err error
	if f.memory != "" {
		if spec.Memory, err = parseMemory(f.memory); err != nil {
			return boot.Spec{}, err
		}
	}
	for _, text := range f.shares {
		share, err := parseShare(text)
		if err != nil {
			return boot.Spec{}, err
		}
		spec.Shares = append(spec.Shares, share)
	}
	return spec, nil
}

// parseMemory reads a size such as 512M or 2G as bytes.
func parseMemory(text string) (int64, error) {
	wrong := fault.Newf(fault.InvalidArgs, "read --memory", text, "not a size").Advise("Write it as 512M or 2G.")
	if text == "" {
		return 0, wrong
	}
	shift, ok := map[byte]uint{'M': 20, 'm': 20, 'G': 30, 'g': 30}[text[len(text)-1]]
	n, err := strconv.ParseUint(text[:len(text)-1], 10, 24) // the driver refuses sizes that are too large
	if !ok || err != nil {
		return 0, wrong
	}
	return int64(n) << shift, nil
}

// parseShare parses FOLDER:TAG or FOLDER:TAG:ro. The driver checks the tag.
func parseShare(text string) (vm.Share, error) {
	rest, readOnly := strings.CutSuffix(text, ":ro")
	at := strings.LastIndexByte(rest, ':')
	if at < 1 || at == len(rest)-1 {
		return vm.Share{}, fault.Newf(fault.InvalidArgs, "read --share", text, "not FOLDER:TAG").
			Advise("Write the folder, a colon and a short name for it: ~/project:project, with :ro at the end to protect it.")
	}
	folder, err := filepath.Abs(rest[:at])
	if err != nil {
		return vm.Share{}, fault.New(fault.InvalidArgs, "read --share", text, err)
	}
	return vm.Share{Tag: rest[at+1:], Path: folder, ReadOnly: readOnly, MinFree: boot.MinFree}, nil
}

// packRef parses a pack on the command line. Unlike in the settings, a path may be relative if it
// contains a slash.
func packRef(text string) (config.PackRef, error) {
	if strings.ContainsRune(text, os.PathSeparator) {
		absolute, err := filepath.Abs(text)
		if err != nil {
			return "", fault.New(fault.InvalidArgs, "read pack", text, err)
		}
		text = absolute
	}
	return config.ParsePackRef(text)
}
