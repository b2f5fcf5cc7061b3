package lab

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// npmRelease is an npm that the Node of Debian 12 (18.20) runs.
const npmRelease = "npm@10.9.4"

// NPM returns the archive of npm, for guests that have Node without npm, like Debian's. It
// fetches it with this host's npm. If that fails, it logs why and returns "".
func NPM(t testing.TB) string {
	t.Helper()
	if _, err := exec.LookPath("npm"); err != nil {
		t.Logf("\n*** NO NPM on this host: %v\n*** %s runs without npm in the guest.", err, t.Name())
		return ""
	}
	archive, err := try(t, "any", npmRelease+".tgz", func(ctx context.Context, temp string) (string, error) {
		if err := runNPM(ctx, temp, "pack", npmRelease, "--silent", "--pack-destination", temp); err != nil {
			return "", err
		}
		made, err := filepath.Glob(filepath.Join(temp, "*.tgz"))
		if err != nil || len(made) != 1 {
			return "", fmt.Errorf("npm pack made %d archives: %w", len(made), err)
		}
		return made[0], nil
	})
	if err != nil {
		t.Logf("\n*** NPM'S REGISTRY FAILED: %v\n*** %s runs without npm in the guest.", err, t.Name())
		return ""
	}
	return archive
}

// registryLimit bounds a fetch from npm's registry. The largest is 50 MB in a hundred
// packages.
const registryLimit = time.Minute

func runNPM(ctx context.Context, dir string, args ...string) error {
	ctx, cancel := context.WithTimeout(ctx, registryLimit)
	defer cancel()
	npm := exec.CommandContext(ctx, "npm", args...)
	npm.Dir, npm.WaitDelay = dir, time.Second
	if text, err := npm.CombinedOutput(); err != nil {
		return fmt.Errorf("npm %s: %w: %s", args[0], err, text)
	}
	return nil
}
