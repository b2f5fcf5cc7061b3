package provision

import (
	"context"
	"errors"
	"path/filepath"

	"osaurus-sandbox/config"
	"osaurus-sandbox/guest"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/progress"
	"osaurus-sandbox/supervisor/journey"
	"osaurus-sandbox/supervisor/launch"
	"osaurus-sandbox/vm"
)

const (
	name                         = "osaurus-sandbox"
	workspaceTag, workspaceMount = "workspace", "/workspace"
	sharedTag, sharedMount       = "shared", guest.SharedDir
	outputTag, outputMount       = "output", "/output"
)

// Machine is what a guest runs on and is made of.
type Machine struct {
	Pack        string   // its name
	PackReason  string   // why it is not the pack that comes first, or empty
	Image       string   // its digest
	Missing     []string // packages of the toolbox that could not be installed
	Arch        vm.Arch
	Accelerator string
	CPUs        int
	Memory      int64 // bytes
	Network     vm.NetworkKind
	ConsoleLog  string
	Timings     launch.Timings
}

// Boot boots what was prepared last, and asks the guest whether it has what it needs.
func (s *Site) Boot(ctx context.Context, set config.Settings, walk *journey.Walk) (*launch.Guest, Machine, error) {
	spec, err := s.spec(set)
	if err != nil {
		return nil, Machine{}, err
	}
	var g *launch.Guest
	err = walk.Do(journey.Boot, func(progress.Func) (err error) {
		g, err = launch.Boot(ctx, spec)
		return err
	})
	if err != nil {
		return nil, Machine{}, s.seeConsole(spec.ConsoleLog, err)
	}
	if err := walk.Do(journey.Verify, func(report progress.Func) error { return verify(ctx, g, report) }); err != nil {
		return nil, Machine{}, errors.Join(s.seeConsole(spec.ConsoleLog, err), g.Close())
	}
	return g, Machine{
		Pack: s.ready.choice.Pack.Manifest.Name, PackReason: s.ready.choice.Reason, Image: s.ready.image.Digest.String(), Missing: s.ready.missing,
		Arch: s.arch, Accelerator: s.accelerator, CPUs: spec.CPUs, Memory: spec.Memory, Network: spec.Network, ConsoleLog: spec.ConsoleLog, Timings: g.Timings,
	}, nil
}

func (s *Site) spec(set config.Settings) (launch.Spec, error) {
	logs, err := s.home.Make(s.home.Logs())
	if err != nil {
		return launch.Spec{}, err
	}
	state, err := s.home.Make(filepath.Join(s.home.Run(), "machine"))
	if err != nil {
		return launch.Spec{}, err
	}
	if err := makeFolders(s.home); err != nil {
		return launch.Spec{}, err
	}
	return launch.Spec{
		Driver: s.driver, Image: s.ready.image, Name: name, Hostname: name,
		CPUs: set.CPUs, Memory: int64(set.MemoryGB) << 30, DataDisk: s.home.DataDisk(), Network: s.network(set),
		Shares: []launch.Share{
			{Share: vm.Share{Tag: workspaceTag, Path: s.home.Workspace(), Subtrees: s.folders, MinFree: launch.MinFree}, MountPoint: workspaceMount},
			{Share: vm.Share{Tag: sharedTag, Path: s.home.SharedFolder(), Ownership: s.common, MinFree: launch.MinFree}, MountPoint: sharedMount},
			{Share: vm.Share{Tag: outputTag, Path: s.home.Output(), Ownership: s.common, MinFree: launch.MinFree}, MountPoint: outputMount},
		},
		ConsoleLog: filepath.Join(logs, "console.log"), StateDir: state, Bridge: s.bridge,
	}, nil
}

// verify asks the guest whether it has what it needs. What it warns of is told.
func verify(ctx context.Context, g *launch.Guest, report progress.Func) error {
	info, err := g.Client.Info(ctx)
	if err != nil {
		return err
	}
	for _, w := range info.Warnings {
		report.Note("the guest warns: " + w)
	}
	if !info.HasData {
		return fault.Newf(fault.Execution, "verify guest", "", "it could not use its data disk")
	}
	return nil
}

// seeConsole says where the guest's own words are.
func (s *Site) seeConsole(log string, err error) error {
	advice := "The guest's console is in " + log + "."
	if before := fault.AdviceOf(err); before != "" {
		advice = before + " " + advice
	}
	return fault.Wrap("", "", err).Advise(advice)
}
