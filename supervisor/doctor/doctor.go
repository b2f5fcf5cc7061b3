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
	free, noRoom := sources.Room(nearest(string(home)))
	_, noProgram := embedded.Programs(vm.HostArch())
	found := slices.Concat(driver(ctx, vm.HostArch()), []vm.Finding{checkHome(home)}, checkSettings(ctx, home), checkCrashes(), []vm.Finding{
		vm.NewFinding("free disk space", free, noRoom, vm.FindingMissing),
		checkAlpinePacks(home),
		vm.NewFinding("Debian packs", "can be built", debian.Available(vm.HostArch()), vm.FindingLimited),
		vm.NewFinding("guest program", "built in", noProgram, vm.FindingMissing),
	})
	return Report{!slices.ContainsFunc(found, func(f vm.Finding) bool { return f.Status == vm.FindingMissing }), found}
}

// checkHome checks that the user can write to the folder, and that others cannot.
func checkHome(h config.Home) vm.Finding {
	parent, fix := nearest(string(h)), "export "+config.HomeVariable+"=/a/folder/of/yours"
	info, err := os.Stat(parent)
	switch {
	case err != nil:
	case !info.IsDir():
		err = errors.New(parent + " is not a folder")
	case unix.Access(parent, unix.W_OK|unix.X_OK) != nil:
		err = errors.New(parent + " is not writable for you")
	case parent == string(h) && info.Mode().Perm()&0o022 != 0:
		err, fix = errors.New(parent+" is writable for other users"), "chmod go-w "+parent
	}
	if err != nil {
		err = fault.New(fault.Unavailable, "", "", err).Advise(fix)
	}
	return vm.NewFinding("home folder", string(h), err, vm.FindingMissing)
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
	found := []vm.Finding{vm.NewFinding("settings", detail, err, vm.FindingMissing)}
	if err != nil {
		return found
	}
	set := file.Settings()
	store, err := stores.Open(set.Secrets, h, nil).Check(ctx)
	found = append(found, vm.NewFinding("secrets", store, err, vm.FindingLimited), checkNetwork(ctx, set, "/etc/apt"))
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

// checkAlpinePacks checks that the Alpine pack is here or its host can be reached.
func checkAlpinePacks(h config.Home) vm.Finding {
	const what, limit = "Alpine packs", 5 * time.Second
	pins, err := alpine.Pinned(vm.HostArch())
	if err != nil {
		return vm.NewFinding(what, "", err, vm.FindingLimited)
	}
	if _, err := (pack.Store{Dir: h.Packs()}).Get(pins.Name()); err == nil {
		return vm.NewFinding(what, pins.Name()+" is here", nil, vm.FindingOK)
	}
	answer, err := (&http.Client{Timeout: limit}).Head(pins.ISO.URL)
	if err != nil {
		err = fault.New(fault.Unavailable, "", "", err).Advise("Connect this computer to the network; without it, a Debian pack is used where one can be built.")
	} else {
		_ = answer.Body.Close()
	}
	return vm.NewFinding(what, "can be downloaded", err, vm.FindingLimited)
}
