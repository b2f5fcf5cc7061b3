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

// sight is what is there of an agent's plugins. It is what the room says: good
// enough to find what is gone or was changed by mistake, and no proof against the agent.
type sight struct {
	layer    string
	folders  map[config.PluginID]bool
	left     []config.PluginID // with something of the version before beside the folder
	packages map[string]bool
	digests  map[string]string // of files that are there, by their paths in the folder of plugins; "" of what cannot be read
}

// look looks at many plugins at once: in one command, and with a few questions about all of
// their files.
func (i *Installer) look(ctx context.Context, a tools.Agent, ids []config.PluginID, packages, files []string) (sight, error) {
	args := []string{LayerFile, a.Home, fmt.Sprint(len(ids))}
	for _, id := range ids {
		args = append(args, string(id))
	}
	text, err := i.script(ctx, "look at plugins", a, false, scriptLook, nil, append(args, packages...)...)
	if err != nil || len(files) == 0 {
		return parseSight(text), err
	}
	s := parseSight(text)
	found, err := i.Rooms.Room(a).DigestFiles(ctx, engine.File{Root: a.Home, Path: folderName}, plugins.MaxFile, files)
	for n, f := range found {
		if f.There {
			s.digests[files[n]] = hex.EncodeToString(f.SHA256)
		}
	}
	return s, err
}

// parseSight reads what the script has written. What it cannot read it leaves
// out: then something is not there, which is true enough.
func parseSight(text string) sight {
	s := sight{folders: map[config.PluginID]bool{}, packages: map[string]bool{}, digests: map[string]string{}}
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

// has are those of some packages that are there.
func (s sight) has(packages []string) []string {
	return slices.DeleteFunc(names(packages), func(name string) bool { return !s.packages[name] })
}

func digest(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}
