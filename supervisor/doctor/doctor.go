// Package doctor checks this computer and a running guest, and names the fix for each problem.
package doctor

import (
	"context"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"osaurus-sandbox/config"
	"osaurus-sandbox/guest/embedded"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/secrets/stores"
	"osaurus-sandbox/vm"
	"osaurus-sandbox/vm/image/alpine"
	"osaurus-sandbox/vm/image/debian"
	"osaurus-sandbox/vm/image/pack"
	"osaurus-sandbox/vm/image/sources"
)

// Report lists the findings of Examine.
type Report struct {
	Ready    bool         `json:"ready"` // whether guests can boot: nothing is missing
	Findings []vm.Finding `json:"findings"`
}

// Examine checks this computer without changing anything. The driver's check is
// part of the report.
func Examine(ctx context.Context, home config.Home, driver func(context.Context, vm.Arch) []vm.Finding) Report {
	found := driver(ctx, vm.HostArch())
	found = append(found, checkHome(home))
	found = append(found, checkSettings(ctx, home)...)
	found = append(found, checkCrashes()...)
	return newReport(append(found, checkSpace(home), checkAlpinePacks(home), checkDebianPacks(), checkGuestProgram())...)
}

func newReport(found ...vm.Finding) Report {
	return Report{
		Ready:    !slices.ContainsFunc(found, func(f vm.Finding) bool { return f.Status == vm.FindingMissing }),
		Findings: found,
	}
}

// finding returns an OK finding, or one with the error and its advice.
func finding(what, detail string, err error, otherwise vm.FindingStatus) vm.Finding {
	if err != nil {
		return vm.Finding{What: what, Status: otherwise, Detail: err.Error(), Fix: fault.AdviceOf(err)}
	}
	return vm.Finding{What: what, Status: vm.FindingOK, Detail: detail}
}

// checkHome checks that the user can write to the folder, and that others cannot.
func checkHome(h config.Home) vm.Finding {
	f := vm.Finding{What: "home folder", Status: vm.FindingMissing, Fix: "export " + config.HomeVariable + "=/a/folder/of/yours"}
	parent := nearest(string(h))
	info, err := os.Stat(parent)
	switch {
	case err != nil:
		f.Detail = err.Error()
	case !info.IsDir():
		f.Detail = parent + " is not a folder"
	case unix.Access(parent, unix.W_OK|unix.X_OK) != nil:
		f.Detail = parent + " is not writable for you"
	case parent == string(h) && info.Mode().Perm()&0o022 != 0:
		f.Detail, f.Fix = string(h)+" is writable for other users", "chmod go-w "+string(h)
	default:
		return finding(f.What, string(h), nil, "")
	}
	return f
}

// nearest returns the folder or its closest parent that exists.
func nearest(dir string) string {
	for {
		if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) || dir == filepath.Dir(dir) {
			return dir
		}
		dir = filepath.Dir(dir)
	}
}

// checkSettings checks the settings file and what it selects: the secret store,
// without which programs get no secrets, and the model that programs can ask.
func checkSettings(ctx context.Context, h config.Home) []vm.Finding {
	detail := h.SettingsFile()
	if _, err := os.Stat(detail); errors.Is(err, fs.ErrNotExist) {
		detail = "defaults (" + detail + " does not exist)"
	}
	file, err := config.Load(h.SettingsFile())
	found := []vm.Finding{finding("settings", detail, err, vm.FindingMissing)}
	if err != nil {
		return found
	}
	set := file.Settings()
	store, err := stores.Open(set.Secrets, h, nil).Check(ctx)
	found = append(found, finding("secrets", store, err, vm.FindingLimited), checkNetwork(ctx, set))
	model := vm.Finding{What: "inference", Status: vm.FindingOK, Detail: "inference.baseURL is not set"}
	switch s := set.Inference; {
	case s.BaseURL == "":
	case s.Model == "":
		model.Status, model.Detail, model.Fix = vm.FindingLimited, "no model is set for "+string(s.BaseURL), "osaurus-sandbox config set inference.model=NAME"
	default:
		model.Detail = string(s.Model) + " at " + string(s.BaseURL)
	}
	return append(found, model)
}

func checkSpace(h config.Home) vm.Finding {
	free, err := sources.Room(nearest(string(h)))
	return finding("free disk space", free, err, vm.FindingMissing)
}

// checkAlpinePacks checks that the Alpine pack is here or its host can be reached.
func checkAlpinePacks(h config.Home) vm.Finding {
	const what, limit = "Alpine packs", 5 * time.Second
	pins, err := alpine.Pinned(vm.HostArch())
	if err != nil {
		return finding(what, "", err, vm.FindingLimited)
	}
	if _, err := (pack.Store{Dir: h.Packs()}).Get(pins.Name()); err == nil {
		return finding(what, pins.Name()+" is here", nil, "")
	}
	answer, err := (&http.Client{Timeout: limit}).Head(pins.ISO.URL)
	if err != nil {
		err = fault.New(fault.Unavailable, "", "", err).Advise("Connect this computer to the network; without it, a Debian pack is used where one can be built.")
	} else {
		_ = answer.Body.Close()
	}
	return finding(what, "can be downloaded", err, vm.FindingLimited)
}

// checkDebianPacks checks that Debian packs can be built.
func checkDebianPacks() vm.Finding {
	return finding("Debian packs", "can be built", debian.Available(vm.HostArch()), vm.FindingLimited)
}

// checkGuestProgram checks that this program contains the guest's first process.
func checkGuestProgram() vm.Finding {
	_, err := embedded.Programs(vm.HostArch())
	return finding("guest program", "built in", err, vm.FindingMissing)
}
