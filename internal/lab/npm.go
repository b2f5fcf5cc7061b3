package lab

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// npmRelease is an npm that the Node of Debian 12 (18.20) runs.
const npmRelease = "npm@10.9.4"

// NPM returns the archive of npm itself, for guests that have Node and no npm, as
// Debian's. It is fetched with this host's npm; where it cannot be had it is "", and a
// loud log line.
func NPM(t testing.TB) string {
	t.Helper()
	if _, err := exec.LookPath("npm"); err != nil {
		t.Logf("\n*** NO NPM on this host: %v\n*** %s does without npm in the guest.", err, t.Name())
		return ""
	}
	archive, err := try(t, "any", npmRelease+".tgz", func(ctx context.Context, dir, out string) error {
		tmp, err := os.MkdirTemp(dir, "fetch-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(tmp)
		ctx, cancel := context.WithTimeout(ctx, registryLimit)
		defer cancel()
		pack := exec.CommandContext(ctx, "npm", "pack", npmRelease, "--silent", "--pack-destination", tmp)
		pack.Dir, pack.WaitDelay = tmp, time.Second
		if text, err := pack.CombinedOutput(); err != nil {
			return fmt.Errorf("npm pack: %w: %s", err, text)
		}
		made, err := filepath.Glob(filepath.Join(tmp, "*.tgz"))
		if err != nil || len(made) != 1 {
			return fmt.Errorf("npm pack made %d archives: %w", len(made), err)
		}
		return os.Rename(made[0], out)
	})
	if err != nil {
		t.Logf("\n*** NOT TO BE HAD from npm's registry: %v\n*** %s does without npm in the guest.", err, t.Name())
		return ""
	}
	return archive
}
