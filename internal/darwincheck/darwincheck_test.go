package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var (
	arm64 = target{"darwin", "arm64", true}
	amd64 = target{"darwin", "amd64", true}
)

func TestMain(m *testing.M) {
	if err := os.Chdir("../.."); err != nil { // the command runs in the module's root
		panic(err)
	}
	os.Exit(m.Run())
}

// mutate returns a file's path and its text with one part replaced.
func mutate(t *testing.T, file, old, new string) (path string, text []byte) {
	t.Helper()
	path = abs(file)
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(b, []byte(old)) {
		t.Fatalf("%s has no %q", file, old)
	}
	return path, bytes.Replace(b, []byte(old), []byte(new), 1)
}

// TestTypesFindMistakes plants mistakes in the macOS code. Each must be found, and nothing else.
func TestTypesFindMistakes(t *testing.T) {
	universes := map[target]*universe{}
	for _, target := range []target{arm64, amd64} {
		pkgs, err := list(target, true, nil, "./vm/vz", "./secrets/keychain")
		if err != nil {
			t.Fatal(err)
		}
		u := newUniverse(target, pkgs)
		u.check()
		if found := u.found(); len(found) > 0 {
			t.Fatalf("%s has mistakes: %q", target.arch, found)
		}
		universes[target] = u
	}
	for _, c := range []struct {
		name           string
		target         target
		file, old, new string
		want           string // part of the error; empty for none
	}{
		{"two arguments swapped", arm64, "vm/vz/hardware.go", "(d.Path, d.ReadOnly,", "(d.ReadOnly, d.Path,", "hardware.go"},
		{"two integers swapped", arm64, "vm/vz/hardware.go", "uint(cfg.CPUs), uint64(cfg.Memory)", "uint64(cfg.Memory), uint(cfg.CPUs)", "hardware.go"},
		{"two modes swapped", arm64, "vm/vz/hardware.go", "vz.DiskImageCachingModeCached, vz.DiskImageSynchronizationModeFsync", "vz.DiskImageSynchronizationModeFsync, vz.DiskImageCachingModeCached", "hardware.go"},
		{"a call that arm64 alone has", amd64, "vm/vz/machine.go", "m.apple.Start()", `m.apple.SaveMachineStateToPath("x")`, "SaveMachineStateToPath"},
		{"the same call there", arm64, "vm/vz/machine.go", "m.apple.Start()", `m.apple.SaveMachineStateToPath("x")`, ""},
		{"a call that no longer is", arm64, "vm/vz/machine.go", "m.apple.Stop", "m.apple.Suspend", "Suspend"},
		{"an attachment in a device's place", arm64, "vm/vz/hardware.go", "all = append(all, disk)", "all = append(all, image)", "hardware.go"},
		{"a name in a secret's place", arm64, "secrets/keychain/system_darwin.go", "change.SetData(data)", "change.SetData(account)", "system_darwin.go"},
		{"a name in an item's place", amd64, "secrets/keychain/system_darwin.go", "apple.UpdateItem(query(service, account), change)", "apple.UpdateItem(service, change)", "system_darwin.go"},
		{"a mistake in a test", arm64, "vm/vz/vz_test.go", "vz.NativeArch()", "vz.NativeArch(1)", "vz_test.go"},
	} {
		t.Run(c.name+" "+c.target.arch, func(t *testing.T) {
			u := universes[c.target]
			path, text := mutate(t, c.file, c.old, c.new)
			found := recheck(u, map[string][]byte{path: text})
			recheck(u, nil) // as it was
			all := strings.Join(found, "\n")
			if (len(found) > 0) != (c.want != "") || !strings.Contains(all, c.want) {
				t.Errorf("found %q, want %q", all, c.want)
			}
		})
	}
}

// recheck checks the packages with files in the new or the old overlay again, and
// returns the errors.
func recheck(u *universe, overlay map[string][]byte) []string {
	before := u.overlay
	u.overlay = overlay
	for _, n := range u.nodes {
		for _, f := range n.files() {
			path := filepath.Join(n.Dir, f)
			if before[path] != nil || overlay[path] != nil {
				n.errs = nil
				u.checkOne(n)
				break
			}
		}
	}
	return u.found()
}

