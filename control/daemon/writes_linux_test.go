package daemon_test

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"osaurus-sandbox/config"
	"osaurus-sandbox/control"
	"osaurus-sandbox/control/daemon"
	"osaurus-sandbox/internal/fault"
	"osaurus-sandbox/internal/smalldisk"
	"osaurus-sandbox/supervisor/audit"
	"osaurus-sandbox/supervisor/homelock"
	"osaurus-sandbox/supervisor/hosttest"
	"osaurus-sandbox/supervisor/store"
	"osaurus-sandbox/vm/image/disk"
)

// write is a write to a home. Packs, images and the record of provisioning are tested in
// supervisor/boot and vm/image/pack.
type write struct {
	name  string
	files string // which it writes, as a pattern of their paths in the home
	// sparse writes need no room of their own, so that they may work on a full disk.
	sparse bool
	do     func(ctx context.Context, home config.Home, round int) error
}

// wrote reports whether one of its files exists.
func (w write) wrote(t *testing.T, home config.Home) bool {
	t.Helper()
	pattern := regexp.MustCompile("^(" + w.files + ")$")
	for path := range sizes(t, home) {
		if pattern.MatchString(path) {
			return true
		}
	}
	return false
}

func writes() []write {
	inDatabase := func(do func(context.Context, *store.DB) error) func(context.Context, config.Home, int) error {
		return func(ctx context.Context, home config.Home, _ int) error {
			db, err := store.Open(ctx, home.Database())
			if err != nil {
				return err
			}
			defer db.Close()
			return do(ctx, db)
		}
	}
	return []write{
		{name: "settings", files: `config/sandbox\.json|run/locks/settings`, do: func(_ context.Context, home config.Home, round int) error {
			return config.Edit(home, func(f *config.File) error { return f.Set("cpus", fmt.Sprint(round%4+1)) })
		}},
		{name: "owner", files: `run/locks/sandbox`, sparse: true, do: func(ctx context.Context, home config.Home, _ int) error {
			l, err := homelock.Take(ctx, home)
			if err != nil {
				return err
			}
			return l.Release()
		}},
		{name: "audit", files: `sandbox\.db.*`, do: inDatabase(func(ctx context.Context, db *store.DB) error {
			_, err := audit.New(db).Record(ctx, audit.Entry{Client: "test", Action: "test", Outcome: audit.OK})
			return err
		})},
		{name: "data disk", files: `container/data\.ext4(\.new)?`, do: func(_ context.Context, home config.Home, _ int) error {
			if _, err := home.Make(filepath.Dir(home.DataDisk())); err != nil {
				return err
			}
			if err := os.Remove(home.DataDisk()); err != nil && !os.IsNotExist(err) {
				return fault.New(fault.Unavailable, "remove", home.DataDisk(), err).Advise("Make it writable.")
			}
			return disk.Create(home.DataDisk(), disk.MinSize)
		}},
		{name: "growth of the data disk", files: `container/data\.ext4`, sparse: true, do: func(_ context.Context, home config.Home, round int) error {
			return disk.Grow(home.DataDisk(), int64(round+2)<<30)
		}},
		// The API's socket and token, the log, the lock and the database.
		{name: "daemon", files: `config/(sandbox(-agent-map)?\.json|api-token)|run/.*|logs/daemon\.log|sandbox\.db.*`, do: func(ctx context.Context, home config.Home, _ int) error {
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			return daemon.Run(ctx, daemon.Options{
				Home: home, Backend: &hosttest.Backend{}, TCP: &control.TCP{Address: "127.0.0.1:0"}, Ready: func(*control.Server) { cancel() },
			})
		}},
	}
}

// On a full or read-only disk every write fails with advice and empties no file, and works
// again when the disk does.
func TestStateWrites(t *testing.T) {
	smalldisk.Run(t, "16m", func(d *smalldisk.Disk) {
		home := config.Home(filepath.Join(d.Dir, "home"))
		rounds := 0
		for _, w := range writes() {
			do := func() error {
				rounds++
				ctx, cancel := context.WithTimeout(context.Background(), limit)
				defer cancel()
				return w.do(ctx, home, rounds)
			}
			fails := func(when string, must bool) {
				t.Helper()
				before := sizes(t, home)
				err := do()
				switch {
				case err == nil && must:
					t.Errorf("%s, %s: no error", w.name, when)
				case err != nil && (fault.KindOf(err) != fault.Unavailable || fault.AdviceOf(err) == ""):
					t.Errorf("%s, %s: %v (%s), advice: %q", w.name, when, err, fault.KindOf(err), fault.AdviceOf(err))
				}
				after := sizes(t, home)
				for path, size := range before {
					if now, there := after[path]; size > 0 && now == 0 && !released(path) && (there || err == nil) {
						t.Errorf("%s, %s: %s was emptied", w.name, when, path)
					}
				}
			}
			d.Fill()
			fails("a full disk", !w.sparse && !w.wrote(t, home))
			d.Free()
			if err := do(); err != nil {
				t.Fatalf("%s: %v (%s)", w.name, err, fault.AdviceOf(err))
			}
			d.Fill()
			fails("a full disk, over what was there", false)
			d.Free()
			if err := do(); err != nil {
				t.Fatalf("%s, with room again: %v", w.name, err)
			}
			d.ReadOnly(true)
			fails("a read-only home", true)
			d.ReadOnly(false)
			if err := do(); err != nil {
				t.Fatalf("%s, writable again: %v", w.name, err)
			}
		}
		// Nothing writes what no test knows of.
		var known []string
		for _, w := range writes() {
			known = append(known, w.files)
		}
		pattern := regexp.MustCompile("^(" + strings.Join(known, "|") + ")$")
		for path := range sizes(t, home) {
			if !pattern.MatchString(path) {
				t.Errorf("%s is written by nothing in the table", path)
			}
		}
		if file, err := config.Load(home.SettingsFile()); err != nil || file.Settings().CPUs < 1 {
			t.Errorf("the settings: %+v, %v", file, err)
		}
	})
}

// released reports whether a file is empty when all is well: the lock of a home
// that was given back.
func released(path string) bool { return strings.HasPrefix(path, "run/locks/") }

// sizes are the files of a home.
func sizes(t *testing.T, home config.Home) map[string]int64 {
	t.Helper()
	found := map[string]int64{}
	err := filepath.WalkDir(string(home), func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		info, err := e.Info()
		if err == nil {
			rel, _ := filepath.Rel(string(home), path) // it is below
			found[rel] = info.Size()
		}
		return err
	})
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return found
}
