package boot_test

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"osaurus-sandbox/config"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/lab"
	"osaurus-sandbox/internal/progress"
	"osaurus-sandbox/internal/smalldisk"
	"osaurus-sandbox/internal/timetest"
	"osaurus-sandbox/supervisor/boot"
	"osaurus-sandbox/supervisor/homelock"
)

const arch = "arm64"

// settings returns settings for the smallest guest.
func settings(t *testing.T) config.Settings {
	t.Helper()
	s := config.Defaults()
	s.Pack, s.Toolbox, s.DiskGB = config.PackRef(lab.BusyboxPack(t, arch).Dir), nil, 1
	return s
}

func prepare(site *boot.Site, s config.Settings, fresh bool) error {
	return site.Prepare(context.Background(), s, fresh, progress.NewTracker(func() {}))
}

func TestPrepare(t *testing.T) {
	home := config.Home(filepath.Join(t.TempDir(), "home"))
	site, s := boot.New(home, driver(), arch, nil, nil, *newNetwork(t)), settings(t)
	if site.Provisioned() || site.Ready(s) {
		t.Fatal("a new home is provisioned")
	}
	if err := prepare(site, s, false); err != nil {
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
	var made struct{ Kernel, Base string }
	text, err := os.ReadFile(filepath.Join(filepath.Dir(home.DataDisk()), "provisioned.json"))
	if err != nil || json.Unmarshal(text, &made) != nil || !strings.HasPrefix(made.Kernel, home.Images()) || !strings.HasPrefix(made.Base, home.Images()) {
		t.Fatalf("the record is %s, %v", text, err)
	}

	t.Run("what was damaged is made anew", func(t *testing.T) {
		f, err := os.OpenFile(made.Base, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteAt([]byte("damage"), 5000); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		if err := prepare(site, s, true); err != nil {
			t.Fatal(err)
		}
		now, err := os.ReadFile(made.Base)
		if err != nil || string(now[5000:5006]) == "damage" {
			t.Errorf("the damage is still there (%v)", err)
		}
	})

	t.Run("what is missing is made anew", func(t *testing.T) {
		for _, file := range []string{made.Kernel, made.Base} {
			if err := os.Remove(file); err != nil {
				t.Fatal(err)
			}
			if err := prepare(site, s, true); err != nil {
				t.Fatal(err)
			}
			if _, err := os.Stat(file); err != nil {
				t.Error(err)
			}
		}
	})

	t.Run("a disk grows and never shrinks", func(t *testing.T) {
		for _, size := range []struct{ ask, want int }{{2, 2}, {1, 2}} {
			bigger := s
			bigger.DiskGB = size.ask
			if err := prepare(site, bigger, false); err != nil {
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
	for _, path := range []string{home.DataDisk(), made.Kernel, made.Base} {
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

// A disk without room for a pack is refused before anything is downloaded or made.
func TestNoRoomForAPack(t *testing.T) {
	smalldisk.Run(t, diskSize, func(d *smalldisk.Disk) {
		site, s := boot.New(homeOn(d), driver(), arch, nil, nil, *newNetwork(t)), settings(t)
		for _, pack := range []config.PackRef{config.PackAuto, "debian"} {
			s.Pack = pack
			ctx, cancel := context.WithTimeout(t.Context(), timetest.Limit)
			defer cancel()
			err := site.Prepare(ctx, s, false, progress.NewTracker(func() {}))
			if fault.KindOf(err) != fault.Rejected || !strings.Contains(err.Error(), "0.2 GiB free") || !strings.Contains(fault.AdviceOf(err), "Free disk space") {
				t.Errorf("%s: %v (%s)", pack, err, fault.AdviceOf(err))
			}
		}
	})
}

// TestFullDisk fills the disk of the home at every step.
func TestFullDisk(t *testing.T) {
	smalldisk.Run(t, diskSize, func(d *smalldisk.Disk) {
		home := homeOn(d)
		site, s := boot.New(home, driver(), arch, nil, nil, *newNetwork(t)), settings(t)
		d.Fill()
		if err := prepare(site, s, false); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("Prepare on a full disk: %v", err)
		}
		if site.Provisioned() {
			t.Error("it is provisioned all the same")
		}
		d.Free()
		if err := prepare(site, s, false); err != nil {
			t.Fatalf("when there is room again: %v", err)
		}
		d.Fill()
		if err := prepare(site, s, false); err != nil {
			t.Errorf("Prepare that has nothing to do: %v", err)
		}
		if err := site.Remove(t.Context()); err != nil {
			t.Errorf("Remove on a full disk: %v", err)
		}
		d.Free()
		if err := prepare(site, s, false); err != nil {
			t.Errorf("after all of it: %v", err)
		}
	})
}

func TestReadOnlyHome(t *testing.T) {
	smalldisk.Run(t, diskSize, func(d *smalldisk.Disk) {
		home := homeOn(d)
		site, s := boot.New(home, driver(), arch, nil, nil, *newNetwork(t)), settings(t)
		if _, err := home.Make(home.Locks()); err != nil {
			t.Fatal(err)
		}
		d.ReadOnly(true)
		if _, err := homelock.Take(t.Context(), home); fault.KindOf(err) != fault.Unavailable || fault.AdviceOf(err) == "" {
			t.Errorf("Take: %v", err)
		}
		if err := prepare(site, s, false); !errors.Is(err, syscall.EROFS) {
			t.Errorf("Prepare: %v", err)
		}
		d.ReadOnly(false)
		if err := prepare(site, s, false); err != nil {
			t.Errorf("when it can be written again: %v", err)
		}
	})
}

// diskSize has room for the smallest image, and is quickly filled.
const diskSize = "256m"

func homeOn(d *smalldisk.Disk) config.Home { return config.Home(filepath.Join(d.Dir, "home")) }