// TestStandInIsCompared plants differences in the stand-in. Each must be found.
func TestStandInIsCompared(t *testing.T) {
	real, err := load(arm64, nil, standInModule)
	if err != nil {
		t.Fatal(err)
	}
	pkgs, err := list(standInTarget, false, standInEnv(), standInModule)
	if err != nil {
		t.Fatal(err)
	}
	standIn := newUniverse(standInTarget, pkgs)
	standIn.declare()
	for _, c := range []struct{ name, file, old, new, want string }{
		{"nothing", "socket.go", "port uint32", "port uint32", ""},
		{"a parameter's type", "socket.go", "Connect(port uint32)", "Connect(port uint16)", "VirtioSocketDevice.Connect"},
		{"a constant's value", "machine.go", "VirtualMachineStateStopped VirtualMachineState = iota", "VirtualMachineStateStopped VirtualMachineState = iota + 1", "VirtualMachineStateStopped"},
		{"a marker", "devices.go", "func (*baseDirectoryShare) directoryShare() {}", "", "DirectoryShare"},
		{"an interface left open", "configuration.go", "type BootLoader interface {\n\tnsObject\n\tbootLoader()\n}", "type BootLoader interface{}", "BootLoader"},
		{"a field's type", "object.go", "Code                 int", "Code                 int64", "NSError.Code"},
		{"one thing too many", "object.go", "type ErrorCode int", "type Extra int\n\ntype ErrorCode int", "Extra"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path, text := mutate(t, "vm/vz/standin/"+c.file, c.old, c.new)
			recheck(standIn, map[string][]byte{path: text})
			found := compare(real, standIn.nodes[standInModule].pkg).found
			recheck(standIn, nil)
			all := strings.Join(found, "\n")
			if (len(found) > 0) != (c.want != "") || !strings.Contains(all, c.want) {
				t.Errorf("found %q, want %q", all, c.want)
			}
		})
	}
}

// TestSelectors plants wrong selectors in C, which no compiler finds.
func TestSelectors(t *testing.T) {
	sent := []byte("ret.fileDescriptor = [(VZVirtioSocketConnection *)connection fileDescriptor];")
	driver, standIn := []byte(`objc_getClass("VZVirtioSocketConnection"); sel_registerName("fileDescriptor")`), []byte(`{"fileDescriptor", "i16@0:8", 0},`)
	if found, n := unsent(sent, driver, standIn); len(found) > 0 || n != 2 {
		t.Errorf("found %q in %d selectors", found, n)
	}
	wrong := func(b []byte) []byte { return bytes.ReplaceAll(b, []byte(`"fileDescriptor"`), []byte(`"fileHandle"`)) }
	for _, found := range [][]string{
		first(unsent(sent, wrong(driver), standIn)), first(unsent(sent, driver, wrong(standIn))),
		first(unsent(nil, driver, standIn)), first(unsent(sent, nil, standIn)),
	} {
		if len(found) == 0 {
			t.Error("a wrong selector was not found")
		}
	}
}

func first(found []string, _ int) []string { return found }

// TestSkeleton: a skeleton has the declarations of its module.
func TestSkeleton(t *testing.T) {
	dir := t.TempDir()
	if err := writeSkeleton(arm64, standInModule, dir); err != nil {
		t.Fatal(err)
	}
	real, err := load(arm64, nil, standInModule)
	if err != nil {
		t.Fatal(err)
	}
	work := filepath.Join(dir, "go.work")
	if err := os.WriteFile(work, []byte("go 1.26.3\nuse "+abs(".")+"\nreplace "+standInModule+" => "+dir+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	skeleton, err := load(target{"darwin", "arm64", false}, []string{"GOWORK=" + work}, standInModule)
	if err != nil {
		t.Fatal(err)
	}
	c := compare(real, skeleton)
	if len(c.found) > 0 || c.compared < 500 {
		t.Errorf("of %d things differ: %s", c.compared, strings.Join(c.found, "\n"))
	}
	if n := len(real.Scope().Names()); n != len(skeleton.Scope().Names()) {
		t.Errorf("the skeleton has %d names of %d", len(skeleton.Scope().Names()), n)
	}
}
