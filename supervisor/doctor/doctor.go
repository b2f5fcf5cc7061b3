// Package doctor says what this computer can do as a host of guests, what is missing, and the exact command that mends it.
package doctor

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"osaurus-sandbox/config"
	"osaurus-sandbox/guest/embedded"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/vm"
	"osaurus-sandbox/vm/image/debian"
	"osaurus-sandbox/vm/image/sources"
)

// Report is all that was found.
type Report struct {
	// Ready is whether guests can be booted: nothing is missing.
	Ready    bool         `json:"ready"`
	Findings []vm.Finding `json:"findings"`
}

// Host is what is looked at.
type Host struct {
	Home config.Home
	// Driver asks the driver what it finds here.
	Driver func(context.Context, vm.Arch) []vm.Finding
}

// Examine looks at the host and changes nothing.
func Examine(ctx context.Context, h Host) Report {
	return newReport(slices.Concat(
		h.Driver(ctx, vm.HostArch()),
		[]vm.Finding{home(h.Home), settings(h.Home), room(h.Home), secretStore(ctx, h.Home), inference(h.Home), debianPacks()},
		guestPrograms(),
	)...)
}

func newReport(found ...vm.Finding) Report {
	return Report{
		Ready:    !slices.ContainsFunc(found, func(f vm.Finding) bool { return f.Status == vm.FindingMissing }),
		Findings: found,
	}
}

// home: the folder can be written to, by this user alone.
func home(h config.Home) vm.Finding {
	f := vm.Finding{What: "home folder", Status: vm.FindingMissing, Detail: string(h)}
	parent := nearest(string(h))
	info, err := os.Stat(parent)
	switch {
	case err != nil:
		f.Detail = err.Error()
		f.Mend = otherHome
	case !info.IsDir():
		f.Detail = parent + " is not a folder"
		f.Mend = otherHome
	case unix.Access(parent, unix.W_OK|unix.X_OK) != nil:
		f.Detail = parent + " is not writable for you"
		f.Mend = otherHome
	case parent == string(h) && info.Mode().Perm()&0o022 != 0:
		f.Detail = string(h) + " is writable for other users"
		f.Mend = "chmod go-w " + string(h)
	default:
		f.Status = vm.FindingOK
	}
	return f
}

const otherHome = "export " + config.HomeVariable + "=/a/folder/of/yours"

// nearest is the folder itself or the closest one above it that exists.
func nearest(dir string) string {
	for {
		if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) || dir == filepath.Dir(dir) {
			return dir
		}
		dir = filepath.Dir(dir)
	}
}

func settings(h config.Home) vm.Finding {
	f := vm.Finding{What: "settings", Status: vm.FindingOK, Detail: h.SettingsFile()}
	if _, err := os.Stat(h.SettingsFile()); errors.Is(err, fs.ErrNotExist) {
		f.Detail = "defaults (there is no " + h.SettingsFile() + ")"
	}
	if _, err := config.Load(h.SettingsFile()); err != nil {
		f.Status, f.Detail, f.Mend = vm.FindingMissing, err.Error(), fault.AdviceOf(err)
	}
	return f
}

// room: there is space on the disk of the home.
func room(h config.Home) vm.Finding {
	free, err := sources.Room(nearest(string(h)))
	if err != nil {
		return vm.Finding{What: "room on disk", Status: vm.FindingMissing, Detail: err.Error(), Mend: fault.AdviceOf(err)}
	}
	return vm.Finding{What: "room on disk", Status: vm.FindingOK, Detail: free}
}

// debianPacks: a Debian pack can be made here. Alpine's needs nothing.
func debianPacks() vm.Finding {
	f := vm.Finding{What: "Debian packs", Status: vm.FindingOK, Detail: "can be made here"}
	if err := debian.Available(vm.HostArch()); err != nil {
		f.Status, f.Detail, f.Mend = vm.FindingLimited, err.Error(), fault.AdviceOf(err)
	}
	return f
}

// guestPrograms: this program carries what becomes the guest's first process.
func guestPrograms() []vm.Finding {
	var found []vm.Finding
	for _, arch := range []vm.Arch{vm.AMD64, vm.ARM64} {
		f := vm.Finding{What: "guest program, " + string(arch), Status: vm.FindingOK, Detail: "built in"}
		if _, err := embedded.Programs(arch); err != nil {
			f.Status, f.Detail, f.Mend = vm.FindingMissing, "not built in", "make build"
			if arch != vm.HostArch() {
				f.Status = vm.FindingLimited
			}
		}
		found = append(found, f)
	}
	return found
}
