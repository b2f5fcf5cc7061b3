//go:build linux

package boot_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/lab"
	"osaurus-sandbox/internal/progress"
	"osaurus-sandbox/internal/timetest"
	"osaurus-sandbox/supervisor/boot"
	"osaurus-sandbox/supervisor/homelock"
	"osaurus-sandbox/vm/qemu"
)

const arch = "arm64"

// settings ask for the smallest guest there is.
func settings(t *testing.T) config.Settings {
	t.Helper()
	s := config.Defaults()
	s.Pack, s.Toolbox, s.DiskGB = config.PackRef(lab.BusyboxPack(t, arch).Dir), nil, 1
	return s
}

func prepare(site *boot.Site, s config.Settings, fresh bool) (progress.Status, error) {
	tracker := progress.NewTracker(func() {})
	err := site.Prepare(context.Background(), s, fresh, tracker)
	return tracker.Status(), err
}

func TestPrepare(t *testing.T) {
	home := config.Home(filepath.Join(t.TempDir(), "home"))
	site, s := boot.New(home, &qemu.Driver{}, arch, nil, nil), settings(t)
	if site.Provisioned() || site.Ready(s) {
		t.Fatal("a new home is provisioned")
	}
	if _, err := prepare(site, s, false); err != nil {
		t.Fatal(err)
	}
	if !site.Provisioned() || !site.Ready(s) {
		t.Error("it is not ready after Prepare")
	}
	other := s
	other.Pack = "debian"
	if site.Ready(other) {
		t.Error("it is ready for another pack")
	}
	for link, want := range map[string]string{home.Kernel(): "vmlinux", home.BaseImage(): "initfs.ext4"} {
		target, err := filepath.EvalSymlinks(link)
		if err != nil || filepath.Base(target) != want || !strings.HasPrefix(target, home.Images()) {
			t.Errorf("%s leads to %s, %v", link, target, err)
		}
	}

	t.Run("what was damaged is made anew", func(t *testing.T) {
		base, err := filepath.EvalSymlinks(home.BaseImage())
		if err != nil {
			t.Fatal(err)
		}
		f, err := os.OpenFile(base, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteAt([]byte("damage"), 5000); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := prepare(site, s, true); err != nil {
			t.Fatal(err)
		}
		now, err := os.ReadFile(base)
		if err != nil || string(now[5000:5006]) == "damage" {
			t.Errorf("the damage is still there (%v)", err)
		}
	})

	t.Run("what is missing is made anew", func(t *testing.T) {
		for _, link := range []string{home.Kernel(), home.BaseImage()} {
			file, err := filepath.EvalSymlinks(link)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.Remove(file); err != nil {
				t.Fatal(err)
			}
			if _, err := prepare(site, s, true); err != nil {
				t.Fatal(err)
			}
			if _, err := os.Stat(link); err != nil {
				t.Error(err)
			}
		}
	})

	t.Run("a disk grows and never shrinks", func(t *testing.T) {
		for _, size := range []struct{ ask, want int }{{2, 2}, {1, 2}} {
			bigger := s
			bigger.DiskGB = size.ask
			if _, err := prepare(site, bigger, false); err != nil {
				t.Fatal(err)
			}
			if info, err := os.Stat(home.DataDisk()); err != nil || info.Size() != int64(size.want)<<30 {
				t.Errorf("asked for %d GB: %v, %v", size.ask, info, err)
			}
		}
	})

	note := filepath.Join(home.SharedFolder(), "note")
	if err := config.WriteFile(note, []byte("mine")); err != nil {
		t.Fatal(err)
	}
	if err := site.Remove(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{home.DataDisk(), home.Kernel(), home.BaseImage()} {
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is there after Remove: %v", path, err)
		}
	}
	if site.Provisioned() {
		t.Error("it is provisioned after Remove")
	}
	if _, err := os.Stat(note); err != nil {
		t.Errorf("the workspace after Remove: %v", err)
	}
	if err := site.Remove(t.Context()); err != nil {
		t.Errorf("a second Remove: %v", err)
	}
}

// On a disk on which a pack has no room it is said before anything is fetched or made.
func TestNoRoomForAPack(t *testing.T) {
	home, _ := tmpfs(t)
	site, s := boot.New(home, &qemu.Driver{}, arch, nil, nil), settings(t)
	for _, pack := range []config.PackRef{config.PackAuto, "debian"} {
		s.Pack = pack
		ctx, cancel := context.WithTimeout(t.Context(), timetest.Limit)
		defer cancel()
		err := site.Prepare(ctx, s, false, progress.NewTracker(func() {}))
		if fault.KindOf(err) != fault.Rejected || !strings.Contains(err.Error(), "0.2 GiB free") || !strings.Contains(fault.AdviceOf(err), "Free disk space") {
			t.Errorf("%s: %v (%s)", pack, err, fault.AdviceOf(err))
		}
	}
}

// TestFullDisk fills the disk that the home is on at every step.
func TestFullDisk(t *testing.T) {
	home, mounted := tmpfs(t)
	site, s := boot.New(home, &qemu.Driver{}, arch, nil, nil), settings(t)

	free := fill(t, mounted)
	if _, err := prepare(site, s, false); err == nil || !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("Prepare on a full disk: %v", err)
	}
	if site.Provisioned() {
		t.Error("it is provisioned all the same")
	}
	free()
	if _, err := prepare(site, s, false); err != nil {
		t.Fatalf("when there is room again: %v", err)
	}

	if err := config.Edit(home, func(f *config.File) error { return f.Set("cpus", "3") }); err != nil {
		t.Fatal(err)
	}
	free = fill(t, mounted)
	if _, err := prepare(site, s, false); err != nil {
		t.Errorf("Prepare that has nothing to do: %v", err)
	}
	err := config.Edit(home, func(f *config.File) error { return f.Set("cpus", "4") })
	if fault.KindOf(err) != fault.Unavailable || fault.AdviceOf(err) == "" {
		t.Errorf("Edit on a full disk: %v", err)
	}
	file, err := config.Load(home.SettingsFile())
	if err != nil || file.Settings().CPUs != 3 {
		t.Errorf("the settings after that: %+v, %v", file, err)
	}
	if err := site.Remove(t.Context()); err != nil {
		t.Errorf("Remove on a full disk: %v", err)
	}
	free()
	if _, err := prepare(site, s, false); err != nil {
		t.Errorf("after all of it: %v", err)
	}
}

