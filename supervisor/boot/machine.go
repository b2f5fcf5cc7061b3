package boot

import (
	"context"
	"errors"
	"path/filepath"
	"slices"

	"osaurus-sandbox/config"
	"osaurus-sandbox/guest"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/progress"
	"osaurus-sandbox/vm"
)

const (
	name                         = "osaurus-sandbox"
	workspaceTag, workspaceMount = "workspace", "/workspace"
	sharedTag, sharedMount       = "shared", guest.SharedDir
	outputTag, outputMount       = "output", "/output"
)

// Machine describes a booted machine and its image.
type Machine struct {
	Pack       string   // its name
	PackReason string   // why it is not the preferred pack, or empty
	Image      string   // its digest
	Missing    []string // packages of the toolbox that could not be installed
	Arch       vm.Arch
	CPUs       int
	Memory     int64 // bytes
	Network    vm.NetworkKind
	ConsoleLog string
}

// Boot boots what Prepare made, and verifies that the guest can use its disk.
func (s *Site) Boot(ctx context.Context, set config.Settings, tracker *progress.Tracker) (*Guest, Machine, error) {
	spec, err := s.spec(set)
	if err != nil {
		return nil, Machine{}, err
	}
	var g *Guest
	err = tracker.Do(progress.StepBoot, func(progress.Func) (err error) {
		g, err = Boot(ctx, spec)
		return err
	})
	if err != nil {
		return nil, Machine{}, addConsole(spec.ConsoleLog, err)
	}
	if err := tracker.Do(progress.StepVerify, func(report progress.Func) error { return verify(ctx, g, report) }); err != nil {
		return nil, Machine{}, errors.Join(addConsole(spec.ConsoleLog, err), g.Close())
	}
	return g, Machine{
		Pack: s.ready.choice.Pack.Manifest.Name, PackReason: s.ready.choice.Reason, Image: s.ready.image.Digest.String(), Missing: s.ready.missing,
		Arch: s.arch, CPUs: spec.CPUs, Memory: spec.Memory, Network: spec.Network, ConsoleLog: spec.ConsoleLog,
	}, nil
}

func (s *Site) spec(set config.Settings) (Spec, error) {
	logs, err := s.home.Make(s.home.Logs())
	if err != nil {
		return Spec{}, err
	}
	if err := makeFolders(s.home); err != nil {
		return Spec{}, err
	}
	network := vm.NetworkNone
	if set.Network == config.NetworkOutbound {
		network = vm.NetworkNAT
	}
	// If one agent owned a file in a folder that agents share, the others could not
	// change it.
	common := vm.OwnershipEverybody
	if !slices.Contains(s.can.Ownership, common) {
		common = vm.OwnershipAsker // the server of macOS has no other
	}
	return Spec{
		Driver: s.driver, Image: s.ready.image, Name: name, Hostname: name,
		CPUs: set.CPUs, Memory: int64(set.MemoryGB) << 30, DataDisk: s.home.DataDisk(), Network: network,
		Shares: []Share{
			{Share: vm.Share{Tag: workspaceTag, Path: s.home.Workspace(), Subtrees: s.folders, MinFree: MinFree}, MountPoint: workspaceMount},
			{Share: vm.Share{Tag: sharedTag, Path: s.home.SharedFolder(), Ownership: common, MinFree: MinFree}, MountPoint: sharedMount},
			{Share: vm.Share{Tag: outputTag, Path: s.home.Output(), Ownership: common, MinFree: MinFree}, MountPoint: outputMount},
		},
		ConsoleLog: filepath.Join(logs, "console.log"), Bridge: s.bridge,
	}, nil
}

func verify(ctx context.Context, g *Guest, report progress.Func) error {
	info, err := g.Client.Info(ctx)
	if err != nil {
		return err
	}
	for _, w := range info.Warnings {
		report.Note("the guest warns: " + w)
	}
	if !info.HasData {
		return fault.Newf(fault.Execution, "verify guest", "", "the guest cannot use its data disk")
	}
	return nil
}

// addConsole adds the path of the console log to an error.
func addConsole(log string, err error) error {
	advice := "The guest's console is in " + log + "."
	if before := fault.AdviceOf(err); before != "" {
		advice = before + " " + advice
	}
	return fault.Wrap("", "", err).Advise(advice)
}
