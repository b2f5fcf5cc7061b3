package boot

import (
	"context"
	"errors"
	"io/fs"
	"os"
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
	Network    bool
	// NotEnforced is what this host's driver does not keep, for people.
	NotEnforced []string
}

// Boot boots the files of Prepare, and verifies that the guest can use its disk.
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
		Arch: s.arch, CPUs: spec.CPUs, Memory: spec.Memory, Network: spec.Network != nil, NotEnforced: s.can.Gaps(),
	}, nil
}

func (s *Site) spec(set config.Settings) (Spec, error) {
	logs, err := s.home.Make(s.home.Logs())
	if err != nil {
		return Spec{}, err
	}
	if err := makeFolders(s.home, s.can); err != nil {
		return Spec{}, err
	}
	// If one agent owned a file in a folder that agents share, the others could not
	// change it.
	common := vm.OwnershipEverybody
	if !slices.Contains(s.can.Ownership, common) {
		common = vm.OwnershipAsker // the server of macOS has no other
	}
	spec := Spec{
		Driver: s.driver, Image: s.ready.image, Hostname: name, Bridge: s.bridge,
		Config: vm.Config{
			Name: name, CPUs: set.CPUs, Memory: int64(set.MemoryGB) << 30, Disks: []vm.Disk{{Path: s.home.DataDisk()}},
			ConsoleLog: filepath.Join(logs, "console.log"),
			Shares: []vm.Share{
				{Tag: workspaceTag, Path: s.home.Workspace(), Subtrees: s.folders, MinFree: MinFree},
				{Tag: sharedTag, Path: s.home.SharedFolder(), Ownership: common, MinFree: MinFree},
				{Tag: outputTag, Path: s.home.Output(), Ownership: common, MinFree: MinFree},
			},
		},
		MountPoints: map[string]string{workspaceTag: workspaceMount, sharedTag: sharedMount, outputTag: outputMount},
	}
	if set.Network == config.NetworkOutbound {
		spec.Network = &s.network
	}
	return spec, nil
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

const (
	privateDir fs.FileMode = 0o700
	// openDir is for folders that agents share, on drivers without OwnershipEverybody. Their
	// server shows each user as the owner, and the guest caches the first one, so that others
	// are refused for a while. The folders above are private.
	openDir fs.FileMode = 0o777
)

// makeFolders makes the folders that are shared with the guest. Root in an earlier
// guest could write to the workspace, so anything but a folder is refused there: the
// next guest would see what a link points to.
func makeFolders(home config.Home, can vm.Capabilities) error {
	const op = "make folder"
	common := privateDir
	if !slices.Contains(can.Ownership, vm.OwnershipEverybody) {
		common = openDir
	}
	workspace, err := home.Make(home.Workspace())
	if err != nil {
		return err
	}
	output, err := home.Make(home.Output())
	if err != nil {
		return err
	}
	if err := os.Chmod(output, common); err != nil { // the umask does not apply
		return fault.New(fault.Unavailable, op, output, err).Advise("Make it a folder that you own.")
	}
	root, err := os.OpenRoot(workspace)
	if err != nil {
		return fault.New(fault.Unavailable, op, workspace, err).Advise("Make it a folder that you own.")
	}
	defer root.Close()
	for name, mode := range map[string]fs.FileMode{filepath.Base(home.SharedFolder()): common, "agents": privateDir} {
		path := filepath.Join(workspace, name)
		err := root.Mkdir(name, mode)
		if info, _ := root.Lstat(name); info != nil && !info.IsDir() {
			return fault.Newf(fault.Rejected, op, path, "the guest replaced this folder with something else").
				Advise("Look at it and remove it. The next start makes the folder.")
		}
		if err == nil || errors.Is(err, fs.ErrExist) {
			err = root.Chmod(name, mode)
		}
		if err != nil {
			return fault.New(fault.Unavailable, op, path, err).Advise("Make sure that you own the workspace and that its disk has free space.")
		}
	}
	return nil
}