func TestReadOnlyHome(t *testing.T) {
	home, mounted := tmpfs(t)
	site, s := boot.New(home, &qemu.Driver{}, arch, nil, nil), settings(t)
	if _, err := home.Make(home.Locks()); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("", mounted, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	if _, err := homelock.Take(t.Context(), home); fault.KindOf(err) != fault.Unavailable || fault.AdviceOf(err) == "" {
		t.Errorf("Take: %v", err)
	}
	if _, err := prepare(site, s, false); !errors.Is(err, syscall.EROFS) {
		t.Errorf("Prepare: %v", err)
	}
	if err := unix.Mount("", mounted, "", unix.MS_REMOUNT, ""); err != nil {
		t.Fatal(err)
	}
	if _, err := prepare(site, s, false); err != nil {
		t.Errorf("when it can be written again: %v", err)
	}
}

// tmpfsSize has room for the smallest image, and is quickly filled.
const tmpfsSize = "256m"

// tmpfs makes a home on a small disk of its own.
func tmpfs(t *testing.T) (home config.Home, mounted string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("*** NOT TRIED: only root can mount a small disk. Run this test as root.")
	}
	mounted = t.TempDir()
	if err := unix.Mount("osaurus-test", mounted, "tmpfs", 0, "size="+tmpfsSize); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(mounted, 0); err != nil {
			t.Error(err)
		}
	})
	return config.Home(filepath.Join(mounted, "home")), mounted
}

// fill leaves no room on a disk until free is called.
func fill(t *testing.T, dir string) (free func()) {
	t.Helper()
	path := filepath.Join(dir, "filler")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	chunk := make([]byte, 1<<20)
	for size := len(chunk); size > 0; {
		if _, err := f.Write(chunk[:size]); err != nil {
			size /= 2
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := os.Remove(path); err != nil {
			t.Error(err)
		}
	}
}
