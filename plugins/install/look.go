package install

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"osaurus-sandbox/config"
	"osaurus-sandbox/engine"
	"osaurus-sandbox/plugins"
	"osaurus-sandbox/tools"
)

// inspection is what a room contains of an agent's plugins, by the word of the room's own
// programs: it finds accidental damage, and proves nothing against the agent.
type inspection struct {
	layer    string
	folders  map[config.PluginID]bool
	left     []config.PluginID // with a backup of the previous version
	packages map[string]bool
	digests  map[string]string // of existing files, by their paths in the folder of plugins
}

// look inspects many plugins with one command, and their files with a few requests.
func (i *Installer) look(ctx context.Context, a tools.Agent, ids []config.PluginID, packages, files []string) (inspection, error) {
	args := []string{LayerFile, a.Home, fmt.Sprint(len(ids))}
	for _, id := range ids {
		args = append(args, string(id))
	}
	text, err := i.script(ctx, "look at plugins", a, false, scriptLook, nil, append(args, packages...)...)
	if err != nil || len(files) == 0 {
		return parseInspection(text), err
	}
	s := parseInspection(text)
	found, err := i.Rooms.Room(a).DigestFiles(ctx, engine.File{Root: a.Home, Path: folderName}, plugins.MaxFile, files)
	for n, f := range found {
		if f.There {
			s.digests[files[n]] = hex.EncodeToString(f.SHA256)
		}
	}
	return s, err
}

// parseInspection parses the output of scriptLook. It ignores lines that it does not know, so
// whatever they are about counts as missing.
func parseInspection(text string) inspection {
	s := inspection{folders: map[config.PluginID]bool{}, packages: map[string]bool{}, digests: map[string]string{}}
	for line := range strings.Lines(text) {
		what, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		switch {
		case what == "layer" && layerText.MatchString(rest):
			s.layer = rest
		case what == "folder":
			s.folders[config.PluginID(rest)] = true
		case what == "left":
			s.left = append(s.left, config.PluginID(rest))
		case what == "package":
			s.packages[rest] = true
		}
	}
	return s
}

// has returns the packages that are installed.
func (s inspection) has(packages []string) []string {
	return slices.DeleteFunc(names(packages), func(name string) bool { return !s.packages[name] })
}

func digest(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}
